"""Attention to blocks of keys: those that a pattern hides are never computed."""

from __future__ import annotations

import operator
from functools import lru_cache
from itertools import groupby

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.call import Sight
from glassformer.core.mask import Mask, Structure
from glassformer.core.pattern import Blocks
from glassformer.kernels.chunks import attend_chunks

GAIN = 0.45
"""Up to this share of all pairs of blocks, a text is faster in blocks than under a mask."""

LONG, LARGE, LEAST = 1024, 32, 8
"""Length of a text and size of a block for which that holds; of shorter and smaller ones less may be seen, for each
product costs something of its own; of blocks below the last, always too much."""

ROWS = 256
"""Blocks of queries whose lists are worked out together."""

Group = tuple[tuple[int, ...], tuple[int, ...]]
"""Blocks of queries that see as many blocks of keys as each other, and those blocks: one list behind the other."""


class BlocksKernel:
    """softmax(scale q k^T) v over the blocks of keys that a pattern shows, at a cost that grows as their number.

    Each block of queries gathers the blocks of keys it sees; those that see equally many are one product. With `near`,
    `first` and `random` alone time and memory are linear in the length T; with `every` they grow as T^2 / `every`.
    Blocks of queries that see all (`first`, if not causal) are a product of their own, and widen nobody's list.

    Source: the patterns are those of `Blocks`; gathering: Zaheer et al. 2020, arXiv:2007.14062, appendix D.
    """

    name = "blocks"

    def never(self, mask: Mask, *, soft_cap: bool, bias: bool) -> str | None:
        """It needs one pattern, and nothing added to the scores."""
        if len(mask.patterns) != 1 or mask.allow is not None:
            return "it is for one pattern of blocks and no other restriction (attention.pattern.block=64)"
        return "it adds no bias of positions to the scores" if bias else None

    def refuses(self, sight: Sight) -> str | None:
        """It needs rows without padding, and no window that hides something."""
        if sight.structure is Structure.BLOCKS:
            return None
        return "it is for whole rows without a window, padding, packing or cache"

    def gains(self, sight: Sight) -> bool:
        """It is faster where most blocks are hidden, the text is long and blocks are not tiny."""
        if sight.structure is not Structure.BLOCKS or sight.mask.patterns[0].size < LEAST:
            return False
        pattern, length = sight.mask.patterns[0], sight.queries.length
        n_blocks = count_blocks(length, pattern)
        seen = sum(len(keys) for _, keys in groups_of(pattern, n_blocks, sight.mask.causal))
        return seen <= GAIN * min(1.0, length / LONG) * min(1.0, pattern.size / LARGE) * n_blocks**2

    def attend(
        self,
        q: Float[Tensor, "batch head query d_head"],
        k: Float[Tensor, "batch kv_head key d_head"],
        v: Float[Tensor, "batch kv_head key d_value"],
        sight: Sight,
        *,
        bias: Float[Tensor, "#batch #head query key"] | None = None,
        scale: float = 1.0,
        soft_cap: float | None = None,
        dropout: float = 0.0,
    ) -> Float[Tensor, "batch head query d_value"]:
        """Return the attention's output; see `AttentionKernel`."""
        pattern, causal, length = sight.mask.patterns[0], sight.mask.causal, q.shape[2]
        size, n_blocks = pattern.size, count_blocks(length, pattern)
        padding = n_blocks * size - length
        q, k, v = (_in_blocks(x, size, padding) for x in (q, k, v))  # (B, N, c, H, E)
        order: list[int] = []
        parts = []
        for rows, lists in groups_of(pattern, n_blocks, causal):
            order += rows
            queries = q.index_select(1, torch.tensor(rows, device=q.device))
            if len(lists) == len(rows) * n_blocks and not causal:  # each sees all: no need to gather
                queries = queries.flatten(1, 2).unsqueeze(1)
                keys, values = (x.flatten(1, 2)[:, :length].unsqueeze(1) for x in (k, v))
                seen = None
            else:
                index = torch.tensor(lists, device=q.device)
                keys, values = (x.index_select(1, index).flatten(1, 2).unflatten(1, (len(rows), -1)) for x in (k, v))
                hidden = padding if lists[len(lists) // len(rows) - 1] == n_blocks - 1 else 0
                seen = _inside(size, keys.shape[2], causal, hidden, q.device)
            out = attend_chunks(queries, keys, values, seen, scale=scale, soft_cap=soft_cap, dropout=dropout)
            parts.append(out.flatten(1, 2).unflatten(1, (len(rows), size)))
        back = sorted(range(n_blocks), key=order.__getitem__)
        joined = torch.cat(parts, dim=1).index_select(1, torch.tensor(back, device=q.device))
        return joined.flatten(1, 2)[:, :length].transpose(1, 2)


def count_blocks(length: int, pattern: Blocks) -> int:
    """Return how many blocks a text has, as a number of its own in a compiled graph: lists depend on it."""
    return operator.index(-(-length // pattern.size))


def groups_of(pattern: Blocks, n_blocks: int, causal: bool) -> tuple[Group, ...]:
    """Return the blocks of queries that see equally many blocks of keys, and which.

    A list is in ascending order: a causal one ends with a query's own block. Lists that end with the last block of all
    are a group apart, for that block may be a part of one.

    Args:
        pattern: The rule.
        n_blocks: Number of blocks of queries and of keys.
        causal: Whether blocks behind a query's own are hidden.
    """
    return _groups_of(pattern, n_blocks, causal)


# A graph's lists are worked out once. `torch.compiler.assume_constant_result` does this and no more, but it imports the
# compiler: a second of every start, and an error where that cannot make its cache folder.
groups_of._dynamo_marked_constant = True  # type: ignore[attr-defined]


@lru_cache(maxsize=64)
def _groups_of(pattern: Blocks, n_blocks: int, causal: bool) -> tuple[Group, ...]:
    lists: list[list[int]] = []
    keys = torch.arange(n_blocks, device="cpu")  # whatever the default: these are numbers for the host
    for rows in keys.unsqueeze(1).split(ROWS):
        seen = pattern.sees(rows, keys)
        if causal:
            seen = seen & (keys <= rows)
        lists += [row.nonzero().flatten().tolist() for row in seen]

    def kind(row: int) -> tuple[int, bool]:
        return len(lists[row]), lists[row][-1] == n_blocks - 1

    groups = groupby(sorted(range(n_blocks), key=kind), key=kind)
    each = [tuple(rows) for _, rows in groups]
    return tuple((rows, tuple(key for row in rows for key in lists[row])) for rows in each)


def _in_blocks(x: Tensor, size: int, padding: int) -> Tensor:
    """(B, H, T, E) -> (B, N, c, H, E), the last block filled up with zeros."""
    x = x.transpose(1, 2)
    return torch.unflatten(F.pad(x, (0, 0, 0, 0, 0, padding)) if padding else x, 1, (-1, size))


def _inside(size: int, keys: int, causal: bool, hidden: int, device: torch.device) -> Bool[Tensor, "query key"] | None:
    """Return what is seen inside a list of blocks whose last one is a query's own, if causal, or ends with `hidden`."""
    key, query = torch.arange(keys, device=device), torch.arange(keys - size, keys, device=device).unsqueeze(1)
    if causal:
        return key <= query
    return (key < keys - hidden).expand(size, -1) if hidden else None
