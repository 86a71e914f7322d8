"""From token ids to the residual stream."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.call import Call
from glassformer.core.config import InputConfig
from glassformer.parts.dropout import dropout
from glassformer.parts.norm import build_norm
from glassformer.parts.part import Matrix, Part
from glassformer.parts.position import build_positions


class Embedding(Part):
    """A table with one learned vector for every token id: x = weight[token].

    Args:
        vocab_size: Number of token ids, V.
        d_model: Width of the residual stream, D.
    """

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))

    def matrices(self) -> Iterator[Matrix]:
        """Yield the table."""
        yield Matrix("weight", self.weight, "embedding")

    def forward(self, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length d_model"]:
        """Return the vectors of token ids. *Shape:* (B, T, D)."""
        return F.embedding(tokens, self.weight)


class Input(Part):
    """Token, position and type together.

    x = dropout(norm(embedding[token] * sqrt(D)? + position + type[type])).

    The sqrt(D) of the paper belongs to an embedding that is also the output head: drawn small, so that the first
    scores are near 0, it would be drowned by the positions at the input.

    Args:
        config: What is added, scaled and normalised.

    Source: Vaswani et al. 2017, arXiv:1706.03762, sections 3.4 and 3.5; types and norm: Devlin et al. 2018,
    figure 2.
    """

    notes = {"tokens": "B T D", "positions": "B T D", "types": "B T D", "sum": "B T D", "output": "B T D"}  # noqa: RUF012

    def __init__(self, config: InputConfig) -> None:
        super().__init__()
        self.scale = math.sqrt(config.d_model) if config.scale else 1.0
        self.embedding = Embedding(config.vocab_size, config.d_model)
        self.positions = build_positions(config.positions, config.d_model)
        self.types = Embedding(config.n_types, config.d_model) if config.n_types else None
        self.norm = build_norm(config.norm, config.d_model) if config.norm else None
        self.dropout = config.dropout
        there = {"positions": self.positions, "types": self.types, "sum": self.norm}
        self.notes = {name: shape for name, shape in self.notes.items() if there.get(name, self) is not None}

    def forward(
        self, inputs: Tensor, call: Call, types: Int[Tensor, "batch length"] | None = None
    ) -> Float[Tensor, "batch length d_model"]:
        """Return the residual stream before the first block.

        Args:
            inputs: Token ids (B, T), or ready embeddings (B, T, D), which are taken as they are.
            call: Where the tokens stand.
            types: Token types. *Shape:* (B, T).
        """
        x = inputs if inputs.is_floating_point() else self.embedding(inputs) * self.scale
        x = call.note(self, "tokens", x)
        if self.positions is not None:
            position = self.positions(call.places, x.dtype)
            x = x + call.note(self, "positions", position.expand_as(x))
        if self.types is not None:
            kind = self.types(torch.zeros_like(call.places.position) if types is None else types)
            x = x + call.note(self, "types", kind.expand_as(x))
        if self.norm is not None:
            x = call.note(self.norm, "output", self.norm(call.note(self, "sum", x)))
        return call.note(self, "output", dropout(x, self.dropout, self.training))
