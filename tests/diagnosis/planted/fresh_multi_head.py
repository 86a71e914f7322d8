"""Multi-head attention as a module, three more hands: a port from Keras, one for self and cross, and one kv head."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class KerasMultiHead(nn.Module):
    """Keras' order, call(query, value, key=None, attention_mask=None), with one kernel (D, H, E) each."""

    def __init__(self, num_heads: int = 4, key_dim: int = 8, d_model: int = 32) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.query_kernel = nn.Parameter(torch.randn(d_model, num_heads, key_dim) * d_model**-0.5)
        self.key_kernel = nn.Parameter(torch.randn(d_model, num_heads, key_dim) * d_model**-0.5)
        self.value_kernel = nn.Parameter(torch.randn(d_model, num_heads, key_dim) * d_model**-0.5)
        self.output_kernel = nn.Parameter(torch.randn(num_heads, key_dim, d_model) * d_model**-0.5)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.einsum("bthe,bshe->bhts", q / self.key_dim**0.5, k)

    def softmax(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            scores = scores + (1.0 - mask.float()) * -1e9
        return scores.softmax(dim=-1)

    def forward(
        self, query: Tensor, value: Tensor, key: Tensor | None = None, attention_mask: Tensor | None = None
    ) -> Tensor:
        if key is None:
            key = value
        q = torch.einsum("btd,dhe->bthe", query, self.query_kernel)
        k = torch.einsum("bsd,dhe->bshe", key, self.key_kernel)
        v = torch.einsum("bsd,dhe->bshe", value, self.value_kernel)
        weights = self.softmax(self.scores(q, k), attention_mask)
        out = torch.einsum("bhts,bshe->bthe", weights, v)
        return torch.einsum("bthe,hed->btd", out, self.output_kernel)


class ContextAttention(nn.Module):
    """forward(x, context=None, mask=None): self-attention, or cross-attention if there is a context."""

    def __init__(self, dim: int = 32, heads: int = 4, dim_head: int = 8) -> None:
        super().__init__()
        self.heads = heads
        self.scale = dim_head**-0.5
        self.to_q = nn.Linear(dim, heads * dim_head, bias=False)
        self.to_kv = nn.Linear(dim, 2 * heads * dim_head, bias=False)
        self.to_out = self.output(heads * dim_head, dim)

    def output(self, inner: int, dim: int) -> nn.Module:
        return nn.Sequential(nn.Linear(inner, dim), nn.Dropout(0.0))

    def split(self, t: Tensor) -> Tensor:
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        sim = q @ k.transpose(-1, -2) * self.scale
        if mask is not None:
            sim = sim.masked_fill(~mask.bool(), -torch.finfo(sim.dtype).max)
        return (sim.softmax(dim=-1) @ v).transpose(1, 2).flatten(2)

    def forward(self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        source = x if context is None else context
        k, v = self.to_kv(source).chunk(2, dim=-1)
        return self.to_out(self.attend(self.split(self.to_q(x)), self.split(k), self.split(v), mask))


class MultiQueryAttention(nn.Module):
    """Many heads ask, one answers; forward(x, mask), and torch's fused function."""

    def __init__(self, n_embd: int = 32, n_head: int = 4, dropout: float = 0.1) -> None:
        super().__init__()
        self.n_head = n_head
        self.head_dim = n_embd // n_head
        self.dropout = dropout
        self.c_attn = nn.Linear(n_embd, n_embd + 2 * self.head_dim)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split([C, self.head_dim, self.head_dim], dim=2)
        q = q.view(B, T, self.n_head, self.head_dim).transpose(1, 2)
        k, v = (t.unsqueeze(1).expand(B, self.n_head, T, self.head_dim) for t in (k, v))
        y = self.attend(q, k, v, None if mask is None else mask.bool())
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))


# Keras ---------------------------------------------------------------------------------------------------------------


class KerasKeyIsQuery(KerasMultiHead):
    """Without a key, the query is taken for it, not the value: wrong for another source, a crash for another length."""

    def forward(
        self, query: Tensor, value: Tensor, key: Tensor | None = None, attention_mask: Tensor | None = None
    ) -> Tensor:
        return super().forward(query, value, query if key is None else key, attention_mask)


class KerasHeadSoftmax(KerasMultiHead):
    """axis=1 of (B, H, T, S): the heads share one between them."""

    def softmax(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            scores = scores + (1.0 - mask.float()) * -1e9
        return scores.softmax(dim=1)


class KerasScoresTurned(KerasMultiHead):
    """The scores are asked for as "bhst": what is looked at asks, and what asks is looked at."""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.einsum("bthe,bshe->bhst", q / self.key_dim**0.5, k)


class KerasMaskTimesMinus(KerasMultiHead):
    """mask * -1e9 without 1 -: the visible is hidden."""

    def softmax(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            scores = scores + mask.float() * -1e9
        return scores.softmax(dim=-1)


# Self and cross ------------------------------------------------------------------------------------------------------


class ContextOrX(ContextAttention):
    """`context or x`: a tensor has no truth value, so every cross-attention crashes."""

    def forward(self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        source = context or x
        k, v = self.to_kv(source).chunk(2, dim=-1)
        return self.to_out(self.attend(self.split(self.to_q(x)), self.split(k), self.split(v), mask))


class ContextUnread(ContextAttention):
    """The context is an argument, and keys and values come from x."""

    def forward(self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        k, v = self.to_kv(x).chunk(2, dim=-1)
        return self.to_out(self.attend(self.split(self.to_q(x)), self.split(k), self.split(v), mask))


class OutputInAList(ContextAttention):
    """A list of two layers where nn.Sequential was: the output matrix is nobody's parameter."""

    def __init__(self, dim: int = 32, heads: int = 4, dim_head: int = 8) -> None:
        super().__init__(dim, heads, dim_head)
        layers = list(self.to_out)
        del self.to_out
        self.to_out = layers

    def forward(self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        k, v = self.to_kv(x if context is None else context).chunk(2, dim=-1)
        x = self.attend(self.split(self.to_q(x)), self.split(k), self.split(v), mask)
        for layer in self.to_out:
            x = layer(x)
        return x


class MaskFilledAfter(ContextAttention):
    """The filled scores go to another name than the one the softmax reads."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        sim = q @ k.transpose(-1, -2) * self.scale
        attn = sim.softmax(dim=-1)
        if mask is not None:
            sim = sim.masked_fill(~mask.bool(), -torch.finfo(sim.dtype).max)
        return (attn @ v).transpose(1, 2).flatten(2)


class ValuesAreKeysOfContext(ContextAttention):
    """k, _ = and v = k: the second half of to_kv is thrown away."""

    def forward(self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        k, _ = self.to_kv(x if context is None else context).chunk(2, dim=-1)
        return self.to_out(self.attend(self.split(self.to_q(x)), self.split(k), self.split(k), mask))


# Fused ---------------------------------------------------------------------------------------------------------------


class FusedAlwaysDrops(MultiQueryAttention):
    """dropout_p is handed to torch in evaluation too."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.dropout)


class FusedScaleInverse(MultiQueryAttention):
    """scale= is multiplied with; the root is given where one over it was meant."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, mask, dropout, scale=self.head_dim**0.5)


class FusedMaskDropped(MultiQueryAttention):
    """is_causal whenever there is a mask, whatever the mask says."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=mask is not None)
