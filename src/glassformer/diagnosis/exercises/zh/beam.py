"""第 10 级：束搜索。"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


def beam_search(
    next_log_probs: Callable[[list[list[int]]], Tensor],
    begin: int,
    end: int,
    width: int,
    max_new: int,
    length_penalty: float = 0.0,
) -> list[tuple[list[int], float]]:
    """返回最好的文本 (tokens, score)，最好的在前。

    next_log_probs 接受若干前缀（都带起始符），返回后续词元的对数概率 (N, V)。分数是起始符之后所有词元（含结束符）的
    对数概率之和，再除以 n ** length_penalty，n 为词元数。

    每一步把所有未结束的前缀用每个词元延长，保留最好的 width 个。已结束的单独存放，不再延长；最多写 max_new 个词元。
    宽度为 1 时就是贪心。
    """
    raise NotImplementedError
