"""Softmax attention of chunks of queries, each on keys of its own: what sparse kernels are made of."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from glassformer.kernels.reference import attention_scores, mix


def attend_chunks(
    q: Float[Tensor, "batch chunk query head d_head"],
    k: Float[Tensor, "batch chunk key kv_head d_head"],
    v: Float[Tensor, "batch chunk key kv_head d_value"],
    seen: Bool[Tensor, "query key"] | None,
    *,
    scale: float,
    soft_cap: float | None,
    dropout: float,
) -> Float[Tensor, "batch chunk query head d_value"]:
    """Return what the queries of each chunk take from the keys of that chunk.

    Heads stand behind positions, as a projection leaves them, so that chunks are rows of a batch without a copy.

    Args:
        q: Queries. *Shape:* (B, N, T, H, E).
        k: Keys. *Shape:* (B, N, S, K, E).
        v: Values. *Shape:* (B, N, S, K, E').
        seen: Which keys a query sees, the same in all chunks, at least one each; None = all. *Shape:* (T, S).
        scale: Factor of the scores.
        soft_cap: Largest size of a score; torch's fused kernel has none, so the equation is then written out.
        dropout: Share of the weights set to zero.

    Returns:
        Outputs. *Shape:* (B, N, T, H, E').
    """
    batch = q.shape[0]
    q, k, v = (x.flatten(0, 1).transpose(1, 2) for x in (q, k, v))  # (B N, H, T, E)
    if soft_cap is None:
        grouped = q.shape[1] != k.shape[1]
        out = F.scaled_dot_product_attention(
            q, k, v, attn_mask=seen, scale=scale, dropout_p=dropout, enable_gqa=grouped
        )
    else:
        scores = attention_scores(q, k, scale=scale, soft_cap=soft_cap)
        if seen is not None:
            scores = scores.masked_fill(~seen, -torch.inf)
        out = mix(F.dropout(torch.softmax(scores, dim=-1), dropout), v)
    return torch.unflatten(out.transpose(1, 2), 0, (batch, -1))
