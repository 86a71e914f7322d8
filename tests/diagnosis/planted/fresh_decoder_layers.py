"""One layer of a decoder with cross-attention, two more hands.

FusedDecoderLayer takes torch's padding masks (B, length), True for padding; PlainDecoderLayer takes 1 for a real word.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class FusedDecoderLayer(nn.Module):
    """Pre-norm: forward(tgt, memory, tgt_key_padding_mask=None, memory_key_padding_mask=None)."""

    def __init__(self, d_model: int = 32, nhead: int = 4, dim_feedforward: int = 64) -> None:
        super().__init__()
        self.nhead = nhead
        self.self_in = nn.Linear(d_model, 3 * d_model)
        self.self_out = nn.Linear(d_model, d_model)
        self.cross_q = nn.Linear(d_model, d_model)
        self.cross_k = nn.Linear(d_model, d_model)
        self.cross_v = nn.Linear(d_model, d_model)
        self.cross_out = nn.Linear(d_model, d_model)
        self.mlp = nn.Sequential(nn.Linear(d_model, dim_feedforward), nn.GELU(), nn.Linear(dim_feedforward, d_model))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.nhead, -1)).transpose(1, 2)

    def plain(self, q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None) -> Tensor:
        scores = q @ k.mT * q.size(-1) ** -0.5
        if padding is not None:
            scores = scores.masked_fill(padding[:, None, None, :], -1e9)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)

    def own(self, x: Tensor, padding: Tensor | None) -> Tensor:
        q, k, v = (self.split(t) for t in self.self_in(x).chunk(3, dim=-1))
        seen = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).tril()
        if padding is not None:
            seen = seen & ~padding[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.self_out(y.transpose(1, 2).flatten(2))

    def cross(self, x: Tensor, memory: Tensor, padding: Tensor | None) -> Tensor:
        q, k, v = self.split(self.cross_q(x)), self.split(self.cross_k(memory)), self.split(self.cross_v(memory))
        return self.cross_out(self.plain(q, k, v, padding))

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        tgt = tgt + self.own(self.norm1(tgt), tgt_key_padding_mask)
        tgt = tgt + self.cross(self.norm2(tgt), memory, memory_key_padding_mask)
        return tgt + self.mlp(self.norm3(tgt))


class PlainAttention(nn.Module):
    softmax_dim = -1

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.scale = (dim // heads) ** -0.5

    def forward(self, x: Tensor, source: Tensor, seen: Tensor | None) -> Tensor:
        q, k, v = (
            m(t).unflatten(-1, (self.heads, -1)) for m, t in ((self.wq, x), (self.wk, source), (self.wv, source))
        )
        scores = torch.einsum("bihd,bjhd->bhij", q, k) * self.scale
        if seen is not None:
            scores = scores.masked_fill(seen == 0, -1e9)
        return self.wo(torch.einsum("bhij,bjhd->bihd", scores.softmax(self.softmax_dim), v).flatten(2))


class PlainDecoderLayer(nn.Module):
    """Post-norm, einsum: forward(x, enc_out, x_mask=None, enc_mask=None)."""

    cross_attention: type[PlainAttention] = PlainAttention

    def __init__(self, dim: int = 32, heads: int = 4, hidden: int = 64, dropout: float = 0.1) -> None:
        super().__init__()
        self.self_attn = PlainAttention(dim, heads)
        self.cross_attn = self.cross_attention(dim, heads)
        self.fc1, self.fc2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.ln1, self.ln2, self.ln3 = (nn.LayerNorm(dim) for _ in range(3))
        self.drop = nn.Dropout(dropout)

    def own_mask(self, x: Tensor, x_mask: Tensor | None) -> Tensor:
        triangle = torch.tril(torch.ones(x.size(1), x.size(1), device=x.device))
        return triangle if x_mask is None else triangle * x_mask[:, None, None, :]

    def memory_mask(self, enc_mask: Tensor | None) -> Tensor | None:
        return None if enc_mask is None else enc_mask[:, None, None, :]

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.drop(F.relu(self.fc1(x))))

    def forward(
        self, x: Tensor, enc_out: Tensor, x_mask: Tensor | None = None, enc_mask: Tensor | None = None
    ) -> Tensor:
        x = self.ln1(x + self.drop(self.self_attn(x, x, self.own_mask(x, x_mask))))
        x = self.ln2(x + self.drop(self.cross_attn(x, enc_out, self.memory_mask(enc_mask))))
        return self.ln3(x + self.drop(self.feed_forward(x)))


# Fused ---------------------------------------------------------------------------------------------------------------


class PaddingsExchanged(FusedDecoderLayer):
    """Each attention gets the padding of the other; unequal lengths crash."""

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        return super().forward(tgt, memory, memory_key_padding_mask, tgt_key_padding_mask)


class MemoryIsStream(FusedDecoderLayer):
    """memory + cross(...): the stream goes on from the memory; unequal lengths crash."""

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        tgt = tgt + self.own(self.norm1(tgt), tgt_key_padding_mask)
        tgt = memory + self.cross(self.norm2(tgt), memory, memory_key_padding_mask)
        return tgt + self.mlp(self.norm3(tgt))


class ValuesOfTarget(FusedDecoderLayer):
    """cross_v(x): the memory is asked, and the target answers; unequal lengths crash."""

    def cross(self, x: Tensor, memory: Tensor, padding: Tensor | None) -> Tensor:
        q, k, v = self.split(self.cross_q(x)), self.split(self.cross_k(memory)), self.split(self.cross_v(x))
        return self.cross_out(self.plain(q, k, v, padding))


class PaddingEndsTriangle(FusedDecoderLayer):
    """is_causal and a mask exclude each other in torch, so with padding the triangle goes."""

    def own(self, x: Tensor, padding: Tensor | None) -> Tensor:
        q, k, v = (self.split(t) for t in self.self_in(x).chunk(3, dim=-1))
        seen = None if padding is None else ~padding[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, is_causal=seen is None)
        return self.self_out(y.transpose(1, 2).flatten(2))


class MemoryCut(FusedDecoderLayer):
    """The memory is cut to the length of the target, after an error about sizes."""

    def cross(self, x: Tensor, memory: Tensor, padding: Tensor | None) -> Tensor:
        padding = None if padding is None else padding[:, : x.size(1)]
        return super().cross(x, memory[:, : x.size(1)], padding)


class OldKeysKept(FusedDecoderLayer):
    """In evaluation the memory's keys and values are kept from the first call, and the next text is read with them."""

    def __init__(self, d_model: int = 32, nhead: int = 4, dim_feedforward: int = 64) -> None:
        super().__init__(d_model, nhead, dim_feedforward)
        self.kept: tuple[Tensor, Tensor] | None = None

    def cross(self, x: Tensor, memory: Tensor, padding: Tensor | None) -> Tensor:
        if self.kept is None or self.training:
            self.kept = self.split(self.cross_k(memory)), self.split(self.cross_v(memory))
        q, (k, v) = self.split(self.cross_q(x)), self.kept
        return self.cross_out(self.plain(q, k, v, padding))


