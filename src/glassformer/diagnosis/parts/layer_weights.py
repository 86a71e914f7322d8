"""Weights of a layer that are used twice in one pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.diagnosis.parts.calling import Says, difference
from glassformer.diagnosis.parts.layers_wording import WORDS
from glassformer.diagnosis.parts.sequence import MOVED, SequenceSubject, memory_of
from glassformer.diagnosis.verdict import Finding

SAYS = Says(WORDS)


def shared(subject: SequenceSubject) -> Finding:
    """Return whether no weights are used again on what came of them before."""
    module, x, memory = subject.thing.module, subject.drawn(), memory_of(subject)
    assert module is not None, "layers are modules"
    for name, part in module.named_modules():
        if not any(each.numel() > 1 for each in part.parameters(recurse=False)):
            continue
        before, after = (_inputs(part, lambda: subject(x, memory), moved=moved) for moved in (False, True))
        if any(difference(a, b) > MOVED for a, b in zip(before[1:], after[1:], strict=False)):
            return SAYS.bad("weights_again", name=name, times=len(before))
    return SAYS.good("shared_good")


def _inputs(part: nn.Module, run: Callable[[], Any], *, moved: bool) -> list[Tensor]:
    """What a module is given, call by call; with something else, if it is to be moved, in place of its first result."""
    given: list[Tensor] = []

    def seen(part: nn.Module, args: tuple[Any, ...], result: Any) -> Any:
        given.extend(each.detach().clone() for each in args[:1] if isinstance(each, Tensor))
        first = moved and len(given) == 1 and isinstance(result, Tensor)
        return result + torch.linspace(-1, 1, result.numel()).view(result.shape) if first else None

    hook = part.register_forward_hook(seen)
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        run()
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        hook.remove()
    return given
