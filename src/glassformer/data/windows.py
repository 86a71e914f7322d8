"""Windows of one long text, for language modelling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.places import IGNORED
from glassformer.data.batch import Batch
from glassformer.data.order import check_seed, generator


class WindowSource:
    """Windows of `context` tokens that do not overlap.

        inputs = ids[s : s + context]        labels = ids[s + 1 : s + context + 1]

    In training the windows of an epoch begin at an offset in [0, context) of the epoch's own, so that tokens
    meet every length of history; their number stays the same. In evaluation (`WindowSource.evaluation`) the
    offset is 0 and the last window may be shorter, so that every token is scored once.

    Args:
        ids: The text. *Shape:* (N,), kept in 2 or 4 bytes a token.
        context: Tokens of a window. From 1.
        seed: Of the offsets. From 0.
        shift: Whether epochs begin at offsets of their own; without it nothing is left out at the end.

    Raises:
        ConfigError: The context or the seed is not possible.
        DataError: The text is too short for a window, or holds a negative id.
    """

    def __init__(self, ids: ArrayLike, context: int, seed: int, shift: bool) -> None:
        if context < 1:
            raise ConfigError(f"context is {context}; a window holds at least 1 token")
        check_seed(seed)
        self._ids = compact(ids)
        self._context = context
        self._seed = seed
        self._shift = shift
        needed = 2 * context if shift else 2  # a window at the last offset, and the label of its last token
        if len(self._ids) < needed:
            raise DataError(
                f"the text has {len(self._ids)} tokens, but windows of context {context} need {needed};"
                " give more text or a smaller context"
            )

    @classmethod
    def evaluation(cls, ids: ArrayLike, context: int, before: int | None = None) -> WindowSource:
        """Return windows that score every token of a text exactly once.

        Args:
            ids: The text to score. *Shape:* (N,).
            context: Tokens of a window. From 1.
            before: The token that came before the text; without it the first token is only read.

        Raises:
            ConfigError: The context is not possible.
            DataError: The text has no token to score, or holds a negative id.
        """
        text = np.asarray(ids) if before is None else np.concatenate([[before], np.asarray(ids)])
        return cls(text, context, seed=0, shift=False)

    def __len__(self) -> int:
        if self._shift:
            return len(self._ids) // self._context - 1
        return -(-(len(self._ids) - 1) // self._context)

    def batch(self, items: Sequence[int], epoch: int) -> Batch:
        """Return the batch of some windows.

        Args:
            items: Numbers of the windows.
            epoch: Decides the offset of all windows. From 0.
        """
        offset = int(generator(self._seed, epoch).integers(self._context)) if self._shift else 0
        begins = [offset + item * self._context for item in items]
        windows = [self._ids[begin : begin + self._context + 1].astype(np.int64) for begin in begins]
        lengths = tuple(len(window) - 1 for window in windows)
        inputs = np.zeros((len(windows), max(lengths)), dtype=np.int64)
        labels = np.full_like(inputs, IGNORED)
        for row, (window, length) in enumerate(zip(windows, lengths, strict=True)):
            inputs[row, :length] = window[:-1]
            labels[row, :length] = window[1:]
        return Batch(torch.from_numpy(inputs), lengths, torch.from_numpy(labels), items=tuple(items))

    @property
    def longest(self) -> tuple[int, int]:
        """No source, and the longest window."""
        return 0, min(self._context, len(self._ids) - 1)

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """No source, and the tokens of each window."""
        last = self._context if self._shift else (len(self._ids) - 2) % self._context + 1
        return [*[(0, self._context)] * (len(self) - 1), (0, last)]


def compact(ids: ArrayLike) -> NDArray[Any]:
    """Return token ids in 2 bytes each where all are below 65,536, else in 4.

    Args:
        ids: Whole numbers from 0. *Shape:* (N,).

    Raises:
        DataError: An id is negative.
    """
    array = np.asarray(ids)
    assert array.ndim == 1, f"ids of one text have one dimension, not shape {array.shape}"
    if array.size and array.min() < 0:
        raise DataError(f"the text holds the id {array.min()}; ids start at 0")
    small = not array.size or array.max() <= np.iinfo(np.uint16).max
    return array.astype(np.uint16 if small else np.int32, copy=False)
