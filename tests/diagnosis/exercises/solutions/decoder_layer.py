"""Rung 6."""

from __future__ import annotations

from multi_head import MultiHeadAttention
from torch import Tensor, nn


class DecoderLayer(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.attention, self.cross = MultiHeadAttention(d_model, n_heads), MultiHeadAttention(d_model, n_heads)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm_1, self.norm_2, self.norm_3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Tensor:
        y = self.norm_1(x)
        x = x + self.dropout(self.attention(y, y, y, tgt_mask)[0])
        x = x + self.dropout(self.cross(self.norm_2(x), memory, memory, src_mask)[0])
        return x + self.dropout(self.feed_forward(self.norm_3(x)))
