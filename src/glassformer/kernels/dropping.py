"""Attention with dropout on a processor, some queries at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glassformer.kernels.draws import enlargement, keep_some

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
    out: Tensor = _attend(q, k, v, causal, mask, scale, dropout)[0]
    return out


@torch.library.custom_op(
    "glassformer::attend_dropping",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, bool causal, Tensor? mask, float scale, float dropout)"
    " -> (Tensor, Tensor, Tensor)",
    tags=(torch.Tag.nondeterministic_seeded,),
)
def _attend(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, mask: Tensor | None, scale: float, dropout: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The output, all weights piece after piece, and which of them stay; an operator, so that a graph can hold it."""
    out, all_weights, all_kept = _room(q, k, v, causal, mask, scale, dropout)
    for (rows, queries, keys), weights, kept in _pieces(q, k, causal, all_weights, all_kept):
        scores = (q[rows, :, queries] * scale) @ k[rows, :, keys].mT
        if causal:
            among = scores[..., queries.start :]  # all keys before are seen by all of these queries
            among += among.new_full(among.shape[-2:], -torch.inf).triu_(1)
        if mask is not None:
            of_rows = mask if mask.shape[0] == 1 else mask[rows]
            scores.masked_fill_(~of_rows[:, :, queries, keys], -torch.inf)
        torch.softmax(scores, -1, out=weights)
        keep, enlarged = keep_some(weights, dropout)
        kept.copy_(keep)
        out[rows, :, queries] = (weights * keep.to(weights.dtype)) @ (v[rows, :, keys] * enlarged)
    return out, all_weights, all_kept


@_attend.register_fake
def _room(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, mask: Tensor | None, scale: float, dropout: float
) -> tuple[Tensor, Tensor, Tensor]:
    n, heads, length, _ = q.shape
    out = q.new_empty(n, length, heads, v.shape[-1]).transpose(1, 2)  # as whoever joins the heads wants it
    weights = q.new_empty(n * heads * length * k.shape[2])  # causal pieces leave the end alone
    return out, weights, weights.new_empty(weights.shape, dtype=torch.uint8)


@torch.library.custom_op(
    "glassformer::attend_dropping_backward",
    mutates_args=(),
    schema="(Tensor gradient, Tensor q, Tensor k, Tensor v, Tensor weights, Tensor kept, bool causal, float scale,"
    " float dropout) -> (Tensor, Tensor, Tensor)",
)
def _gradients(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, all_weights: Tensor, all_kept: Tensor,
    causal: bool, scale: float, dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
    enlarged = enlargement(dropout)
    for (rows, queries, keys), weights, kept in _pieces(q, k, causal, all_weights, all_kept):
        dy = gradient[rows, :, queries] * enlarged
        keep = kept.to(weights.dtype)  # by itself: within a product it takes twice as long
        dv[rows, :, keys] += (weights * keep).mT @ dy
        dw = (dy @ v[rows, :, keys].mT).mul_(keep)
        ds = torch._softmax_backward_data(dw, weights, -1, weights.dtype)
        dq[rows, :, queries] = (ds @ k[rows, :, keys]).mul_(scale)
        dk[rows, :, keys] += ds.mT @ (q[rows, :, queries] * scale)
    return dq, dk, dv


@_gradients.register_fake
def _gradient_shapes(gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.set_materialize_grads(False)  # of the weights there is none
    q, k, v, ctx.causal, _, ctx.scale, ctx.dropout = inputs
    ctx.save_for_backward(q, k, v, *output[1:])


def _backward(ctx: Any, gradient: Tensor, *_: object) -> tuple[Tensor | None, ...]:
    dq, dk, dv = _gradients(gradient, *ctx.saved_tensors, ctx.causal, ctx.scale, ctx.dropout)
    return dq, dk, dv, None, None, None, None


_attend.register_autograd(_backward, setup_context=_keep)


def _pieces(
    q: Tensor, k: Tensor, causal: bool, weights: Tensor, kept: Tensor
) -> Iterator[tuple[tuple[slice, slice, slice], Tensor, Tensor]]:
    """Yield which rows, which of their queries, and which keys those may see; and where of these the weights and what
    stays of them belong."""
    n, heads, length, _ = q.shape
    n_keys = k.shape[2]
    at_once = max(1, AT_ONCE // (heads * length * n_keys))
    queries = max(1, min(length, AT_ONCE // (heads * n_keys)))
    done = 0
    for row in range(0, n, at_once):
        rows = min(n, row + at_once) - row
        for begin in range(0, length, queries):
            end = min(length, begin + queries)
            seen = end if causal else n_keys
            shape = (rows, heads, end - begin, seen)
            there = slice(done, done := done + math.prod(shape))
            piece = slice(row, row + rows), slice(begin, end), slice(0, seen)
            yield piece, weights[there].view(shape), kept[there].view(shape)
