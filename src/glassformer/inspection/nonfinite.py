"""Where a forward pass first made a NaN or an infinity."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

Kind = Literal["parameter", "input", "output", "result"]


@dataclass(frozen=True)
class Finding:
    """The first tensor that is not finite.

    Attributes:
        site: Path of the module or parameter, such as "decoder.blocks.1.feed_forward.output".
        kind: "output" of a module whose input was finite; "parameter" that spoilt such an output; "input"
            that was spoilt before the first module saw it; or "result", when every module's output is finite and
            the loss is not.
        value: The first bad value: nan, inf or -inf.
        dtype: Type of the bad tensor.
        shape: Its shape.
        index: Where the first bad value stands in it.
        largest_finite_input: Size of the largest finite number that the module was given; None where no
            module is named or nothing floating was given.
        bad: True where the tensor is not finite. *Shape:* that of the tensor.
        sizes: Of what each module was given until then, the largest: two runs that differ in them drew other numbers.
    """

    site: str
    kind: Kind
    value: float
    dtype: torch.dtype
    shape: tuple[int, ...]
    index: tuple[int, ...]
    largest_finite_input: float | None = None
    bad: Tensor = field(default_factory=lambda: torch.ones(()), repr=False, compare=False)
    sizes: tuple[float | None, ...] = field(default=(), repr=False)

    @property
    def row(self) -> int | None:
        """First coordinate of the bad value: a sample of the batch, or a row of the matrix."""
        return self.index[0] if self.index else None

    @property
    def column(self) -> int | None:
        """Second coordinate of the bad value: a token's position, or a column of the matrix."""
        return self.index[1] if len(self.index) > 1 else None

    def describe(self) -> str:
        """Return two sentences for a person."""
        bad = said_of(self.value, self.dtype, self.index, self.shape)
        if self.kind == "parameter":
            return f"The parameter {self.site} is not finite: {bad}. All that is made with it is spoilt."
        if self.kind == "result":
            return f"The result is not finite: {bad}. Every module's output is; it went wrong after the last."
        if self.kind == "input":
            return (
                f"The output of {self.site} is the first that is not finite: {bad}. Its input was spoilt "
                "already, and by no module: look at what the model is given."
            )
        given = self.largest_finite_input
        size = "" if given is None else f", at most {given:g} in size"
        overflow = self.dtype == torch.float16 and math.isinf(self.value)
        way_out = "; bfloat16 and float32 go on beyond that" if overflow else ""
        return f"The output of {self.site} is the first that is not finite: {bad}. Its input is finite{size}{way_out}."


def said_of(value: float, dtype: torch.dtype, index: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Return what a bad number is, in words: with its type, the largest number of that, and its place."""
    where = f" at {list(index)} of shape {list(shape)}" if shape else ""
    return f"{value} in {str(dtype).removeprefix('torch.')} (which ends at {torch.finfo(dtype).max:.5g}){where}"


def first_non_finite(model: nn.Module, run: Callable[[], Tensor]) -> Finding | None:
    """Repeat a forward pass and return what first went wrong in it; None if everything is finite.

    The culprit is the first module to finish with an output that is not finite, although all it was given is.
    Modules finish before those that contain them, so a linear layer that overflows is named, and not its
    block; and what goes wrong inside a module between its children (a softmax, a residual addition) is put
    down to that module. A culprit with a parameter that is not finite is innocent: the parameter is named
    instead.

    Watching takes hooks, which are removed again, and reads every value: this is for after the accident, on
    the batch that caused it. What holds 0 and -inf and nothing else is a mask to be added, and counts as
    finite. Modules inside a compiled graph are not seen; give the eager model.

    Args:
        model: Any module.
        run: Runs the forward pass in question and returns its loss or output. The same random state,
            precision and mode as in the accident are its business.
    """
    watch = _Watch()
    handles = []
    try:
        for path, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(watch.before, with_kwargs=True))
            handles.append(module.register_forward_hook(partial(watch.after, path or "model")))
        result = run()
    finally:
        for handle in handles:
            handle.remove()
    found = watch.found or watch.spoilt
    if found is None and not is_finite(result):
        found = _finding("result", "result", result)
    return None if found is None else replace(found, sizes=tuple(watch.sizes))


class _Watch:
    """What the hooks of one run have seen."""

    def __init__(self) -> None:
        self.found: Finding | None = None
        self.spoilt: Finding | None = None
        self.given: dict[nn.Module, tuple[bool, float | None]] = {}
        self.sizes: list[float | None] = []

    def before(self, module: nn.Module, arguments: Any, named: Any) -> None:
        """Judge the input while it is what it is: a module may overwrite it."""
        if self.found is None:
            tensors = list(tensors_in((arguments, named)))
            sizes = [size for tensor in tensors if (size := largest_finite(tensor)) is not None]
            self.given[module] = all(map(_is_clean, tensors)), max(sizes, default=None)
            self.sizes.append(self.given[module][1])

    def after(self, path: str, module: nn.Module, arguments: Any, output: Any) -> None:
        if self.found is not None or module not in self.given:
            return
        clean, size = self.given.pop(module)
        bad = next((tensor for tensor in tensors_in(output) if not _is_clean(tensor)), None)
        if bad is None:
            return
        if not clean:
            self.spoilt = self.spoilt or _finding(path, "input", bad, size)
            return
        self.found = _finding(path, "output", bad, size)
        for name, parameter in module.named_parameters():
            if not is_finite(parameter):
                site = name if path == "model" else f"{path}.{name}"
                self.found = _finding(site, "parameter", parameter, size)
                return


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every floating tensor in what a module takes or returns."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors_in(item)


@torch.no_grad()
def is_finite(tensor: Tensor) -> bool:
    """True without a NaN or an infinity."""
    return bool(torch.isfinite(tensor).all())


@torch.no_grad()
def _is_clean(tensor: Tensor) -> bool:
    """True without a NaN or an infinity, and for a mask to be added: both 0 and -inf, and nothing else."""
    if is_finite(tensor):
        return True
    zero = tensor == 0
    return bool(zero.any()) and bool((zero | (tensor == -torch.inf)).all())


@torch.no_grad()
def largest_finite(tensor: Tensor) -> float | None:
    """Return the size of the largest finite number; None if there is none."""
    sizes = tensor.abs()
    finite = sizes[torch.isfinite(sizes)]
    return float(finite.max()) if finite.numel() else None


@torch.no_grad()
def _finding(site: str, kind: Kind, tensor: Tensor, size: float | None = None) -> Finding:
    bad = ~torch.isfinite(tensor)
    index = first_true(bad)
    return Finding(site, kind, float(tensor[index]), tensor.dtype, tuple(tensor.shape), index, size, bad.cpu())


def first_true(bad: Tensor) -> tuple[int, ...]:
    """Return where the first True stands."""
    at = int(bad.flatten().int().argmax())
    return tuple(int(place) for place in torch.unravel_index(torch.tensor(at), bad.shape))
