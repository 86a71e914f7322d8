"""Attention as a function, three more ways: torch's own reference, blocks with a running softmax, and flat heads.

q, k, v are (B, H, T, E); a boolean mask is True where a key may be looked at and broadcasts to (B, H, T, S).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 4

# Right ---------------------------------------------------------------------------------------------------------------


def reference_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    L, S = query.size(-2), key.size(-2)
    attn_bias = torch.zeros(L, S, dtype=query.dtype)
    if is_causal:
        attn_bias = attn_bias.masked_fill(~torch.ones(L, S, dtype=torch.bool).tril(), float("-inf"))
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            attn_bias = attn_bias.masked_fill(attn_mask.logical_not(), float("-inf"))
        else:
            attn_bias = attn_mask + attn_bias
    attn_weight = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1)) + attn_bias
    return torch.softmax(attn_weight, dim=-1) @ value


def blockwise_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """As in FlashAttention: keys come block by block, and sums are rescaled when a larger score appears."""
    q = q * q.size(-1) ** -0.5
    highest = torch.full((*q.shape[:-1], 1), -1e30)
    total, out = torch.zeros_like(highest), torch.zeros(*q.shape[:-1], v.size(-1))
    seen = torch.ones(1, 1, 1, k.size(-2), dtype=torch.bool) if mask is None else mask.bool()
    for start in range(0, k.size(-2), BLOCK):
        now = slice(start, start + BLOCK)
        scores = (q @ k[..., now, :].mT).masked_fill(~seen[..., now], -1e30)
        new_highest = torch.maximum(highest, scores.amax(-1, keepdim=True))
        p = torch.exp(scores - new_highest) * seen[..., now]
        rescale = torch.exp(highest - new_highest)
        total = total * rescale + p.sum(-1, keepdim=True)
        out = out * rescale + p @ v[..., now, :]
        highest = new_highest
    return out / total


def flat_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Batch and heads in one axis, and torch.bmm; gives the weights too."""
    B, H, T, E = q.shape
    S = k.size(2)
    q, k, v = q.reshape(B * H, T, E), k.reshape(B * H, S, E), v.reshape(B * H, S, -1)
    scores = torch.bmm(q, k.transpose(1, 2)) / E**0.5
    if mask is not None:
        each = mask.expand(B, -1, T, S)[:, 0] if mask.dim() == 4 else mask.expand(B, T, S)  # (B, T, S)
        scores = scores.masked_fill(~each.bool().repeat_interleave(H, dim=0), -1e9)
    weights = F.softmax(scores, dim=2)
    return torch.bmm(weights, v).view(B, H, T, -1), weights.view(B, H, T, S)


# Wrong ---------------------------------------------------------------------------------------------------------------


def reference_mask_as_it_is(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """logical_not() is forgotten: what may be looked at is filled with -inf."""
    L, S = query.size(-2), key.size(-2)
    attn_bias = torch.zeros(L, S, dtype=query.dtype)
    if is_causal:
        attn_bias = attn_bias.masked_fill(~torch.ones(L, S, dtype=torch.bool).tril(), float("-inf"))
    if attn_mask is not None:
        attn_bias = attn_bias.masked_fill(attn_mask, float("-inf"))
    attn_weight = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1)) + attn_bias
    return torch.softmax(attn_weight, dim=-1) @ value


def reference_mask_flipped_in_place(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """logical_not_() turns the caller's mask: the next layer, given the same one, hides the contrary."""
    L, S = query.size(-2), key.size(-2)
    attn_bias = torch.zeros(L, S, dtype=query.dtype)
    if is_causal:
        attn_bias = attn_bias.masked_fill(~torch.ones(L, S, dtype=torch.bool).tril(), float("-inf"))
    if attn_mask is not None:
        attn_bias = attn_bias.masked_fill(attn_mask.logical_not_(), float("-inf"))
    attn_weight = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1)) + attn_bias
    return torch.softmax(attn_weight, dim=-1) @ value


