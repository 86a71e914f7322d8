"""Rung 8: the learning rate."""

from __future__ import annotations


def rate(step: int, d_model: int, warmup: int) -> float:
    """Return the paper's learning rate: lr(t) = D^-0.5 min(t^-0.5, t w^-1.5)

    It rises in a straight line for w updates and then falls as the inverse square root. Updates are counted from 1;
    a step of 0 must not crash.
    """
    raise NotImplementedError
