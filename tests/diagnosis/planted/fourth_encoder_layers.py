"""Encoder layers in four more hands: forward(x, keep), keep (B, T) True for a real token."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn


class PlainAttention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)

    def mask(self, keep: Tensor) -> Tensor:
        return keep[:, None, None, :]

    def forward(self, x: Tensor, keep: Tensor | None) -> Tensor:
        q, k, v = self.split(self.wq(x)), self.split(self.wk(x)), self.split(self.wv(x))
        scores = q @ k.transpose(-1, -2) * q.size(-1) ** -0.5
        if keep is not None:
            scores = scores.masked_fill(~self.mask(keep), -1e9)
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class SublayerConnection(nn.Module):
    def __init__(self, size: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return x + self.dropout(sublayer(self.norm(x)))


class HarvardLayer(nn.Module):
    connection: type[SublayerConnection] = SublayerConnection
    attention: type[PlainAttention] = PlainAttention

    def __init__(self, dim: int = 32, heads: int = 2, dropout: float = 0.1) -> None:
        super().__init__()
        self.self_attn = self.attention(dim, heads)
        self.feed_forward = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
        self.sublayer = nn.ModuleList([self.connection(dim, dropout) for _ in range(2)])

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        x = self.sublayer[0](x, lambda x: self.self_attn(x, keep))
        return self.sublayer[1](x, self.feed_forward)


class PostLayer(nn.Module):
    """DistilBERT's."""

    def __init__(self, dim: int = 32, heads: int = 2) -> None:
        super().__init__()
        self.attention = PlainAttention(dim, heads)
        self.sa_layer_norm = nn.LayerNorm(dim)
        self.lin1, self.lin2 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
        self.output_layer_norm = nn.LayerNorm(dim)

    def ffn(self, x: Tensor) -> Tensor:
        return self.lin2(F.gelu(self.lin1(x)))

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        x = self.sa_layer_norm(x + self.attention(x, keep))
        return self.output_layer_norm(x + self.ffn(x))


class SideBySideLayer(nn.Module):
    """PaLM's: both halves read the same norm."""

    def __init__(self, dim: int = 32, heads: int = 2) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attn = PlainAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.1, self.training)

    def normed(self, x: Tensor) -> Tensor:
        return self.norm(x)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        y = self.normed(x)
        return x + self.drop(self.attn(y, keep)) + self.drop(self.ff(y))


class SandwichLayer(nn.Module):
    """A variant that is right: a norm before and a norm after each half, as in Gemma 2."""

    def __init__(self, dim: int = 32, heads: int = 2) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.RMSNorm(dim) for _ in range(4)])
        self.attn = PlainAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        x = x + self.norms[1](self.attn(self.norms[0](x), keep))
        return x + self.norms[3](self.ff(self.norms[2](x)))


# Wrong ---------------------------------------------------------------------------------------------------------------


class NormedOnBothPaths(SublayerConnection):
    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        x = self.norm(x)
        return x + self.dropout(sublayer(x))


class NormedOnBothPathsLayer(HarvardLayer):
    connection = NormedOnBothPaths


class NormUnused(SublayerConnection):
    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return x + self.dropout(sublayer(x))


class NormUnusedLayer(HarvardLayer):
    connection = NormUnused


class NotTurned(PlainAttention):
    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), self.heads, x.size(1), -1)


class NotTurnedLayer(HarvardLayer):
    attention = NotTurned


class NothingBetweenLayer(PostLayer):
    def ffn(self, x: Tensor) -> Tensor:
        return self.lin2(self.lin1(x))


class DropsInEvaluationLayer(SideBySideLayer):
    def drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.1)


class NormOfTheSentenceLayer(SideBySideLayer):
    def normed(self, x: Tensor) -> Tensor:
        mean, std = x.mean(dim=(1, 2), keepdim=True), x.std(dim=(1, 2), keepdim=True)
        return (x - mean) / (std + 1e-6) * self.norm.weight + self.norm.bias
