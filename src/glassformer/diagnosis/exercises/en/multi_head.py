"""Rung 3: several heads."""

from __future__ import annotations

from torch import Tensor, nn


class MultiHeadAttention(nn.Module):
    """Concat(head_1 .. head_H) W_o, with head_h = attention(q W_q^h, k W_k^h, v W_v^h) and E = D / H.

    q is (B, T, D), k and v are (B, S, D), the mask is (B or 1, 1, T, S) with True = may be seen.
    Returns the output (B, T, D) and the weights (B, H, T, S).

    Hints: four matrices of D x D. Split: view(B, T, H, E).transpose(1, 2). Join: transpose(1, 2).reshape(B, T, D).
    Without the transpose, positions and heads are mixed. Refuse a D that H does not divide.
    """

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        raise NotImplementedError

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        raise NotImplementedError
