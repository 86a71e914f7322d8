"""The bricks: embedding, positions, norms, attention, feed-forward, block, stack, head, initial values."""
