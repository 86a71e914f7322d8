"""Pairs of a source and a target, for an encoder-decoder."""

from __future__ import annotations

from collections.abc import Sequence

from glassformer.core.errors import DataError
from glassformer.core.places import IGNORED
from glassformer.data.batch import Batch, padded

Pair = tuple[Sequence[int], Sequence[int]]
"""The ids of a source and of its target, without special tokens."""


class PairSource:
    """Pairs that stay as they are in every epoch.

    Args:
        pairs: Source and target ids, without special tokens; either may be empty.
        bos: The id that begins a target.
        eos: The id that ends a source and a target.
        pad: The id that stands in empty slots (0 if None); it may be the same as `eos`.

    Raises:
        DataError: There are no pairs.
    """

    def __init__(self, pairs: Sequence[Pair], *, bos: int, eos: int, pad: int | None) -> None:
        if not pairs:
            raise DataError("there are 0 pairs to learn from; give at least 1")
        self._pairs = pairs
        self._bos, self._eos, self._pad = bos, eos, pad

    def __len__(self) -> int:
        return len(self._pairs)

    def batch(self, items: Sequence[int], epoch: int) -> Batch:
        """Return the batch of some pairs; the epoch makes no difference."""
        pairs = [self._pairs[item] for item in items]
        return pair_batch(pairs, items, bos=self._bos, eos=self._eos, pad=self._pad)

    @property
    def longest(self) -> tuple[int, int]:
        """The longest source and the longest target, with their special token."""
        return max(len(source) for source, _ in self._pairs) + 1, max(len(target) for _, target in self._pairs) + 1

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """The source and the target of each item, in tokens, with their special token."""
        return [(len(source) + 1, len(target) + 1) for source, target in self._pairs]


def pair_batch(pairs: Sequence[Pair], items: Sequence[int], *, bos: int, eos: int, pad: int | None) -> Batch:
    """Return pairs as one batch.

        source: s1 s2 s3 eos        inputs: bos t1 t2        labels: t1 t2 eos

    Args:
        pairs: Source and target ids of each row, without special tokens.
        items: Which items of the data set the rows are.
        bos: The id that begins a target.
        eos: The id that ends a source and a target.
        pad: The id that stands in empty slots; 0 if None.
    """
    fill = 0 if pad is None else pad
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    return Batch(
        inputs=padded(targets, fill, begin=[bos]),
        lengths=tuple(len(target) + 1 for target in targets),
        labels=padded(targets, IGNORED, end=[eos]),
        items=tuple(items),
        source=padded(sources, fill, end=[eos]),
        source_lengths=tuple(len(source) + 1 for source in sources),
    )
