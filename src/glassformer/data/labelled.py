"""Texts with a class each."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import torch

from glassformer.core.errors import ConfigError, DataError, did_you_mean
from glassformer.data.batch import Batch, padded
from glassformer.data.order import item_uniforms

NAMED, SHOWN = 20, 40
"""Classes that a message names, and characters that it shows of each."""


class LabelledSource:
    """Rows with one class each, for a model with one answer a row.

        one stack:         inputs = begin, ids, end                                   labels = class
        encoder-decoder:   source = begin, ids, end        inputs = decoder_start     labels = class

    Args:
        rows: Token ids of each row, without special tokens.
        labels: The class of each row. From 0.
        pad: The id that stands in empty slots; 0 if None.
        begin: Ids before each row.
        end: Ids behind each row.
        decoder_start: The one id that the decoder of an encoder-decoder reads; None for a model of one stack.
        hide: Share of each row's ids that are hidden, other ones in every epoch (word dropout, Iyyer et al. 2015): no
            label can be told by one word alone then.
        hidden: The id that stands for what is hidden.
        seed: Of what is hidden. From 0.

    Raises:
        DataError: There are no rows, not one label a row, a label below 0, or a row without any token.
        ConfigError: Something is to be hidden, but there is no id to stand for it.
    """

    def __init__(
        self,
        rows: Sequence[Sequence[int]],
        labels: Sequence[int],
        *,
        pad: int | None,
        begin: Sequence[int] = (),
        end: Sequence[int] = (),
        decoder_start: int | None = None,
        hide: float = 0.0,
        hidden: int | None = None,
        seed: int = 0,
    ) -> None:
        if not rows:
            raise DataError("there are 0 rows to learn from; give at least 1")
        if len(rows) != len(labels):
            raise DataError(f"there are {len(rows)} rows but {len(labels)} labels; give each row one")
        if min(labels) < 0:
            raise DataError(f"a label is {min(labels)}; classes count from 0")
        self._special = len(begin) + len(end)
        if not self._special and not all(map(len, rows)):
            raise DataError(
                f"row {[len(row) for row in rows].index(0)} has no token; leave it out or give an id to begin"
            )
        self._rows, self._labels = rows, labels
        self._begin, self._end = begin, end
        self._fill = 0 if pad is None else pad
        self._decoder_start = decoder_start
        self._hide, self._seed = hide, seed
        if hide and hidden is None:
            raise ConfigError(f"a share of {hide} is to be hidden, but the vocabulary has no id to stand for it")
        self._hidden = 0 if hidden is None else hidden

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, items: Sequence[int], epoch: int) -> Batch:
        """Return the batch of some rows; the epoch decides what is hidden of them."""
        rows = [self._rows[item] for item in items]
        if self._hide:
            draws = item_uniforms(items, max(map(len, rows)), self._seed, epoch) < self._hide
            rows = [
                [self._hidden if gone else token for token, gone in zip(row, drawn.tolist(), strict=False)]
                for row, drawn in zip(rows, draws, strict=True)
            ]
        tokens = padded(rows, self._fill, self._begin, self._end)
        lengths = tuple(len(row) + self._special for row in rows)
        labels = torch.tensor([self._labels[item] for item in items])
        if self._decoder_start is None:
            return Batch(inputs=tokens, lengths=lengths, labels=labels, items=tuple(items))
        return Batch(
            inputs=torch.full((len(rows), 1), self._decoder_start),
            lengths=(1,) * len(rows),
            labels=labels,
            items=tuple(items),
            source=tokens,
            source_lengths=lengths,
        )

    @property
    def longest(self) -> tuple[int, int]:
        """The longest row for the encoder (0 if there is none) and the longest row of inputs."""
        return self._sides(max(map(len, self._rows)))

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """Each row for the encoder (0 if there is none) and each row of inputs, with special tokens."""
        return [self._sides(len(row)) for row in self._rows]

    def _sides(self, length: int) -> tuple[int, int]:
        length += self._special
        return (0, length) if self._decoder_start is None else (length, 1)


def label_names(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the classes that occur, in order: as numbers where all of them are whole numbers, else as text.

    Args:
        labels: The label of each row.
    """
    names = sorted(set(labels))
    try:
        return tuple(sorted(names, key=int))
    except ValueError:
        return tuple(names)


def label_ids(
    labels: Sequence[str], names: Sequence[str], what: str, *, lines: Sequence[int] | None = None
) -> list[int]:
    """Return the class of each row, from 0.

    Args:
        labels: The label of each row.
        names: The classes, as `label_names` tells them of the rows that are learned from.
        what: Whose labels they are, for the message: a file.
        lines: The line of that file in which each row stands; else rows count from 0.

    Raises:
        DataError: A label is not among the classes.
    """
    ids = {name: index for index, name in enumerate(names)}
    for row, label in enumerate(labels):
        if label not in ids:
            where = f"row {row}" if lines is None else f"line {lines[row]}"
            hint = did_you_mean(label, difflib.get_close_matches(label, names, n=1)) or ";"
            raise DataError(
                f"{what}, {where}: the label {label!r} does not occur in what is learned from{hint}"
                f" known: {listed(names)}"
            )
    return [ids[label] for label in labels]


def listed(names: Sequence[str]) -> str:
    """Return classes as a message names them: the first twenty, each on one line, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(map(_short, names[:NAMED]))}{more}"


def _short(name: str) -> str:
    line = " ".join(name.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 3]}..."
