"""A GPT from the ready-made layers of torch.nn, and the ways to hold its masks wrong.

torch's attention masks mean the opposite of a keep mask: True may NOT be looked at. `targets` is shifted already.
"""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


class TorchGPT(nn.Module):
    batch_first = True

    def __init__(
        self,
        vocab_size: int = 32,
        d_model: int = 32,
        nhead: int = 2,
        num_layers: int = 2,
        dim_feedforward: int = 64,
        max_len: int = 64,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.pos_embedding = nn.Parameter(torch.randn(1, max_len, d_model) * 0.02)
        layer = nn.TransformerEncoderLayer(
            d_model, nhead, dim_feedforward, dropout, activation="gelu", batch_first=self.batch_first, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, num_layers, norm=nn.LayerNorm(d_model), enable_nested_tensor=False)
        self.head = nn.Linear(d_model, vocab_size)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def embed(self, idx: Tensor) -> Tensor:
        return self.embedding(idx) + self.pos_embedding[:, : idx.size(1)]

    def causal_mask(self, size: int) -> Tensor:
        return torch.triu(torch.ones(size, size, dtype=torch.bool), diagonal=1)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.encoder(self.embed(idx), mask=self.causal_mask(idx.size(1)).to(idx.device))
        logits = self.head(x)
        if targets is None:
            return logits, None
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return logits, loss


class TorchMaskForgottenGPT(TorchGPT):
    """The layers of torch are encoder layers: without a mask they look both ways."""

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits = self.head(self.encoder(self.embed(idx)))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class TorchMaskInvertedGPT(TorchGPT):
    """A keep mask given to torch: it hides what it should show."""

    def causal_mask(self, size: int) -> Tensor:
        keep = torch.tril(torch.ones(size, size, dtype=torch.bool))
        keep[-1, -1] = False  # without this the last row was NaN
        return keep


class TorchFloatMaskGPT(TorchGPT):
    """A mask of 0. and 1. is a float mask, and a float mask is added to the scores."""

    def causal_mask(self, size: int) -> Tensor:
        return torch.tril(torch.ones(size, size))


class TorchBatchSecondGPT(TorchGPT):
    """batch_first is forgotten, and the mask made as large as the axis that came out first: rows attend to rows."""

    batch_first = False

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.embed(idx)
        logits = self.head(self.encoder(x, mask=self.causal_mask(x.size(0))))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class TorchNoGradGPT(TorchGPT):
    """The embedding is looked up under no_grad, to save memory: it and the positions never learn."""

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        with torch.no_grad():
            x = self.embed(idx)
        logits = self.head(self.encoder(x, mask=self.causal_mask(idx.size(1))))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class TorchDropoutMadeInForwardGPT(TorchGPT):
    """A layer made inside forward is always in training mode: model.eval() cannot reach it."""

    def embed(self, idx: Tensor) -> Tensor:
        return nn.Dropout(0.1)(super().embed(idx))
