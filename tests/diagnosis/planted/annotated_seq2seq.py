"""The encoder-decoder of the paper, written by hand, and one mistake in each class below it.

`target` is what the decoder reads (it begins with the start token); logits[b, t] are for the token after target[b, t].
A keep mask is True for a real token.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def subsequent_mask(size: int) -> Tensor:
    return torch.tril(torch.ones(1, 1, size, size, dtype=torch.bool))


def positional_encoding(length: int, d_model: int) -> Tensor:
    pos = torch.arange(length, dtype=torch.float).unsqueeze(1)
    i = torch.arange(0, d_model, 2, dtype=torch.float)
    angle = pos / torch.pow(torch.tensor(10000.0), i / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.d_k = d_model // n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), self.n_heads, self.d_k).transpose(1, 2)

    def combine(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).reshape(x.size(0), x.size(2), self.n_heads * self.d_k)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.split(self.w_q(q)), self.split(self.w_k(k)), self.split(self.w_v(v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        return self.w_o(self.combine(torch.softmax(scores, dim=-1) @ v))


class FeedForward(nn.Sequential):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))


class EncoderLayer(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, n_heads)
        self.ffn = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.norm1(x + self.drop(self.self_attn(x, x, x, mask)))
        return self.norm2(x + self.drop(self.ffn(x)))


class DecoderLayer(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, n_heads)
        self.cross_attn = MultiHeadAttention(d_model, n_heads)
        self.ffn = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def cross(self, x: Tensor, memory: Tensor, memory_mask: Tensor | None) -> Tensor:
        return self.cross_attn(x, memory, memory, memory_mask)

    def forward(self, x: Tensor, memory: Tensor, target_mask: Tensor, memory_mask: Tensor | None) -> Tensor:
        x = self.norm1(x + self.drop(self.self_attn(x, x, x, target_mask)))
        x = self.norm2(x + self.drop(self.cross(x, memory, memory_mask)))
        return self.norm3(x + self.drop(self.ffn(x)))


class AnnotatedSeq2Seq(nn.Module):
    encoder_layer: type[EncoderLayer] = EncoderLayer
    decoder_layer: type[DecoderLayer] = DecoderLayer

    def __init__(
        self,
        vocab_size: int = 32,
        d_model: int = 32,
        n_heads: int = 2,
        n_layers: int = 2,
        d_ff: int = 64,
        dropout: float = 0.1,
        share_weights: bool = True,
        max_len: int = 128,
    ) -> None:
        super().__init__()
        self.d_model = d_model
        self.share_weights = share_weights
        self.source_embed = nn.Embedding(vocab_size, d_model)
        self.target_embed = nn.Embedding(vocab_size, d_model)
        self.register_buffer("pe", positional_encoding(max_len, d_model), persistent=False)
        self.encoder = nn.ModuleList(self.encoder_layer(d_model, n_heads, d_ff, dropout) for _ in range(n_layers))
        self.decoder = nn.ModuleList(self.decoder_layer(d_model, n_heads, d_ff, dropout) for _ in range(n_layers))
        self.out = nn.Linear(d_model, vocab_size, bias=False)
        self.drop = nn.Dropout(dropout)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
        for embedding in (self.source_embed, self.target_embed):
            nn.init.normal_(embedding.weight, std=d_model**-0.5)
        if share_weights:
            self.share()

    def share(self) -> None:
        self.source_embed.weight = self.target_embed.weight
        self.out.weight = self.target_embed.weight

    def embed(self, table: nn.Embedding, tokens: Tensor) -> Tensor:
        x = table(tokens) * math.sqrt(self.d_model)
        return self.drop(x + self.pe[: tokens.size(1)])

    def target_mask(self, target: Tensor, target_keep: Tensor | None) -> Tensor:
        mask = subsequent_mask(target.size(1)).to(target.device)
        if target_keep is not None:
            mask = mask & target_keep[:, None, None, :]
        return mask

    def encode(self, source: Tensor, source_mask: Tensor | None) -> Tensor:
        x = self.embed(self.source_embed, source)
        for layer in self.encoder:
            x = layer(x, source_mask)
        return x

    def decode(self, target: Tensor, memory: Tensor, target_mask: Tensor, source_mask: Tensor | None) -> Tensor:
        x = self.embed(self.target_embed, target)
        for layer in self.decoder:
            x = layer(x, memory, target_mask, source_mask)
        return x

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_keep: Tensor | None = None,
        target_keep: Tensor | None = None,
    ) -> Tensor:
        source_mask = None if source_keep is None else source_keep[:, None, None, :]
        memory = self.encode(source, source_mask)
        return self.out(self.decode(target, memory, self.target_mask(target, target_keep), source_mask))


class LogProbsSeq2Seq(AnnotatedSeq2Seq):
    """Log-probabilities out, as in The Annotated Transformer: their softmax is the same, so nothing is wrong."""

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_keep: Tensor | None = None,
        target_keep: Tensor | None = None,
    ) -> Tensor:
        return super().forward(source, target, source_keep, target_keep).log_softmax(-1)


# Masks ---------------------------------------------------------------------------------------------------------------


class CrossUnmaskedSeq2Seq(AnnotatedSeq2Seq):
    """The source mask reaches the encoder, but not the decoder's second attention."""

    def decode(self, target: Tensor, memory: Tensor, target_mask: Tensor, source_mask: Tensor | None) -> Tensor:
        x = self.embed(self.target_embed, target)
        for layer in self.decoder:
            x = layer(x, memory, target_mask, None)
        return x


