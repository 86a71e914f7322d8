"""What a whole Transformer must be, property by property."""
