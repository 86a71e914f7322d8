"""第 5 级：编码器层。"""

from __future__ import annotations

from torch import Tensor, nn


class EncoderLayer(nn.Module):
    """x = norm(x + dropout(attention(x)))；x = norm(x + dropout(feed_forward(x)))

    前馈网络：w_2(relu(w_1(x)))，w_1 从 D 到 d_ff，w_2 再回来；逐位置处理。
    x 为 (B, T, D)，掩码为 (B, 1, 1, T)，True = 不是填充。

    归一化放在子层之前也对：x = x + f(norm(x))。两种不要混用。
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        raise NotImplementedError
