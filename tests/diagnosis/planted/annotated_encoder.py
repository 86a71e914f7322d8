"""An encoder in the style of The Annotated Transformer, and one mistake in each class below it.

`keep[b, s]` is True for a real token and False for padding.
"""

from __future__ import annotations

import copy
import math

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn.functional import relu


def clones(module: nn.Module, N: int) -> nn.ModuleList:
    return nn.ModuleList([copy.deepcopy(module) for _ in range(N)])


class LayerNorm(nn.Module):
    def __init__(self, features: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.a_2 = nn.Parameter(torch.ones(features))
        self.b_2 = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True)
        return self.a_2 * (x - mean) / (std + self.eps) + self.b_2


class SublayerConnection(nn.Module):
    norm_class: type[nn.Module] = LayerNorm

    def __init__(self, size: int, dropout: float) -> None:
        super().__init__()
        self.norm = self.norm_class(size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, sublayer: nn.Module) -> Tensor:
        return x + self.dropout(sublayer(self.norm(x)))


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    return torch.matmul(p_attn, value), p_attn


class MultiHeadedAttention(nn.Module):
    def __init__(self, h: int, d_model: int) -> None:
        super().__init__()
        assert d_model % h == 0
        self.d_k = d_model // h
        self.h = h
        self.linears = clones(nn.Linear(d_model, d_model), 4)
        self.attn: Tensor | None = None

    def attention(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        return attention(query, key, value, mask=mask)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            mask = mask.unsqueeze(1)  # the same for all heads
        nbatches = query.size(0)
        query, key, value = [
            lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value), strict=False)
        ]
        x, self.attn = self.attention(query, key, value, mask)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.linears[-1](x)


class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.w_2(self.dropout(relu(self.w_1(x))))


class PositionalEncoding(nn.Module):
    def __init__(self, d_model: int, dropout: float, max_len: int = 128) -> None:
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x + self.pe[:, : x.size(1)])


class EncoderLayer(nn.Module):
    connection: type[SublayerConnection] = SublayerConnection

    def __init__(self, size: int, self_attn: nn.Module, feed_forward: nn.Module, dropout: float) -> None:
        super().__init__()
        self.self_attn = self_attn
        self.feed_forward = feed_forward
        self.sublayer = clones(self.connection(size, dropout), 2)
        self.size = size

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, mask))
        return self.sublayer[1](x, self.feed_forward)


class Encoder(nn.Module):
    attention: type[MultiHeadedAttention] = MultiHeadedAttention
    feed_forward: type[nn.Module] = PositionwiseFeedForward
    layer: type[EncoderLayer] = EncoderLayer

    def __init__(
        self, vocab: int = 32, N: int = 2, d_model: int = 32, d_ff: int = 64, h: int = 2, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.d_model = d_model
        self.lut = nn.Embedding(vocab, d_model)
        self.position = PositionalEncoding(d_model, dropout)
        attn, ff = self.attention(h, d_model), self.feed_forward(d_model, d_ff, dropout)
        self.layers = clones(self.layer(d_model, attn, ff, dropout), N)
        self.norm = LayerNorm(d_model)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def embed(self, tokens: Tensor) -> Tensor:
        return self.position(self.lut(tokens) * math.sqrt(self.d_model))

    def make_mask(self, keep: Tensor) -> Tensor:
        return keep.unsqueeze(-2)  # (B, 1, S): for every query the same keys

    def forward(self, tokens: Tensor, keep: Tensor | None = None) -> Tensor:
        mask = None if keep is None else self.make_mask(keep)
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


# Padding -------------------------------------------------------------------------------------------------------------


class MaskUnusedEncoder(Encoder):
    """keep is taken, and never handed on."""

    def forward(self, tokens: Tensor, keep: Tensor | None = None) -> Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, None)
        return self.norm(x)


class FirstLayerOnlyEncoder(Encoder):
    """Only the first layer is given the mask."""

    def forward(self, tokens: Tensor, keep: Tensor | None = None) -> Tensor:
        mask = None if keep is None else self.make_mask(keep)
        x = self.layers[0](self.embed(tokens), mask)
        for layer in self.layers[1:]:
            x = layer(x, None)
        return self.norm(x)


class InvertedMaskEncoder(Encoder):
    """The mask says where the padding is; the attention reads it as where the words are."""

    def make_mask(self, keep: Tensor) -> Tensor:
        is_padding = ~keep
        return is_padding.unsqueeze(-2)


