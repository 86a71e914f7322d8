"""Attention as the equation says it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.call import Sight
from glassformer.core.mask import Mask


def attention_scores(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch kv_head key d_head"],
    *,
    bias: Float[Tensor, "#batch #head query key"] | None = None,
    scale: float = 1.0,
    soft_cap: float | None = None,
) -> Float[Tensor, "batch head query key"]:
    """Return how well each query matches each key, before any mask.

    scores = cap(scale q k^T) + bias, with cap(s) = c tanh(s / c), in float32 at least, whatever the type of
    q: a half-precision product of large vectors would overflow before it is scaled.

    Args:
        q: Queries. *Shape:* (B, H, T, E).
        k: Keys; H is a multiple of K, and query head h asks key head h // (H / K). *Shape:* (B, K, S, E).
        bias: Added to the scores (relative positions). *Shape:* (B or 1, H or 1, T, S).
        scale: Factor of the scores, usually 1/sqrt(E).
        soft_cap: Largest size c of a score before the bias; None = unlimited.

    Returns:
        Scores. *Shape:* (B, H, T, S), float32 or float64.

    Source: Vaswani et al. 2017, arXiv:1706.03762, equation 1; grouped keys: Ainslie et al. 2023,
    arXiv:2305.13245.
    """
    exact = torch.promote_types(q.dtype, torch.float32)
    with as_written(q):
        keys = for_each_query_head(k, q).to(exact)
        scores = (q.to(exact) * scale) @ keys.transpose(-2, -1)  # (B, H, T, S)
        return bent_scores(scores, bias=bias, soft_cap=soft_cap)


def bent_scores(
    scaled: Float[Tensor, "batch head query key"],
    *,
    bias: Float[Tensor, "#batch #head query key"] | None,
    soft_cap: float | None,
) -> Float[Tensor, "batch head query key"]:
    """Return cap(scaled) + bias: what is left to do with scaled scores; see `attention_scores`."""
    if soft_cap is not None:
        scaled = soft_cap * torch.tanh(scaled / soft_cap)
    return scaled if bias is None else scaled + bias


def attention_weights(
    scores: Float[Tensor, "batch head query key"], sight: Sight
) -> Float[Tensor, "batch head query key"]:
    """Return softmax over the keys a query may see.

    weights[t, s] = exp(scores[t, s]) / sum over visible s' of exp(scores[t, s']); exactly 0 on keys that are
    not visible, and all 0 for a query that sees none.

    Args:
        scores: *Shape:* (B, H, T, S).
        sight: What each query may see.
    """
    seen = sight.dense()
    # A row without any key would be 0/0; it is opened for the softmax and closed again behind it, so that
    # neither its values nor its gradients are ever NaN.
    opened = scores.masked_fill(~(seen | sight.blind()), -torch.inf)
    return torch.softmax(opened, dim=-1).masked_fill(~seen, 0.0)


def mix(
    weights: Float[Tensor, "batch head query key"], v: Float[Tensor, "batch kv_head key d_value"]
) -> Float[Tensor, "batch head query d_value"]:
    """Return the values, averaged with the weights: weights @ v. *Shape:* (B, H, T, E)."""
    with as_written(v):
        values = for_each_query_head(v, weights).to(weights.dtype)
        return (weights @ values).to(v.dtype)


def as_written(x: Tensor) -> AbstractContextManager[object]:
    """No autocast, which would take the products in half precision again; the meta device has none."""
    return nullcontext() if x.device.type == "meta" else torch.autocast(x.device.type, enabled=False)


def for_each_query_head(x: Tensor, q: Tensor) -> Tensor:
    """Repeat key/value heads (B, K, S, E) so that each of the H query heads has its own: (B, H, S, E)."""
    group = q.shape[1] // x.shape[1]
    return x if group == 1 else x.repeat_interleave(group, dim=1)


class ReferenceKernel:
    """softmax(scale q k^T + bias) v, written as it reads; the oracle of every other kernel."""

    name = "reference"

    def never(self, mask: Mask, *, soft_cap: bool, bias: bool) -> str | None:
        """It computes everything."""
        return None

    def refuses(self, sight: Sight) -> str | None:
        """It takes all rows."""
        return None

    def gains(self, sight: Sight) -> bool:
        """It is the last that is tried."""
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
        """Return the attention's output; see `AttentionKernel`."""
        scores = attention_scores(q, k, bias=bias, scale=scale, soft_cap=soft_cap)
        weights = F.dropout(attention_weights(scores, sight), dropout)
        return mix(weights, v)
