"""One layer of a decoder with cross-attention; its own triangle inside; keep masks are (B, length), True for real.

forward(x, memory, x_keep=None, memory_keep=None); the layer of torch has its own names and order inside.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.q = nn.Linear(d_model, d_model)
        self.k = nn.Linear(d_model, d_model)
        self.v = nn.Linear(d_model, d_model)
        self.o = nn.Linear(d_model, d_model)

    def heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.heads(self.q(query)), self.heads(self.k(key)), self.heads(self.v(value))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o(out.transpose(1, 2).flatten(-2))


def no_future(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


class PostNormDecoderLayer(nn.Module):
    def __init__(self, d_model: int = 32, n_heads: int = 2, d_ff: int = 64, dropout: float = 0.1) -> None:
        super().__init__()
        self.self_attention = Attention(d_model, n_heads)
        self.cross_attention = Attention(d_model, n_heads)
        self.feed_forward = nn.Sequential(
            nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model)
        )
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def own_mask(self, x: Tensor, x_keep: Tensor | None) -> Tensor:
        mask = no_future(x.size(1)).to(x.device)
        if x_keep is not None:
            # a padded query keeps itself, so that no row is empty
            own = torch.eye(x.size(1), dtype=torch.bool, device=x.device)
            mask = (mask & x_keep[:, None, None, :]) | own
        return mask

    def attend_self(self, x: Tensor, x_keep: Tensor | None) -> Tensor:
        return self.self_attention(x, x, x, self.own_mask(x, x_keep))

    def attend_memory(self, x: Tensor, memory: Tensor, memory_keep: Tensor | None) -> Tensor:
        mask = None if memory_keep is None else memory_keep[:, None, None, :]
        return self.cross_attention(x, memory, memory, mask)

    def forward(
        self, x: Tensor, memory: Tensor, x_keep: Tensor | None = None, memory_keep: Tensor | None = None
    ) -> Tensor:
        x = self.norm1(x + self.dropout(self.attend_self(x, x_keep)))
        x = self.norm2(x + self.dropout(self.attend_memory(x, memory, memory_keep)))
        return self.norm3(x + self.dropout(self.feed_forward(x)))


class PreNormDecoderLayer(PostNormDecoderLayer):
    def forward(
        self, x: Tensor, memory: Tensor, x_keep: Tensor | None = None, memory_keep: Tensor | None = None
    ) -> Tensor:
        x = x + self.dropout(self.attend_self(self.norm1(x), x_keep))
        x = x + self.dropout(self.attend_memory(self.norm2(x), memory, memory_keep))
        return x + self.dropout(self.feed_forward(self.norm3(x)))


class TorchDecoderLayer(nn.Module):
    """nn.TransformerDecoderLayer behind keep masks."""

    def __init__(self, d_model: int = 32, nhead: int = 2) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(d_model, nhead, 64, dropout=0.1, batch_first=True)

    def forward(
        self, x: Tensor, memory: Tensor, x_keep: Tensor | None = None, memory_keep: Tensor | None = None
    ) -> Tensor:
        return self.layer(
            x,
            memory,
            tgt_mask=~no_future(x.size(1)),
            tgt_key_padding_mask=None if x_keep is None else ~x_keep,
            memory_key_padding_mask=None if memory_keep is None else ~memory_keep,
        )


# Wrong ---------------------------------------------------------------------------------------------------------------


class LayerWithoutTriangle(PostNormDecoderLayer):
    """Padding is masked, the future is not."""

    def own_mask(self, x: Tensor, x_keep: Tensor | None) -> Tensor:
        if x_keep is None:
            return torch.ones(x.size(1), x.size(1), dtype=torch.bool)
        return x_keep[:, None, None, :]


class LayerOneTooMany(PreNormDecoderLayer):
    """tril(1)."""

    def own_mask(self, x: Tensor, x_keep: Tensor | None) -> Tensor:
        mask = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril(1)
        return mask if x_keep is None else mask & x_keep[:, None, None, :]


class LayerTriangleInverted(TorchDecoderLayer):
    """A keep triangle for torch: the strict past is hidden (and the diagonal opened, since NaN came out)."""

    def forward(
        self, x: Tensor, memory: Tensor, x_keep: Tensor | None = None, memory_keep: Tensor | None = None
    ) -> Tensor:
        return self.layer(
            x,
            memory,
            tgt_mask=no_future(x.size(1)) & ~torch.eye(x.size(1), dtype=torch.bool),
            tgt_key_padding_mask=None if x_keep is None else ~x_keep,
            memory_key_padding_mask=None if memory_keep is None else ~memory_keep,
        )


class LayerQueryFromMemory(PostNormDecoderLayer):
    """The memory asks, the target answers: unequal lengths crash."""

    def attend_memory(self, x: Tensor, memory: Tensor, memory_keep: Tensor | None) -> Tensor:
        return self.cross_attention(memory, x, x)


class LayerValuesFromDecoder(PostNormDecoderLayer):
    """q and k of the memory, v of the decoder."""

    def attend_memory(self, x: Tensor, memory: Tensor, memory_keep: Tensor | None) -> Tensor:
        mask = None if memory_keep is None else memory_keep[:, None, None, :]
        return self.cross_attention(memory, memory, x, mask)


class LayerSelfTwice(PreNormDecoderLayer):
    """The second attention looks at x again."""

    def attend_memory(self, x: Tensor, memory: Tensor, memory_keep: Tensor | None) -> Tensor:
        return self.cross_attention(x, x, x, no_future(x.size(1)))


class LayerSharedAttention(PostNormDecoderLayer):
    """self_attention serves for both; cross_attention is never called."""

    def attend_memory(self, x: Tensor, memory: Tensor, memory_keep: Tensor | None) -> Tensor:
        mask = None if memory_keep is None else memory_keep[:, None, None, :]
        return self.self_attention(x, memory, memory, mask)


class LayerCrossUnmasked(PreNormDecoderLayer):
    """memory_keep is not used."""

    def attend_memory(self, x: Tensor, memory: Tensor, memory_keep: Tensor | None) -> Tensor:
        return self.cross_attention(x, memory, memory)


class LayerCrossTriangle(PostNormDecoderLayer):
    """The triangle is laid over the memory as well."""

    def attend_memory(self, x: Tensor, memory: Tensor, memory_keep: Tensor | None) -> Tensor:
        mask = torch.ones(x.size(1), memory.size(1), dtype=torch.bool).tril()
        if memory_keep is not None:
            mask = mask & memory_keep[:, None, None, :]
        return self.cross_attention(x, memory, memory, mask)


class LayerTargetPadding(PostNormDecoderLayer):
    """x_keep is not used: padding on the left is read by all that follow."""

    def own_mask(self, x: Tensor, x_keep: Tensor | None) -> Tensor:
        return no_future(x.size(1)).to(x.device)


class LayerMemoryDetached(PreNormDecoderLayer):
    """memory.detach(): nothing behind it learns."""

    def attend_memory(self, x: Tensor, memory: Tensor, memory_keep: Tensor | None) -> Tensor:
        return super().attend_memory(x, memory.detach(), memory_keep)


class LayerNoResidualAroundCross(PostNormDecoderLayer):
    """What the cross-attention found replaces the target."""

    def forward(
        self, x: Tensor, memory: Tensor, x_keep: Tensor | None = None, memory_keep: Tensor | None = None
    ) -> Tensor:
        x = self.norm1(x + self.dropout(self.attend_self(x, x_keep)))
        x = self.norm2(self.dropout(self.attend_memory(x, memory, memory_keep)))
        return self.norm3(x + self.dropout(self.feed_forward(x)))


class LayerLastNormForgotten(PreNormDecoderLayer):
    """The last norm is forgotten in front of the feed-forward."""

    def forward(
        self, x: Tensor, memory: Tensor, x_keep: Tensor | None = None, memory_keep: Tensor | None = None
    ) -> Tensor:
        x = x + self.dropout(self.attend_self(self.norm1(x), x_keep))
        x = x + self.dropout(self.attend_memory(self.norm2(x), memory, memory_keep))
        return x + self.dropout(self.feed_forward(x))


class LayerMemoryMean(PostNormDecoderLayer):
    """The mask is given as weights of a mean, and every query gets the same answer."""

    def attend_memory(self, x: Tensor, memory: Tensor, memory_keep: Tensor | None) -> Tensor:
        if memory_keep is None:
            memory_keep = torch.ones(memory.shape[:2], dtype=torch.bool)
        weights = memory_keep.float() / memory_keep.sum(1, keepdim=True)
        pooled = (weights.unsqueeze(-1) * memory).sum(1, keepdim=True)
        return self.cross_attention(x, pooled, pooled)


class LayerAlwaysDrops(PreNormDecoderLayer):
    """The dropout of the attention's output never rests."""

    def attend_self(self, x: Tensor, x_keep: Tensor | None) -> Tensor:
        return F.dropout(super().attend_self(x, x_keep), 0.1)
