"""What a stack keeps of earlier tokens, so that generating a token costs one token's work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.core.errors import DataError, UnsupportedError
from glassformer.core.places import Places
from glassformer.core.recurrent import StateCache
from glassformer.core.slots import LayerCache, SlotPlan, Slots


class LayerShape(NamedTuple):
    """What one layer needs kept.

    Attributes:
        n_kv_heads: Number of key/value heads, K.
        d_head: Width of a head, E.
        window: Keys and values of the newest window - 1 tokens suffice; None = of all.
        recurrent: No keys and values at all, but sums over them.
    """

    n_kv_heads: int
    d_head: int
    window: int | None = None
    recurrent: bool = False


@dataclass(frozen=True, eq=False)
class CachePlan:
    """Where one forward pass writes and what it then reads: worked out once, used by every layer.

    Attributes:
        queries: Places of the new tokens. *Shape:* (B, T), or (1, T) when plain.
        slots: Of each window among the layers.
        of_layer: For each layer, which of `slots` is its own; None where it keeps no keys.
    """

    queries: Places
    slots: tuple[SlotPlan, ...]
    of_layer: tuple[int | None, ...]

    def at(self, layer: int) -> SlotPlan | None:
        """Return what a layer writes and reads; None where it keeps no keys."""
        which = self.of_layer[layer]
        return None if which is None else self.slots[which]


class KVCache:
    """The cache of one stack; it belongs to the caller, never to a module.

    A layer keeps what its attention needs: keys and values of all tokens, those of the newest ones that its window
    shows, or, in linear attention, two sums. Real tokens are written compacted, so padding on either side costs no
    slot. Writing is repeatable until `advance`: a forward pass that is run twice gives the same result twice.

    The tokens of a row come in the order of their positions. Several documents may follow one another in a row, except
    where a layer is recurrent.

    Args:
        shapes: What each layer needs.
        batch_size: Number of rows, B.
        capacity: Number of tokens a row can be given; None, where no layer keeps all: as many as you like.
        device: Where the tensors live.
        dtype: Type of the stored keys and values; sums are in float32 at least.

    Raises:
        DataError: There is no row or no slot, or `capacity` is None and a layer keeps all keys.
    """

    def __init__(
        self,
        shapes: Sequence[LayerShape],
        batch_size: int,
        capacity: int | None,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if batch_size < 1 or (capacity is not None and capacity < 1):
            raise DataError(f"a cache needs at least one row and one slot, not {batch_size} and {capacity}")
        whole = [layer for layer, shape in enumerate(shapes) if shape.window is None and not shape.recurrent]
        if capacity is None and whole:
            raise DataError(
                f"capacity is None, but layers {whole} keep the keys of all tokens: say how many tokens a row can hold"
            )
        self.capacity = capacity
        windows: dict[int | None, int] = {}
        self.slots: list[Slots] = []
        """Those of each window among the layers; None is one."""
        self.layers: list[LayerCache] = []
        self.of_layer: tuple[int | None, ...] = ()
        """For each layer, which of `slots` is its own; None where it keeps no keys."""
        for shape in shapes:
            if shape.recurrent:
                exact = torch.promote_types(dtype, torch.float32)
                state = StateCache(batch_size, shape.n_kv_heads, shape.d_head, device=device, dtype=exact)
                self.layers.append(state)
                self.of_layer += (None,)
                continue
            if shape.window not in windows:
                windows[shape.window] = len(self.slots)
                self.slots.append(Slots(shape.window, batch_size, capacity, device=device))
            which = windows[shape.window]
            self.layers.append(self.slots[which].add(shape.n_kv_heads, shape.d_head, dtype))
            self.of_layer += (which,)
        self.states = [layer for layer in self.layers if isinstance(layer, StateCache)]
        self.length = torch.zeros(batch_size, dtype=torch.long, device=device)
        self.lengths = [0] * batch_size
        """Tokens that each row was given, known to the host; the same numbers as `length`."""
        self._given: Tensor | int = 0
        """Tokens that the last forward pass gave each row, where a layer is recurrent."""

    @property
    def batch_size(self) -> int:
        """The number of rows, B."""
        return len(self.lengths)

    @property
    def extent(self) -> int:
        """The number of tokens in the fullest row."""
        return max(self.lengths)

    @property
    def n_bytes(self) -> int:
        """The memory that it takes, in bytes; rows that were selected away may still have theirs."""
        tensors = [part for layer in self.layers for part in layer.tensors()]
        tensors += [part for slots in self.slots for part in (slots.position, slots.segment)]
        return sum(part.untyped_storage().nbytes() for part in tensors)

    def plan(self, places: Places | None, width: int) -> CachePlan:
        """Work out where `width` new slots of every row go and what they see.

        Args:
            places: Where the new tokens stand; None = all are tokens and go on from each row's length.
            width: Number of new slots, T.

        Raises:
            DataError: The new tokens do not fit, or are not as many rows as the cache has.
            UnsupportedError: A layer is recurrent, and it is not known that each row is one text in order.
        """
        if places is None:
            places = self._following(width)
        if places.position.shape[0] not in (1, self.batch_size):
            raise DataError(f"{places.position.shape[0]} rows of places for a cache of {self.batch_size} rows")
        if self.states and not places.single:
            raise UnsupportedError(
                "layers of linear attention carry the sums of one text a row along: with a cache, places must come "
                "from Places.full, from_lengths or from_keep; several texts in a row need a forward pass without one"
            )
        compiled = torch.compiler.is_compiling()
        in_step = not compiled and places.begin is not None and places.begin == self.extent == min(self.lengths)
        real = None
        if not in_step or any(not slots.goes_in_step for slots in self.slots):
            real = places.is_token.expand(self.batch_size, -1)  # (B, T)
        if self.capacity is not None and self.extent + width > self.capacity:
            fullest = self.extent + width if real is None else int((self.length + real.sum(1)).max())
            if fullest > self.capacity:
                raise DataError(
                    f"{fullest} tokens do not fit a cache of {self.capacity}; make it larger or truncate it"
                )
        if self.states:
            self._given = width if places.begin is not None or real is None else real.sum(1)
        fresh = self.extent == 0 and places.plain
        slots = tuple(each.plan(places, real, in_step=in_step, fresh=fresh) for each in self.slots)
        return CachePlan(places, slots, self.of_layer)

    def _following(self, width: int) -> Places:
        if self.extent == 0 or (not torch.compiler.is_compiling() and self.extent == min(self.lengths)):
            return Places.full(width, self.length.device, begin=self.extent)
        position = self.length.unsqueeze(1) + torch.arange(width, device=self.length.device)
        return Places(position, torch.zeros_like(position), single=True)

    def advance(self, counts: Sequence[int]) -> None:
        """Make the last forward pass final; only the loop that owns the cache calls this.

        Args:
            counts: Number of real tokens that each row was given; fewer make only the first ones final.

        Raises:
            DataError: Not one count a row, or a row would overflow; or fewer, where a layer is recurrent.
        """
        if len(counts) != self.batch_size:
            raise DataError(f"{len(counts)} counts for a cache of {self.batch_size} rows")
        lengths = [length + count for length, count in zip(self.lengths, counts, strict=True)]
        if min(counts) < 0 or (self.capacity is not None and max(lengths) > self.capacity):
            raise DataError(f"lengths {lengths} do not fit a cache of {self.capacity}")
        if self.states:
            given = [self._given] * self.batch_size if isinstance(self._given, int) else self._given.tolist()
            if given != list(counts):
                raise DataError(
                    f"the rows were given {given} tokens and are advanced by {list(counts)}: layers of linear "
                    "attention have added up all of them, and part of a sum cannot be made final"
                )
            self._given = 0
        for slots in self.slots:
            slots.advance(counts)
        for state in self.states:
            state.advance()
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
        _check_rows(rows, self.batch_size, "a cache")
        if _all_in_order(rows, self.batch_size):
            return
        for slots in self.slots:
            slots.gather(rows)
        for state in self.states:
            state.gather(rows)
        self._given = 0
        self._set_lengths([self.lengths[row] for row in rows])

    def truncate(self, lengths: Sequence[int]) -> None:
        """Forget the newest tokens, so that row i holds `lengths[i]`.

        Back to nothing it always goes. Else a window must still hold what its next query sees, and a recurrent layer
        cannot go back at all: it has only the sum.

        Raises:
            DataError: A row would grow.
            UnsupportedError: A layer no longer has what it would go back to; then nothing has changed.
        """
        if len(lengths) != self.batch_size:
            raise DataError(f"{len(lengths)} lengths for a cache of {self.batch_size} rows")
        for row, (new, old) in enumerate(zip(lengths, self.lengths, strict=True)):
            if not 0 <= new <= old:
                raise DataError(f"row {row} holds {old} tokens and cannot be truncated to {new}")
            if self.states and new not in (0, old):
                raise UnsupportedError(
                    f"row {row} cannot go back from {old} tokens to {new}: layers of linear attention keep the sum of "
                    "all of them; truncate it to 0 and give the model its text again, or do without a cache "
                    "(use_cache=False)"
                )
        for slots in self.slots:
            slots.refuse_truncation(lengths, self.lengths)
        for slots in self.slots:
            slots.truncate(lengths)
        for state in self.states:
            state.clear([row for row, length in enumerate(lengths) if length == 0])
        self._given = 0
        self._set_lengths(list(lengths))


def _check_rows(rows: Sequence[int], size: int, what: str) -> None:
    if not rows:
        raise DataError("a cache needs at least one row; none is left")
    for row in rows:
        if not 0 <= row < size:
            raise DataError(f"there is no row {row} in {what} of {size} rows")


def _all_in_order(rows: Sequence[int], size: int) -> bool:
    return list(rows) == list(range(size))
