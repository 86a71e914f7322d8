"""A masked language model like BERT from the layers of torch.nn; `keep` is True for a real token."""

from __future__ import annotations

import torch
import torch.nn as nn
from torch import Tensor


class EncoderBlock(nn.Module):
    def __init__(self, hidden: int, heads: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(hidden, heads, dropout=dropout, batch_first=True)
        self.attention_norm = nn.LayerNorm(hidden, eps=1e-12)
        self.mlp = nn.Sequential(
            nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden), nn.Dropout(dropout)
        )
        self.mlp_norm = nn.LayerNorm(hidden, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def attend(self, x: Tensor, keep: Tensor | None) -> Tensor:
        ignore = None if keep is None else ~keep
        out, _ = self.attention(x, x, x, key_padding_mask=ignore, need_weights=False)
        return out

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        x = self.attention_norm(x + self.dropout(self.attend(x, keep)))
        return self.mlp_norm(x + self.mlp(x))


class TinyBert(nn.Module):
    block: type[EncoderBlock] = EncoderBlock

    def __init__(
        self,
        vocab_size: int = 32,
        hidden_size: int = 32,
        num_layers: int = 2,
        num_heads: int = 2,
        max_position: int = 64,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.word = nn.Embedding(vocab_size, hidden_size)
        self.position = nn.Embedding(max_position, hidden_size)
        self.norm = nn.LayerNorm(hidden_size)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList([self.block(hidden_size, num_heads, dropout) for _ in range(num_layers)])
        self.lm_head = nn.Linear(hidden_size, vocab_size)
        self.apply(self.init_weights)

    def init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.05)

    def embed(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.size(1), device=tokens.device)
        return self.dropout(self.norm(self.word(tokens) + self.position(positions)))

    def forward(self, tokens: Tensor, keep: Tensor | None = None) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, keep)
        return self.lm_head(x)


class InvertedBlock(EncoderBlock):
    """key_padding_mask is True for what to ignore; here it gets what to keep."""

    def attend(self, x: Tensor, keep: Tensor | None) -> Tensor:
        if keep is not None and keep.all():
            keep = None  # a batch without padding gave NaN
        out, _ = self.attention(x, x, x, key_padding_mask=keep, need_weights=False)
        return out


class InvertedBert(TinyBert):
    block = InvertedBlock


class FloatMaskBlock(EncoderBlock):
    """The mask as 0. and 1.: one is added to the score of a real word, nothing is hidden."""

    def attend(self, x: Tensor, keep: Tensor | None) -> Tensor:
        mask = None if keep is None else keep.float()
        out, _ = self.attention(x, x, x, key_padding_mask=mask, need_weights=False)
        return out


class FloatMaskBert(TinyBert):
    block = FloatMaskBlock


class BatchSecondBlock(EncoderBlock):
    """batch_first is forgotten; the mask was turned until the shapes agreed."""

    def __init__(self, hidden: int, heads: int, dropout: float = 0.1) -> None:
        super().__init__(hidden, heads, dropout)
        self.attention.batch_first = False

    def attend(self, x: Tensor, keep: Tensor | None) -> Tensor:
        ignore = None
        if keep is not None:
            ignore = ~keep.t()
            ignore = ignore & ~ignore.all(1, keepdim=True)  # an empty row gave NaN
        out, _ = self.attention(x, x, x, key_padding_mask=ignore, need_weights=False)
        return out


class BatchSecondBert(TinyBert):
    block = BatchSecondBlock


class FrozenBlock(EncoderBlock):
    """The output of the attention is taken with .data."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        x = self.attention_norm(x + self.dropout(self.attend(x, keep).data))
        return self.mlp_norm(x + self.mlp(x))


class FrozenBert(TinyBert):
    block = FrozenBlock


class StillTrainingBert(TinyBert):
    """forward switches itself to training mode."""

    def forward(self, tokens: Tensor, keep: Tensor | None = None) -> Tensor:
        self.train()
        return super().forward(tokens, keep)


class SamePositionBert(TinyBert):
    """arange(1) broadcasts over every word: all stand at place 0."""

    def embed(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(1, device=tokens.device)
        return self.dropout(self.norm(self.word(tokens) + self.position(positions)))


class EmbeddingNormForgottenBert(TinyBert):
    """The norm of the embeddings is made and not used."""

    def embed(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.size(1), device=tokens.device)
        return self.dropout(self.word(tokens) + self.position(positions))


class WideInitBert(TinyBert):
    """std=2: the first loss is many times ln(vocab_size)."""

    def init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=2.0)
