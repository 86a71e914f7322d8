"""From the residual stream to scores of tokens or classes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.core.config import HeadConfig, TransformConfig
from glassformer.core.tape import Tape
from glassformer.parts.activation import ACTIVATIONS
from glassformer.parts.dropout import dropout
from glassformer.parts.embedding import Embedding
from glassformer.parts.norm import build_norm
from glassformer.parts.part import Matrix, Part, linear_matrices
from glassformer.parts.product import Product, product


class Transform(Part):
    """What a head does to a vector before it scores it: y = norm(act(W x + b)).

    Args:
        config: Activation and norm.
        d_model: Width of the residual stream, D.

    Source: Devlin et al. 2018, arXiv:1810.04805, the pooler and the masked-token head of the released code.
    """

    def __init__(self, config: TransformConfig, d_model: int) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.linear = nn.Linear(d_model, d_model)
        self.norm = build_norm(config.norm, d_model, shape=None) if config.norm else None

    def matrices(self) -> Iterator[Matrix]:
        """Yield the projection."""
        yield from linear_matrices("linear", self.linear, "linear")

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Return the vectors that are scored, same shape."""
        y: Tensor = self.activation(self.linear(x))
        return y if self.norm is None else self.norm(y)


class Head(Part):
    """One score a token: logits = W f(x) + b; softmax of them is the next token's distribution.

    f is the identity, or a transform (BERT), or a division by sqrt(D) (T5).

    Tied, W IS the embedding table: one tensor, counted, stored and updated once.

    Where `pooling` is set, it scores classes: logits = W dropout(f(x)) + b, and x is what `pool` makes of a row; or, as
    BERT's pooler, it scores nothing and returns f(x).

    Args:
        config: Number of scores, tie, offset, pooling, transform, scale, dropout.
        d_model: Width of the residual stream, D.
        embedding: The table to use when the head is tied.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.4; tying: Press and Wolf 2016, arXiv:1608.05859.
    """

    notes = {"pooled": "B D", "scored": "B T D", "logits": "B T V"}  # noqa: RUF012

    def __init__(self, config: HeadConfig, d_model: int, embedding: Embedding) -> None:
        super().__init__()
        self.config = config
        self.tied, self.pooling, self.dropout = config.tied, config.pooling, config.dropout
        self.transform = Transform(config.transform, d_model) if config.transform else None
        self.scale = 1.0 / math.sqrt(d_model) if config.scaled else 1.0
        self.weight: nn.Parameter | None = embedding.weight
        if not config.tied:
            own = None if config.vocab_size is None else nn.Parameter(torch.empty(config.vocab_size, d_model))
            self.weight = own
        self.step: nn.Parameter | None = None
        """Where the matrix is in 8 bits: the size of one level of each row."""
        self.bias = nn.Parameter(torch.zeros(config.vocab_size)) if config.bias and config.vocab_size else None
        self.product: Product = product
        pools, scores = self.pooling is not None, self.weight is not None
        there = {"pooled": pools, "scored": self.transform is not None or config.scaled, "logits": scores}
        shapes = {**self.notes, "scored": "B D", "logits": "B C"} if pools else self.notes
        self.notes = {name: shape for name, shape in shapes.items() if there[name]}

    def matrices(self) -> Iterator[Matrix]:
        """Yield the matrix, unless it is the embedding's, and the offset."""
        if not self.tied and self.weight is not None:
            yield Matrix("weight", self.weight, "head")
        if self.bias is not None:
            yield Matrix("bias", self.bias, "offset")

    def forward(self, x: Float[Tensor, "*batch d_model"], tape: Tape | None = None) -> Float[Tensor, "*batch vocab"]:
        """Return the scores of every token or class, (..., V); without scores what is transformed, (..., D).

        Args:
            x: States, or what they were pooled to. *Shape:* (..., D).
            tape: What is recorded and changed.
        """
        if self.pooling is not None:
            x = self._note("pooled", x, tape)
        scored = self._note("scored", self.scored(x), tape)
        if self.weight is None:
            return scored
        return self._note("logits", self.product(scored, self.weight, self.step, self.bias), tape)

    def scored(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Return the vectors that meet the matrix, same shape: dropout(f(x))."""
        if self.transform is not None:
            x = self.transform(x)
        return dropout(x if self.scale == 1.0 else x * self.scale, self.dropout, self.training)

    def _note(self, name: str, value: Tensor, tape: Tape | None) -> Tensor:
        return value if tape is None else tape.note(f"{self.site}.{name}", value)
