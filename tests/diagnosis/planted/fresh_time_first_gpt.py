"""A language model around nn.MultiheadAttention that keeps time first inside, (T, B, C), and its mistakes.

`tokens` are (B, T). `labels` are the tokens themselves, -100 where there is none: the model shifts.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self, ninp: int, nhead: int, nhid: int, dropout: float) -> None:
        super().__init__()
        self.self_attn = nn.MultiheadAttention(ninp, nhead, dropout=dropout)
        self.linear1 = nn.Linear(ninp, nhid)
        self.linear2 = nn.Linear(nhid, ninp)
        self.norm1 = nn.LayerNorm(ninp)
        self.norm2 = nn.LayerNorm(ninp)
        self.dropout = nn.Dropout(dropout)

    def forward(self, src: Tensor, src_mask: Tensor) -> Tensor:
        src2 = self.norm1(src)
        src2 = self.self_attn(src2, src2, src2, attn_mask=src_mask, need_weights=False)[0]
        src = src + self.dropout(src2)
        src2 = self.linear2(self.dropout(F.relu(self.linear1(self.norm2(src)))))
        return src + self.dropout(src2)


class TimeFirstGPT(nn.Module):
    block: type[Block] = Block

    def __init__(
        self,
        ntoken: int = 32,
        ninp: int = 32,
        nhead: int = 4,
        nhid: int = 48,
        nlayers: int = 2,
        dropout: float = 0.1,
        max_len: int = 128,
    ) -> None:
        super().__init__()
        self.ninp = ninp
        self.input_emb = nn.Embedding(ntoken, ninp)
        position = torch.arange(max_len, dtype=torch.float).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, ninp, 2).float() * (-math.log(10000.0) / ninp))
        pe = torch.zeros(max_len, 1, ninp)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe, persistent=False)
        self.layers = nn.ModuleList([self.block(ninp, nhead, nhid, dropout) for _ in range(nlayers)])
        self.norm = nn.LayerNorm(ninp)
        self.decoder = nn.Linear(ninp, ntoken)
        self.dropout = nn.Dropout(dropout)
        self.init_weights()

    def init_weights(self) -> None:
        nn.init.uniform_(self.input_emb.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def square_mask(self, size: int) -> Tensor:
        mask = torch.tril(torch.ones(size, size)) == 1
        return torch.zeros(size, size).masked_fill(~mask, float("-inf"))

    def embed(self, tokens: Tensor) -> Tensor:
        x = self.input_emb(tokens).transpose(0, 1) * math.sqrt(self.ninp)  # (T, B, C)
        return self.dropout(x + self.pe[: x.size(0)])

    def hidden(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        mask = self.square_mask(x.size(0)).to(x.device)
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits[:, :-1].reshape(-1, logits.size(-1)), labels[:, 1:].reshape(-1))

    def forward(self, tokens: Tensor, labels: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        logits = self.decoder(self.hidden(tokens)).transpose(0, 1)
        if labels is None:
            return logits
        return logits, self.loss(logits, labels)


# Axes ----------------------------------------------------------------------------------------------------------------


class ViewedTimeFirstGPT(TimeFirstGPT):
    """view(T, B, C) gives the right shape and the wrong words: rows of the batch run into each other."""

    def embed(self, tokens: Tensor) -> Tensor:
        B, T = tokens.shape
        x = self.input_emb(tokens).view(T, B, self.ninp) * math.sqrt(self.ninp)
        return self.dropout(x + self.pe[:T])


class PositionsBeforeTurnGPT(TimeFirstGPT):
    """The table is added before the axes are turned, so its first axis meets the batch."""

    def embed(self, tokens: Tensor) -> Tensor:
        x = self.input_emb(tokens) * math.sqrt(self.ninp)
        x = x + self.pe[: x.size(0)]
        return self.dropout(x.transpose(0, 1))


# The mask ------------------------------------------------------------------------------------------------------------


class TutorialMaskReversedGPT(TimeFirstGPT):
    """The two masked_fill lines are swapped: 0 for what should be -inf; the last row comes out as NaN."""

    def square_mask(self, size: int) -> Tensor:
        mask = torch.tril(torch.ones(size, size)) == 1
        return torch.zeros(size, size).masked_fill(mask, float("-inf"))


class MaskKeptFromFirstCallGPT(TimeFirstGPT):
    """The mask is made once, for the length of the first batch, and never again."""

    def __init__(self) -> None:
        super().__init__()
        self.src_mask: Tensor | None = None

    def hidden(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        if self.src_mask is None:
            self.src_mask = self.square_mask(x.size(0)).to(x.device)
        for layer in self.layers:
            x = layer(x, self.src_mask)
        return self.norm(x)


class MaskZeroOneSubtractedGPT(TimeFirstGPT):
    """The mask is tril - 1: the future is lowered by one, not by infinity."""

    def square_mask(self, size: int) -> Tensor:
        return torch.tril(torch.ones(size, size)) - 1.0


# The block -----------------------------------------------------------------------------------------------------------


class QueryNormedBlock(Block):
    def forward(self, src: Tensor, src_mask: Tensor) -> Tensor:
        src2 = self.self_attn(self.norm1(src), src, src, attn_mask=src_mask, need_weights=False)[0]
        src = src + self.dropout(src2)
        src2 = self.linear2(self.dropout(F.relu(self.linear1(self.norm2(src)))))
        return src + self.dropout(src2)


class QueryNormedGPT(TimeFirstGPT):
    """Only the query goes through the norm; keys and values are the bare stream."""

    block = QueryNormedBlock


# Loss and start ------------------------------------------------------------------------------------------------------


class ShiftedBackwardsGPT(TimeFirstGPT):
    """The slices are the wrong way round: each place learns the token before it."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits[:, 1:].reshape(-1, logits.size(-1)), labels[:, :-1].reshape(-1))


class TimeFirstLossGPT(TimeFirstGPT):
    """Logits are flattened with time first, labels with the batch first."""

    def forward(self, tokens: Tensor, labels: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        logits = self.decoder(self.hidden(tokens))
        if labels is None:
            return logits.transpose(0, 1)
        loss = F.cross_entropy(logits[:-1].reshape(-1, logits.size(-1)), labels[:, 1:].reshape(-1))
        return logits.transpose(0, 1), loss


class UniformOneGPT(TimeFirstGPT):
    """initrange = 1 where 0.1 was meant, with the norm in front of the head."""

    def init_weights(self) -> None:
        nn.init.uniform_(self.input_emb.weight, -1.0, 1.0)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -1.0, 1.0)
