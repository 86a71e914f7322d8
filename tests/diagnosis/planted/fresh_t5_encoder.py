"""T5's encoder with its buckets of distances, RMS norms and gated feed-forward; `mask` is 1 for a real token.

Gives states (B, T, D). The scores are scaled here, unlike in T5 itself.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def relative_position_bucket(relative: Tensor, bidirectional: bool, num_buckets: int, max_distance: int) -> Tensor:
    """The bucket of key - query: one each for near ones, wider and wider ones after that."""
    buckets = torch.zeros_like(relative)
    if bidirectional:
        num_buckets //= 2
        buckets = buckets + (relative > 0).long() * num_buckets
        relative = relative.abs()
    else:
        relative = (-relative).clamp(min=0)
    exact = num_buckets // 2
    far = torch.log(relative.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    far = (exact + (far * (num_buckets - exact)).long()).clamp(max=num_buckets - 1)
    return buckets + torch.where(relative < exact, relative, far)


class T5Norm(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class T5Block(nn.Module):
    norm: type[T5Norm] = T5Norm

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.q = nn.Linear(d_model, d_model, bias=False)
        self.k = nn.Linear(d_model, d_model, bias=False)
        self.v = nn.Linear(d_model, d_model, bias=False)
        self.o = nn.Linear(d_model, d_model, bias=False)
        self.wi_0 = nn.Linear(d_model, d_ff, bias=False)
        self.wi_1 = nn.Linear(d_model, d_ff, bias=False)
        self.wo = nn.Linear(d_ff, d_model, bias=False)
        self.norm_1 = self.norm(d_model)
        self.norm_2 = self.norm(d_model)
        self.dropout = nn.Dropout(dropout)

    def attend(self, x: Tensor, bias: Tensor) -> Tensor:
        q, k, v = (m(x).unflatten(-1, (self.num_heads, -1)) for m in (self.q, self.k, self.v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.size(-1) ** 0.5 + bias
        return self.o(torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).flatten(-2))

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.wo(self.dropout(F.gelu(self.wi_0(x)) * self.wi_1(x)))

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        x = x + self.dropout(self.attend(self.norm_1(x), bias))
        return x + self.dropout(self.feed_forward(self.norm_2(x)))


class T5Encoder(nn.Module):
    block: type[T5Block] = T5Block
    bidirectional = True

    def __init__(
        self, vocab_size: int = 32, d_model: int = 32, num_heads: int = 4, num_layers: int = 2, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab_size, d_model)
        self.relative_attention_bias = nn.Embedding(16, num_heads)
        self.blocks = nn.ModuleList([self.block(d_model, num_heads, 2 * d_model, dropout) for _ in range(num_layers)])
        self.final_layer_norm = T5Norm(d_model)
        self.dropout = nn.Dropout(dropout)

    def position_bias(self, length: int) -> Tensor:
        place = torch.arange(length, device=self.embed_tokens.weight.device)
        buckets = relative_position_bucket(place[None, :] - place[:, None], self.bidirectional, 16, 32)
        return self.relative_attention_bias(buckets).permute(2, 0, 1).unsqueeze(0)  # (1, H, T, T)

    def bias(self, length: int, mask: Tensor | None) -> Tensor:
        bias = self.position_bias(length)
        if mask is not None:
            bias = bias + (1.0 - mask[:, None, None, :].float()) * -1e9
        return bias

    def forward(self, input_ids: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.dropout(self.embed_tokens(input_ids))
        bias = self.bias(input_ids.size(1), mask)
        for block in self.blocks:
            x = block(x, bias)
        return self.dropout(self.final_layer_norm(x))


class OneSidedBucketsT5(T5Encoder):
    """bidirectional=False in an encoder: everything to the right of a word is at distance 0."""

    bidirectional = False


class BiasOverwrittenT5(T5Encoder):
    """= where += was meant: as soon as there is a mask there are no positions."""

    def bias(self, length: int, mask: Tensor | None) -> Tensor:
        bias = self.position_bias(length)
        if mask is not None:
            bias = (1.0 - mask[:, None, None, :].float()) * -1e9
        return bias


class FirstRowsMaskT5(T5Encoder):
    """mask[0] lost the axis of the batch: the padding of the first sentence is taken for everyone's."""

    def bias(self, length: int, mask: Tensor | None) -> Tensor:
        bias = self.position_bias(length)
        if mask is not None:
            bias = bias + (1.0 - mask[0].float()) * -1e9
        return bias


class NoKeepdimNorm(T5Norm):
    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1) + 1e-6))


class NoKeepdimBlock(T5Block):
    norm = NoKeepdimNorm


class NoKeepdimT5(T5Encoder):
    """keepdim=True is missing in the norm: (B, T, D) times (B, T) does not fit, or fits the wrong way."""

    block = NoKeepdimBlock


class NormedStreamBlock(T5Block):
    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        x = self.norm_1(x)
        x = x + self.dropout(self.attend(x, bias))
        x = self.norm_2(x)
        return x + self.dropout(self.feed_forward(x))


class NormedStreamT5(T5Encoder):
    """What is added to is the normed value."""

    block = NormedStreamBlock


class GateOverWordsBlock(T5Block):
    def feed_forward(self, x: Tensor) -> Tensor:
        return self.wo(self.dropout(self.wi_0(x).softmax(dim=1) * self.wi_1(x)))


class GateOverWordsT5(T5Encoder):
    """The gate is a softmax over dim 1, the words: in the feed-forward, a word learns of all others."""

    block = GateOverWordsBlock


class DropoutAsFunctionBlock(T5Block):
    def attend(self, x: Tensor, bias: Tensor) -> Tensor:
        q, k, v = (m(x).unflatten(-1, (self.num_heads, -1)) for m in (self.q, self.k, self.v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.size(-1) ** 0.5 + bias
        weights = F.dropout(scores.softmax(-1), p=self.dropout.p, training=True)
        return self.o(torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(-2))


class WeightsAlwaysDroppedT5(T5Encoder):
    """training=True, not training=self.training, on the attention's weights."""

    block = DropoutAsFunctionBlock
