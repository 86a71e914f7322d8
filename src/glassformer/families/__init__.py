"""Model families as data: presets, and later the maps of foreign checkpoints."""
