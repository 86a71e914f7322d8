"""A vision Transformer's encoder on tokens: a class token in front, learned positions, torch's attention, a class out.

`model(ids, keep)`: keep is True for a real token; gives logits (B, classes).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ViTBlock(nn.Module):
    batch_first = True

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, dropout=0.1, batch_first=self.batch_first)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        y = self.norm1(x)
        x = x + self.attn(y, y, y, key_padding_mask=padding, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class TokenViT(nn.Module):
    block: type[ViTBlock] = ViTBlock

    def __init__(self, vocab_size: int = 32, dim: int = 32, num_classes: int = 5, max_len: int = 64) -> None:
        super().__init__()
        self.patch_embed = nn.Embedding(vocab_size, dim)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.pos_embed = nn.Parameter(torch.randn(1, max_len + 1, dim) * 0.5)
        self.blocks = nn.ModuleList([self.block(dim, 2) for _ in range(2)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, num_classes)

    def padding(self, keep: Tensor) -> Tensor:
        with_class = torch.cat([torch.ones_like(keep[:, :1]), keep], dim=1)
        return ~with_class

    def pool(self, x: Tensor, keep: Tensor | None) -> Tensor:
        return x[:, 0]

    def forward(self, ids: Tensor, keep: Tensor | None = None) -> Tensor:
        x = self.patch_embed(ids)
        x = torch.cat([self.cls_token.expand(ids.size(0), -1, -1), x], dim=1)
        x = x + self.pos_embed[:, : x.size(1)]
        padding = None if keep is None else self.padding(keep)
        for block in self.blocks:
            x = block(x, padding)
        return self.head(self.pool(self.norm(x), keep))


class MeanViT(TokenViT):
    """A variant that is right: the mean of the real tokens."""

    def pool(self, x: Tensor, keep: Tensor | None) -> Tensor:
        if keep is None:
            return x[:, 1:].mean(1)
        weights = keep.float().unsqueeze(-1)
        return (x[:, 1:] * weights).sum(1) / weights.sum(1)


# Wrong ---------------------------------------------------------------------------------------------------------------


class TimeFirstBlock(ViTBlock):
    batch_first = False


class BatchAsTimeViT(MeanViT):
    block = TimeFirstBlock


class FirstOfBatchViT(TokenViT):
    def pool(self, x: Tensor, keep: Tensor | None) -> Tensor:
        return x[0]


class KeepAsPaddingViT(TokenViT):
    def padding(self, keep: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(keep[:, :1]), keep], dim=1)


class ClassForgottenViT(TokenViT):
    def padding(self, keep: Tensor) -> Tensor:
        return ~keep
