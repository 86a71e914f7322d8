"""Rung 3."""

from __future__ import annotations

from attention import attention
from torch import Tensor, nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"d_model {d_model} is not divisible by n_heads {n_heads}")
        self.n_heads = n_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        def split(x: Tensor) -> Tensor:
            return x.view(x.shape[0], x.shape[1], self.n_heads, -1).transpose(1, 2)

        out, weights = attention(split(self.w_q(q)), split(self.w_k(k)), split(self.w_v(v)), mask)
        return self.w_o(out.transpose(1, 2).reshape(q.shape)), weights
