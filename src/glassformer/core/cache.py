"""Keys and values of earlier tokens, so that generating a token costs one token's work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.core.errors import DataError, UnsupportedError
from glassformer.core.places import NO_TOKEN, Places

VIEW_STEP = 128
"""Attention reads the filled slots rounded up to this many, so that shapes change rarely."""


@dataclass(frozen=True, eq=False)
class CachePlan:
    """Where one forward pass writes and what it then reads: worked out once, used by every layer.

    Attributes:
        queries: Places of the new tokens. *Shape:* (B, T), or (1, T) when plain.
        keys: Places of the keys that attention reads. *Shape:* (B, S), or (1, T) when fresh.
        slots: Slot of each new token; the spare slot for a non-token. *Shape:* (B, T). Where the rows go on in step,
            as they do when all are of one length, the slots are the same for all: then it is a slice.
        view: How many slots attention reads, S.
        fresh: True if nothing came before and nothing is padded: the new keys are all there is to see.
    """

    queries: Places
    keys: Places
    slots: Int[Tensor, "batch query"] | slice
    view: int
    fresh: bool


class LayerCache:
    """Keys and values of one layer, preallocated; one spare slot at the end takes what is not a token."""

    def __init__(
        self,
        keys: Float[Tensor, "batch kv_head slot d_head"],
        values: Float[Tensor, "batch kv_head slot d_head"],
    ):
        self.keys = keys
        self.values = values
        self.cross: tuple[Tensor, Tensor] | None = None
        """The memory's keys and values, written once a sentence by the cross-attention; beams share a row."""

    def write(
        self,
        k: Float[Tensor, "batch kv_head query d_head"],
        v: Float[Tensor, "batch kv_head query d_head"],
        plan: CachePlan,
    ) -> tuple[Tensor, Tensor]:
        """Store new keys and values, and return all that a query may look at. *Shapes:* (B, K, S, E)."""
        if torch.is_grad_enabled() and k.requires_grad:
            raise UnsupportedError("a cache is for inference: call the model under torch.no_grad()")
        # In step, one block for all rows; else each token to its own slot.
        rows = torch.arange(k.shape[0], device=k.device).unsqueeze(1) if isinstance(plan.slots, Tensor) else slice(None)
        self.keys.transpose(1, 2)[rows, plan.slots] = k.transpose(1, 2).to(self.keys.dtype)
        self.values.transpose(1, 2)[rows, plan.slots] = v.transpose(1, 2).to(self.values.dtype)
        if plan.fresh:
            return k, v
        return self.keys[:, :, : plan.view].to(k.dtype), self.values[:, :, : plan.view].to(v.dtype)


