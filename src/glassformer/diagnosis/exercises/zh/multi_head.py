"""第 3 级：多头。"""

from __future__ import annotations

from torch import Tensor, nn


class MultiHeadAttention(nn.Module):
    """Concat(head_1 .. head_H) W_o，其中 head_h = attention(q W_q^h, k W_k^h, v W_v^h)，E = D / H。

    q 为 (B, T, D)，k、v 为 (B, S, D)，掩码为 (B 或 1, 1, T, S)，True = 可以看。
    返回输出 (B, T, D) 和权重 (B, H, T, S)。

    提示：四个 D x D 的矩阵。拆分：view(B, T, H, E).transpose(1, 2)；合并：transpose(1, 2).reshape(B, T, D)。
    少了转置，位置和头就会混在一起。D 不能被 H 整除时要报错。
    """

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        raise NotImplementedError

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        raise NotImplementedError