def reference_bias_after_softmax(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """The bias is multiplied into the weights as 0 and 1, after the softmax, and the rows are not made whole again."""
    L, S = query.size(-2), key.size(-2)
    seen = torch.ones(L, S, dtype=torch.bool)
    if is_causal:
        seen = seen.tril()
    if attn_mask is not None:
        seen = seen & attn_mask
    attn_weight = torch.softmax(query @ key.transpose(-2, -1) / math.sqrt(query.size(-1)), dim=-1)
    return attn_weight.where(seen, 0.0) @ value


def reference_scaled_by_heads(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """size(1) is the number of heads."""
    L, S = query.size(-2), key.size(-2)
    attn_bias = torch.zeros(L, S, dtype=query.dtype)
    if is_causal:
        attn_bias = attn_bias.masked_fill(~torch.ones(L, S, dtype=torch.bool).tril(), float("-inf"))
    if attn_mask is not None:
        attn_bias = attn_bias.masked_fill(attn_mask.logical_not(), float("-inf"))
    attn_weight = query @ key.transpose(-2, -1) / math.sqrt(query.size(1)) + attn_bias
    return torch.softmax(attn_weight, dim=-1) @ value


def blockwise_not_rescaled(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """The sum is rescaled when a larger score appears, what was gathered so far is not."""
    q = q * q.size(-1) ** -0.5
    highest = torch.full((*q.shape[:-1], 1), -1e30)
    total, out = torch.zeros_like(highest), torch.zeros(*q.shape[:-1], v.size(-1))
    seen = torch.ones(1, 1, 1, k.size(-2), dtype=torch.bool) if mask is None else mask.bool()
    for start in range(0, k.size(-2), BLOCK):
        now = slice(start, start + BLOCK)
        scores = (q @ k[..., now, :].mT).masked_fill(~seen[..., now], -1e30)
        new_highest = torch.maximum(highest, scores.amax(-1, keepdim=True))
        p = torch.exp(scores - new_highest) * seen[..., now]
        total = total * torch.exp(highest - new_highest) + p.sum(-1, keepdim=True)
        out = out + p @ v[..., now, :]
        highest = new_highest
    return out / total


def blockwise_last_block_lost(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """range(S // BLOCK): if the length is no multiple of the block, the keys at the end are never read."""
    q = q * q.size(-1) ** -0.5
    highest = torch.full((*q.shape[:-1], 1), -1e30)
    total, out = torch.zeros_like(highest), torch.zeros(*q.shape[:-1], v.size(-1))
    seen = torch.ones(1, 1, 1, k.size(-2), dtype=torch.bool) if mask is None else mask.bool()
    for block in range(k.size(-2) // BLOCK):
        now = slice(block * BLOCK, (block + 1) * BLOCK)
        scores = (q @ k[..., now, :].mT).masked_fill(~seen[..., now], -1e30)
        new_highest = torch.maximum(highest, scores.amax(-1, keepdim=True))
        p = torch.exp(scores - new_highest) * seen[..., now]
        rescale = torch.exp(highest - new_highest)
        total = total * rescale + p.sum(-1, keepdim=True)
        out = out * rescale + p @ v[..., now, :]
        highest = new_highest
    return out / total


def blockwise_hidden_counted(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """The hidden keys are left out of the sum above the line and counted in the one below."""
    q = q * q.size(-1) ** -0.5
    highest = torch.full((*q.shape[:-1], 1), -1e30)
    total, out = torch.zeros_like(highest), torch.zeros(*q.shape[:-1], v.size(-1))
    seen = torch.ones(1, 1, 1, k.size(-2), dtype=torch.bool) if mask is None else mask.bool()
    for start in range(0, k.size(-2), BLOCK):
        now = slice(start, start + BLOCK)
        scores = q @ k[..., now, :].mT
        new_highest = torch.maximum(highest, scores.amax(-1, keepdim=True))
        p = torch.exp(scores - new_highest)
        rescale = torch.exp(highest - new_highest)
        total = total * rescale + p.sum(-1, keepdim=True)
        out = out * rescale + (p * seen[..., now]) @ v[..., now, :]
        highest = new_highest
    return out / total


def blockwise_mean_of_blocks(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Each block gets a softmax of its own, and the blocks are averaged."""
    q = q * q.size(-1) ** -0.5
    seen = torch.ones(1, 1, 1, k.size(-2), dtype=torch.bool) if mask is None else mask.bool()
    parts = []
    for start in range(0, k.size(-2), BLOCK):
        now = slice(start, start + BLOCK)
        scores = (q @ k[..., now, :].mT).masked_fill(~seen[..., now], -1e9)
        parts.append(scores.softmax(-1) @ v[..., now, :])
    return torch.stack(parts).mean(0)


def flat_mask_repeated(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """mask.repeat(H, 1, 1) where each sentence's mask belongs to H rows in a row: sentences get each other's."""
    B, H, T, E = q.shape
    S = k.size(2)
    q, k, v = q.reshape(B * H, T, E), k.reshape(B * H, S, E), v.reshape(B * H, S, -1)
    scores = torch.bmm(q, k.transpose(1, 2)) / E**0.5
    if mask is not None:
        each = mask.expand(B, -1, T, S)[:, 0] if mask.dim() == 4 else mask.expand(B, T, S)
        scores = scores.masked_fill(~each.bool().repeat(H, 1, 1), -1e9)
    weights = F.softmax(scores, dim=2)
    return torch.bmm(weights, v).view(B, H, T, -1), weights.view(B, H, T, S)


def flat_keys_reshaped(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """reshape(B * H, E, S) has the shape of the transpose, and mixes the words of the keys."""
    B, H, T, E = q.shape
    S = k.size(2)
    q, k, v = q.reshape(B * H, T, E), k.reshape(B * H, E, S), v.reshape(B * H, S, -1)
    scores = torch.bmm(q, k) / E**0.5
    if mask is not None:
        each = mask.expand(B, -1, T, S)[:, 0] if mask.dim() == 4 else mask.expand(B, T, S)
        scores = scores.masked_fill(~each.bool().repeat_interleave(H, dim=0), -1e9)
    weights = F.softmax(scores, dim=2)
    return torch.bmm(weights, v).view(B, H, T, -1), weights.view(B, H, T, S)


def flat_softmax_over_rows(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """dim=0, the default of old: each score competes with those of the other sentences and heads."""
    B, H, T, E = q.shape
    S = k.size(2)
    q, k, v = q.reshape(B * H, T, E), k.reshape(B * H, S, E), v.reshape(B * H, S, -1)
    scores = torch.bmm(q, k.transpose(1, 2)) / E**0.5
    if mask is not None:
        each = mask.expand(B, -1, T, S)[:, 0] if mask.dim() == 4 else mask.expand(B, T, S)
        scores = scores.masked_fill(~each.bool().repeat_interleave(H, dim=0), -1e9)
    weights = F.softmax(scores, dim=0)
    return torch.bmm(weights, v).view(B, H, T, -1), weights.view(B, H, T, S)


def flat_queries_as_values(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """bmm(weights, q): v is never read."""
    B, H, T, E = q.shape
    S = k.size(2)
    q, k, v = q.reshape(B * H, T, E), k.reshape(B * H, S, E), v.reshape(B * H, S, -1)
    scores = torch.bmm(q, k.transpose(1, 2)) / E**0.5
    if mask is not None:
        each = mask.expand(B, -1, T, S)[:, 0] if mask.dim() == 4 else mask.expand(B, T, S)
        scores = scores.masked_fill(~each.bool().repeat_interleave(H, dim=0), -1e9)
    weights = F.softmax(scores, dim=2)
    return torch.bmm(weights, q).view(B, H, T, -1), weights.view(B, H, T, S)
