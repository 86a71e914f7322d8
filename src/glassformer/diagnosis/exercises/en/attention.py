"""Rung 1: attention."""

from __future__ import annotations

from torch import Tensor


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return softmax(q k^T / sqrt(E)) v, and the weights.

    q asks, k answers, v is what is given. Row t of the weights says how much position t takes of each key.

    Args:
        q: queries, (B, H, T, E)
        k: keys, (B, H, S, E)
        v: values, (B, H, S, E)
        mask: True = may be seen, (B or 1, 1, T, S); None = everything may

    Returns:
        output (B, H, T, E) and weights (B, H, T, S)

    Hints: scores first, then the scale, then the mask (masked_fill with -inf), then softmax over the keys (dim=-1).
    A row in which nothing may be seen must give zeros and not NaN.
    """
    raise NotImplementedError
