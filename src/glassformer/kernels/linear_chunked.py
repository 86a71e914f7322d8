"""Linear attention without the square of weights: sums over keys, carried from chunk to chunk."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.call import Sight
from glassformer.core.mask import Mask, Structure
from glassformer.core.places import Places
from glassformer.core.recurrent import State
from glassformer.kernels.linear import LinearReference, feature
from glassformer.kernels.reference import as_written

CHUNK = 64
"""Queries that see one another by a square of weights; those of earlier chunks they see by their sums."""


class LinearChunked:
    """out_t = phi(q_t) S_t / phi(q_t) z_t, with the sums S_t of phi(k_s) v_s^T and z_t of phi(k_s) over keys it sees.

    Where all see all, the sums are the same for all. Where a token sees those up to itself, the sums run up to its
    chunk, and inside the chunk there is the square. phi(k) is 0 where there is no token, so rows may be padded on
    either side; where a row holds several texts the sums would have to begin anew in the middle, and the equation does
    it. Time and memory grow with T (c + E), not with T^2.

    Source: Katharopoulos et al. 2020, arXiv:2006.16236, sections 3.2 and 3.3; the chunks: Hua et al. 2022,
    arXiv:2202.10447, section 3.2.
    """

    name = "chunked"

    def never(self, mask: Mask, *, soft_cap: bool, bias: bool) -> str | None:
        """Nothing is added to its scores, and they are not bent."""
        return LinearReference().never(mask, soft_cap=soft_cap, bias=bias)

    def refuses(self, sight: Sight) -> str | None:
        """It needs a mask that hides nothing but padding and what comes later."""
        if sight.structure in (Structure.FULL, Structure.CAUSAL) or sight.by_rows:
            return None
        return "its sums run over whole rows, and here a row may hold several texts, or the mask hides more than that"

    def gains(self, sight: Sight) -> bool:
        """It never costs more than the equation."""
        return True

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
        """Return the attention's output; see `AttentionKernel`. The scale has no place in it."""
        # Where all see all the queries are of any number: FULL is also what the last token alone sees.
        causal = sight.mask.causal and sight.structure is not Structure.FULL
        with as_written(q):
            of_query, of_key, values = _features(q, k, v, sight.keys)
            if causal:
                out, _ = _chunked(of_query, of_key, values, None)
            else:
                out = _quotient(of_query @ _sums(of_key, values).unsqueeze(2), of_query @ _total(of_key).unsqueeze(2))
        return _heads(out, sight.queries, v.dtype)


def carry_on(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch kv_head query d_head"],
    v: Float[Tensor, "batch kv_head query d_value"],
    places: Places,
    state: State,
) -> tuple[Float[Tensor, "batch head query d_value"], State]:
    """Return causal linear attention of new tokens on themselves and on all before them, and the new sums.

    Args:
        q: *Shape:* (B, H, T, E).
        k: *Shape:* (B, K, T, E).
        v: *Shape:* (B, K, T, E').
        places: Where they stand, one text a row.
        state: The sums over all tokens before them, which it leaves as they are.
    """
    with as_written(q):
        of_query, of_key, values = _features(q, k, v, places)
        out, state = _chunked(of_query, of_key, values, state)
    return _heads(out, places, v.dtype), state


def _features(q: Tensor, k: Tensor, v: Tensor, keys: Places) -> tuple[Tensor, Tensor, Tensor]:
    """phi(q) by groups (B, K, H / K, T, E), phi(k) (B, K, S, E) and v, in float32 at least."""
    of_key = feature(k)
    if keys.begin is None:
        of_key = of_key.masked_fill(~keys.is_token[:, None, :, None], 0.0)
    return feature(q).unflatten(1, (k.shape[1], -1)), of_key, v.to(of_key.dtype)


def _sums(of_key: Tensor, values: Tensor) -> Tensor:
    """S = sum over tokens of phi(k) v^T: (.., S, E), (.., S, E') -> (.., E, E')."""
    return of_key.transpose(-2, -1) @ values


def _total(of_key: Tensor) -> Tensor:
    """z = sum over tokens of phi(k), as a column: (.., S, E) -> (.., E, 1)."""
    return of_key.sum(-2).unsqueeze(-1)


def _quotient(out: Tensor, weight: Tensor) -> Tensor:
    """out / weight, and 0 where a query sees nothing."""
    return out / weight.masked_fill(weight == 0, 1.0)


def _heads(out: Tensor, queries: Places, dtype: torch.dtype) -> Tensor:
    """(B, K, H / K, T, E') -> (B, H, T, E'), zero where there is no token."""
    out = out.flatten(1, 2)
    if queries.begin is None:
        out = out.masked_fill(~queries.is_token[:, None, :, None], 0.0)
    return out.to(dtype)


def _chunked(of_query: Tensor, of_key: Tensor, values: Tensor, state: State | None) -> tuple[Tensor, State]:
    """Causal attention, and the sums behind the last token; in chunks of equal size, the last one filled up with 0."""
    length = of_key.shape[-2]
    if length == 1 and state is not None:  # it sees the sums that it is part of: no square
        sums, total = state[0] + _sums(of_key, values), state[1] + of_key.squeeze(-2)
        return _quotient(of_query @ sums.unsqueeze(2), of_query @ total[:, :, None, :, None]), (sums, total)
    size = min(CHUNK, length)
    missing = -length % size
    if missing:
        of_query, of_key, values = (F.pad(each, (0, 0, 0, missing)) for each in (of_query, of_key, values))
    of_query = of_query.unflatten(-2, (-1, size)).transpose(2, 3)  # (B, K, N, G, c, E)
    of_key, values = of_key.unflatten(-2, (-1, size)), values.unflatten(-2, (-1, size))  # (B, K, N, c, ..)
    group = of_query.shape[3]
    rows = of_query.flatten(3, 4)  # (B, K, N, G c, E): the queries of a group share keys
    weights = rows @ of_key.transpose(-2, -1)  # (B, K, N, G c, c)
    weights = weights.unflatten(-2, (group, size)).tril().flatten(3, 4)
    out, weight = weights @ values, weights.sum(-1, keepdim=True)
    before, after = _before(_sums(of_key, values), None if state is None else state[0])
    total_before, total_after = _before(_total(of_key), None if state is None else state[1].unsqueeze(-1))
    if before is not None and total_before is not None:
        out, weight = out + rows @ before, weight + rows @ total_before
    out = _quotient(out, weight).unflatten(3, (group, size)).transpose(2, 3).flatten(3, 4)  # (B, K, G, N c, E')
    return out[..., :length, :], (after, total_after.squeeze(-1))


def _before(each: Tensor, first: Tensor | None) -> tuple[Tensor | None, Tensor]:
    """What stands before each chunk, and behind the last: running sums of (B, K, N, ..) over N, from `first` on.

    None where nothing stands before a single chunk.
    """
    if each.shape[2] == 1:
        each = each.squeeze(2)
        return (None, each) if first is None else (first.unsqueeze(2), first + each)
    if first is None:
        first = torch.zeros_like(each[:, :, 0])
    upto = torch.cat((first.unsqueeze(2), each), dim=2).cumsum(2)
    return upto[:, :, :-1], upto[:, :, -1].clone()  # a view would hold on to all of them
