"""What passes through a model's modules, and where a difference first comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

Outcome = Callable[[], object]


@dataclass(eq=False)
class Passed:
    """One call of one module.

    Attributes:
        name: Its path in the model.
        module: The module.
        args: What it was called with.
        kwargs: And by name.
        output: What it returned.
    """

    name: str
    module: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    output: Any = None

    @property
    def inputs(self) -> list[Tensor]:
        """The tensors among what it was called with."""
        return list(tensors_in((self.args, dict(self.kwargs))))

    @property
    def first(self) -> Tensor | None:
        """The first tensor with numbers that it was called with."""
        return next((t for t in self.inputs if t.is_floating_point()), None)

    @property
    def result(self) -> Tensor | None:
        """The first tensor with numbers that it returned."""
        return next((t for t in tensors_in(self.output) if t.is_floating_point()), None)


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested tuples, lists and mappings, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from tensors_in(each)
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from tensors_in(each)


def record(model: nn.Module, run: Outcome) -> list[Passed]:
    """Return every call of every module while `run` runs, in the order in which they end.

    Args:
        model: What runs.
        run: Runs it.
    """
    calls: list[Passed] = []
    handles = []
    for name, module in model.named_modules():
        if name:

            def keep(module: nn.Module, args: Any, kwargs: Any, output: Any, name: str = name) -> None:
                calls.append(Passed(name, module, args, kwargs, output))

            handles.append(module.register_forward_hook(keep, with_kwargs=True))
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return calls


@dataclass(frozen=True)
class Places:
    """Which positions must not change, by the number of positions.

    Attributes:
        still: For a length, the positions of that axis that must stay; a length that is not there is not looked at.
        rows: Rows of the batch; batches that were flattened into time are taken apart by it.
    """

    still: Mapping[int, Tensor]
    rows: int
    tolerance: float = 1e-5
    _cached: dict[int, Tensor] = field(default_factory=dict)

    def part(self, tensor: Tensor) -> Tensor | None:
        """Return what must not change of a tensor; None if it has no axis of time, or two of them."""
        sizes = list(tensor.shape)
        found = [(axis, length) for length in self.still for axis, size in enumerate(sizes[:4]) if size == length]
        if len(found) == 1:
            axis, length = found[0]
            return tensor.index_select(axis, self.still[length].to(tensor.device).nonzero().flatten())
        if not found and tensor.ndim == 2:
            for length, still in self.still.items():
                if sizes[0] == self.rows * length:
                    apart = tensor.reshape(self.rows, length, -1)
                    return apart.index_select(1, still.to(tensor.device).nonzero().flatten())
        return None

    def changed(self, one: Tensor, other: Tensor) -> bool:
        """True if something that must stay is different."""
        if one.shape != other.shape:
            return False
        a, b = self.part(one), self.part(other)
        if a is None or b is None or a.numel() == 0:
            return False
        if not a.is_floating_point():
            return not torch.equal(a, b)
        size = a.double().pow(2).mean().sqrt().clamp(min=1e-30)
        gap = (a.double() - b.double()).abs().nan_to_num(1e30).max()
        return bool(gap > self.tolerance * size)


def first_changed(before: Sequence[Passed], after: Sequence[Passed], places: Places) -> Passed | None:
    """Return the first module that turns inputs that stayed into an output that did not.

    Args:
        before: The calls of one run.
        after: Those of a run with something else.
        places: What must not change.
    """
    if [call.name for call in before] != [call.name for call in after]:
        return None
    for one, other in zip(before, after, strict=True):
        a, b = one.result, other.result
        if a is None or b is None or not places.changed(a, b):
            continue
        given = zip(one.inputs, other.inputs, strict=False)
        if not any(places.changed(x, y) for x, y in given):
            return one
    return None
