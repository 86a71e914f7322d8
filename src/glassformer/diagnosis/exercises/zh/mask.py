"""第 2 级：掩码；True = 可以看。"""

from __future__ import annotations

from torch import Tensor


def causal_mask(n: int) -> Tensor:
    """返回不许向前看时每个查询能看的键：自己和前面的位置。(n, n)，bool

    行是查询，列是键。提示：torch.tril。
    """
    raise NotImplementedError


def padding_mask(tokens: Tensor, pad: int) -> Tensor:
    """返回哪些键不是填充：tokens (B, S) → (B, 1, 1, S)，bool

    两个大小为 1 的维度会广播到头和查询。提示：tokens != pad。
    """
    raise NotImplementedError
