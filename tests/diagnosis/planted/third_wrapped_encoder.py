"""An encoder of small wrappers (PreNorm around a function, a list of pairs), as one prolific author writes them.

`mask` is True for a real token.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Norm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.g = nn.Parameter(torch.ones(dim))
        self.b = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        var = torch.var(x, dim=-1, unbiased=False, keepdim=True)
        mean = torch.mean(x, dim=-1, keepdim=True)
        return (x - mean) / (var + self.eps).sqrt() * self.g + self.b


class PreNorm(nn.Module):
    def __init__(self, dim: int, fn: nn.Module, norm: type[nn.Module] = Norm) -> None:
        super().__init__()
        self.norm = norm(dim)
        self.fn = fn

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.fn(self.norm(x)) if mask is None else self.fn(self.norm(x), mask)


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int = 2, dim_head: int = 16, dropout: float = 0.1) -> None:
        super().__init__()
        self.heads = heads
        self.scale = dim_head**-0.5
        self.to_qkv = nn.Linear(dim, 3 * heads * dim_head, bias=False)
        self.to_out = nn.Sequential(nn.Linear(heads * dim_head, dim), nn.Dropout(dropout))

    def dots(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.einsum("bhid,bhjd->bhij", q, k) * self.scale

    def weights(self, dots: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            dots = dots.masked_fill(~mask[:, None, None, :], -torch.finfo(dots.dtype).max)
        return dots.softmax(dim=-1)

    def merge(self, out: Tensor) -> Tensor:
        b, h, n, d = out.shape
        return out.transpose(1, 2).reshape(b, n, h * d)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        b, n, _ = x.shape
        q, k, v = (t.reshape(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        attn = self.weights(self.dots(q, k), mask)
        out = torch.einsum("bhij,bhjd->bhid", attn, v)
        return self.to_out(self.merge(out))


class WrappedEncoder(nn.Module):
    attention: type[Attention] = Attention
    norm: type[nn.Module] = Norm

    def __init__(self, num_tokens: int = 32, dim: int = 32, depth: int = 2, max_seq_len: int = 64) -> None:
        super().__init__()
        self.dim, self.max_seq_len = dim, max_seq_len
        self.token_emb = nn.Embedding(num_tokens, dim)
        self.pos_emb = nn.Embedding(max_seq_len, dim)
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            feed_forward = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
            self.layers.append(
                nn.ModuleList([PreNorm(dim, self.attention(dim), self.norm), PreNorm(dim, feed_forward, self.norm)])
            )
        self.to_logits = nn.Sequential(self.norm(dim), nn.Linear(dim, num_tokens))

    def positions(self, n: int) -> Tensor:
        return self.pos_emb(torch.arange(n))

    def run(self, x: Tensor, mask: Tensor | None) -> Tensor:
        for attn, ff in self.layers:
            x = attn(x, mask) + x
            x = ff(x) + x
        return x

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.token_emb(x) + self.positions(x.shape[1])
        return self.to_logits(self.run(x, mask))


# Wrong ---------------------------------------------------------------------------------------------------------------


class DividedByScaleAttention(Attention):
    def dots(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.einsum("bhid,bhjd->bhij", q, k) / self.scale


class DividedByScaleEncoder(WrappedEncoder):
    """The scale is an inverse already."""

    attention = DividedByScaleAttention


class MergedAsItLiesAttention(Attention):
    def merge(self, out: Tensor) -> Tensor:
        b, h, n, d = out.shape
        return out.reshape(b, n, h * d)


class MergedAsItLiesEncoder(WrappedEncoder):
    """Heads come first in memory."""

    attention = MergedAsItLiesAttention


class HiddenTooLateAttention(Attention):
    def weights(self, dots: Tensor, mask: Tensor | None) -> Tensor:
        attn = dots.softmax(dim=-1)
        return attn if mask is None else attn.masked_fill(~mask[:, None, None, :], 0.0)


class HiddenTooLateEncoder(WrappedEncoder):
    """What is left of a row no longer sums to one."""

    attention = HiddenTooLateAttention


class TriangleLeftAttention(Attention):
    def weights(self, dots: Tensor, mask: Tensor | None) -> Tensor:
        causal = torch.ones(dots.shape[-2:], dtype=torch.bool, device=dots.device).triu(1)
        return super().weights(dots.masked_fill(causal, -torch.finfo(dots.dtype).max), mask)


class TriangleLeftEncoder(WrappedEncoder):
    """Taken over from a decoder, with its triangle."""

    attention = TriangleLeftAttention


class NormOnStreamEncoder(WrappedEncoder):
    """The norm moved out of the wrapper and onto the stream."""

    def run(self, x: Tensor, mask: Tensor | None) -> Tensor:
        for attn, ff in self.layers:
            x = attn(x, mask) + x
            x = ff.norm(x)
            x = ff.fn(x) + x
        return x


class NewTableEachTimeEncoder(WrappedEncoder):
    """An embedding made in forward is another one at each call, and learns nothing."""

    def positions(self, n: int) -> Tensor:
        return nn.Embedding(n, self.dim)(torch.arange(n))


class NormOverWords(Norm):
    def forward(self, x: Tensor) -> Tensor:
        var = torch.var(x, dim=1, unbiased=False, keepdim=True)
        mean = torch.mean(x, dim=1, keepdim=True)
        return (x - mean) / (var + self.eps).sqrt() * self.g + self.b


class NormOverWordsEncoder(WrappedEncoder):
    """dim=1, as for images."""

    norm = NormOverWords
