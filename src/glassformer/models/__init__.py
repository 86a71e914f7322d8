"""Whole models from the bricks."""
