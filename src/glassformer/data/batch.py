"""A batch: tokens with their lengths, from which the places follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from glassformer.core.places import Places


@dataclass(frozen=True, eq=False)
class Batch:
    """What one step of training or evaluation sees.

    `labels[b, t]` is what position t of `inputs` predicts: the collator has shifted, and nobody shifts again. Where a
    row is judged as a whole, `labels[b]` is its class.
    Padding is known from `lengths` alone, never guessed from token ids, so a tokenizer may use one id for
    padding and for the end of a sentence.

    Attributes:
        inputs: Token ids that the decoder (or the only stack) reads. *Shape:* (B, T).
        lengths: Number of real tokens in each row of `inputs`; padding is on the right.
        labels: The token each position predicts, -100 where it predicts none. *Shape:* (B, T). Or the class of each
            row, for a model with one answer a row. *Shape:* (B,).
        items: Which items of the data set these rows are.
        source: Token ids that the encoder reads, in an encoder-decoder. *Shape:* (B, S).
        source_lengths: Number of real tokens in each row of `source`.
        documents: With packing, the lengths of the documents in each row.
    """

    inputs: Int[Tensor, "batch length"]
    lengths: tuple[int, ...]
    labels: Int[Tensor, "batch length"] | Int[Tensor, " batch"]
    items: tuple[int, ...]
    source: Int[Tensor, "batch source"] | None = None
    source_lengths: tuple[int, ...] = ()
    documents: tuple[tuple[int, ...], ...] | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def places(self) -> Places:
        """Where the tokens of `inputs` stand."""
        width, device = self.inputs.shape[1], self.inputs.device
        if self.documents is not None:
            return Places.packed(self.documents, width, device)
        return Places.from_lengths(self.lengths, width, device=device)

    @property
    def source_places(self) -> Places:
        """Where the tokens of `source` stand."""
        assert self.source is not None, "a batch without a source has no source places"
        return Places.from_lengths(self.source_lengths, self.source.shape[1], device=self.source.device)

    def to(self, device: torch.device | str) -> Batch:
        """Return the same batch on another device."""
        return replace(
            self,
            inputs=self.inputs.to(device, non_blocking=True),
            labels=self.labels.to(device, non_blocking=True),
            source=None if self.source is None else self.source.to(device, non_blocking=True),
        )


def padded(
    rows: Sequence[Sequence[int]], fill: int, begin: Sequence[int] = (), end: Sequence[int] = ()
) -> Int[Tensor, "batch length"]:
    """Return rows of ids as one tensor, filled up on the right.

    Args:
        rows: The ids of each row.
        fill: What stands in the slots without a token.
        begin: Ids before each row.
        end: Ids behind each row.
    """
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    width = len(begin) + int(sizes.max(initial=0)) + len(end)
    table = np.full((len(rows), width), fill, dtype=np.int64)
    table[:, : len(begin)] = begin
    slot = np.arange(width) - len(begin)
    # One pass over all ids: nested lists would become a tensor ten times slower.
    inside = (slot >= 0) & (slot < sizes[:, None])
    table[inside] = np.fromiter(chain.from_iterable(rows), np.int64, int(sizes.sum()))
    for place, token in enumerate(end, start=len(begin)):
        table[np.arange(len(rows)), sizes + place] = token
    return torch.from_numpy(table)
