"""Token by token with a cache, against the whole text at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from glassformer.diagnosis.model.findings import failed, passed, reason
from glassformer.diagnosis.subject import ModelSubject, quietly
from glassformer.diagnosis.verdict import Finding, Said

PREFILL = 4


def has_cache(subject: ModelSubject) -> Said | None:
    """Why the cache cannot be examined."""
    return None if subject.caller.cached is not None else reason("cache.none")


def cache(subject: ModelSubject) -> Finding:
    """What is computed step by step equals what is computed at once."""
    assert subject.caller.cached is not None
    given = subject.draw()
    with _Looked() as whole:
        full = subject.run(given)
    steps = ((0, *range(PREFILL, subject.length)), tuple(range(subject.length)), (0, PREFILL))
    for starts in steps:
        outs, looked = [], []
        state: Any = None
        for start, end in zip(starts, [*starts[1:], subject.length], strict=True):
            part = subject.fitted(replace(given, inputs=given.inputs[:, start:end]), subject.model)
            try:
                with quietly(subject.model), torch.no_grad(), _Looked() as seen:
                    out, state = subject.caller.cached(subject.model, part, state)
            except Exception:  # of the subject's own code: it may refuse several tokens behind a cache
                if starts is steps[-1]:
                    break
                raise
            outs.append(out)
            looked.append(seen.last)
            gap = subject.differs(full[:, start:end], out)
            if gap > subject.tolerance:
                fault, found = _position_fault(whole.all, looked, end - 1)
                if fault is not None:
                    return failed("cache.position", fault=fault, token=end - 1, found=found, gap=gap)
                if starts is steps[-1]:
                    return failed("cache.chunk", fault="cache.chunk", count=end - start, gap=gap)
                return failed("cache.prefill" if start == 0 else "cache.step", token=start, gap=gap)
    return passed("cache.seen", length=subject.length)


def _position_fault(whole: Sequence[int], looked: Sequence[int | None], token: int) -> tuple[str | None, int]:
    """The position that was looked up for a token, where it is not the one of the whole text."""
    last = looked[-1]
    if last is None or len(whole) <= token or whole[token] == last:
        return None, 0
    return "cache.position", last


class _Looked(TorchFunctionMode):
    """Sees which rows of a table are looked up one after another: positions, not tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[int] = []

    @property
    def last(self) -> int | None:
        """The newest position."""
        return self.all[-1] if self.all else None

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func.__name__ == "embedding" and len(args) > 1 and isinstance(args[0], Tensor) and not self.all:
            row = args[0].reshape(-1, args[0].shape[-1])[0] if args[0].ndim else args[0].reshape(1)
            steps = row.diff()
            in_order = bool((steps == 1).all()) if row.numel() > 1 else not self._is_token(args[0])
            if in_order:
                self.all = [int(each) for each in row]
        return func(*args, **dict(kwargs or {}))

    def _is_token(self, ids: Tensor) -> bool:
        """A single id that differs from row to row is a token."""
        return ids.ndim > 1 and ids.shape[0] > 1 and bool((ids != ids[:1]).any())
