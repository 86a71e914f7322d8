"""Rung 6: a layer of the decoder."""

from __future__ import annotations

from torch import Tensor, nn


class DecoderLayer(nn.Module):
    """Self-attention under tgt_mask, cross-attention, feed-forward; each with residual and norm.

    Cross-attention asks with the decoder's x; keys and values are both the memory, what the encoder made:
    cross(q=x, k=memory, v=memory, src_mask).

    x is (B, T, D), memory (B, S, D); tgt_mask (B or 1, 1, T, T), src_mask (B, 1, 1, S); True = may be seen.
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__()
        raise NotImplementedError

    def forward(
        self, x: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Tensor:
        raise NotImplementedError
