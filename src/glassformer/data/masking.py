"""Rows with some tokens hidden, for masked language modelling."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.places import IGNORED
from glassformer.data.batch import Batch, padded
from glassformer.data.order import check_seed, item_uniforms

MASKED, RANDOM = 0.8, 0.1
"""Of the tokens to be predicted: how many are hidden, and how many become another one. The rest stay."""


class MaskedSource:
    """Rows of which some tokens are to be told from the others.

        tokens   b 5 6 7 8 e        inputs   b 5 M 7 8 e        labels   - - 6 - - -

    Of the n tokens of a row that are not special, max(1, round(rate n)) are drawn. Of those, 80% become the mask, 10% a
    random token (which may by chance be the same) and 10% stay as they are, so that a model cannot rely on what it
    sees. Item i of epoch e is drawn from (seed, e, i) alone: each epoch hides others, whatever batch or worker an
    item meets.

    Args:
        rows: Token ids of each row, without `begin` and `end`.
        mask_id: The id that hides a token.
        vocab_size: Ids that there are.
        special_ids: Ids that are never predicted and never drawn as a random token; the mask is one in any case.
        rate: Share of the tokens to be predicted. Above 0, below 1.
        seed: From 0.
        pad: The id that stands in empty slots; 0 if None.
        begin: Ids before each row; never masked.
        end: Ids behind each row; never masked.

    Raises:
        ConfigError: The rate, the seed or a special id is not possible, or every id is special.
        DataError: There are no rows, an id is outside the vocabulary, or a row has nothing that could be masked.

    Source: Devlin et al. 2019, BERT, arXiv:1810.04805, section 3.1 and appendix A.1. There a random token may also be a
    special one.
    """

    def __init__(
        self,
        rows: Sequence[Sequence[int]],
        *,
        mask_id: int,
        vocab_size: int,
        special_ids: Sequence[int],
        rate: float = 0.15,
        seed: int,
        pad: int | None,
        begin: Sequence[int] = (),
        end: Sequence[int] = (),
    ) -> None:
        if not rows:
            raise DataError("there are 0 rows to learn from; give at least 1")
        if not 0 < rate < 1:
            raise ConfigError(f"rate is {rate}; the share of masked tokens lies above 0 and below 1")
        check_seed(seed)
        special = sorted({mask_id, *special_ids})
        if special[0] < 0 or special[-1] >= vocab_size:
            wrong = special[0] if special[0] < 0 else special[-1]
            raise ConfigError(f"the special id {wrong} is outside the vocabulary, 0 to {vocab_size - 1}")
        self._ordinary = np.ones(vocab_size, dtype=bool)
        self._ordinary[special] = False
        self._choices = np.flatnonzero(self._ordinary)
        if not len(self._choices):
            raise ConfigError(f"all {vocab_size} ids are special; a vocabulary needs at least 1 other")
        _check(rows, self._ordinary)
        self._rows, self._begin, self._end = rows, begin, end
        self._mask_id, self._rate, self._seed = mask_id, rate, seed
        self._fill = 0 if pad is None else pad

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, items: Sequence[int], epoch: int) -> Batch:
        """Return the batch of some rows as they are masked in an epoch."""
        rows = [self._rows[item] for item in items]
        tokens = padded(rows, self._fill, self._begin, self._end).numpy()  # (B, T)
        # Three numbers a token, side by side: a wider batch only draws more of them behind.
        numbers = item_uniforms(items, 3 * tokens.shape[1], self._seed, epoch).reshape(*tokens.shape, 3)
        chosen = self._chosen(rows, tokens, numbers[..., 0])
        hidden = chosen & (numbers[..., 1] < MASKED)
        changed = chosen & ~hidden & (numbers[..., 1] < MASKED + RANDOM)
        random = self._choices[(numbers[..., 2] * len(self._choices)).astype(np.int64)]
        inputs = np.where(hidden, self._mask_id, np.where(changed, random, tokens))
        return Batch(
            inputs=torch.from_numpy(inputs),
            lengths=tuple(len(row) + len(self._begin) + len(self._end) for row in rows),
            labels=torch.from_numpy(np.where(chosen, tokens, IGNORED)),
            items=tuple(items),
        )

    @property
    def longest(self) -> tuple[int, int]:
        """No source, and the longest row with its special tokens."""
        return max(self.lengths)

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """No source, and the tokens of each row with its special tokens."""
        return [(0, len(row) + len(self._begin) + len(self._end)) for row in self._rows]

    def _chosen(
        self, rows: Sequence[Sequence[int]], tokens: NDArray[np.int64], numbers: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Which tokens are to be predicted: of those of a row that may be, the ones with the smallest numbers."""
        sizes = np.array([len(row) for row in rows])[:, None]
        slot = np.arange(tokens.shape[1]) - len(self._begin)
        possible = (slot >= 0) & (slot < sizes)
        possible[possible] = self._ordinary[tokens[possible]]
        rank = np.where(possible, numbers, 1.0).argsort(axis=1).argsort(axis=1)
        wanted = np.maximum(1, np.rint(self._rate * possible.sum(axis=1, keepdims=True)))
        return np.asarray(rank < wanted)


def _check(rows: Sequence[Sequence[int]], ordinary: NDArray[np.bool_]) -> None:
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    ids = np.fromiter(chain.from_iterable(rows), np.int64, int(sizes.sum()))
    row_of = np.repeat(np.arange(len(rows)), sizes)
    wrong = np.flatnonzero((ids < 0) | (ids >= len(ordinary)))
    if len(wrong):
        raise DataError(
            f"row {row_of[wrong[0]]} holds the id {ids[wrong[0]]}, outside the vocabulary, 0 to {len(ordinary) - 1}"
        )
    possible = np.bincount(row_of[ordinary[ids]], minlength=len(rows))
    if not possible.all():
        raise DataError(
            f"row {possible.argmin()} has no token that could be masked; leave out rows of special tokens only"
        )
