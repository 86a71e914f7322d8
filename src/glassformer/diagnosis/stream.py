"""The residual stream through one layer: whether it is doubled, and whether what attention found stays in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.diagnosis.flow import record
from glassformer.diagnosis.parts.recording import learned_in, product_of
from glassformer.diagnosis.probe import Probe
from glassformer.diagnosis.structure import matrices_of, norms_among

Run = Callable[[Tensor], Tensor]
"""A layer on one input (B, T, D), everything else as it was."""

CLOSE = 1e-4


@contextmanager
def without_matrices(module: nn.Module) -> Iterator[None]:
    """Set every matrix, with its offsets, to zero for a while."""
    chosen = matrices_of(module)
    values = [parameter.detach().clone() for parameter in chosen]
    try:
        with torch.no_grad():
            for parameter in chosen:
                parameter.zero_()
        yield
    finally:
        with torch.no_grad():
            for parameter, value in zip(chosen, values, strict=True):
                parameter.copy_(value)


def doubled(module: nn.Module, run: Run, x: Tensor) -> bool:
    """Return whether what came in is in the stream twice somewhere: with all matrices at zero, 2 x stands for x.

    What goes into each norm, and what comes out of the layer, is held against what came in and what norms returned.
    """
    with without_matrices(module):
        out: list[Tensor] = []
        calls = record(module, lambda: out.append(run(x)))
    streams = [x]
    for call in norms_among(calls):
        if call.first is None or call.result is None or call.first.shape != x.shape:
            continue
        if _twice(call.first, streams):
            return True
        if not proportional(call.result, call.first):  # a norm, and no dropout
            streams.append(call.result)
    return _twice(out[0], streams)


def _twice(value: Tensor, streams: Sequence[Tensor]) -> bool:
    times = [_times(value, stream) for stream in streams]
    return any(times) and not any(abs(each - 1) < CLOSE for each in times) and any(abs(t - 2) < CLOSE for t in times)


def _times(value: Tensor, stream: Tensor) -> float:
    """The number c of value = c stream; 0 where there is none."""
    a, b = value.double().flatten(), stream.double().flatten()
    factor = float(a @ b / (b @ b).clamp(min=1e-30))
    return factor if float((a - factor * b).abs().max()) <= CLOSE * float(b.abs().max()) else 0.0


def proportional(one: Tensor, other: Tensor | None) -> bool:
    """Return whether a tensor is a number times another: what a norm returns is none of what it is given."""
    return other is not None and one.shape == other.shape and bool(_times(one, other))


class _Route(Probe):
    """Changes what one attention of a layer found, and answers others, and some products, with zeros.

    Args:
        learned: Where the layer's parameters are.
        bump: The attention whose mixture is changed; None = none.
        mute: Attentions of which nothing is to be left.
        silent: Products with learned matrices of which nothing is to be left, by number.
    """

    def __init__(
        self, learned: frozenset[int], bump: int | None = None, mute: Collection[int] = (), silent: int | None = None
    ) -> None:
        super().__init__()
        self.inputs: list[tuple[Tensor, bool]] = []
        """What went into each product, and whether it leads to another width."""
        self.count = 0
        self._learned, self._number, self._mute, self._silent = learned, bump, mute, silent

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = super().__torch_function__(func, types, args, kwargs)
        if func is F.multi_head_attention_forward:
            return self._bumped(result[0]), *result[1:]
        made = product_of(func.__name__, args, dict(kwargs or {}), result, self._learned)
        if made is None:
            return result
        self.inputs.append((made.x, made.x.shape[-1] != made.y.shape[-1]))
        return torch.zeros_like(result) if self._silent == len(self.inputs) - 1 else result

    def _bumped(self, out: Tensor) -> Tensor:
        number, self.count = self.count, self.count + 1
        if number in self._mute:
            return torch.zeros_like(out)
        wave = torch.arange(out.numel(), dtype=out.dtype, device=out.device).sin().view(out.shape)
        return out + wave if number == self._number else out


def dropped(module: nn.Module, run: Callable[[], Tensor]) -> bool:
    """Return whether what some attention found is not in what a layer hands on, but only in what is added to that.

    The last matrix of the feed-forward network and every later attention are answered with zeros; what comes out must
    still change with what the attention found.

    Args:
        module: The layer.
        run: Calls it.
    """
    learned = learned_in([module])

    def through(route: _Route) -> tuple[Tensor, _Route]:
        with route, torch.no_grad():
            return run(), route

    base, plain = through(_Route(learned))
    for number in range(plain.count):
        out, bumped = through(_Route(learned, number))
        pairs = zip(plain.inputs, bumped.inputs, strict=False)
        moved = [at for at, ((a, _), (b, _)) in enumerate(pairs) if a.shape == b.shape and not torch.equal(a, b)]
        last = moved[-1] if len(moved) > 1 and plain.inputs[moved[-1]][1] else None
        later = range(number + 1, plain.count)
        if torch.equal(base, out) or (last is None and not later):
            continue
        without, _ = through(_Route(learned, None, later, last))
        changed, _ = through(_Route(learned, number, later, last))
        if torch.equal(without, changed):
            return True
    return False
