"""Where each token stands: the only source of positions and visibility."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from glassformer.core.errors import DataError

NO_TOKEN = -1
"""The segment of a slot that holds no token: padding, or an empty cache slot."""

IGNORED = -100
"""The label of a position that predicts nothing."""


@dataclass(frozen=True, eq=False)
class Places:
    """Position and segment of every slot of a batch of sequences.

    `position[b, t]` counts from the first token of its segment; `segment[b, t]` says which document of its
    row a token belongs to, or -1 for no token. A slot without a token has position 0. With these two, padding
    on either side, packed documents, ring buffers and chunked prefill need no special case anywhere else.

    Attributes:
        position: Place within the segment, counted from 0. *Shape:* (B, T), or (1, T) when plain.
        segment: Number of the segment in its row; -1 where there is no token. *Shape:* as `position`.
        plain: True if known, without reading a tensor, that position is 0..T-1 and every row is one unpadded
            segment. Whoever builds the places from host-side lengths sets it; it is what allows a kernel
            to use a causal flag instead of a T x T mask.
        highest: The largest position, where the host knows it without reading a tensor; else None.
        begin: Position of the first token, if it is known, without reading a tensor, that every row is one unpadded
            segment of consecutive positions from there on, the same for all; else None. 0 if plain.
        single: True if known, without reading a tensor, that the tokens of every row are all of segment 0 and stand
            in the order of their slots, each one position behind the one before; there may be padding.
    """

    position: Int[Tensor, "#batch length"]
    segment: Int[Tensor, "#batch length"]
    plain: bool = False
    highest: int | None = None
    begin: int | None = None
    single: bool = False

    @property
    def length(self) -> int:
        """The number of slots, T."""
        return self.position.shape[1]

    @property
    def is_token(self) -> Bool[Tensor, "#batch length"]:
        """True where a slot holds a token."""
        return self.segment != NO_TOKEN

    def to(self, device: torch.device | str) -> Places:
        """Return the same places on another device."""
        position, segment = self.position.to(device), self.segment.to(device)
        return Places(position, segment, self.plain, self.highest, self.begin, self.single)

    def side_by_side(self, beams: int) -> Places:
        """Return the places of adjacent rows laid side by side: `beams` rows become one.

        Args:
            beams: How many rows become one, K; it divides the number of rows.

        Returns:
            Places. *Shape:* (B, K T) of (B K, T); (1, K T) of places that all rows share.
        """
        if beams == 1:
            return self
        if self.position.shape[0] == 1:
            return Places(self.position.repeat(1, beams), self.segment.repeat(1, beams), highest=self.highest)
        shape = (-1, beams * self.length)
        return Places(self.position.reshape(shape), self.segment.reshape(shape), highest=self.highest)

    @staticmethod
    def full(length: int, device: torch.device | str | None = None, *, begin: int = 0) -> Places:
        """Return the places of rows without padding: positions begin..begin+length-1, one segment.

        Args:
            length: Number of tokens, T.
            device: Where the tensors live.
            begin: Position of the first.
        """
        position = torch.arange(begin, begin + length, device=device).unsqueeze(0)
        return Places(position, torch.zeros_like(position), begin == 0, begin + length - 1, begin, single=True)

    @staticmethod
    def from_lengths(
        lengths: Sequence[int],
        width: int | None = None,
        *,
        side: str = "right",
        start: Sequence[int] | None = None,
        device: torch.device | str | None = None,
    ) -> Places:
        """Return the places of rows of given lengths, padded on one side.

        Args:
            lengths: Number of tokens of each row, host integers.
            width: Number of slots of every row, T; the longest length when None.
            side: Where the padding is: "right" or "left".
            start: Position of each row's first token, when earlier chunks came before; 0 when None.
            device: Where the tensors live.

        Raises:
            DataError: A length is negative or above `width`, `side` is neither word, or `start` is not one
                position a row.
        """
        width = max(lengths, default=0) if width is None else width
        if side not in ("right", "left"):
            raise DataError(f"side is {side!r}; padding goes to the 'right' or the 'left'")
        for row, length in enumerate(lengths):
            if not 0 <= length <= width:
                raise DataError(f"row {row} has length {length}, outside 0..{width} (the width of the batch)")
        if start is not None and len(start) != len(lengths):
            raise DataError(f"start has {len(start)} positions for {len(lengths)} rows; give one a row")
        starts = frozenset(start or (0,))
        if len(starts) == 1 and all(length == width for length in lengths):
            return Places.full(width, device, begin=next(iter(starts)))
        count = torch.tensor(lengths, device=device).unsqueeze(1)  # (B, 1)
        slot = torch.arange(width, device=device).unsqueeze(0)  # (1, T)
        rank = slot if side == "right" else slot - (width - count)
        real = (rank >= 0) & (rank < count)
        first = torch.tensor(start, device=device).unsqueeze(1) if start is not None else 0
        ends = [length + begin for length, begin in zip(lengths, start or [0] * len(lengths), strict=True)]
        highest = max(ends, default=0) - 1
        return Places(torch.where(real, rank + first, 0), torch.where(real, 0, NO_TOKEN), highest=highest, single=True)

    @staticmethod
    def from_keep(keep: Bool[Tensor, "batch length"]) -> Places:
        """Return the places of rows whose tokens are marked True; gaps are allowed.

        A token's position is its rank among the tokens of its row, as if the gaps were not there.

        Raises:
            DataError: `keep` is not a boolean tensor of two dimensions.
        """
        if keep.dtype != torch.bool or keep.ndim != 2:
            raise DataError(
                f"keep has type {keep.dtype} and shape {tuple(keep.shape)}; it must be a bool tensor "
                "(batch, length), True = a token stands here"
            )
        rank = keep.long().cumsum(1) - 1
        return Places(torch.where(keep, rank, 0), torch.where(keep, 0, NO_TOKEN), single=True)

    @staticmethod
    def packed(
        lengths: Sequence[Sequence[int]], width: int | None = None, device: torch.device | str | None = None
    ) -> Places:
        """Return the places of rows that each hold several documents, padded on the right.

        Args:
            lengths: For each row, the number of tokens of each of its documents.
            width: Number of slots of every row; the fullest row when None.
            device: Where the tensors live.

        Raises:
            DataError: A row holds more tokens than `width`.
        """
        width = max((sum(row) for row in lengths), default=0) if width is None else width
        position = torch.zeros(len(lengths), width, dtype=torch.long)
        segment = torch.full((len(lengths), width), NO_TOKEN)
        for row, documents in enumerate(lengths):
            if sum(documents) > width:
                raise DataError(f"row {row} holds {sum(documents)} tokens, more than its width {width}")
            begin = 0
            for index, length in enumerate(documents):
                position[row, begin : begin + length] = torch.arange(length)
                segment[row, begin : begin + length] = index
                begin += length
        plain = all(len(documents) == 1 and documents[0] == width for documents in lengths)
        highest = max((length for documents in lengths for length in documents), default=0) - 1
        if plain:
            return Places.full(width, device)
        single = all(len(documents) <= 1 for documents in lengths)
        return Places(position.to(device), segment.to(device), highest=highest, single=single)
