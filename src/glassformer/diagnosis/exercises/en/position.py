"""Rung 4: positions."""

from __future__ import annotations

from torch import Tensor


def positions(n: int, d_model: int) -> Tensor:
    """Return the paper's table of positions, (n, D).

    PE(p, 2i) = sin(p / 10000^(2i/D)),  PE(p, 2i+1) = cos(p / 10000^(2i/D)),  p = 0 .. n-1

    Sine and cosine of a pair share their angle: only then is a shift by k the same linear map everywhere.
    """
    raise NotImplementedError
