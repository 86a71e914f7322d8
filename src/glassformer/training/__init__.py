"""The training loop and what is done beside it."""
