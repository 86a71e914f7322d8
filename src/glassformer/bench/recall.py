"""Recall: a key comes again, and the value that it had must be said."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from glassformer.bench.task import Rows, share_right
from glassformer.bench.variants import Variant
from glassformer.models.transformer import Transformer

KEYS, VALUES = 1280, 16

LENGTH = 1152
"""Tokens of a row: the longest distance, and 128 tokens that ask."""

DISTANCES = (16, 32, 64, 128, 256, 512, 1024)

NEAREST = 8
"""The shortest distance of training, in tokens."""

# Short rows first: what looking for a key is can be learned there, far from the limit of what is visible.
LESSONS = ((0.2, 32, 128), (0.4, 12, 384), (1.0, 4, LENGTH))
"""Up to which share of training, how many rows, of how many tokens."""


class Recall:
    """Each token is a key with a value, or a key alone, seen once before: its value then is what the model must say.

    A token's id is the key, its type the value (type 0 = unknown), so that one layer can do it: by finding the equal
    key among up to 1,151 others. Chance is 1 in 16. In training, distances are spread evenly over their logarithm.
    """

    name = "recall"
    steps = 300
    lr = 1e-2

    def build(self, variant: Variant, generator: torch.Generator) -> Transformer:
        """Return a model that reads keys with values and scores values."""
        extra = {"n_types": VALUES + 1}
        config = variant.arguments(64, LENGTH, extra).resolve(KEYS)
        assert config.head is not None, "a decoder scores tokens"
        head = config.head.model_copy(update={"vocab_size": VALUES})
        return Transformer(config.model_copy(update={"head": head}), generator=generator)

    def rows(self, step: int, generator: torch.Generator) -> Rows:
        """Return rows in which half of the tokens ask, as far as there is a key to ask for."""
        _, rows, length = next(lesson for lesson in LESSONS if step <= lesson[0] * self.steps)
        keys, values = _pairs(rows, length, generator)
        asks = (torch.rand(rows, length, generator=generator) < 0.5).tolist()
        spread = torch.rand(rows, length, generator=generator).tolist()
        labels = torch.full_like(keys, -100)
        for row in range(rows):
            free, ids = [True] * length, keys[row].tolist()
            for here in range(NEAREST, length):
                back = here - int(NEAREST * math.exp(spread[row][here] * math.log(here / NEAREST)))
                if asks[row][here] and free[back]:
                    free[back] = free[here] = False
                    ids[here] = ids[back]
                    labels[row, here] = values[row, back]
            keys[row] = torch.tensor(ids)
        return _hidden(keys, values, labels)

    def measure(self, model: Transformer, *, beyond: bool) -> Mapping[str, float]:
        """Return the share of right answers at each distance; all rows are as long as those of training."""
        return {f"recall@{distance}": share_right(model, at_distance(distance)) for distance in DISTANCES}


def at_distance(distance: int, rows: int = 4) -> Rows:
    """Return rows whose last 128 tokens ask for keys at one distance: as many of them as can; the same each time.

    Args:
        distance: In tokens, at most 1,024.
        rows: Number of rows.
    """
    generator = torch.Generator().manual_seed(distance)
    keys, values = _pairs(rows, LENGTH, generator)
    labels = torch.full_like(keys, -100)
    for here in range(LENGTH - 128, LENGTH):
        if (LENGTH - 1 - here) // distance % 2 == 0:  # the tokens in between are keys that are asked for
            keys[:, here] = keys[:, here - distance]
            labels[:, here] = values[:, here - distance]
    return _hidden(keys, values, labels)


def _pairs(rows: int, length: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys, none of them twice in a row, with values."""
    keys = torch.stack([torch.randperm(KEYS, generator=generator)[:length] for _ in range(rows)])
    return keys, torch.randint(VALUES, (rows, length), generator=generator)


def _hidden(keys: torch.Tensor, values: torch.Tensor, labels: torch.Tensor) -> Rows:
    return Rows(keys, labels, torch.where(labels >= 0, 0, values + 1))
