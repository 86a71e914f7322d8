"""第 9 级：键值缓存。"""

from __future__ import annotations

from torch import Tensor, nn

Cache = tuple[Tensor, Tensor]


class CachedAttention(nn.Module):
    """可以接着算的多头因果注意力。

    x (B, T, D) 只有新的词元；缓存保存之前所有的键和值，各为 (B, H, S, E)；None = 还没有。
    返回新词元的输出，以及加入它们之后的缓存。

    逐个词元计算，结果必须与一次算完相同。提示：T 个新查询是 S 个键中最后的 T 个，因果掩码是
    torch.ones(T, S).tril(S - T)。缓存属于调用者：不要存在 self 上。
    """

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        raise NotImplementedError