class KVCache:
    """The cache of one stack; it belongs to the caller, never to a module.

    Real tokens are written compacted (slot = the row's length + rank among its real tokens), so padding on
    either side costs no slot. Writing is repeatable until `advance`: a forward pass that is run twice gives
    the same result twice.

    Args:
        shapes: For each layer its number of key/value heads and its d_head.
        batch_size: Number of rows, B.
        capacity: Number of tokens a row can hold.
        device: Where the tensors live.
        dtype: Type of the stored keys and values.
    """

    def __init__(
        self,
        shapes: Sequence[tuple[int, int]],
        batch_size: int,
        capacity: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if batch_size < 1 or capacity < 1:
            raise DataError(f"a cache needs at least one row and one slot, not {batch_size} and {capacity}")
        self.capacity = capacity
        self.layers = []
        for heads, d_head in shapes:
            size = (batch_size, heads, capacity + 1, d_head)
            self.layers.append(
                LayerCache(
                    torch.zeros(size, device=device, dtype=dtype),
                    torch.zeros(size, device=device, dtype=dtype),
                )
            )
        self.position = torch.zeros(batch_size, capacity + 1, dtype=torch.long, device=device)
        self.segment = torch.full((batch_size, capacity + 1), NO_TOKEN, device=device)
        self.length = torch.zeros(batch_size, dtype=torch.long, device=device)
        self.lengths = [0] * batch_size
        """Tokens in each row, known to the host; the same numbers as `length`."""
        self._allocated = batch_size
        """Rows that there is storage for."""
        self._blank = True
        """Whether all that is not in use is zero: what a mask hides must still be finite."""
        self._in_step = True
        """Whether every row was written in step so far, so that slot i holds position i of one segment."""

    @property
    def batch_size(self) -> int:
        """The number of rows, B."""
        return len(self.lengths)

    @property
    def extent(self) -> int:
        """The number of tokens in the fullest row."""
        return max(self.lengths)

    def plan(self, places: Places | None, width: int) -> CachePlan:
        """Work out where `width` new slots of every row go and what they see.

        Args:
            places: Where the new tokens stand; None = all are tokens and go on from each row's length.
            width: Number of new slots, T.

        Raises:
            DataError: The new tokens do not fit, or are not as many rows as the cache has.
        """
        if places is None:
            places = self._following(width)
        if places.position.shape[0] not in (1, self.batch_size):
            raise DataError(f"{places.position.shape[0]} rows of places for a cache of {self.batch_size} rows")
        fresh = self.extent == 0 and places.plain
        if not torch.compiler.is_compiling() and self._goes_on_in_step(places):
            return self._plan_in_step(places, fresh)
        self._in_step = False
        if not self._blank:
            self._clear()
        real = places.is_token.expand(self.batch_size, -1)  # (B, T)
        count = real.sum(1)
        if self.extent + width > self.capacity:
            fullest = int((self.length + count).max())
            if fullest > self.capacity:
                raise DataError(
                    f"{fullest} tokens do not fit a cache of {self.capacity}; make it larger or truncate it"
                )
        slots = torch.where(real, self.length.unsqueeze(1) + real.long().cumsum(1) - 1, self.capacity)
        rows = torch.arange(self.batch_size, device=slots.device).unsqueeze(1)
        self.position[rows, slots] = places.position.expand(self.batch_size, -1)
        self.segment[rows, slots] = places.segment.expand(self.batch_size, -1)
        view = min(self.capacity, -(-(self.extent + width) // VIEW_STEP) * VIEW_STEP)
        if fresh:
            return CachePlan(places, places, slots, view, fresh)
        # A longer write that was never advanced must not show: only slots below the new length count.
        filled = torch.arange(view, device=slots.device) < (self.length + count).unsqueeze(1)
        keys = Places(self.position[:, :view], torch.where(filled, self.segment[:, :view], NO_TOKEN))
        return CachePlan(places, keys, slots, view, fresh)

    def _goes_on_in_step(self, places: Places) -> bool:
        return self._in_step and places.begin == self.extent == min(self.lengths)

    def _plan_in_step(self, places: Places, fresh: bool) -> CachePlan:
        """The new tokens are the next ones of every row: one block of slots, and keys without a gap.

        A compiled graph does without, for then every step would have a shape of its own.
        """
        begin, end = self.extent, self.extent + places.length
        if end > self.capacity:
            raise DataError(f"{end} tokens do not fit a cache of {self.capacity}; make it larger or truncate it")
        slots = slice(begin, end)
        self.position[:, slots], self.segment[:, slots] = places.position, places.segment
        keys = places if fresh else Places.full(end, self.length.device)
        return CachePlan(places, keys, slots, end, fresh)

    def _clear(self) -> None:
        for layer in self.layers:
            layer.keys[:, :, self.extent :] = layer.values[:, :, self.extent :] = 0.0
        self._blank = True

    def _following(self, width: int) -> Places:
        if self.extent == 0 or (not torch.compiler.is_compiling() and self.extent == min(self.lengths)):
            return Places.full(width, self.length.device, begin=self.extent)
        position = self.length.unsqueeze(1) + torch.arange(width, device=self.length.device)
        return Places(position, torch.zeros_like(position))

    def advance(self, counts: Sequence[int]) -> None:
        """Make the last forward pass final; only the loop that owns the cache calls this.

        Args:
            counts: Number of real tokens that each row was given.

        Raises:
            DataError: Not one count a row, or a row would overflow.
        """
        if len(counts) != self.batch_size:
            raise DataError(f"{len(counts)} counts for a cache of {self.batch_size} rows")
        lengths = [length + count for length, count in zip(self.lengths, counts, strict=True)]
        if max(lengths) > self.capacity or min(counts) < 0:
            raise DataError(f"lengths {lengths} do not fit a cache of {self.capacity}")
        self._set_lengths(lengths)

    def _set_lengths(self, lengths: list[int]) -> None:
        self.lengths = lengths
        self.length = torch.tensor(lengths, device=self.length.device)

    def select(self, rows: Sequence[int], memory_rows: Sequence[int] | None = None) -> None:
        """Keep only the given rows, in that order, a row once or several times; storage of which half is idle is freed.

        Args:
            rows: Rows of keys and values.
            memory_rows: Rows of the memory, where several rows share one; None = as many, and the same ones.

        Raises:
            DataError: There is no such row, none is left, or the memory has fewer rows and its own are not named.
        """
        sizes = {layer.cross[0].shape[0] for layer in self.layers if layer.cross is not None}  # one, or none
        if memory_rows is None and sizes - {self.batch_size}:
            raise DataError(
                f"the memory has {min(sizes)} rows, the cache {self.batch_size}; say which stay with memory_rows"
            )
        memory_rows = rows if memory_rows is None else memory_rows
        for size in sizes:
            _check_rows(memory_rows, size, "the memory of a cache")
        self._gather(rows)
        if not all(_all_in_order(memory_rows, size) for size in sizes):
            index = torch.tensor(memory_rows, device=self.length.device)
            for layer in self.layers:
                if layer.cross is not None:
                    layer.cross = (layer.cross[0][index], layer.cross[1][index])

    def reorder(self, rows: Sequence[int]) -> None:
        """Let row i go on from row `rows[i]`, within the same sentence: the cross cache stays as it is.

        Raises:
            DataError: There is no such row, or not one is named for each.
        """
        if len(rows) != self.batch_size:
            raise DataError(f"{len(rows)} rows for a cache of {self.batch_size}; use select to change their number")
        self._gather(rows)

    def _gather(self, rows: Sequence[int]) -> None:
        """Copy what is in use of rows that change; fewer than half of the rows move to storage of their own size."""
        _check_rows(rows, self.batch_size, "a cache")
        if _all_in_order(rows, self.batch_size):
            return
        device, number = self.length.device, len(rows)
        stays = self._allocated // 2 < number <= self.batch_size
        to = [i for i, row in enumerate(rows) if not stays or row != i]
        source, target = torch.tensor([rows[i] for i in to], device=device), torch.tensor(to, device=device)

        def moved(old: Tensor) -> Tensor:
            new = old[:number] if stays else old.new_empty(number, *old.shape[1:])
            if to:
                new.narrow(2, 0, self.extent).index_copy_(
                    0, target, old.narrow(2, 0, self.extent).index_select(0, source)
                )
            return new

        for layer in self.layers:
            layer.keys, layer.values = moved(layer.keys), moved(layer.values)
        if not stays:
            self._allocated, self._blank = number, False
            if not self._in_step:
                self._clear()
        whole = torch.tensor(rows, device=device)
        self.position, self.segment = self.position[whole], self.segment[whole]
        self._set_lengths([self.lengths[row] for row in rows])

    def truncate(self, lengths: Sequence[int]) -> None:
        """Forget the newest tokens, so that row i holds `lengths[i]`.

        Raises:
            DataError: A row would grow.
        """
        if len(lengths) != self.batch_size:
            raise DataError(f"{len(lengths)} lengths for a cache of {self.batch_size} rows")
        for row, (new, old) in enumerate(zip(lengths, self.lengths, strict=True)):
            if not 0 <= new <= old:
                raise DataError(f"row {row} holds {old} tokens and cannot be truncated to {new}")
        self._set_lengths(list(lengths))
        self.segment[torch.arange(self.capacity + 1, device=self.length.device) >= self.length.unsqueeze(1)] = NO_TOKEN


def _check_rows(rows: Sequence[int], size: int, what: str) -> None:
    if not rows:
        raise DataError("a cache needs at least one row; none is left")
    for row in rows:
        if not 0 <= row < size:
            raise DataError(f"there is no row {row} in {what} of {size} rows")


def _all_in_order(rows: Sequence[int], size: int) -> bool:
    return list(rows) == list(range(size))
