"""The residual stream through one layer: whether it is doubled, and whether what attention found stays in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from glassformer.diagnosis.flow import record
from glassformer.diagnosis.structure import norms_among

Run = Callable[[Tensor], Tensor]
"""A layer on one input (B, T, D), everything else as it was."""

CLOSE = 1e-4


@contextmanager
def without_matrices(module: nn.Module, but: Sequence[nn.Module] = ()) -> Iterator[None]:
    """Set every matrix, with its offsets, to zero for a while.

    Args:
        module: The layer.
        but: Parts that keep theirs.
    """
    kept = {id(parameter) for part in but for parameter in part.parameters()}
    chosen = [
        parameter
        for part in module.modules()
        if any(own.ndim >= 2 for own in part.parameters(recurse=False))
        for parameter in part.parameters(recurse=False)
        if id(parameter) not in kept
    ]
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


def attentions_inside(module: nn.Module, width: int) -> list[tuple[str, nn.Module]]:
    """Return the largest parts of a layer that hold two matrices or more, and none of a feed-forward network.

    Args:
        module: The layer.
        width: F, by which a matrix of the feed-forward network is known.
    """
    found: list[tuple[str, nn.Module]] = []
    for name, part in module.named_modules():
        if not name or any(name.startswith(f"{other}.") for other, _ in found):
            continue
        matrices = [parameter for parameter in part.parameters() if parameter.ndim == 2]
        if len(matrices) >= 2 and not any(width in parameter.shape for parameter in matrices):
            found.append((name, part))
    return found


def unheard(module: nn.Module, width: int, mixes: Callable[[], bool]) -> str | None:
    """Return the attention of which nothing is left where it is the only part with matrices; None = each counts.

    Args:
        module: The layer.
        width: F.
        mixes: Whether some position depends on another one, or on the memory.
    """
    for name, part in attentions_inside(module, width):
        with without_matrices(module, but=[part]):
            if not mixes():
                return name
    return None
