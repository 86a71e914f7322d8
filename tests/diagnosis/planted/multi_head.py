"""Multi-head attention as a module, in four people's hands, and how each goes wrong; a mask is True for look here."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MultiHeadAttention(nn.Module):
    """The tutorial's: forward(q, k, v, mask), masks (B, 1, T, S), (B, 1, 1, S) or (T, S)."""

    def __init__(self, d_model: int = 32, num_heads: int = 2) -> None:
        super().__init__()
        assert d_model % num_heads == 0, "d_model must be divisible by num_heads"
        self.d_model = d_model
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def scaled_dot_product_attention(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
        attn_scores = torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            attn_scores = attn_scores.masked_fill(mask == 0, -1e9)
        attn_probs = torch.softmax(attn_scores, dim=-1)
        return torch.matmul(attn_probs, V)

    def split_heads(self, x: Tensor) -> Tensor:
        batch_size, seq_length, _ = x.size()
        return x.view(batch_size, seq_length, self.num_heads, self.d_k).transpose(1, 2)

    def combine_heads(self, x: Tensor) -> Tensor:
        batch_size, _, seq_length, _ = x.size()
        return x.transpose(1, 2).contiguous().view(batch_size, seq_length, self.d_model)

    def forward(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
        Q = self.split_heads(self.W_q(Q))
        K = self.split_heads(self.W_k(K))
        V = self.split_heads(self.W_v(V))
        attn_output = self.scaled_dot_product_attention(Q, K, V, mask)
        return self.W_o(self.combine_heads(attn_output))


class SelfAttention(nn.Module):
    """One matrix for q, k and v, and forward(x, mask)."""

    def __init__(self, embed_dim: int = 32, num_heads: int = 2) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.qkv_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.o_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, length, dim = x.shape
        qkv = self.qkv_proj(x).reshape(batch, length, self.num_heads, 3 * self.head_dim)
        q, k, v = qkv.permute(0, 2, 1, 3).chunk(3, dim=-1)
        logits = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        if mask is not None:
            logits = logits.masked_fill(mask == 0, -9e15)
        values = F.softmax(logits, dim=-1) @ v
        return self.o_proj(values.permute(0, 2, 1, 3).reshape(batch, length, dim))


class Head(nn.Module):
    def __init__(self, n_embd: int, head_size: int) -> None:
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        k, q = self.key(x), self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        if mask is not None:
            wei = wei.masked_fill(mask == 0, float("-inf"))
        return F.softmax(wei, dim=-1) @ self.value(x)


class HeadByHead(nn.Module):
    """A list of heads, each a module of its own; forward(x, mask), masks (B, 1, S), (B, T, S) or (T, S)."""

    head: type[nn.Module] = Head

    def __init__(self, n_embd: int = 32, num_heads: int = 2) -> None:
        super().__init__()
        self.heads = nn.ModuleList([self.head(n_embd, n_embd // num_heads) for _ in range(num_heads)])
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.proj(torch.cat([h(x, mask) for h in self.heads], dim=-1))


class GroupedQueryAttention(nn.Module):
    """Four heads ask, two heads answer, as in Llama; forward(x, mask)."""

    def __init__(self, dim: int = 32, n_heads: int = 4, n_kv_heads: int = 2) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        self.head_dim = dim // n_heads
        self.q_proj = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(n_heads * self.head_dim, dim, bias=False)

    def repeat(self, x: Tensor) -> Tensor:
        return x.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        B, T, _ = x.shape
        q = self.q_proj(x).view(B, T, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.repeat(self.k_proj(x).view(B, T, self.n_kv_heads, self.head_dim).transpose(1, 2))
        v = self.repeat(self.v_proj(x).view(B, T, self.n_kv_heads, self.head_dim).transpose(1, 2))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else mask.bool())
        return self.o_proj(out.transpose(1, 2).reshape(B, T, -1))


# The four matrices ---------------------------------------------------------------------------------------------------


class ValuesByKeyMatrix(MultiHeadAttention):
    """V = X W_k."""

    def forward(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
        Q = self.split_heads(self.W_q(Q))
        K = self.split_heads(self.W_k(K))
        V = self.split_heads(self.W_k(V))
        return self.W_o(self.combine_heads(self.scaled_dot_product_attention(Q, K, V, mask)))


class KeysByQueryMatrix(MultiHeadAttention):
    """K = X W_q."""

    def forward(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
        Q = self.split_heads(self.W_q(Q))
        K = self.split_heads(self.W_q(K))
        V = self.split_heads(self.W_v(V))
        return self.W_o(self.combine_heads(self.scaled_dot_product_attention(Q, K, V, mask)))


class ValuesOfTheQuery(MultiHeadAttention):
    """The v argument is overwritten before it is read: values come from what asks; unequal lengths crash."""

    def forward(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
        V = self.split_heads(self.W_v(Q))
        Q = self.split_heads(self.W_q(Q))
        K = self.split_heads(self.W_k(K))
        return self.W_o(self.combine_heads(self.scaled_dot_product_attention(Q, K, V, mask)))


class NoOutputMatrix(MultiHeadAttention):
    """W_o is made and left out."""

    def forward(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
        Q = self.split_heads(self.W_q(Q))
        K = self.split_heads(self.W_k(K))
        V = self.split_heads(self.W_v(V))
        return self.combine_heads(self.scaled_dot_product_attention(Q, K, V, mask))


# Heads ---------------------------------------------------------------------------------------------------------------


class SplitWithoutTranspose(MultiHeadAttention):
    """The axes are named right and filled wrong."""

    def split_heads(self, x: Tensor) -> Tensor:
        batch_size, seq_length, _ = x.size()
        return x.reshape(batch_size, self.num_heads, seq_length, self.d_k)


class CombineWithoutTranspose(MultiHeadAttention):
    """The heads are viewed back without turning the axes."""

    def combine_heads(self, x: Tensor) -> Tensor:
        batch_size, _, seq_length, _ = x.size()
        return x.contiguous().view(batch_size, seq_length, self.d_model)


class NeverCombined(MultiHeadAttention):
    """The heads are never merged: (B, H, T, d_k) meets a matrix for d_model."""

    def forward(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
        Q = self.split_heads(self.W_q(Q))
        K = self.split_heads(self.W_k(K))
        V = self.split_heads(self.W_v(V))
        return self.W_o(self.scaled_dot_product_attention(Q, K, V, mask))


class HeadTooWide(MultiHeadAttention):
    """d_k is d_model, as if there were one head."""

    def __init__(self, d_model: int = 32, num_heads: int = 2) -> None:
        super().__init__(d_model, num_heads)
        self.d_k = d_model


class HeadsAveraged(HeadByHead):
    """The mean of the heads, repeated until the width is right again."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        out = torch.stack([h(x, mask) for h in self.heads]).mean(0)
        return self.proj(out.repeat(1, 1, len(self.heads)))


class OneHeadRepeated(HeadByHead):
    """The loop calls the same head each time."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.proj(torch.cat([self.heads[0](x, mask) for _ in self.heads], dim=-1))


class HeadsAttendToHeads(SelfAttention):
    """Without the transpose, each token's heads attend to one another and no word to any other."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, length, dim = x.shape
        qkv = self.qkv_proj(x).reshape(batch, length, self.num_heads, 3 * self.head_dim)
        q, k, v = qkv.chunk(3, dim=-1)
        logits = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        values = F.softmax(logits, dim=-1) @ v
        return self.o_proj(values.reshape(batch, length, dim))


# Scale, softmax, mask ------------------------------------------------------------------------------------------------


class ScaledByModelWidth(HeadByHead):
    """C is the width of x, not of the head."""

    class Head(Head):
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            _, _, C = x.shape
            wei = self.query(x) @ self.key(x).transpose(-2, -1) * C**-0.5
            if mask is not None:
                wei = wei.masked_fill(mask == 0, float("-inf"))
            return F.softmax(wei, dim=-1) @ self.value(x)

    head = Head


class SoftmaxOverQueries(HeadByHead):
    """dim=1 is the axis of the queries when the scores are (B, T, S)."""

    class Head(Head):
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            k, q = self.key(x), self.query(x)
            wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
            if mask is not None:
                wei = wei.masked_fill(mask == 0, -1e9)
            return F.softmax(wei, dim=1) @ self.value(x)

    head = Head


class SoftmaxForgotten(MultiHeadAttention):
    """Scores are used as weights."""

    def scaled_dot_product_attention(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
        attn_scores = torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            attn_scores = attn_scores.masked_fill(mask == 0, 0.0)
        return torch.matmul(attn_scores, V)


class FirstHeadMasked(SelfAttention):
    """The mask reaches head 0 alone."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, length, dim = x.shape
        qkv = self.qkv_proj(x).reshape(batch, length, self.num_heads, 3 * self.head_dim)
        q, k, v = qkv.permute(0, 2, 1, 3).chunk(3, dim=-1)
        logits = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        if mask is not None:
            first = logits[:, :1].masked_fill(mask == 0, -9e15)
            logits = torch.cat([first, logits[:, 1:]], dim=1)
        values = F.softmax(logits, dim=-1) @ v
        return self.o_proj(values.permute(0, 2, 1, 3).reshape(batch, length, dim))


class MaskNotPassed(GroupedQueryAttention):
    """forward takes a mask and calls torch without it."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        B, T, _ = x.shape
        q = self.q_proj(x).view(B, T, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.repeat(self.k_proj(x).view(B, T, self.n_kv_heads, self.head_dim).transpose(1, 2))
        v = self.repeat(self.v_proj(x).view(B, T, self.n_kv_heads, self.head_dim).transpose(1, 2))
        out = F.scaled_dot_product_attention(q, k, v)
        return self.o_proj(out.transpose(1, 2).reshape(B, T, -1))


class RepeatedAlongTime(GroupedQueryAttention):
    """The keys are repeated on the axis of time and cut, so the heads do not match: crash."""

    def repeat(self, x: Tensor) -> Tensor:
        return x.repeat_interleave(self.n_heads // self.n_kv_heads, dim=2)
