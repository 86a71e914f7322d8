"""Attention as a function, q, k, v of shape (B, H, T, E); a mask is True (or 1) where a key may be looked at.

Five people's ways to write it, and how each way goes wrong.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

# Right ---------------------------------------------------------------------------------------------------------------


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    return torch.matmul(p_attn, value), p_attn


def scaled_dot_product(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    logits = q @ k.mT * q.shape[-1] ** -0.5
    if mask is not None:
        logits = logits.masked_fill(~mask.bool(), -torch.inf)
    return F.softmax(logits, dim=-1) @ v


def einsum_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    dots = torch.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[-1])
    if mask is not None:
        dots = torch.where(mask.bool(), dots, torch.finfo(dots.dtype).min)
    attn = torch.softmax(dots, dim=-1)
    return torch.einsum("bhij,bhjd->bhid", attn, v)


def stable_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """The softmax by hand."""
    scores = (q / math.sqrt(q.size(-1))) @ k.transpose(-1, -2)
    if mask is not None:
        scores = scores.masked_fill(~mask.bool(), float("-inf"))
    scores = scores - scores.amax(dim=-1, keepdim=True)
    exp = scores.exp()
    return (exp / exp.sum(dim=-1, keepdim=True)) @ v


def torch_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else mask.bool())


# Wrong ---------------------------------------------------------------------------------------------------------------


def attention_without_scale(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """No division."""
    scores = torch.matmul(query, key.transpose(-2, -1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    return torch.matmul(p_attn, value), p_attn


def attention_scaled_by_d_k(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The square root is forgotten."""
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / d_k
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    return torch.matmul(p_attn, value), p_attn


def attention_scaled_by_d_model(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """The width of all heads together is taken for the width of one."""
    d_model = q.shape[1] * q.shape[-1]
    logits = q @ k.mT * d_model**-0.5
    if mask is not None:
        logits = logits.masked_fill(~mask.bool(), -torch.inf)
    return F.softmax(logits, dim=-1) @ v


def attention_scaled_by_length(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """size(-2) is the number of keys."""
    logits = q @ k.mT / math.sqrt(k.size(-2))
    if mask is not None:
        logits = logits.masked_fill(~mask.bool(), -torch.inf)
    return F.softmax(logits, dim=-1) @ v


def attention_multiplied_by_root(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """d ** 0.5 where d ** -0.5 was meant."""
    logits = q @ k.mT * q.shape[-1] ** 0.5
    if mask is not None:
        logits = logits.masked_fill(~mask.bool(), -torch.inf)
    return F.softmax(logits, dim=-1) @ v


def attention_softmax_over_queries(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """dim=-2, and zeros where a column was all masked."""
    logits = q @ k.mT * q.shape[-1] ** -0.5
    if mask is not None:
        logits = logits.masked_fill(~mask.bool(), -torch.inf)
    return F.softmax(logits, dim=-2).nan_to_num() @ v


def attention_softmax_over_heads(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """dim=1 is the axis of the heads: each key shares one between them."""
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=1)
    return torch.matmul(p_attn, value), p_attn


def attention_masked_after(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """The mask multiplies the weights: the rows no longer sum to one."""
    attn = F.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1)
    if mask is not None:
        attn = attn * mask
    return attn @ v


def attention_mask_transposed(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """The mask is turned on its side: a row of it, meant for a query, lands on a key."""
    logits = q @ k.mT * q.shape[-1] ** -0.5
    if mask is not None:
        logits = logits.masked_fill(~mask.bool().mT, -1e9)
    return F.softmax(logits, dim=-1) @ v


def attention_mask_inverted(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """masked_fill(mask) fills where the mask is True, and True means keep."""
    dots = torch.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[-1])
    if mask is not None:
        dots = dots.masked_fill(mask.bool(), torch.finfo(dots.dtype).min)
    return torch.einsum("bhij,bhjd->bhid", torch.softmax(dots, dim=-1), v)


def attention_mask_added(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """0 and 1 are added to the scores."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else mask.to(q.dtype))


def attention_mask_on_rows(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """The last row of the mask is taken for the padding, and laid along the queries."""
    logits = q @ k.mT * q.shape[-1] ** -0.5
    if mask is not None:
        keep = mask[..., -1, : q.size(-2)].unsqueeze(-1)
        logits = logits.masked_fill(~keep.bool(), -1e9)
    return F.softmax(logits, dim=-1) @ v


def attention_mask_before_scale(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """A small finite number is added first and divided with the scores: what is hidden still has a weight."""
    scores = q @ k.mT
    if mask is not None:
        scores = scores + (~mask.bool()) * -10.0
    return F.softmax(scores / math.sqrt(q.size(-1)), dim=-1) @ v


def attention_mask_filled_with_zero(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """1e-9, which is nearly zero, where -1e9 was meant."""
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, 1e-9)
    p_attn = scores.softmax(dim=-1)
    return torch.matmul(p_attn, value), p_attn


def attention_mask_unused(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """masked_fill gives back a new tensor; this one drops it."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    if mask is not None:
        scores.masked_fill(~mask.bool(), float("-inf"))
    return torch.softmax(scores, dim=-1) @ v


def attention_keys_as_values(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """The weights mix the keys."""
    dots = torch.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[-1])
    if mask is not None:
        dots = torch.where(mask.bool(), dots, torch.finfo(dots.dtype).min)
    return torch.einsum("bhij,bhjd->bhid", torch.softmax(dots, dim=-1), k)


def attention_weights_transposed(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """The letters i and j change places in the second einsum; runs only if there are as many queries as keys."""
    dots = torch.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[-1])
    if mask is not None:
        dots = torch.where(mask.bool(), dots, torch.finfo(dots.dtype).min)
    return torch.einsum("bhji,bhjd->bhid", torch.softmax(dots, dim=-1), v)


def attention_in_place(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """/= divides the caller's q; the next call divides it again."""
    q /= math.sqrt(q.size(-1))
    scores = q @ k.transpose(-1, -2)
    if mask is not None:
        scores = scores.masked_fill(~mask.bool(), float("-inf"))
    return scores.softmax(-1) @ v


def attention_with_dropout(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """torch's function drops whenever it is told a probability."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else mask.bool(), dropout_p=0.1)


def attention_without_normaliser(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """The sum under the fraction runs over the whole table, not over one row."""
    scores = (q / math.sqrt(q.size(-1))) @ k.transpose(-1, -2)
    if mask is not None:
        scores = scores.masked_fill(~mask.bool(), float("-inf"))
    exp = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return (exp / exp.sum(dim=(-2, -1), keepdim=True)) @ v
