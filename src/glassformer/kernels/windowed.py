"""Attention to the neighbourhood: in chunks, so that what a window hides is never computed."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glassformer.core.call import Sight
from glassformer.core.mask import Mask, Structure
from glassformer.kernels.chunks import attend_chunks

LEAST_CHUNK = 64
"""Queries of a chunk, at least: smaller products cost more than what they skip."""

GAIN = 3
"""A text this many times as long as what a query sees, and as two chunks, is faster in chunks than under a mask."""


class WindowedKernel:
    """softmax(scale q k^T) v over the keys of a window, in time and memory that grow as T (w + c).

    Queries go in chunks of c positions, and each chunk sees its own keys and those of the r = ceil((w - 1) / c) chunks
    before it (and, if not causal, behind it), under one mask that is a band:

        keys      |  i-2  |  i-1  |   i   |
        query 0   |  .  # |  # #  |  #    |
        query 1   |  .  . |  # #  |  # #  |

    The chunks at both ends, whose neighbourhood is cut off, are two small products of their own.
    """

    name = "windowed"

    def never(self, mask: Mask, *, soft_cap: bool, bias: bool) -> str | None:
        """It needs a window and no other rule, and nothing added to the scores."""
        if mask.window is None or mask.patterns or mask.allow is not None:
            return "it is for a window and no other restriction (attention.window=64)"
        return "it adds no bias of positions to the scores" if bias else None

    def refuses(self, sight: Sight) -> str | None:
        """It needs rows without padding that are longer than the window."""
        if sight.structure is Structure.WINDOWED:
            return None
        return "it is for texts longer than the window, in whole rows without padding, packing or cache"

    def gains(self, sight: Sight) -> bool:
        """It is faster on texts that are much longer than what a query sees."""
        window = sight.mask.window
        if window is None:
            return False
        width = window if sight.mask.causal else 2 * window - 1
        return sight.queries.length >= GAIN * max(width, 2 * LEAST_CHUNK)

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
        mask, length = sight.mask, q.shape[2]
        assert mask.window is not None, "a structure that is windowed has a window"
        chunk = chunk_of(mask.window)
        before = -(-(mask.window - 1) // chunk)  # r
        behind = 0 if mask.causal else before
        begin, end = before, length // chunk - behind  # the chunks that see a whole neighbourhood
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, T, H, E)

        def piece(queries: Tensor, keys: Tensor, values: Tensor, first: int) -> Tensor:
            seen = band(mask, queries.shape[2], keys.shape[2], first, q.device)
            out = attend_chunks(queries, keys, values, seen, scale=scale, soft_cap=soft_cap, dropout=dropout)
            return out.flatten(1, 2)  # (B, N c, H, E')

        def edge(queries: Tensor, first: int, last: int, offset: int) -> Tensor:
            return piece(queries.unsqueeze(1), k[:, first:last].unsqueeze(1), v[:, first:last].unsqueeze(1), offset)

        if end <= begin:
            return edge(q, 0, length, 0).transpose(1, 2)
        head, middle, tail = q.split([begin * chunk, (end - begin) * chunk, length - end * chunk], dim=1)
        near = torch.arange(-before, behind + 1, device=q.device)
        index = (torch.arange(begin, end, device=q.device).unsqueeze(1) + near).flatten()
        seen_by_chunk = [
            x[:, : (end + behind) * chunk].unflatten(1, (-1, chunk)).index_select(1, index) for x in (k, v)
        ]  # (B, N (2r + 1), c, K, E)
        keys, values = (x.flatten(1, 2).unflatten(1, (end - begin, -1)) for x in seen_by_chunk)
        parts = [piece(middle.unflatten(1, (-1, chunk)), keys, values, before * chunk)]
        if before:
            parts.insert(0, edge(head, 0, (before + behind) * chunk, 0))
        if length > end * chunk:
            parts.append(edge(tail, (end - before) * chunk, length, before * chunk))
        return torch.cat(parts, dim=1).transpose(1, 2)


def chunk_of(window: int) -> int:
    """Return how many queries go together: a power of two, a quarter of the window or more.

    Each key is then copied for five chunks at most (nine, if not causal).
    """
    return max(LEAST_CHUNK, 1 << (-(-window // 4) - 1).bit_length())


def band(mask: Mask, queries: int, keys: int, first: int, device: torch.device) -> Bool[Tensor, "query key"]:
    """Return which of some consecutive keys each of some consecutive queries sees.

    Args:
        mask: Causal or not, with a window.
        queries: Their number.
        keys: Their number.
        first: Index, among the keys, of the first query's own.
        device: Where the tensor lives.
    """
    assert mask.window is not None, "a band is a window's"
    own = torch.arange(first, first + queries, device=device).unsqueeze(1)
    distance = own - torch.arange(keys, device=device)
    seen = distance.abs() < mask.window
    return seen & (distance >= 0) if mask.causal else seen
