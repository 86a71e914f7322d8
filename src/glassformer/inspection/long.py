"""The attention weights of long texts: made a few rows at a time, so that never all heads of all rows are there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.core.call import Memory, Sight
from glassformer.core.errors import ConfigError, DataError
from glassformer.core.places import Places
from glassformer.core.tape import Tape
from glassformer.kernels.linear import linear_scores, linear_weights
from glassformer.kernels.reference import attention_scores
from glassformer.kernels.reference import attention_weights as weights_of
from glassformer.models.inference import inference
from glassformer.models.transformer import Transformer
from glassformer.parts.attention import Attention

CHUNK_NUMBERS = 2**21
"""Weights that are made at once: 8 MiB, and as much again for each of their `COPIES`."""


def long_attention_weights(
    model: Transformer,
    tokens: Sequence[int],
    site: str,
    *,
    sources: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    queries: range | None = None,
    pool: int = 1,
    dtype: torch.dtype = torch.float32,
    file: Path | None = None,
) -> Float[Tensor, "head query key"]:
    """Return who looks at whom in one layer of a long text, in no more memory than the result takes.

    The same numbers as `attention_weights`, which makes all heads of a layer at once, T x S for each.

    Args:
        model: Any Transformer, in any mode; it is left in it.
        tokens: Ids that the decoder, or the only stack, reads.
        site: Of one layer ("decoder.blocks.3.attention.weights").
        sources: Ids that the encoder of an encoder-decoder reads.
        heads: Which heads, from 0; None = all.
        queries: Which rows, one after the other; None = all.
        pool: Neighbours that become one: their columns are summed, their rows averaged, so that rows still sum to 1.
        dtype: Of the result; torch.float16 halves it.
        file: A .npy file that the result is written to and then read from, in place of memory.

    Raises:
        ConfigError: The site is none of attention weights, or `pool` is not from 1.
        DataError: No such head or rows.
    """
    if pool < 1:
        raise ConfigError(f"pool is {pool}; give a number of neighbours from 1")
    known = [each.name for each in model.sites() if each.name.endswith(".weights")]
    if site not in known:
        raise ConfigError(f"{site!r} holds no attention weights; known: {', '.join(known)}")
    owner = site.removesuffix(".weights")
    tape = Tape(model, f"{owner}.q", f"{owner}.k")
    with inference(model.modules()):
        memory: Memory | None = None
        if sources is not None:
            memory = model.encode(torch.tensor([list(sources)], device=model.device), tape=tape)
        if not site.startswith("encoder.") or model.decoder is None:
            model(torch.tensor([list(tokens)], device=model.device), memory=memory, outputs="hidden", tape=tape)
        return rows_of(model, site, tape, heads=heads, queries=queries, pool=pool, dtype=dtype, file=file)


def rows_of(
    model: Transformer,
    site: str,
    tape: Tape,
    *,
    heads: Sequence[int] | None = None,
    queries: range | None = None,
    pool: int = 1,
    dtype: torch.dtype = torch.float32,
    file: Path | None = None,
) -> Float[Tensor, "head query key"]:
    """Return the weights of one layer from the queries and keys that a tape holds; see `long_attention_weights`."""
    owner = site.removesuffix(".weights")
    attention = model.get_submodule(owner)
    assert isinstance(attention, Attention), "only attention has weights"
    q, k = tape[f"{owner}.q"], tape[f"{owner}.k"]
    count, T, S = q.shape[1], q.shape[2], k.shape[2]
    chosen = list(range(count)) if heads is None else list(heads)
    rows = range(T) if queries is None else queries
    if not (chosen and all(0 <= head < count for head in chosen)):
        raise DataError(f"heads {chosen} are not all in 0..{count - 1}, the heads of {owner}")
    if not (len(rows) and rows.step == 1 and rows.start >= 0 and rows.stop <= T):
        raise DataError(f"rows {rows} are not all in 0..{T - 1}, the tokens that look")
    group = count // k.shape[1]
    k = k[:, [head // group for head in chosen]]
    size = (len(chosen), -(-len(rows) // pool), -(-S // pool))
    whole = _empty(size, dtype, file)
    step = max(1, CHUNK_NUMBERS // (len(chosen) * S * pool)) * pool
    with torch.no_grad():
        for first in range(rows.start, rows.stop, step):
            last = min(first + step, rows.stop)
            made = _weights(model, attention, q[:, chosen, first:last], k, chosen, first)
            at = (first - rows.start) // pool
            pooled = _pooled(made, pool)
            whole[:, at : at + pooled.shape[1]] = pooled.to("cpu", dtype)
    return whole


def _empty(size: tuple[int, ...], dtype: torch.dtype, file: Path | None) -> Tensor:
    if file is None:
        return torch.empty(size, dtype=dtype)
    kind = torch.empty((), dtype=dtype).numpy().dtype
    return torch.from_numpy(np.lib.format.open_memmap(file, mode="w+", dtype=kind, shape=size))


def _weights(
    model: Transformer, attention: Attention, q: Tensor, k: Tensor, heads: Sequence[int], first: int
) -> Tensor:
    """By the equation of the type, for some rows."""
    stack = model.encoder if attention.site.startswith("encoder.") else model.decoder
    assert stack is not None, "attention belongs to a stack"
    mask = attention.mask if attention.cross else stack.mask & attention.mask
    places = Places.full(q.shape[2], q.device, begin=first)
    sight = Sight.of(mask, places, Places.full(k.shape[2], q.device))
    if attention.config.type == "linear":
        return linear_weights(linear_scores(q, k), sight)[0]
    bias = None
    if stack.position_bias is not None and not attention.cross:
        bias = stack.position_bias(places, sight.keys, q.dtype)[:, list(heads)]
    if attention.distances is not None:
        told = attention.distances.scores(q, sight, attention.scale)
        bias = told if bias is None else bias + told
    scores = attention_scores(q, k, bias=bias, scale=attention.scale, soft_cap=attention.config.soft_cap)
    return weights_of(scores, sight)[0]


def _pooled(weights: Tensor, pool: int) -> Tensor:
    """Neighbouring columns summed, neighbouring rows averaged; the last ones may be fewer."""
    if pool == 1:
        return weights
    heads, T, S = weights.shape
    columns = torch.arange(S, device=weights.device) // pool
    rows = torch.arange(T, device=weights.device) // pool
    summed = weights.new_zeros(heads, T, int(columns[-1]) + 1).index_add_(2, columns, weights)
    added = weights.new_zeros(heads, int(rows[-1]) + 1, summed.shape[2]).index_add_(1, rows, summed)
    return added / rows.bincount().to(added).view(1, -1, 1)
