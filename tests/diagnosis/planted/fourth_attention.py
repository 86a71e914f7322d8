"""Attention as a function in three more hands, q, k, v (B, H, T, E); a mask is True where a key may be looked at."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

# Right ---------------------------------------------------------------------------------------------------------------


def flax_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """A port from JAX."""
    depth = query.shape[-1]
    query = query / math.sqrt(depth)
    attn_weights = torch.einsum("...hqd,...hkd->...hqk", query, key)
    if mask is not None:
        big_neg = torch.finfo(attn_weights.dtype).min
        attn_weights = torch.where(mask, attn_weights, big_neg)
    attn_weights = torch.softmax(attn_weights, dim=-1)
    return torch.einsum("...hqk,...hkd->...hqd", attn_weights, value)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    scale = q.shape[-1] ** -0.5
    sim = torch.einsum("b h i d, b h j d -> b h i j", q, k) * scale
    if mask is not None:
        sim = sim.masked_fill(~mask, -torch.finfo(sim.dtype).max)
    attn = F.softmax(sim, dim=-1)
    return torch.einsum("b h i j, b h j d -> b h i d", attn, v), attn


def sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


# Wrong ---------------------------------------------------------------------------------------------------------------


def flax_divided_by_depth(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    depth = query.shape[-1]
    query = query / depth
    attn_weights = torch.einsum("...hqd,...hkd->...hqk", query, key)
    if mask is not None:
        big_neg = torch.finfo(attn_weights.dtype).min
        attn_weights = torch.where(mask, attn_weights, big_neg)
    attn_weights = torch.softmax(attn_weights, dim=-1)
    return torch.einsum("...hqk,...hkd->...hqd", attn_weights, value)


def attend_softmax_over_heads(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    scale = q.shape[-1] ** -0.5
    sim = torch.einsum("b h i d, b h j d -> b h i j", q, k) * scale
    if mask is not None:
        sim = sim.masked_fill(~mask, -torch.finfo(sim.dtype).max)
    attn = F.softmax(sim, dim=1)
    return torch.einsum("b h i j, b h j d -> b h i d", attn, v), attn


def attend_mask_last(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    scale = q.shape[-1] ** -0.5
    sim = torch.einsum("b h i d, b h j d -> b h i j", q, k) * scale
    attn = F.softmax(sim, dim=-1)
    if mask is not None:
        attn = attn.masked_fill(~mask, 0)
    return torch.einsum("b h i j, b h j d -> b h i d", attn, v), attn


def attend_dropout_on(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    scale = q.shape[-1] ** -0.5
    sim = torch.einsum("b h i d, b h j d -> b h i j", q, k) * scale
    if mask is not None:
        sim = sim.masked_fill(~mask, -torch.finfo(sim.dtype).max)
    attn = F.dropout(F.softmax(sim, dim=-1), p=0.1)
    return torch.einsum("b h i j, b h j d -> b h i d", attn, v), attn


def sdpa_scaled_before(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    q = q * q.size(-1) ** -0.5
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def sdpa_mask_as_in_module(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    attn_mask = None if mask is None else ~mask
    return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)
