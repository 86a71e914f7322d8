"""A translator around nn.Transformer, as most tutorials have it; masks of torch are True where NOT to look."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TorchSeq2Seq(nn.Module):
    batch_first = True

    def __init__(
        self,
        source_vocab: int = 32,
        target_vocab: int = 32,
        emb_size: int = 32,
        nhead: int = 2,
        num_layers: int = 2,
        dim_feedforward: int = 64,
        dropout: float = 0.1,
        max_len: int = 64,
    ) -> None:
        super().__init__()
        self.src_tok_emb = nn.Embedding(source_vocab, emb_size)
        self.tgt_tok_emb = nn.Embedding(target_vocab, emb_size)
        self.src_pos_emb = nn.Embedding(max_len, emb_size)
        self.tgt_pos_emb = nn.Embedding(max_len, emb_size)
        self.dropout = nn.Dropout(dropout)
        # built by hand, because nn.Transformer's own encoder warns about nested tensors
        encoder_layer = nn.TransformerEncoderLayer(
            emb_size, nhead, dim_feedforward, dropout, batch_first=self.batch_first
        )
        encoder = nn.TransformerEncoder(encoder_layer, num_layers, enable_nested_tensor=False)
        self.transformer = nn.Transformer(
            d_model=emb_size,
            nhead=nhead,
            num_decoder_layers=num_layers,
            dim_feedforward=dim_feedforward,
            dropout=dropout,
            custom_encoder=encoder,
            batch_first=self.batch_first,
        )
        self.generator = nn.Linear(emb_size, target_vocab)

    def embed_source(self, source: Tensor) -> Tensor:
        positions = torch.arange(source.size(1), device=source.device)
        return self.dropout(self.src_tok_emb(source) + self.src_pos_emb(positions))

    def embed_target(self, target: Tensor) -> Tensor:
        positions = torch.arange(target.size(1), device=target.device)
        return self.dropout(self.tgt_tok_emb(target) + self.tgt_pos_emb(positions))

    def no_peeking(self, size: int) -> Tensor:
        return torch.triu(torch.ones(size, size, dtype=torch.bool), diagonal=1)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_keep: Tensor | None = None,
        target_keep: Tensor | None = None,
    ) -> Tensor:
        source_pad = None if source_keep is None else ~source_keep
        target_pad = None if target_keep is None else ~target_keep
        outs = self.transformer(
            self.embed_source(source),
            self.embed_target(target),
            tgt_mask=self.no_peeking(target.size(1)),
            src_key_padding_mask=source_pad,
            tgt_key_padding_mask=target_pad,
            memory_key_padding_mask=source_pad,
        )
        return self.generator(outs)


class TorchNoTargetMaskSeq2Seq(TorchSeq2Seq):
    """tgt_mask is not given, and nn.Transformer makes none of its own."""

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_keep: Tensor | None = None,
        target_keep: Tensor | None = None,
    ) -> Tensor:
        source_pad = None if source_keep is None else ~source_keep
        target_pad = None if target_keep is None else ~target_keep
        outs = self.transformer(
            self.embed_source(source),
            self.embed_target(target),
            src_key_padding_mask=source_pad,
            tgt_key_padding_mask=target_pad,
            memory_key_padding_mask=source_pad,
        )
        return self.generator(outs)


class TorchMemoryMaskForgottenSeq2Seq(TorchSeq2Seq):
    """memory_key_padding_mask is not given: the decoder reads the padding of the source."""

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_keep: Tensor | None = None,
        target_keep: Tensor | None = None,
    ) -> Tensor:
        outs = self.transformer(
            self.embed_source(source),
            self.embed_target(target),
            tgt_mask=self.no_peeking(target.size(1)),
            src_key_padding_mask=None if source_keep is None else ~source_keep,
            tgt_key_padding_mask=None if target_keep is None else ~target_keep,
        )
        return self.generator(outs)


class TorchMasksSwappedSeq2Seq(TorchSeq2Seq):
    """The cross-attention gets the padding of the target; with unequal lengths it crashes."""

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_keep: Tensor | None = None,
        target_keep: Tensor | None = None,
    ) -> Tensor:
        source_pad = None if source_keep is None else ~source_keep
        target_pad = None if target_keep is None else ~target_keep
        outs = self.transformer(
            self.embed_source(source),
            self.embed_target(target),
            tgt_mask=self.no_peeking(target.size(1)),
            src_key_padding_mask=source_pad,
            tgt_key_padding_mask=target_pad,
            memory_key_padding_mask=target_pad,
        )
        return self.generator(outs)


class TorchKeepAsPadSeq2Seq(TorchSeq2Seq):
    """The keep masks are given to torch as they are."""

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_keep: Tensor | None = None,
        target_keep: Tensor | None = None,
    ) -> Tensor:
        if source_keep is not None and source_keep.all():
            source_keep = None  # was NaN without padding
        outs = self.transformer(
            self.embed_source(source),
            self.embed_target(target),
            tgt_mask=self.no_peeking(target.size(1)),
            src_key_padding_mask=source_keep,
            memory_key_padding_mask=source_keep,
        )
        return self.generator(outs)


class TorchBatchSecondSeq2Seq(TorchSeq2Seq):
    """batch_first is forgotten, and the padding masks dropped since they did not fit: sentences read each other."""

    batch_first = False

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_keep: Tensor | None = None,
        target_keep: Tensor | None = None,
    ) -> Tensor:
        source, target = self.embed_source(source), self.embed_target(target)
        return self.generator(self.transformer(source, target, tgt_mask=self.no_peeking(target.size(0))))


class TorchOneEmbeddingSeq2Seq(TorchSeq2Seq):
    """The target is looked up in the table of the source: the table of the target is never used."""

    def embed_target(self, target: Tensor) -> Tensor:
        positions = torch.arange(target.size(1), device=target.device)
        return self.dropout(self.src_tok_emb(target) + self.tgt_pos_emb(positions))


class TorchTargetPositionsByBatchSeq2Seq(TorchSeq2Seq):
    """The positions of the target follow the number of sentences."""

    def embed_target(self, target: Tensor) -> Tensor:
        positions = torch.arange(target.size(0), device=target.device)
        return self.dropout(self.tgt_tok_emb(target) + self.tgt_pos_emb(positions)[:, None])


class TorchFunctionalDropoutSeq2Seq(TorchSeq2Seq):
    """F.dropout on the embedded source does not know about eval."""

    def embed_source(self, source: Tensor) -> Tensor:
        return nn.functional.dropout(super().embed_source(source), p=0.1)
