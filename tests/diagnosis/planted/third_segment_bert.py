"""BERT as a much-forked repository writes it: the mask is made of the tokens (0 is padding), sublayers are wrapped.

With labels (-100 where there is none) the loss comes back behind the logits.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class BERTEmbedding(nn.Module):
    def __init__(self, vocab_size: int, embed_size: int, max_len: int = 64, dropout: float = 0.1) -> None:
        super().__init__()
        self.token = nn.Embedding(vocab_size, embed_size, padding_idx=0)
        self.segment = nn.Embedding(3, embed_size, padding_idx=0)
        self.position = nn.Embedding(max_len, embed_size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, sequence: Tensor, segment_label: Tensor) -> Tensor:
        positions = torch.arange(sequence.size(1), device=sequence.device).unsqueeze(0)
        x = self.token(sequence) + self.position(positions) + self.segment(segment_label)
        return self.dropout(x)


class MultiHeadedAttention(nn.Module):
    def __init__(self, h: int, d_model: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.d_k, self.h = d_model // h, h
        self.linear_layers = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(3)])
        self.output_linear = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), -1, self.h, self.d_k).transpose(1, 2)

    def hide(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(mask == 0, -1e9)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        query, key, value = (
            self.split(layer(x)) for layer, x in zip(self.linear_layers, (query, key, value), strict=True)
        )
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
        if mask is not None:
            scores = self.hide(scores, mask)
        x = torch.matmul(self.dropout(F.softmax(scores, dim=-1)), value)
        x = x.transpose(1, 2).contiguous().view(x.size(0), -1, self.h * self.d_k)
        return self.output_linear(x)


class SublayerConnection(nn.Module):
    def __init__(self, size: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return x + self.dropout(sublayer(self.norm(x)))


class TransformerBlock(nn.Module):
    attend: type[MultiHeadedAttention] = MultiHeadedAttention
    connection: type[SublayerConnection] = SublayerConnection

    def __init__(self, hidden: int, attn_heads: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.attention = self.attend(h=attn_heads, d_model=hidden)
        self.feed_forward = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden))
        self.input_sublayer = self.connection(hidden, dropout)
        self.output_sublayer = self.connection(hidden, dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.input_sublayer(x, lambda _x: self.attention(_x, _x, _x, mask=mask))
        return self.output_sublayer(x, self.feed_forward)


class SegmentBert(nn.Module):
    block: type[TransformerBlock] = TransformerBlock

    def __init__(self, vocab_size: int = 32, hidden: int = 32, n_layers: int = 2, attn_heads: int = 2) -> None:
        super().__init__()
        self.embedding = BERTEmbedding(vocab_size, hidden)
        self.transformer_blocks = self.stack(hidden, n_layers, attn_heads)
        self.mask_lm = nn.Linear(hidden, vocab_size)

    def stack(self, hidden: int, n_layers: int, attn_heads: int) -> nn.ModuleList:
        return nn.ModuleList([self.block(hidden, attn_heads) for _ in range(n_layers)])

    def mask(self, x: Tensor) -> Tensor:
        return (x > 0).unsqueeze(1).repeat(1, x.size(1), 1).unsqueeze(1)

    def run(self, x: Tensor, mask: Tensor) -> Tensor:
        for transformer in self.transformer_blocks:
            x = transformer(x, mask)
        return x

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits.transpose(1, 2), labels)

    def forward(
        self, x: Tensor, segment_info: Tensor | None = None, labels: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        mask = self.mask(x)
        if segment_info is None:
            segment_info = (x > 0).long()
        logits = self.mask_lm(self.run(self.embedding(x, segment_info), mask))
        if labels is None:
            return logits
        return logits, self.loss(logits, labels)


# Masks ---------------------------------------------------------------------------------------------------------------


class RowsMaskedBert(SegmentBert):
    """One axis too far: the rows of the padding are hidden, and not its columns."""

    def mask(self, x: Tensor) -> Tensor:
        return (x > 0).unsqueeze(2).repeat(1, 1, x.size(1)).unsqueeze(1)


class FillsTheRealAttention(MultiHeadedAttention):
    def hide(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(mask, -1e9)


class FillsTheRealBlock(TransformerBlock):
    attend = FillsTheRealAttention


class FillsTheRealBert(SegmentBert):
    """The `== 0` is missing."""

    block = FillsTheRealBlock


class ExponentSignAttention(MultiHeadedAttention):
    def hide(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(mask == 0, -1e-9)


class ExponentSignBlock(TransformerBlock):
    attend = ExponentSignAttention


class ExponentSignBert(SegmentBert):
    """-1e-9 is no large negative number."""

    block = ExponentSignBlock


class MaskStaysBehindBlock(TransformerBlock):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.input_sublayer(x, lambda _x: self.attention(_x, _x, _x))
        return self.output_sublayer(x, self.feed_forward)


class MaskStaysBehindBert(SegmentBert):
    """The block has the mask and does not hand it on."""

    block = MaskStaysBehindBlock


# The rest ------------------------------------------------------------------------------------------------------------


class SplitByViewAttention(MultiHeadedAttention):
    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), self.h, -1, self.d_k)


class SplitByViewBlock(TransformerBlock):
    attend = SplitByViewAttention


class SplitByViewBert(SegmentBert):
    """A view gives the shape that the transpose was for."""

    block = SplitByViewBlock


class NothingAddedConnection(SublayerConnection):
    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return self.dropout(sublayer(self.norm(x)))


class NothingAddedBlock(TransformerBlock):
    connection = NothingAddedConnection


class NothingAddedBert(SegmentBert):
    """A connection that connects nothing."""

    block = NothingAddedBlock


class TimesTheListBert(SegmentBert):
    """[block] * n is one block n times."""

    def stack(self, hidden: int, n_layers: int, attn_heads: int) -> nn.ModuleList:
        return nn.ModuleList([self.block(hidden, attn_heads)] * n_layers)


class AlwaysFromTheStartBert(SegmentBert):
    """Each block reads the embedding, so only the last one counts."""

    def run(self, x: Tensor, mask: Tensor) -> Tensor:
        for transformer in self.transformer_blocks:
            out = transformer(x, mask)
        return out


class MeanOfEverythingBert(SegmentBert):
    """Divided by all places, those without a label too."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        losses = F.cross_entropy(logits.transpose(1, 2), labels.clamp(min=0), reduction="none")
        return (losses * (labels != -100)).mean()
