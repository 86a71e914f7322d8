"""Attention functions from tutorials, each with its own idea of a mask, and what is mistyped in them.

`tutorial_attention`: the mask is 1 for what is hidden. `notebook_attention`: 0 is hidden. `book_attention`: lengths.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

# Right ---------------------------------------------------------------------------------------------------------------


def tutorial_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    matmul_qk = torch.matmul(q, k.transpose(-1, -2))
    dk = k.shape[-1]
    scaled_attention_logits = matmul_qk / math.sqrt(dk)
    if mask is not None:
        scaled_attention_logits = scaled_attention_logits + mask * -1e9
    attention_weights = torch.softmax(scaled_attention_logits, dim=-1)
    return torch.matmul(attention_weights, v), attention_weights


def notebook_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    d_k = q.size()[-1]
    attn_logits = torch.matmul(q, k.transpose(-2, -1))
    attn_logits = attn_logits / math.sqrt(d_k)
    if mask is not None:
        attn_logits = attn_logits.masked_fill(mask == 0, -9e15)
    attention = F.softmax(attn_logits, dim=-1)
    values = torch.matmul(attention, v)
    return values, attention


def book_attention(queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor | None = None) -> Tensor:
    d = queries.shape[-1]
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(d)
    if valid_lens is not None:
        seen = torch.arange(scores.shape[-1])[None, :] < valid_lens[:, None]
        scores = scores.masked_fill(~seen[:, None, None, :], -1e6)
    return F.softmax(scores, dim=-1) @ values


# Wrong ---------------------------------------------------------------------------------------------------------------


def tutorial_divided_by_depth(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The root is missing."""
    matmul_qk = torch.matmul(q, k.transpose(-1, -2))
    dk = k.shape[-1]
    scaled_attention_logits = matmul_qk / dk
    if mask is not None:
        scaled_attention_logits = scaled_attention_logits + mask * -1e9
    attention_weights = torch.softmax(scaled_attention_logits, dim=-1)
    return torch.matmul(attention_weights, v), attention_weights


def tutorial_tiny_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """A billionth, not a billion."""
    scaled_attention_logits = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(k.shape[-1])
    if mask is not None:
        scaled_attention_logits = scaled_attention_logits + mask * -1e-9
    attention_weights = torch.softmax(scaled_attention_logits, dim=-1)
    return torch.matmul(attention_weights, v), attention_weights


def tutorial_softmax_dim_one(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """dim=1 is the heads."""
    scaled_attention_logits = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(k.shape[-1])
    if mask is not None:
        scaled_attention_logits = scaled_attention_logits + mask * -1e9
    attention_weights = torch.softmax(scaled_attention_logits, dim=1)
    return torch.matmul(attention_weights, v), attention_weights


def notebook_unscaled(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """d_k is there and not used."""
    attn_logits = torch.matmul(q, k.transpose(-2, -1))
    if mask is not None:
        attn_logits = attn_logits.masked_fill(mask == 0, -9e15)
    attention = F.softmax(attn_logits, dim=-1)
    return torch.matmul(attention, v), attention


def notebook_zero_filled(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """e to the 0 is 1."""
    attn_logits = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size()[-1])
    if mask is not None:
        attn_logits = attn_logits.masked_fill(mask == 0, 0)
    attention = F.softmax(attn_logits, dim=-1)
    return torch.matmul(attention, v), attention


def notebook_logits_used(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The softmax is returned, the logits are multiplied."""
    attn_logits = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size()[-1])
    if mask is not None:
        attn_logits = attn_logits.masked_fill(mask == 0, -9e15)
    attention = F.softmax(attn_logits, dim=-1)
    return torch.matmul(attn_logits, v), attention


def notebook_masked_weights(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The mask comes after the softmax."""
    attn_logits = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size()[-1])
    attention = F.softmax(attn_logits, dim=-1)
    if mask is not None:
        attention = attention.masked_fill(mask == 0, 0)
    return torch.matmul(attention, v), attention


def book_root_of_length(queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor | None = None) -> Tensor:
    """shape[-2] is how many there are."""
    d = queries.shape[-2]
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(d)
    if valid_lens is not None:
        seen = torch.arange(scores.shape[-1])[None, :] < valid_lens[:, None]
        scores = scores.masked_fill(~seen[:, None, None, :], -1e6)
    return F.softmax(scores, dim=-1) @ values


def book_one_too_many(queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor | None = None) -> Tensor:
    """<= lets one word of padding in."""
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.shape[-1])
    if valid_lens is not None:
        seen = torch.arange(scores.shape[-1])[None, :] <= valid_lens[:, None]
        scores = scores.masked_fill(~seen[:, None, None, :], -1e6)
    return F.softmax(scores, dim=-1) @ values


def book_hides_the_valid(queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor | None = None) -> Tensor:
    """The ~ is missing."""
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.shape[-1])
    if valid_lens is not None:
        seen = torch.arange(scores.shape[-1])[None, :] < valid_lens[:, None]
        scores = scores.masked_fill(seen[:, None, None, :], -1e6)
    return F.softmax(scores, dim=-1) @ values
