"""Where a backward pass first made a NaN or an infinity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.inspection.nonfinite import first_true, is_finite, largest_finite, said_of


@dataclass(frozen=True, eq=False)
class BadGradient:
    """The first gradient that is not finite, on the way back from the loss.

    Attributes:
        site: Path of the innermost module in whose backward pass it was made; "model" for the whole.
        of: What it is the gradient of, such as "the input of decoder.blocks.1.feed_forward" or "the output of" a module
            inside of `site`, or the path of a parameter.
        parameter: That path, if it is the gradient of a parameter; what flows back beside it may be finite.
        value: The first bad value: nan, inf or -inf.
        dtype: Type of the bad gradient.
        shape: Its shape.
        index: Where the first bad value stands in it.
        largest_given: Size of the largest number in the gradient that the module was given, which is finite; None
            where no module inside of the model is to blame.
        bad: True where the gradient of the module's input, or of the output that `of` names, is not finite; where only
            that of a parameter is bad, None. *Shape:* that of the input or output.
    """

    site: str
    of: str
    parameter: str | None
    value: float
    dtype: torch.dtype
    shape: tuple[int, ...]
    index: tuple[int, ...]
    largest_given: float | None
    bad: Tensor | None

    def describe(self) -> str:
        """Return two sentences for a person."""
        given = "" if self.largest_given is None else f", at most {self.largest_given:g} in size"
        alone = ""
        if self.parameter is not None and self.bad is None:
            alone = " It alone is bad: what flows back beside it is finite, so no single row or token is to blame."
        return (
            f"Going back from the loss, the first gradient that is not finite is made in {self.site}, and is that of "
            f"{self.of}: {said_of(self.value, self.dtype, self.index, self.shape)}. "
            f"The gradient it was given is finite{given}.{alone}"
        )


def first_bad_gradient(model: nn.Module, run: Callable[[], object]) -> BadGradient | None:
    """Repeat a forward and backward pass and return what first went wrong on the way back; None if nothing did.

    Every module's input and output passes through a view of its own, so that of a tensor which several modules read
    each one's share of the gradient is seen apart. The first share, in the order of the backward pass, that is not
    finite is the origin of all others: no gradient before it was bad.

    The hooks are removed again. They change no number, but read every one: this is for after the accident, on the
    batch that caused it. Modules inside a compiled graph are not seen; give the eager model.

    Args:
        model: Any module.
        run: Runs the forward pass in question and `backward`. The same random state, precision and mode as in the
            accident are its business.
    """
    watch = _Watch()
    handles: list[Any] = []
    try:
        for path, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(partial(watch.before, path or "model"), with_kwargs=True))
            handles.append(module.register_forward_hook(partial(watch.after, path or "model"), always_call=True))
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                handles.append(parameter.register_hook(partial(watch.parameter, name)))
        run()
    finally:
        for handle in handles:
            handle.remove()
    return watch.found


class _Watch:
    """What the hooks of one run have seen."""

    def __init__(self) -> None:
        self.found: BadGradient | None = None
        self.within: list[str] = []
        self.given: dict[str, float] = {}

    def before(self, path: str, module: nn.Module, arguments: Any, named: Any) -> tuple[Any, Any]:
        self.within.append(path)
        mark = partial(self._marked, partial(self.input, path))
        return tuple(map(mark, arguments)), {name: mark(value) for name, value in named.items()}

    def after(self, path: str, module: nn.Module, arguments: Any, output: Any) -> Any:
        self.within.pop()
        return self._marked(partial(self.output, path, self.within[-1] if self.within else "model"), output)

    def _marked(self, hook: Callable[[Tensor], None], value: Any) -> Any:
        """A view of each tensor, with a hook; lists and mappings may be kept by someone and are left alone."""
        if isinstance(value, Tensor) and value.requires_grad and torch.is_grad_enabled():
            view = value.view_as(value)
            view.register_hook(hook)
            return view
        return tuple(self._marked(hook, item) for item in value) if type(value) is tuple else value

    def output(self, path: str, around: str, gradient: Tensor) -> None:
        if self.found is None:
            if is_finite(gradient):
                self.given[path] = max(self.given.get(path, 0.0), largest_finite(gradient) or 0.0)
            else:
                self._find(around, f"the output of {path}", gradient)

    def input(self, path: str, gradient: Tensor) -> None:
        if is_finite(gradient):
            return
        if self.found is None:
            self._find(path, f"the input of {path}", gradient)
        elif self.found.parameter is not None and self.found.bad is None and self.found.site == path:
            self.found = replace(self.found, bad=(~torch.isfinite(gradient)).cpu())

    def parameter(self, name: str, gradient: Tensor) -> None:
        if self.found is None and not is_finite(gradient):
            owner = name.rpartition(".")[0] or "model"
            self._find(owner, name, gradient, parameter=name)

    @torch.no_grad()
    def _find(self, site: str, of: str, gradient: Tensor, parameter: str | None = None) -> None:
        bad = ~torch.isfinite(gradient)
        at = first_true(bad)
        self.found = BadGradient(
            site,
            of,
            parameter,
            float(gradient[at]),
            gradient.dtype,
            tuple(gradient.shape),
            at,
            self.given.get(site),
            None if parameter is not None else bad.cpu(),
        )
