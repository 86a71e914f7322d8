"""From the residual stream to scores of tokens or classes."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.config import HeadConfig
from glassformer.parts.dropout import dropout
from glassformer.parts.embedding import Embedding
from glassformer.parts.part import Matrix, Part


class Head(Part):
    """One score a token: logits = W x + b; softmax of them is the next token's distribution.

    Tied, W IS the embedding table: one tensor, counted, stored and updated once.

    Where `pooling` is set, it scores classes: logits = W dropout(x) + b, and x is what `pool` makes of a row.

    Args:
        config: Number of scores, tie, offset, pooling, dropout.
        d_model: Width of the residual stream, D.
        embedding: The table to use when the head is tied.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.4; tying: Press and Wolf 2016, arXiv:1608.05859.
    """

    def __init__(self, config: HeadConfig, d_model: int, embedding: Embedding) -> None:
        super().__init__()
        self.tied, self.pooling, self.dropout = config.tied, config.pooling, config.dropout
        own = None if config.tied else nn.Parameter(torch.empty(config.vocab_size, d_model))
        self.weight = embedding.weight if own is None else own
        self.bias = nn.Parameter(torch.zeros(config.vocab_size)) if config.bias else None

    def matrices(self) -> Iterator[Matrix]:
        """Yield the matrix, unless it is the embedding's, and the offset."""
        if not self.tied:
            yield Matrix("weight", self.weight, "head")
        if self.bias is not None:
            yield Matrix("bias", self.bias, "offset")

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        """Return the scores of every token or class. *Shape:* (..., V)."""
        return F.linear(dropout(x, self.dropout, self.training), self.weight, self.bias)
