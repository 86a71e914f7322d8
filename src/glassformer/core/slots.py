"""Slots for the keys and values of those layers of a stack that keep equally many tokens."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.core.errors import UnsupportedError
from glassformer.core.places import NO_TOKEN, Places

VIEW_STEP = 128
"""Attention reads the filled slots rounded up to this many, so that shapes change rarely."""

SLACK = 128
"""Slots of a window beyond those it needs, so that its oldest tokens are thrown out this seldom."""


@dataclass(frozen=True, eq=False)
class SlotPlan:
    """Where one forward pass writes in these slots and what it then reads.

    Attributes:
        keys: Places of the keys that attention reads. *Shape:* (B, S), or (1, S) where all rows are alike.
        slots: Slot of each new token; the spare slot for a non-token. *Shape:* (B, T). Where the rows go on in step,
            as they do when all are of one length, the slots are the same for all: then it is a slice.
        start: The first slot that attention reads.
        view: The slot behind the last one.
        fresh: True if nothing came before and nothing is padded: the new keys are all there is to see.
    """

    keys: Places
    slots: Int[Tensor, "batch query"] | slice
    start: int
    view: int
    fresh: bool


class LayerCache:
    """What one layer keeps.

    Attributes:
        cross: The memory's keys and values, written once a sentence by the cross-attention; beams share a row.
    """

    def __init__(self) -> None:
        self.cross: tuple[Tensor, Tensor] | None = None

    def tensors(self) -> list[Tensor]:
        """Return all that is kept."""
        return list(self.cross or ())


class KeyCache(LayerCache):
    """Keys and values of one layer; one spare slot at the end takes what is not a token.

    Args:
        keys: *Shape:* (B, K, size + 1, E).
        values: Of the same shape.
    """

    def __init__(
        self,
        keys: Float[Tensor, "batch kv_head slot d_head"],
        values: Float[Tensor, "batch kv_head slot d_head"],
    ) -> None:
        super().__init__()
        self.keys = keys
        self.values = values

    def tensors(self) -> list[Tensor]:
        """Return all that is kept."""
        return [self.keys, self.values, *super().tensors()]

    def write(
        self,
        k: Float[Tensor, "batch kv_head query d_head"],
        v: Float[Tensor, "batch kv_head query d_head"],
        plan: SlotPlan,
    ) -> tuple[Tensor, Tensor]:
        """Store new keys and values, and return all that a query may look at. *Shapes:* (B, K, S, E).

        Raises:
            UnsupportedError: They have a gradient.
        """
        refuse_gradients(k)
        if isinstance(plan.slots, Tensor):  # each token to its own slot
            rows = torch.arange(k.shape[0], device=k.device).unsqueeze(1)
            self.keys.transpose(1, 2)[rows, plan.slots] = k.transpose(1, 2).to(self.keys.dtype)
            self.values.transpose(1, 2)[rows, plan.slots] = v.transpose(1, 2).to(self.values.dtype)
        else:  # in step, one block for all rows
            self.keys[:, :, plan.slots] = k
            self.values[:, :, plan.slots] = v
        if plan.fresh:
            return k, v
        seen = slice(plan.start, plan.view)
        return self.keys[:, :, seen].to(k.dtype), self.values[:, :, seen].to(v.dtype)


class Slots:
    """The slots of all layers with one window: each row's real tokens, compacted, the newest ones last.

    Without a window a row keeps all tokens, up to the capacity. With one it keeps the newest window - 1, which is what
    the next query can see besides itself, and up to `SLACK` more: they are thrown out together when they fill it. A
    chunk that is longer than the slack is taken in whole, and its storage given back once it is final.

    Args:
        window: Number of tokens a query sees, itself included; None = all.
        batch_size: Number of rows, B.
        capacity: Number of tokens a row can be given; None, with a window: as many as you like.
        device: Where the tensors live.
    """

    def __init__(
        self, window: int | None, batch_size: int, capacity: int | None, *, device: torch.device | str | None
    ) -> None:
        sizes = [capacity] if window is None else [capacity, window - 1 + SLACK]
        self.window = window
        self.capacity = capacity
        self.usual = min(size for size in sizes if size is not None)
        """Slots of a row, without the spare one, while no long chunk is being taken in."""
        self.size = self.usual
        """Slots of a row there are now."""
        self.layers: list[KeyCache] = []
        self.position = torch.zeros(batch_size, self.size + 1, dtype=torch.long, device=device)
        self.segment = torch.full((batch_size, self.size + 1), NO_TOKEN, device=device)
        self.filled = torch.zeros(batch_size, dtype=torch.long, device=device)
        self.held = [0] * batch_size
        """Tokens in each row's slots, known to the host; the same numbers as `filled`."""
        self.dropped = [0] * batch_size
        """Tokens of each row that were thrown out."""
        self._allocated = batch_size
        """Rows that there is storage for."""
        self._blank = True
        """Whether all that is not in use is zero: what a mask hides must still be finite."""
        self._in_step = True
        """Whether every row was written in step so far, so that slots hold consecutive positions of one segment."""

    @property
    def extent(self) -> int:
        """The number of tokens in the fullest row's slots."""
        return max(self.held)

    def add(self, n_kv_heads: int, d_head: int, dtype: torch.dtype) -> KeyCache:
        """Return a new layer's keys and values in these slots."""
        size = (len(self.held), n_kv_heads, self.size + 1, d_head)
        device = self.filled.device
        layer = KeyCache(torch.zeros(size, device=device, dtype=dtype), torch.zeros(size, device=device, dtype=dtype))
        self.layers.append(layer)
        return layer

    def plan(
        self, places: Places, real: Bool[Tensor, "batch length"] | None, *, in_step: bool, fresh: bool
    ) -> SlotPlan:
        """Work out where new tokens go and what they see; there is room for them in the capacity.

        Args:
            places: Where the new tokens stand.
            real: Which of them are tokens; None, only in step: all. *Shape:* (B, T).
            in_step: Whether all rows are of one length and go on from it.
            fresh: Whether nothing came before, and nothing is padded.
        """
        self._make_room(places.length)
        if in_step and self.goes_in_step:
            return self._plan_in_step(places, fresh)
        assert real is not None, "rows out of step are told which slots are tokens"
        self._in_step = False
        if not self._blank:
            self._clear()
        count = real.sum(1)
        slots = torch.where(real, self.filled.unsqueeze(1) + real.long().cumsum(1) - 1, self.size)
        rows = torch.arange(len(self.held), device=slots.device).unsqueeze(1)
        self.position[rows, slots] = places.position.expand(len(self.held), -1)
        self.segment[rows, slots] = places.segment.expand(len(self.held), -1)
        view = min(self.size, -(-(self.extent + places.length) // VIEW_STEP) * VIEW_STEP)
        if fresh:
            return SlotPlan(places, slots, 0, view, fresh)
        # A longer write that was never advanced must not show: only slots below the new length count.
        shown = torch.arange(view, device=slots.device) < (self.filled + count).unsqueeze(1)
        keys = Places(self.position[:, :view], torch.where(shown, self.segment[:, :view], NO_TOKEN))
        return SlotPlan(keys, slots, 0, view, fresh)

    @property
    def goes_in_step(self) -> bool:
        """Whether every row was written in step so far, and holds as many tokens."""
        return self._in_step and self.extent == min(self.held)

    def _plan_in_step(self, places: Places, fresh: bool) -> SlotPlan:
        """The new tokens are the next ones of every row: one block of slots, and keys without a gap.

        A compiled graph does without, for then every step would have a shape of its own.
        """
        assert places.begin is not None, "rows in step stand one token behind another"
        begin, end = self.extent, self.extent + places.length
        slots = slice(begin, end)
        self.position[:, slots], self.segment[:, slots] = places.position, places.segment
        start = 0 if self.window is None else max(begin - self.window + 1, 0)
        first = places.begin - (begin - start)
        keys = places if fresh else Places.full(end - start, self.filled.device, begin=first)
        return SlotPlan(keys, slots, start, end, fresh)

    def advance(self, counts: Sequence[int]) -> None:
        """Make `counts` new tokens of each row final; what no query will see again may go."""
        self._hold([held + count for held, count in zip(self.held, counts, strict=True)])
        if self.window is None or self.usual == self.capacity:
            return
        if self.extent >= self.size or self.size > self.usual:
            self._drop()
            if self.size > self.usual:
                self._resize(self.usual)

    def refuse_truncation(self, lengths: Sequence[int], whole: Sequence[int]) -> None:
        """Refuse to go back to where what the next query sees is no longer there.

        Args:
            lengths: Number of tokens each row shall have.
            whole: Number it has, thrown out ones included.

        Raises:
            UnsupportedError: Of a row, some of it was thrown out.
        """
        for row, (new, old) in enumerate(zip(lengths, whole, strict=True)):
            if self.window is not None and new not in (0, old) and self.dropped[row] > max(new - self.window + 1, 0):
                raise UnsupportedError(
                    f"row {row} cannot go back from {old} tokens to {new}: of a window of {self.window} the first "
                    f"{self.dropped[row]} are gone; truncate it to 0 and give the model its text again, or do without "
                    "a cache (use_cache=False)"
                )

    def truncate(self, lengths: Sequence[int]) -> None:
        """Forget the newest tokens of each row; see `refuse_truncation`."""
        self.dropped = [min(old, new) for old, new in zip(self.dropped, lengths, strict=True)]
        self._hold([new - old for old, new in zip(self.dropped, lengths, strict=True)])
        self.segment[torch.arange(self.size + 1, device=self.filled.device) >= self.filled.unsqueeze(1)] = NO_TOKEN

    def gather(self, rows: Sequence[int]) -> None:
        """Copy what is in use of rows that change; fewer than half of the rows move to storage of their own size."""
        device, number = self.filled.device, len(rows)
        stays = self._allocated // 2 < number <= len(self.held)
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
        self.dropped = [self.dropped[row] for row in rows]
        self._hold([self.held[row] for row in rows])

    def _hold(self, held: list[int]) -> None:
        self.held = held
        self.filled = torch.tensor(held, device=self.filled.device)

    def _clear(self) -> None:
        for layer in self.layers:
            layer.keys[:, :, self.extent :] = layer.values[:, :, self.extent :] = 0.0
        self._blank = True

    def _make_room(self, width: int) -> None:
        """Slots for `width` more tokens of every row, where old ones may go for them."""
        if self.window is None or self.size == self.capacity or self.extent + width <= self.size:
            return
        self._drop()
        if self.extent + width > self.size:
            needed = self.extent + width
            self._resize(needed if self.capacity is None else min(needed, self.capacity))

    def _drop(self) -> None:
        """Throw out all but the newest window - 1 tokens of each row."""
        assert self.window is not None, "without a window every token stays"
        kept, extent = self.window - 1, self.extent
        shifts = [max(held - kept, 0) for held in self.held]
        if not any(shifts):
            return
        if min(shifts) == max(shifts):
            begin = shifts[0]
            for layer in self.layers:
                for old in (layer.keys, layer.values):
                    old[:, :, :kept] = old[:, :, begin : begin + kept].clone()
            for places in (self.position, self.segment):
                places[:, :kept] = places[:, begin : begin + kept].clone()
        else:
            shift = torch.tensor(shifts, device=self.filled.device).unsqueeze(1)
            index = (torch.arange(extent, device=shift.device) + shift).clamp(max=extent - 1)  # (B, extent)
            for layer in self.layers:
                for old in (layer.keys, layer.values):
                    whole = index[:, None, :, None].expand(-1, old.shape[1], -1, old.shape[3])
                    old[:, :, :extent] = old.gather(2, whole)
            for places in (self.position, self.segment):
                places[:, :extent] = places.gather(1, index)
        self.dropped = [dropped + shift for dropped, shift in zip(self.dropped, shifts, strict=True)]
        self._hold([held - shift for held, shift in zip(self.held, shifts, strict=True)])

    def _resize(self, size: int) -> None:
        """Move to storage of another size; it may be written to under any mode of autograd."""
        number, extent = len(self.held), self.extent
        with nullcontext() if torch.compiler.is_compiling() else torch.inference_mode(mode=False):
            for layer in self.layers:
                layer.keys, layer.values = (
                    _moved(old, old.new_zeros(number, old.shape[1], size + 1, old.shape[3]), extent, dim=2)
                    for old in (layer.keys, layer.values)
                )
            self.position = _moved(self.position, self.position.new_zeros(number, size + 1), extent, dim=1)
            blank = self.segment.new_full((number, size + 1), NO_TOKEN)
            self.segment = _moved(self.segment, blank, extent, dim=1)
        self.size, self._allocated, self._blank = size, number, True


def refuse_gradients(k: Tensor) -> None:
    """Refuse keys with a gradient.

    Raises:
        UnsupportedError: They have one.
    """
    if torch.is_grad_enabled() and k.requires_grad:
        raise UnsupportedError("a cache is for inference: call the model under torch.no_grad()")


def _moved(old: Tensor, new: Tensor, extent: int, dim: int) -> Tensor:
    new.narrow(dim, 0, extent).copy_(old.narrow(dim, 0, extent))
    return new
