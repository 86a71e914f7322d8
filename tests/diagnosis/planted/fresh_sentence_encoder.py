"""One vector (B, D) for each sentence: an encoder that finds its padding (token 0), and the mean of its words."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD = 0


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.in_proj = nn.Linear(width, 3 * width)
        self.out_proj = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        B, T, C = x.shape
        qkv = self.in_proj(self.ln_1(x)).reshape(B, T, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out_proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.ln_2(x))


class SentenceEncoder(nn.Module):
    def __init__(self, vocab_size: int = 32, width: int = 32, heads: int = 2, layers: int = 2, ctx: int = 64) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, width, padding_idx=PAD)
        self.positional_embedding = nn.Parameter(torch.randn(ctx, width) * 0.3)
        self.layers = nn.ModuleList([Layer(width, heads) for _ in range(layers)])
        self.ln_final = nn.LayerNorm(width)
        self.projection = nn.Linear(width, width, bias=False)

    def attention_mask(self, ids: Tensor) -> Tensor:
        return (ids != PAD)[:, None, None, :]

    def pool(self, x: Tensor, ids: Tensor) -> Tensor:
        real = (ids != PAD).float().unsqueeze(-1)
        return (x * real).sum(1) / real.sum(1).clamp(min=1)

    def unit(self, pooled: Tensor) -> Tensor:
        return F.normalize(self.projection(pooled), dim=-1)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.token_embedding(ids) + self.positional_embedding[: ids.size(1)]
        mask = self.attention_mask(ids)
        for layer in self.layers:
            x = layer(x, mask)
        return self.unit(self.pool(self.ln_final(x), ids))


class PaddingInTheMean(SentenceEncoder):
    """x.mean(1): the attention leaves the padding out, the mean does not."""

    def pool(self, x: Tensor, ids: Tensor) -> Tensor:
        return x.mean(dim=1)


class LastStateOfPadding(SentenceEncoder):
    """The last state stands for the sentence, and that is the state of the padding."""

    def pool(self, x: Tensor, ids: Tensor) -> Tensor:
        return x[:, -1]


class TrueForPadding(SentenceEncoder):
    """ids == PAD, as nn.MultiheadAttention wants it; F.scaled_dot_product_attention wants the contrary."""

    def attention_mask(self, ids: Tensor) -> Tensor:
        return (ids == PAD)[:, None, None, :]


class UnitOverBatch(SentenceEncoder):
    """normalize(dim=0): each feature is divided by its length over the batch."""

    def unit(self, pooled: Tensor) -> Tensor:
        return F.normalize(self.projection(pooled), dim=0)


class SqueezedBatch(SentenceEncoder):
    """squeeze() without an axis: a batch of one sentence loses its batch."""

    def pool(self, x: Tensor, ids: Tensor) -> Tensor:
        weights = F.normalize((ids != PAD).float(), p=1, dim=1).unsqueeze(1)
        return torch.bmm(weights, x).squeeze()
