"""第 6 级：解码器层。"""

from __future__ import annotations

from torch import Tensor, nn


class DecoderLayer(nn.Module):
    """带 tgt_mask 的自注意力、交叉注意力、前馈网络；各有残差和归一化。

    交叉注意力的查询来自解码器的 x，键和值都来自 memory，即编码器的输出：
    cross(q=x, k=memory, v=memory, src_mask)。

    x 为 (B, T, D)，memory 为 (B, S, D)；tgt_mask 为 (B 或 1, 1, T, T)，src_mask 为 (B, 1, 1, S)；True = 可以看。
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__()
        raise NotImplementedError

    def forward(
        self, x: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Tensor:
        raise NotImplementedError
