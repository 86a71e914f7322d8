"""A decoder with linear biases (ALiBi), einsum throughout, heads at (B, T, H, E); `y` is shifted already, -100 is none.

The head is the table of the words itself.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, einsum, nn


class AlibiAttention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.to_out = nn.Linear(dim, dim)
        slopes = torch.tensor([2.0 ** (-8.0 * (h + 1) / heads) for h in range(heads)])
        self.register_buffer("slopes", slopes, persistent=False)

    def bias(self, n: int) -> Tensor:
        i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
        return -self.slopes[:, None, None] * (i - j).abs()

    def weights(self, sim: Tensor) -> Tensor:
        n = sim.size(-1)
        future = torch.ones(n, n, dtype=torch.bool, device=sim.device).triu(1)
        sim = (sim + self.bias(n)).masked_fill(future, -torch.finfo(sim.dtype).max)
        return sim.softmax(dim=-1)

    def mix(self, attn: Tensor, v: Tensor) -> Tensor:
        return einsum("bhij,bjhd->bihd", attn, v)

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q, k, v = (t.view(b, n, self.heads, -1) for t in (self.to_q(x), self.to_k(x), self.to_v(x)))
        sim = einsum("bihd,bjhd->bhij", q * q.size(-1) ** -0.5, k)
        return self.to_out(self.mix(self.weights(sim), v).reshape(b, n, -1))


class AlibiGPT(nn.Module):
    attention: type[AlibiAttention] = AlibiAttention

    def __init__(self, num_tokens: int = 32, dim: int = 32, depth: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.token_emb = nn.Embedding(num_tokens, dim)
        self.blocks = nn.ModuleList()
        for _ in range(depth):
            ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
            self.blocks.append(nn.ModuleList([nn.LayerNorm(dim), self.attention(dim, heads), ff]))
        self.final_norm = nn.LayerNorm(dim)
        nn.init.normal_(self.token_emb.weight, std=0.05)

    def logits(self, x: Tensor) -> Tensor:
        return einsum("bnd,vd->bnv", self.final_norm(x), self.token_emb.weight)

    def loss(self, logits: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100)

    def forward(self, x: Tensor, y: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        h = self.token_emb(x)
        for norm, attn, ff in self.blocks:
            h = h + attn(norm(h))
            h = h + ff(h)
        logits = self.logits(h)
        return logits, None if y is None else self.loss(logits, y)


class FarIsNearAttention(AlibiAttention):
    def bias(self, n: int) -> Tensor:
        i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
        return self.slopes[:, None, None] * (i - j).abs()


class FarIsNearGPT(AlibiGPT):
    """The minus of the bias is lost: the farther a word, the more it counts."""

    attention = FarIsNearAttention


class RowBiasAttention(AlibiAttention):
    def bias(self, n: int) -> Tensor:
        return -self.slopes[:, None, None] * torch.arange(n)[None, :, None]


class RowBiasGPT(AlibiGPT):
    """The bias runs along the queries: a softmax does not notice a constant, so there are no positions."""

    attention = RowBiasAttention


class BiasAfterAttention(AlibiAttention):
    def weights(self, sim: Tensor) -> Tensor:
        n = sim.size(-1)
        future = torch.ones(n, n, dtype=torch.bool, device=sim.device).triu(1)
        attn = sim.masked_fill(future, -torch.finfo(sim.dtype).max).softmax(dim=-1)
        return attn + self.bias(n).masked_fill(future, 0.0)


class BiasAfterSoftmaxGPT(AlibiGPT):
    """The bias is added to the weights, not to the scores: rows no longer sum to one."""

    attention = BiasAfterAttention


class TimesTriangleAttention(AlibiAttention):
    def weights(self, sim: Tensor) -> Tensor:
        n = sim.size(-1)
        return ((sim + self.bias(n)) * torch.ones(n, n, device=sim.device).tril()).softmax(dim=-1)


class TimesTriangleGPT(AlibiGPT):
    """The scores are multiplied by the triangle: a score of 0 is not hidden."""

    attention = TimesTriangleAttention


class LettersTurnedAttention(AlibiAttention):
    def mix(self, attn: Tensor, v: Tensor) -> Tensor:
        return einsum("bhij,bihd->bjhd", attn, v)


class LettersTurnedGPT(AlibiGPT):
    """i and j are exchanged where the values are mixed: a word hears those that come after it."""

    attention = LettersTurnedAttention


class DataAsHeadGPT(AlibiGPT):
    """The table is used as .data in the head: the same numbers, and no gradient from the loss to them."""

    def logits(self, x: Tensor) -> Tensor:
        return einsum("bnd,vd->bnv", self.final_norm(x), self.token_emb.weight.data)


class PerRowLossGPT(AlibiGPT):
    """The sum over all tokens is divided by the number of rows."""

    def loss(self, logits: Tensor, y: Tensor) -> Tensor:
        total = F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")
        return total / y.size(0)