class QueryAxisMaskEncoder(Encoder):
    """unsqueeze(-1): the rows of padding are blanked, the columns stay open."""

    def make_mask(self, keep: Tensor) -> Tensor:
        return keep.unsqueeze(-1)  # (B, S, 1)


class MultipliedMaskAttention(MultiHeadedAttention):
    """Scores times mask: a score of 0 is no less likely than any other."""

    def attention(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
        if mask is not None:
            scores = scores * mask
        p_attn = scores.softmax(dim=-1)
        return torch.matmul(p_attn, value), p_attn


class MultipliedMaskEncoder(Encoder):
    attention = MultipliedMaskAttention


class SmallNumberAttention(MultiHeadedAttention):
    """-1e-9 where -1e9 was meant."""

    def attention(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e-9)
        p_attn = scores.softmax(dim=-1)
        return torch.matmul(p_attn, value), p_attn


class SmallNumberEncoder(Encoder):
    attention = SmallNumberAttention


# Positions -----------------------------------------------------------------------------------------------------------


class NoPositionsEncoder(Encoder):
    """A bag of words."""

    def embed(self, tokens: Tensor) -> Tensor:
        return self.lut(tokens) * math.sqrt(self.d_model)


class BatchPositionsEncoder(Encoder):
    """The encoding was written for (length, batch, d_model) and is used on (batch, length, d_model)."""

    def embed(self, tokens: Tensor) -> Tensor:
        x = self.lut(tokens) * math.sqrt(self.d_model)
        return self.position.dropout(x + self.position.pe[0, : x.size(0)].unsqueeze(1))


# Inside the layers ---------------------------------------------------------------------------------------------------


class ValuesByKeyMatrixAttention(MultiHeadedAttention):
    """v is made with the matrix of k."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            mask = mask.unsqueeze(1)
        nbatches = query.size(0)
        query = self.linears[0](query).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
        key = self.linears[1](key).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
        value = self.linears[1](value).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
        x, self.attn = self.attention(query, key, value, mask)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.linears[-1](x)


class ValuesByKeyMatrixEncoder(Encoder):
    attention = ValuesByKeyMatrixAttention


class HeadAxisSoftmaxAttention(MultiHeadedAttention):
    """softmax(dim=1) is the axis of the heads."""

    def attention(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        p_attn = scores.softmax(dim=1)
        return torch.matmul(p_attn, value), p_attn


class HeadAxisSoftmaxEncoder(Encoder):
    attention = HeadAxisSoftmaxAttention


class NormOverSentence(LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(1, keepdim=True)
        std = x.std(1, keepdim=True)
        return self.a_2 * (x - mean) / (std + self.eps) + self.b_2


class NormOverSentenceConnection(SublayerConnection):
    norm_class = NormOverSentence


class NormOverSentenceLayer(EncoderLayer):
    connection = NormOverSentenceConnection


class NormOverSentenceEncoder(Encoder):
    """Mean and deviation are taken over dim 1, the words."""

    layer = NormOverSentenceLayer


class NormOverBatch(LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(0, keepdim=True)
        std = x.std(0, keepdim=True, unbiased=False)
        return self.a_2 * (x - mean) / (std + self.eps) + self.b_2


class NormOverBatchConnection(SublayerConnection):
    norm_class = NormOverBatch


class NormOverBatchLayer(EncoderLayer):
    connection = NormOverBatchConnection


class NormOverBatchEncoder(Encoder):
    """Mean and deviation are taken over dim 0, the sentences of the batch."""

    layer = NormOverBatchLayer


class NoResidualConnection(SublayerConnection):
    def forward(self, x: Tensor, sublayer: nn.Module) -> Tensor:
        return self.dropout(sublayer(self.norm(x)))


class NoResidualLayer(EncoderLayer):
    connection = NoResidualConnection


class NoResidualEncoder(Encoder):
    """The x + of the sublayer connection is missing."""

    layer = NoResidualLayer


class SharedLayerEncoder(Encoder):
    """clones without deepcopy: one layer, listed N times."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([self.layers[0] for _ in range(len(self.layers))])


class WordMixingFeedForward(PositionwiseFeedForward):
    """A running mean over three words was added to smooth the input."""

    def forward(self, x: Tensor) -> Tensor:
        left = torch.roll(x, 1, dims=1)
        right = torch.roll(x, -1, dims=1)
        return super().forward((left + x + right) / 3)


class WordMixingEncoder(Encoder):
    feed_forward = WordMixingFeedForward
