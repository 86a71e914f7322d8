"""torch's encoder and decoder with time first inside; padding masks (B, length), True for padding, as torch has them.

`model(src, tgt, src_padding_mask, tgt_padding_mask)` on (B, length) gives (B, length, vocab).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class PositionalEncoding(nn.Module):
    def __init__(self, emb_size: int, maxlen: int = 64) -> None:
        super().__init__()
        den = torch.exp(-torch.arange(0, emb_size, 2) * math.log(10000) / emb_size)
        pos = torch.arange(0, maxlen).reshape(maxlen, 1)
        table = torch.zeros(maxlen, emb_size)
        table[:, 0::2] = torch.sin(pos * den)
        table[:, 1::2] = torch.cos(pos * den)
        self.register_buffer("pos_embedding", table.unsqueeze(-2), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pos_embedding[: x.size(0)]


class TorchTranslator(nn.Module):
    def __init__(self, vocab: int = 32, emb_size: int = 32, nhead: int = 4, layers: int = 2, hid: int = 48) -> None:
        super().__init__()
        self.emb_size = emb_size
        self.src_tok_emb = nn.Embedding(vocab, emb_size)
        self.tgt_tok_emb = nn.Embedding(vocab, emb_size)
        self.positional_encoding = PositionalEncoding(emb_size)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(emb_size, nhead, hid, 0.1), layers, enable_nested_tensor=False
        )
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(emb_size, nhead, hid, 0.1), layers)
        self.generator = nn.Linear(emb_size, vocab)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def embed(self, table: nn.Embedding, tokens: Tensor) -> Tensor:
        return self.positional_encoding(table(tokens.t()) * math.sqrt(self.emb_size))

    def square_mask(self, size: int) -> Tensor:
        return torch.ones(size, size, dtype=torch.bool).triu(1)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_padding_mask: Tensor | None = None,
        tgt_padding_mask: Tensor | None = None,
    ) -> Tensor:
        memory = self.encoder(self.embed(self.src_tok_emb, src), src_key_padding_mask=src_padding_mask)
        outs = self.decoder(
            self.embed(self.tgt_tok_emb, tgt),
            memory,
            tgt_mask=self.square_mask(tgt.size(1)),
            tgt_key_padding_mask=tgt_padding_mask,
            memory_key_padding_mask=src_padding_mask,
        )
        return self.generator(outs).transpose(0, 1)


class MaskOfBatchSizeTranslator(TorchTranslator):
    """size(0) was the length when the tokens came with time first: the mask is as large as the batch, crash."""

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_padding_mask: Tensor | None = None,
        tgt_padding_mask: Tensor | None = None,
    ) -> Tensor:
        memory = self.encoder(self.embed(self.src_tok_emb, src), src_key_padding_mask=src_padding_mask)
        outs = self.decoder(
            self.embed(self.tgt_tok_emb, tgt),
            memory,
            tgt_mask=self.square_mask(tgt.size(0)),
            tgt_key_padding_mask=tgt_padding_mask,
            memory_key_padding_mask=src_padding_mask,
        )
        return self.generator(outs).transpose(0, 1)


class SourceTriangleTranslator(TorchTranslator):
    """The encoder is given a triangle too: a word of the source does not see the words after it."""

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_padding_mask: Tensor | None = None,
        tgt_padding_mask: Tensor | None = None,
    ) -> Tensor:
        memory = self.encoder(
            self.embed(self.src_tok_emb, src), self.square_mask(src.size(1)), src_key_padding_mask=src_padding_mask
        )
        outs = self.decoder(
            self.embed(self.tgt_tok_emb, tgt),
            memory,
            tgt_mask=self.square_mask(tgt.size(1)),
            tgt_key_padding_mask=tgt_padding_mask,
            memory_key_padding_mask=src_padding_mask,
        )
        return self.generator(outs).transpose(0, 1)


class MemoryMaskTurnedTranslator(TorchTranslator):
    """~ in front of the mask of the memory alone: the decoder reads the padding, and NaN where there is none."""

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_padding_mask: Tensor | None = None,
        tgt_padding_mask: Tensor | None = None,
    ) -> Tensor:
        memory = self.encoder(self.embed(self.src_tok_emb, src), src_key_padding_mask=src_padding_mask)
        outs = self.decoder(
            self.embed(self.tgt_tok_emb, tgt),
            memory,
            tgt_mask=self.square_mask(tgt.size(1)),
            tgt_key_padding_mask=tgt_padding_mask,
            memory_key_padding_mask=None if src_padding_mask is None else ~src_padding_mask,
        )
        return self.generator(outs).transpose(0, 1)


class SourceMaskTwiceTranslator(TorchTranslator):
    """tgt_key_padding_mask=src_padding_mask, copied from the line above; unequal lengths crash."""

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_padding_mask: Tensor | None = None,
        tgt_padding_mask: Tensor | None = None,
    ) -> Tensor:
        return super().forward(src, tgt, src_padding_mask, src_padding_mask)


class MemoryAsTargetTranslator(TorchTranslator):
    """decoder(memory, target): the source is the stream and reads the target, all of it."""

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_padding_mask: Tensor | None = None,
        tgt_padding_mask: Tensor | None = None,
    ) -> Tensor:
        memory = self.encoder(self.embed(self.src_tok_emb, src), src_key_padding_mask=src_padding_mask)
        outs = self.decoder(
            memory,
            self.embed(self.tgt_tok_emb, tgt),
            tgt_mask=self.square_mask(tgt.size(1)),
            tgt_key_padding_mask=src_padding_mask,
            memory_key_padding_mask=tgt_padding_mask,
        )
        return self.generator(outs).transpose(0, 1)


class ViewedBackTranslator(TorchTranslator):
    """reshape(B, T, V) of what is (T, B, V): answers are dealt out to the wrong sentences."""

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_padding_mask: Tensor | None = None,
        tgt_padding_mask: Tensor | None = None,
    ) -> Tensor:
        logits = super().forward(src, tgt, src_padding_mask, tgt_padding_mask)
        return logits.transpose(0, 1).reshape(logits.shape)


class RowsAsPlacesTranslator(TorchTranslator):
    """The table is cut and turned as if the batch were the length: a row of the batch is told its number."""

    def embed(self, table: nn.Embedding, tokens: Tensor) -> Tensor:
        x = table(tokens.t()) * math.sqrt(self.emb_size)
        return x + self.positional_encoding.pos_embedding[: x.size(1)].transpose(0, 1)


class LayersSharedTranslator(TorchTranslator):
    """The decoder's layers are put in a list by multiplication: one layer, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.decoder.layers = nn.ModuleList([self.decoder.layers[0]] * self.decoder.num_layers)
