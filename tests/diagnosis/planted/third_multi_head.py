"""Multi-head attention from a notebook, an annotated paper and a blog; masks are True for what may be seen."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class NotebookMultihead(nn.Module):
    """One projection, split into heads first and into q, k, v then."""

    def __init__(self, embed_dim: int = 32, num_heads: int = 4) -> None:
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.qkv_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.o_proj = nn.Linear(embed_dim, embed_dim)
        nn.init.xavier_uniform_(self.qkv_proj.weight)
        nn.init.xavier_uniform_(self.o_proj.weight)

    def split(self, qkv: Tensor) -> Tensor:
        batch_size, seq_length, _ = qkv.size()
        return qkv.reshape(batch_size, seq_length, self.num_heads, 3 * self.head_dim).permute(0, 2, 1, 3)

    def width(self, q: Tensor) -> int:
        return q.size(-1)

    def merge(self, values: Tensor) -> Tensor:
        values = values.permute(0, 2, 1, 3)
        return values.reshape(*values.shape[:2], self.embed_dim)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.split(self.qkv_proj(x)).chunk(3, dim=-1)
        attn_logits = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.width(q))
        if mask is not None:
            attn_logits = attn_logits.masked_fill(mask == 0, -9e15)
        attention = F.softmax(attn_logits, dim=-1)
        return self.o_proj(self.merge(torch.matmul(attention, v)))


class AnnotatedMultiHead(nn.Module):
    """Four linear layers in a list, three of them zipped with q, k and v."""

    def __init__(self, h: int = 4, d_model: int = 32, dropout: float = 0.1) -> None:
        super().__init__()
        self.d_k, self.h = d_model // h, h
        self.linears = self.four(d_model)
        self.dropout = nn.Dropout(p=dropout)

    def four(self, d_model: int) -> nn.ModuleList:
        return nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])

    def drop(self, p_attn: Tensor) -> Tensor:
        return self.dropout(p_attn)

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        return [lin(x) for lin, x in zip(self.linears, (query, key, value), strict=False)]

    def finish(self, x: Tensor) -> Tensor:
        return self.linears[-1](x)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        nbatches = query.size(0)
        q, k, v = (x.view(nbatches, -1, self.h, self.d_k).transpose(1, 2) for x in self.project(query, key, value))
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        p_attn = self.drop(scores.softmax(dim=-1))
        x = torch.matmul(p_attn, v).transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.finish(x)


class BlogSelfAttention(nn.Module):
    """Heads folded into the batch; queries and keys carry half the scale each."""

    def __init__(self, k: int = 32, heads: int = 2) -> None:
        super().__init__()
        self.k, self.heads = k, heads
        self.tokeys = nn.Linear(k, k, bias=False)
        self.toqueries = nn.Linear(k, k, bias=False)
        self.tovalues = nn.Linear(k, k, bias=False)
        self.unifyheads = nn.Linear(k, k)

    def fold(self, x: Tensor) -> Tensor:
        b, t, _ = x.size()
        s = self.k // self.heads
        return x.view(b, t, self.heads, s).transpose(1, 2).contiguous().view(b * self.heads, t, s)

    def dot(self, queries: Tensor, keys: Tensor) -> Tensor:
        s = self.k // self.heads
        queries = queries / (s ** (1 / 4))
        keys = keys / (s ** (1 / 4))
        return torch.bmm(queries, keys.transpose(1, 2))

    def weights(self, dot: Tensor) -> Tensor:
        return F.softmax(dot, dim=2)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        b, t, k = x.size()
        dot = self.dot(self.fold(self.toqueries(x)), self.fold(self.tokeys(x)))
        if mask is not None:
            hidden = ~mask.expand(b, self.heads, t, t).reshape(b * self.heads, t, t)
            dot = dot.masked_fill(hidden, -1e9)
        out = torch.bmm(self.weights(dot), self.fold(self.tovalues(x))).view(b, self.heads, t, k // self.heads)
        return self.unifyheads(out.transpose(1, 2).contiguous().view(b, t, k))


# Wrong ---------------------------------------------------------------------------------------------------------------


class HeadsInPlaceOfTime(NotebookMultihead):
    """Reshaped to the wanted axes at once."""

    def split(self, qkv: Tensor) -> Tensor:
        batch_size, seq_length, _ = qkv.size()
        return qkv.reshape(batch_size, self.num_heads, seq_length, 3 * self.head_dim)


class NotPermutedBack(NotebookMultihead):
    """(B, heads, T, width) reshaped as if T came second."""

    def merge(self, values: Tensor) -> Tensor:
        batch_size, _, seq_length, _ = values.size()
        return values.reshape(batch_size, seq_length, self.embed_dim)


class RootOfAllHeads(NotebookMultihead):
    """The width of all heads together."""

    def width(self, q: Tensor) -> int:
        return self.embed_dim


class FourTimesOneLinear(AnnotatedMultiHead):
    """clones() without the copy."""

    def four(self, d_model: int) -> nn.ModuleList:
        return nn.ModuleList([nn.Linear(d_model, d_model)] * 4)


class KeyForValue(AnnotatedMultiHead):
    """(query, key, key)."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        return [lin(x) for lin, x in zip(self.linears, (query, key, key), strict=False)]


class QueryForAll(AnnotatedMultiHead):
    """(query, query, query): whatever else is given is not read."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        return [lin(x) for lin, x in zip(self.linears, (query, query, query), strict=False)]


class NoLastLinear(AnnotatedMultiHead):
    """The fourth layer is never asked."""

    def finish(self, x: Tensor) -> Tensor:
        return x


class AttentionAlwaysDropped(AnnotatedMultiHead):
    """The function, without training=self.training."""

    def drop(self, p_attn: Tensor) -> Tensor:
        return F.dropout(p_attn, p=0.1)


class FoldedAsItLies(BlogSelfAttention):
    """Folded without the transpose: rows of several words in one head."""

    def fold(self, x: Tensor) -> Tensor:
        b, t, _ = x.size()
        return x.view(b * self.heads, t, self.k // self.heads)


class HalfTheScale(BlogSelfAttention):
    """The queries have their half, the keys do not."""

    def dot(self, queries: Tensor, keys: Tensor) -> Tensor:
        s = self.k // self.heads
        queries = queries / (s ** (1 / 4))
        return torch.bmm(queries, keys.transpose(1, 2))


class SoftmaxDimOne(BlogSelfAttention):
    """dim=1 is the queries here."""

    def weights(self, dot: Tensor) -> Tensor:
        return F.softmax(dot, dim=1)
