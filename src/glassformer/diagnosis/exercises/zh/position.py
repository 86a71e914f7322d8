"""第 4 级：位置编码。"""

from __future__ import annotations

from torch import Tensor


def positions(n: int, d_model: int) -> Tensor:
    """返回论文的位置表，(n, D)。

    PE(p, 2i) = sin(p / 10000^(2i/D))，PE(p, 2i+1) = cos(p / 10000^(2i/D))，p = 0 .. n-1

    同一对正弦和余弦共用一个角度：只有这样，平移 k 才处处是同一个线性变换。
    """
    raise NotImplementedError
