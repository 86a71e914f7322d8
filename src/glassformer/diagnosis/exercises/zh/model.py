"""第 7 级：完整模型。"""

from __future__ import annotations

from torch import Tensor, nn


class Transformer(nn.Module):
    """输入词元编号，输出下一个词元的分数：最初的编码器-解码器。

    source (B, S) 和 target (B, T) 是词元编号；source_keep (B, S) 在不是填充处为 True；结果是 logits (B, T, V)：
    第 t 行预测目标的第 t + 1 个词元。target 已经错开一位，不要再错开。

    embedding(tokens) * sqrt(D) + 位置编码 → 各编码器层 → memory；target 同样处理 → 在因果掩码下经过各解码器层 →
    线性层到 V。不要做 softmax：损失函数会做。

    想用 `glassformer inspect` 查看，注意力模块应返回 (output, weights)，weights 形状为 (B, H, T, S)，如第 3 级。
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int = 64,
        n_heads: int = 4,
        n_layers: int = 2,
        d_ff: int = 256,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        raise NotImplementedError

    def forward(self, source: Tensor, target: Tensor, source_keep: Tensor | None = None) -> Tensor:
        raise NotImplementedError
