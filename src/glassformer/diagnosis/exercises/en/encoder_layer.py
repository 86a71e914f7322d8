"""Rung 5: a layer of the encoder."""

from __future__ import annotations

from torch import Tensor, nn


class EncoderLayer(nn.Module):
    """x = norm(x + dropout(attention(x)));  x = norm(x + dropout(feed_forward(x)))

    Feed-forward: w_2(relu(w_1(x))) with w_1 from D to d_ff and w_2 back; it treats each position by itself.
    x is (B, T, D), the mask is (B, 1, 1, T) with True = no padding.

    Norm before the sublayers is right too: x = x + f(norm(x)). Do not mix the two.
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        raise NotImplementedError