class EncoderUnmaskedSeq2Seq(AnnotatedSeq2Seq):
    """The source mask reaches the cross-attention, but not the encoder."""

    def encode(self, source: Tensor, source_mask: Tensor | None) -> Tensor:
        return super().encode(source, None)


class TargetPaddingSeq2Seq(AnnotatedSeq2Seq):
    """The target has its triangle, and its padding stays visible."""

    def target_mask(self, target: Tensor, target_keep: Tensor | None) -> Tensor:
        return subsequent_mask(target.size(1)).to(target.device)


class OrMaskSeq2Seq(AnnotatedSeq2Seq):
    """Triangle OR padding: as soon as a keep mask is given, every real token is visible, the future too."""

    def target_mask(self, target: Tensor, target_keep: Tensor | None) -> Tensor:
        mask = subsequent_mask(target.size(1)).to(target.device)
        if target_keep is not None:
            mask = mask | target_keep[:, None, None, :]
        return mask


class PaddingOnlySeq2Seq(AnnotatedSeq2Seq):
    """The triangle is built only if there is no padding mask."""

    def target_mask(self, target: Tensor, target_keep: Tensor | None) -> Tensor:
        if target_keep is not None:
            return target_keep[:, None, None, :]
        return torch.ones(1, 1, target.size(1), target.size(1), dtype=torch.bool)


class OneTooManySeq2Seq(AnnotatedSeq2Seq):
    """The triangle of the decoder reaches one token too far."""

    def target_mask(self, target: Tensor, target_keep: Tensor | None) -> Tensor:
        mask = torch.ones(1, 1, target.size(1), target.size(1), dtype=torch.bool).tril(1)
        if target_keep is not None:
            mask = mask & target_keep[:, None, None, :]
        return mask


class SecondLayerOpenSeq2Seq(AnnotatedSeq2Seq):
    """The triangle is applied in the first decoder layer only."""

    def decode(self, target: Tensor, memory: Tensor, target_mask: Tensor, source_mask: Tensor | None) -> Tensor:
        x = self.embed(self.target_embed, target)
        for i, layer in enumerate(self.decoder):
            mask = target_mask if i == 0 else torch.ones_like(target_mask)
            x = layer(x, memory, mask, source_mask)
        return x


class CrossTriangleSeq2Seq(AnnotatedSeq2Seq):
    """The cross-attention is causal too: word t of the target sees t words of the source."""

    def decode(self, target: Tensor, memory: Tensor, target_mask: Tensor, source_mask: Tensor | None) -> Tensor:
        mask = torch.ones(target.size(1), memory.size(1), dtype=torch.bool).tril()
        if source_mask is not None:
            mask = mask & source_mask
        return super().decode(target, memory, target_mask, mask)


# Cross-attention -----------------------------------------------------------------------------------------------------


class SelfTwiceLayer(DecoderLayer):
    def cross(self, x: Tensor, memory: Tensor, memory_mask: Tensor | None) -> Tensor:
        return self.cross_attn(x, x, x)


