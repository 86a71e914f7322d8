"""第 1 级：注意力。"""

from __future__ import annotations

from torch import Tensor


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """返回 softmax(q k^T / sqrt(E)) v 以及权重。

    q 提问，k 应答，v 是给出的内容。权重的第 t 行表示位置 t 从每个键取多少。

    参数：
        q：查询，(B, H, T, E)
        k：键，(B, H, S, E)
        v：值，(B, H, S, E)
        mask：True = 可以看，(B 或 1, 1, T, S)；None = 都可以看

    返回：
        输出 (B, H, T, E) 和权重 (B, H, T, S)

    提示：先算分数，再缩放，再用掩码（masked_fill 填 -inf），最后沿键做 softmax（dim=-1）。
    什么都看不到的行要得到零，而不是 NaN。
    """
    raise NotImplementedError
