"""Rung 8."""

from __future__ import annotations


def rate(step: int, d_model: int, warmup: int) -> float:
    step = max(step, 1)
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
