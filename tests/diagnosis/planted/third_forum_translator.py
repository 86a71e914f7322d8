"""nn.Transformer with embeddings around it, as forum threads have it; 0 is padding.

`ForumTranslator` gives the logits of a target; `TeacherForced` takes the whole target and shifts it itself.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class PositionalEncoding(nn.Module):
    def __init__(self, emb_size: int, dropout: float, maxlen: int = 64) -> None:
        super().__init__()
        den = torch.exp(-torch.arange(0, emb_size, 2) * math.log(10000) / emb_size)
        pos = torch.arange(0, maxlen).reshape(maxlen, 1)
        pos_embedding = torch.zeros((maxlen, emb_size))
        pos_embedding[:, 0::2] = torch.sin(pos * den)
        pos_embedding[:, 1::2] = torch.cos(pos * den)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("pos_embedding", pos_embedding.unsqueeze(0))

    def forward(self, token_embedding: Tensor) -> Tensor:
        return self.dropout(token_embedding + self.pos_embedding[:, : token_embedding.size(1)])


class ForumTranslator(nn.Module):
    def __init__(self, vocab: int = 32, emb_size: int = 32, nhead: int = 2, dropout: float = 0.1) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(emb_size, nhead, 2 * emb_size, dropout, batch_first=True)
        self.transformer = nn.Transformer(
            emb_size,
            nhead,
            num_decoder_layers=2,
            dim_feedforward=2 * emb_size,
            dropout=dropout,
            custom_encoder=nn.TransformerEncoder(layer, 2, nn.LayerNorm(emb_size), enable_nested_tensor=False),
            batch_first=True,
        )
        self.generator = nn.Linear(emb_size, vocab)
        self.src_tok_emb = nn.Embedding(vocab, emb_size)
        self.tgt_tok_emb = nn.Embedding(vocab, emb_size)
        self.positional_encoding = PositionalEncoding(emb_size, dropout)

    def causal(self, size: int) -> Tensor:
        return torch.triu(torch.ones(size, size), diagonal=1).bool()

    def run(self, src: Tensor, tgt: Tensor, src_pad: Tensor, tgt_pad: Tensor) -> Tensor:
        return self.transformer(
            src,
            tgt,
            tgt_mask=self.causal(tgt.size(1)),
            src_key_padding_mask=src_pad,
            tgt_key_padding_mask=tgt_pad,
            memory_key_padding_mask=src_pad,
        )

    def decode(self, src: Tensor, tgt: Tensor) -> Tensor:
        src_emb = self.positional_encoding(self.src_tok_emb(src))
        tgt_emb = self.positional_encoding(self.tgt_tok_emb(tgt))
        return self.generator(self.run(src_emb, tgt_emb, src == 0, tgt == 0))

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return self.decode(src, tgt)


class TeacherForced(ForumTranslator):
    """Logits for all words of `trg` but the first, and their loss."""

    def forward(self, src: Tensor, trg: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        trg_input = trg[:, :-1]
        trg_output = trg[:, 1:]
        logits = self.decode(src, trg_input)
        return logits, F.cross_entropy(logits.flatten(0, 1), trg_output.flatten(), ignore_index=0)


# Masks ---------------------------------------------------------------------------------------------------------------


class NoTargetMaskTranslator(ForumTranslator):
    """nn.Transformer makes no mask by itself."""

    def run(self, src: Tensor, tgt: Tensor, src_pad: Tensor, tgt_pad: Tensor) -> Tensor:
        return self.transformer(
            src, tgt, src_key_padding_mask=src_pad, tgt_key_padding_mask=tgt_pad, memory_key_padding_mask=src_pad
        )


class MemoryPaddingReadTranslator(ForumTranslator):
    """The source's padding is hidden from the encoder, and from nobody else."""

    def run(self, src: Tensor, tgt: Tensor, src_pad: Tensor, tgt_pad: Tensor) -> Tensor:
        mask = self.causal(tgt.size(1))
        return self.transformer(src, tgt, tgt_mask=mask, src_key_padding_mask=src_pad, tgt_key_padding_mask=tgt_pad)


class TriangleForSourceTranslator(ForumTranslator):
    """A src_mask like the tgt_mask: the encoder hears only what was before."""

    def run(self, src: Tensor, tgt: Tensor, src_pad: Tensor, tgt_pad: Tensor) -> Tensor:
        return self.transformer(
            src,
            tgt,
            src_mask=self.causal(src.size(1)),
            tgt_mask=self.causal(tgt.size(1)),
            src_key_padding_mask=src_pad,
            tgt_key_padding_mask=tgt_pad,
            memory_key_padding_mask=src_pad,
        )


class SourcePaddingTwiceTranslator(ForumTranslator):
    """The source's padding, hidden in the target."""

    def run(self, src: Tensor, tgt: Tensor, src_pad: Tensor, tgt_pad: Tensor) -> Tensor:
        return self.transformer(
            src,
            tgt,
            tgt_mask=self.causal(tgt.size(1)),
            src_key_padding_mask=src_pad,
            tgt_key_padding_mask=src_pad,
            memory_key_padding_mask=src_pad,
        )


# Targets -------------------------------------------------------------------------------------------------------------


class AskedForItsInput(TeacherForced):
    """Input and output are cut alike."""

    def forward(self, src: Tensor, trg: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        trg_input = trg[:, :-1]
        trg_output = trg[:, :-1]
        logits = self.decode(src, trg_input)
        return logits, F.cross_entropy(logits.flatten(0, 1), trg_output.flatten(), ignore_index=0)


class AskedForThePast(TeacherForced):
    """The two cuts are exchanged."""

    def forward(self, src: Tensor, trg: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        trg_input = trg[:, 1:]
        trg_output = trg[:, :-1]
        logits = self.decode(src, trg_input)
        return logits, F.cross_entropy(logits.flatten(0, 1), trg_output.flatten(), ignore_index=0)


class AskedForPadding(TeacherForced):
    """The loss has no ignore_index."""

    def forward(self, src: Tensor, trg: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        trg_input = trg[:, :-1]
        trg_output = trg[:, 1:]
        logits = self.decode(src, trg_input)
        return logits, F.cross_entropy(logits.flatten(0, 1), trg_output.flatten())


class AnotherWordIgnored(TeacherForced):
    """1 was the padding of another tokenizer."""

    def forward(self, src: Tensor, trg: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        trg_input = trg[:, :-1]
        trg_output = trg[:, 1:]
        logits = self.decode(src, trg_input)
        return logits, F.cross_entropy(logits.flatten(0, 1), trg_output.flatten(), ignore_index=1)
