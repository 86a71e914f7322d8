"""Next character: what a real text teaches, at the length of training and beyond it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.nn import functional as F

from glassformer.bench.task import Rows
from glassformer.bench.variants import Variant
from glassformer.core.errors import DataError
from glassformer.models.transformer import Transformer

CONTEXT = 128

LENGTHS = (128, 256, 512)
"""Tokens of a row by which it is judged."""

JUDGED = 32768
"""Characters of the validation part that are read."""


class NextCharacter:
    """A model of a text's characters: the first 90 % teach, what follows judges.

    Args:
        text: The text.

    Raises:
        DataError: It is too short.
    """

    name = "text"
    steps = 300
    lr = 1e-2

    def __init__(self, text: str) -> None:
        alphabet = {character: index for index, character in enumerate(sorted(set(text)))}
        ids = torch.tensor([alphabet[character] for character in text])
        self.vocab_size, cut = len(alphabet), int(0.9 * len(ids))
        self.train, self.valid = ids[:cut], ids[cut : cut + JUDGED + 1]
        if len(self.valid) <= max(LENGTHS):
            raise DataError(
                f"the text has {len(ids):,} characters, of which a tenth judges; give one of at least "
                f"{10 * (max(LENGTHS) + 2):,}"
            )

    def build(self, variant: Variant, generator: torch.Generator) -> Transformer:
        """Return a model of the text's characters."""
        return Transformer(variant.arguments(96, CONTEXT, {}).resolve(self.vocab_size), generator=generator)

    def rows(self, step: int, generator: torch.Generator) -> Rows:
        """Return 16 stretches of the text."""
        starts = torch.randint(len(self.train) - CONTEXT, (16, 1), generator=generator)
        ids = self.train[starts + torch.arange(CONTEXT + 1)]
        return Rows(ids[:, :-1], ids[:, 1:])

    def measure(self, model: Transformer, *, beyond: bool) -> Mapping[str, float]:
        """Return the loss in nats a character: of rows of 128, and of the last 64 characters of longer ones.

        There every character has more context than training gave: a model that goes on as it learned does no worse.
        """
        return {
            f"loss@{length}": self._loss(model, length, length if length == CONTEXT else 64)
            for length in LENGTHS
            if beyond or length <= CONTEXT
        }

    def _loss(self, model: Transformer, length: int, last: int) -> float:
        rows = (len(self.valid) - 1) // length
        tokens, labels = (self.valid[i : i + rows * length].view(rows, length) for i in (0, 1))
        lost = [
            F.cross_entropy(model(some).transpose(1, 2), right, reduction="none")[:, -last:]
            for some, right in zip(tokens.split(8), labels.split(8), strict=True)
        ]
        return float(torch.cat(lost).mean())
