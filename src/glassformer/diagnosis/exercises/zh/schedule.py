"""第 8 级：学习率。"""

from __future__ import annotations


def rate(step: int, d_model: int, warmup: int) -> float:
    """返回论文的学习率：lr(t) = D^-0.5 min(t^-0.5, t w^-1.5)

    前 w 次更新直线上升，之后按平方根的倒数下降。更新从 1 数起；第 0 步不能崩溃。
    """
    raise NotImplementedError
