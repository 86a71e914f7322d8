"""Language models on PyTorch's own layers, as its tutorials and the forums write them; log-probabilities come back."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class PositionalEncoding(nn.Module):
    def __init__(self, d_model: int, dropout: float = 0.1, max_len: int = 64) -> None:
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2] = torch.sin(position * div_term)
        pe[0, :, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x + self.pe[:, : x.size(1)])


class TutorialLM(nn.Module):
    def __init__(
        self,
        ntoken: int = 32,
        d_model: int = 32,
        nhead: int = 2,
        d_hid: int = 64,
        nlayers: int = 2,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.d_model = d_model
        self.pos_encoder = PositionalEncoding(d_model, dropout)
        layer = nn.TransformerEncoderLayer(d_model, nhead, d_hid, dropout, batch_first=True)
        self.transformer_encoder = nn.TransformerEncoder(layer, nlayers, enable_nested_tensor=False)
        self.encoder = nn.Embedding(ntoken, d_model)
        self.decoder = nn.Linear(d_model, ntoken)
        self.decoder.weight = self.encoder.weight
        self.init_weights()

    def init_weights(self) -> None:
        initrange = 0.1
        self.encoder.weight.data.uniform_(-initrange, initrange)
        self.decoder.bias.data.zero_()

    def mask(self, sz: int) -> Tensor:
        return torch.triu(torch.full((sz, sz), float("-inf")), diagonal=1)

    def forward(self, src: Tensor) -> Tensor:
        src = self.encoder(src) * math.sqrt(self.d_model)
        src = self.pos_encoder(src)
        output = self.transformer_encoder(src, self.mask(src.size(1)))
        return F.log_softmax(self.decoder(output), dim=-1)


class DecoderStackLM(nn.Module):
    """PyTorch's decoder without an encoder: the words themselves are the memory, under the same mask."""

    def __init__(self, ntoken: int = 32, d_model: int = 32, nhead: int = 2) -> None:
        super().__init__()
        self.emb = nn.Embedding(ntoken, d_model)
        self.pos_embed = nn.Parameter(torch.zeros(1, 64, d_model))
        nn.init.normal_(self.pos_embed, std=0.2)
        layer = nn.TransformerDecoderLayer(d_model, nhead, 2 * d_model, batch_first=True, norm_first=True)
        self.transformer = nn.TransformerDecoder(layer, num_layers=2)
        self.fin_lin = nn.Linear(d_model, ntoken)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.emb(tokens) + self.pos_embed[:, : tokens.size(1)]
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1))
        return self.fin_lin(self.transformer(x, x, tgt_mask=mask, memory_mask=mask))


# Wrong ---------------------------------------------------------------------------------------------------------------


class RowsForPlaces(PositionalEncoding):
    """Written for (T, B, D) and given (B, T, D)."""

    def forward(self, x: Tensor) -> Tensor:
        pe = self.pe.transpose(0, 1)
        return self.dropout(x + pe[: x.size(0)])


class RowsForPlacesLM(TutorialLM):
    def __init__(self) -> None:
        super().__init__()
        self.pos_encoder = RowsForPlaces(self.d_model)


class ZeroOneMaskLM(TutorialLM):
    """Ones below and zeros above, added to the scores as they are."""

    def mask(self, sz: int) -> Tensor:
        return torch.triu(torch.ones(sz, sz)).transpose(0, 1)


class TrueMeansSeenLM(TutorialLM):
    """Here True is what is hidden."""

    def mask(self, sz: int) -> Tensor:
        return torch.tril(torch.ones(sz, sz)).bool()


class NeverInitialisedLM(TutorialLM):
    """The embedding's own start is far too large for the head that shares it."""

    def init_weights(self) -> None:
        pass


class LogSoftmaxOverTimeLM(TutorialLM):
    """dim=1 is the words of a sentence, not the vocabulary."""

    def forward(self, src: Tensor) -> Tensor:
        src = self.encoder(src) * math.sqrt(self.d_model)
        src = self.pos_encoder(src)
        output = self.transformer_encoder(src, self.mask(src.size(1)))
        return F.log_softmax(self.decoder(output), dim=1)


class OpenMemoryLM(DecoderStackLM):
    """The memory has no mask, and it is the sentence."""

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.emb(tokens) + self.pos_embed[:, : tokens.size(1)]
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1))
        return self.fin_lin(self.transformer(x, x, tgt_mask=mask))