class SelfTwiceSeq2Seq(AnnotatedSeq2Seq):
    """The second attention of the decoder looks at the decoder again: source and triangle are both lost."""

    decoder_layer = SelfTwiceLayer


class SkippedCrossLayer(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, target_mask: Tensor, memory_mask: Tensor | None) -> Tensor:
        x = self.norm1(x + self.drop(self.self_attn(x, x, x, target_mask)))
        return self.norm3(x + self.drop(self.ffn(x)))


class SkippedCrossSeq2Seq(AnnotatedSeq2Seq):
    """The cross-attention is made and never called: a language model that does not read the source."""

    decoder_layer = SkippedCrossLayer


class QueryFromMemoryLayer(DecoderLayer):
    def cross(self, x: Tensor, memory: Tensor, memory_mask: Tensor | None) -> Tensor:
        return self.cross_attn(memory, x, x)


class QueryFromMemorySeq2Seq(AnnotatedSeq2Seq):
    """The source asks and the target answers; it even runs if both have the same length."""

    decoder_layer = QueryFromMemoryLayer


class EmbeddingAsMemorySeq2Seq(AnnotatedSeq2Seq):
    """The loop over the encoder assigns to another name: the memory is the bare embedding."""

    def encode(self, source: Tensor, source_mask: Tensor | None) -> Tensor:
        x = self.embed(self.source_embed, source)
        for layer in self.encoder:
            _ = layer(x, source_mask)
        return x


class DetachedMemorySeq2Seq(AnnotatedSeq2Seq):
    """The source is encoded under no_grad, as when translating: the encoder never learns."""

    @torch.no_grad()
    def encode(self, source: Tensor, source_mask: Tensor | None) -> Tensor:
        return super().encode(source, source_mask)


class AveragedMemorySeq2Seq(AnnotatedSeq2Seq):
    """The memory is pooled to one vector first, with the padding in the mean; nothing is left to choose from."""

    def encode(self, source: Tensor, source_mask: Tensor | None) -> Tensor:
        x = super().encode(source, source_mask)
        return x.mean(1, keepdim=True).expand_as(x)


# The rest ------------------------------------------------------------------------------------------------------------


class NoTargetPositionsSeq2Seq(AnnotatedSeq2Seq):
    """Positions are added to the source only."""

    def decode(self, target: Tensor, memory: Tensor, target_mask: Tensor, source_mask: Tensor | None) -> Tensor:
        x = self.drop(self.target_embed(target) * math.sqrt(self.d_model))
        for layer in self.decoder:
            x = layer(x, memory, target_mask, source_mask)
        return x


class NoSourcePositionsSeq2Seq(AnnotatedSeq2Seq):
    """Positions are added to the target only: the source is a bag of words."""

    def encode(self, source: Tensor, source_mask: Tensor | None) -> Tensor:
        x = self.drop(self.source_embed(source) * math.sqrt(self.d_model))
        for layer in self.encoder:
            x = layer(x, source_mask)
        return x


class ShiftedInsideSeq2Seq(AnnotatedSeq2Seq):
    """The target comes with its start token and is moved right once more."""

    def decode(self, target: Tensor, memory: Tensor, target_mask: Tensor, source_mask: Tensor | None) -> Tensor:
        start = torch.ones_like(target[:, :1])
        target = torch.cat([start, target[:, :-1]], dim=1)
        return super().decode(target, memory, target_mask, source_mask)


class CopiedWeightsSeq2Seq(AnnotatedSeq2Seq):
    """share_weights copies the values of one table into the others."""

    def share(self) -> None:
        self.source_embed.weight.data = self.target_embed.weight.data.clone()
        self.out.weight.data = self.target_embed.weight.data.clone()


class ProbabilitiesSeq2Seq(AnnotatedSeq2Seq):
    """Probabilities go out under the name of logits."""

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_keep: Tensor | None = None,
        target_keep: Tensor | None = None,
    ) -> Tensor:
        return super().forward(source, target, source_keep, target_keep).softmax(-1)


class HugeEmbeddingSeq2Seq(AnnotatedSeq2Seq):
    """The tables keep std 1, are multiplied by sqrt(d_model), and are the output matrix as well."""

    def share(self) -> None:
        nn.init.normal_(self.target_embed.weight)
        super().share()