# Plain ---------------------------------------------------------------------------------------------------------------


class CrossSoftmaxOverQueries(PlainDecoderLayer):
    """The cross-attention's softmax runs over the target: how much of the memory a word gets depends on the others."""

    class Attention(PlainAttention):
        softmax_dim = -2

    cross_attention = Attention


class CrossPaddingOnly(PlainDecoderLayer):
    """The memory's mask is compared the other way round: only the padding is read."""

    def memory_mask(self, enc_mask: Tensor | None) -> Tensor | None:
        return None if enc_mask is None else (enc_mask == 0)[:, None, None, :]


class TriangleTurned(PlainDecoderLayer):
    """.T on the triangle: each word sees itself and what comes after."""

    def own_mask(self, x: Tensor, x_mask: Tensor | None) -> Tensor:
        triangle = torch.tril(torch.ones(x.size(1), x.size(1), device=x.device)).T
        return triangle if x_mask is None else triangle * x_mask[:, None, None, :]


class MasksSummed(PlainDecoderLayer):
    """triangle + padding: what is 1 + 0 or 0 + 1 counts as visible."""

    def own_mask(self, x: Tensor, x_mask: Tensor | None) -> Tensor:
        triangle = torch.tril(torch.ones(x.size(1), x.size(1), device=x.device))
        return triangle if x_mask is None else triangle + x_mask[:, None, None, :]


class NextWordConvolved(PlainDecoderLayer):
    """A convolution of width three, padded on both sides, in the feed-forward of a decoder."""

    def __init__(self, dim: int = 32, heads: int = 4, hidden: int = 64, dropout: float = 0.1) -> None:
        super().__init__(dim, heads, hidden, dropout)
        self.fc1 = nn.Conv1d(dim, hidden, 3, padding=1)

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.drop(F.relu(self.fc1(x.transpose(1, 2)).transpose(1, 2))))


class CrossFromTheStart(PlainDecoderLayer):
    """The query of the cross-attention is what came in, and the first attention's sum is dropped."""

    def forward(
        self, x: Tensor, enc_out: Tensor, x_mask: Tensor | None = None, enc_mask: Tensor | None = None
    ) -> Tensor:
        y = self.ln1(x + self.drop(self.self_attn(x, x, self.own_mask(x, x_mask))))
        y = self.ln2(x + self.drop(self.cross_attn(x, enc_out, self.memory_mask(enc_mask))))
        return self.ln3(y + self.drop(self.feed_forward(y)))
