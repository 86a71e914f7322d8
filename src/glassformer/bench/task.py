"""What a variant learns, and by what it is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from glassformer.bench.variants import Variant
from glassformer.models.transformer import Transformer


@dataclass(frozen=True, eq=False)
class Rows:
    """A batch.

    Attributes:
        tokens: Ids. *Shape:* (B, T).
        labels: What each position predicts, -100 = nothing. *Shape:* (B, T).
        types: Types of the tokens, where the task has them. *Shape:* (B, T).
    """

    tokens: Tensor
    labels: Tensor
    types: Tensor | None = None


class Task(Protocol):
    """Data without end, and numbers that say how well it was learned."""

    @property
    def name(self) -> str: ...

    @property
    def steps(self) -> int:
        """Updates of training."""
        ...

    @property
    def lr(self) -> float:
        """Peak learning rate."""
        ...

    def build(self, variant: Variant, generator: torch.Generator) -> Transformer:
        """Return a fresh model of a variant."""
        ...

    def rows(self, step: int, generator: torch.Generator) -> Rows:
        """Return the batch of an update, from 1; equal for all variants of a seed."""
        ...

    def measure(self, model: Transformer, *, beyond: bool) -> Mapping[str, float]:
        """Return the numbers, by name.

        Args:
            model: A trained one, in eval mode.
            beyond: Whether rows may be longer than those of training.
        """
        ...


def share_right(model: Transformer, rows: Rows, *, at_once: int = 4) -> float:
    """Return the share of labels that are the model's best guess, from 0 to 1."""
    right = total = 0
    for tokens, labels, types in _parts(rows, at_once):
        counted = labels >= 0
        right += int((model(tokens, types=types).argmax(-1) == labels)[counted].sum())
        total += int(counted.sum())
    return right / total


def _parts(rows: Rows, size: int) -> list[tuple[Tensor, Tensor, Tensor | None]]:
    cut = range(0, len(rows.tokens), size)
    return [
        (rows.tokens[i : i + size], rows.labels[i : i + size], None if rows.types is None else rows.types[i : i + size])
        for i in cut
    ]
