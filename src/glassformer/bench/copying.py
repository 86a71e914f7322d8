"""Copying: a random text comes again and again, and the next token must be said."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from glassformer.bench.task import Rows, share_right
from glassformer.bench.variants import Variant
from glassformer.models.transformer import Transformer

TOKENS, LENGTH = 64, 64

SHORTEST, LONGEST = 4, 24

PERIODS = (8, 24, 48, 96)
"""Lengths of the copied text by which it is judged; from 48 on, the row is longer than those of training."""


class Copying:
    """A text of 4 to 24 random tokens, repeated up to 64 tokens: from the second time on it can be known.

    What stands before must be found by what followed it: two steps, which need two layers (an induction head).
    """

    name = "copying"
    steps = 500
    lr = 2e-2

    def build(self, variant: Variant, generator: torch.Generator) -> Transformer:
        """Return a model of the task's tokens."""
        return Transformer(variant.arguments(64, LENGTH, {}).resolve(TOKENS), generator=generator)

    def rows(self, step: int, generator: torch.Generator) -> Rows:
        """Return 16 rows, each with a length of its own."""
        periods = torch.randint(SHORTEST, LONGEST + 1, (16,), generator=generator).tolist()
        parts = [repeated(period, LENGTH, 1, generator) for period in periods]
        return Rows(torch.cat([part.tokens for part in parts]), torch.cat([part.labels for part in parts]))

    def measure(self, model: Transformer, *, beyond: bool) -> Mapping[str, float]:
        """Return the share of right tokens in the first copy of a text, by its length."""
        return {
            f"copy@{period}": share_right(model, repeated(period, 2 * period, 32, torch.Generator().manual_seed(9)))
            for period in PERIODS
            if beyond or 2 * period <= LENGTH
        }


def repeated(period: int, length: int, rows: int, generator: torch.Generator) -> Rows:
    """Return rows of a random text that is repeated; the tokens of its first time are not asked for.

    Args:
        period: Tokens of the text.
        length: Tokens of a row.
        rows: Number of rows.
        generator: Source of randomness.
    """
    text = torch.randint(TOKENS, (rows, period), generator=generator)
    whole = text.repeat(1, -(-(length + 1) // period))[:, : length + 1]
    labels = whole[:, 1:].clone()
    labels[:, :period] = -100  # the first copied token is known only once the copy has begun
    return Rows(whole[:, :-1], labels)
