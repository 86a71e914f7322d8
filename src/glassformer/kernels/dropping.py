"""Attention with dropout on a processor, some queries at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glassformer.kernels.draws import keep_some

AT_ONCE = 1 << 18
"""Weights made at once: 1 MiB of float32, which stays in a core's own cache from the scores to the output."""


def attend_dropping(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch head key d_head"],
    v: Float[Tensor, "batch head key d_value"],
    *,
    causal: bool,
    mask: Bool[Tensor, "#batch #head query key"] | None,
    scale: float,
    dropout: float,
) -> Float[Tensor, "batch head query d_value"]:
    """Return softmax(scale q k^T) with a share of the weights set to zero and the others enlarged, times v.

    torch's fused kernel for processors has no dropout, and its plain way writes all scores, draws and weights to memory
    several times. Here a few queries go all the way at once, and no key is scored that all of them have before them.

    Args:
        q: Queries. *Shape:* (B, H, T, E).
        k: Keys. *Shape:* (B, H, S, E).
        v: Values. *Shape:* (B, H, S, E').
        causal: Whether query t sees the keys up to t; then T = S.
        mask: True = may attend; each query sees something. *Shape:* (B or 1, H or 1, T, S).
        scale: What scores are multiplied with.
        dropout: Share that becomes zero, from 0 to below 1.
    """
    out: Tensor = _Dropping.apply(q, k, v, causal, mask, scale, dropout)  # type: ignore[no-untyped-call]
    return out


class _Dropping(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, causal: bool, mask: Tensor | None, scale: float, dropout: float
    ) -> Tensor:
        n, heads, length, _ = q.shape
        out = q.new_empty(n, length, heads, v.shape[-1]).transpose(1, 2)  # as whoever joins the heads wants it
        kept: list[Tensor] = []
        for rows, queries, keys in _pieces(q, k, causal):
            scores = (q[rows, :, queries] * scale) @ k[rows, :, keys].mT
            if causal:
                among = scores[..., queries.start :]  # all keys before are seen by all of these queries
                hidden = torch.ones(among.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
                among.masked_fill_(hidden, -torch.inf)
            if mask is not None:
                of_rows = mask if mask.shape[0] == 1 else mask[rows]
                scores.masked_fill_(~of_rows[:, :, queries, keys], -torch.inf)
            weights = scores.softmax(-1)
            keep, enlarged = keep_some(weights, dropout)
            out[rows, :, queries] = (weights * enlarged).mul_(keep) @ v[rows, :, keys]
            kept += (weights, keep)
            ctx.enlarged = enlarged
        ctx.causal, ctx.scale = causal, scale
        ctx.save_for_backward(q, k, v, *kept)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None, None]:
        q, k, v, *kept = ctx.saved_tensors
        dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        pairs = zip(kept[::2], kept[1::2], strict=True)
        for (rows, queries, keys), (weights, keep) in zip(_pieces(q, k, ctx.causal), pairs, strict=True):
            dy = gradient[rows, :, queries]
            dv[rows, :, keys] += (weights * ctx.enlarged).mul_(keep).mT @ dy
            dw = (dy @ v[rows, :, keys].mT).mul_(ctx.enlarged).mul_(keep)
            ds = torch._softmax_backward_data(dw, weights, -1, weights.dtype).mul_(ctx.scale)
            dq[rows, :, queries] = ds @ k[rows, :, keys]
            dk[rows, :, keys] += ds.mT @ q[rows, :, queries]
        return dq, dk, dv, None, None, None, None


def _pieces(q: Tensor, k: Tensor, causal: bool) -> Iterator[tuple[slice, slice, slice]]:
    """Yield which rows, which of their queries, and which keys those may see."""
    n, heads, length, _ = q.shape
    n_keys = k.shape[2]
    rows = max(1, AT_ONCE // (heads * length * n_keys))
    queries = max(1, min(length, AT_ONCE // (heads * n_keys)))
    for row in range(0, n, rows):
        for begin in range(0, length, queries):
            end = min(length, begin + queries)
            yield slice(row, row + rows), slice(begin, end), slice(0, end if causal else n_keys)
