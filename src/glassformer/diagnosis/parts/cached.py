"""Examining attention with a cache of keys and values: step by step it must say what it says of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.diagnosis.parts.calling import Says, difference, influence, modules_of, tensors_in
from glassformer.diagnosis.parts.making import D_MODEL, Thing, parameters_of
from glassformer.diagnosis.parts.other_wording import WORDS
from glassformer.diagnosis.parts.sequence import MOVED
from glassformer.diagnosis.property import Property
from glassformer.diagnosis.verdict import Finding

SAYS = Says(WORDS)
B, T = 2, 6
CACHE_NAMES = ("cache", "past", "kv", "memory_cache", "layer_past", "state", "past_key_values", "past_kv", "kv_cache")


@dataclass(frozen=True, eq=False)
class CachedSubject:
    """A module (x, cache) -> (y, cache).

    Attributes:
        thing: What the user named.
        name: The argument that takes the cache.
        d_model: D.
        error: Why no call worked; None = one did.
    """

    thing: Thing
    name: str
    d_model: int = D_MODEL
    error: Exception | None = None

    def modules(self) -> Sequence[nn.Module]:
        """Return the module, if it is one."""
        return modules_of(self.thing.instance)

    def step(self, x: Tensor, cache: Any = None) -> tuple[Tensor, Any]:
        """Return the output and the cache that comes back, without gradients."""
        with torch.no_grad():
            found = self.thing.instance(x, **{self.name: cache})
        if not isinstance(found, (tuple, list)) or len(found) < 2:
            raise TypeError(f"it returned {type(found).__name__}, and not the output together with the cache")
        output, back = found[0], found[-1]
        return output, back

    def whole(self, x: Tensor) -> Tensor:
        """Return the output for all at once, from an empty cache."""
        return self.step(x)[0]

    def in_steps(self, x: Tensor, sizes: Sequence[int] | None = None) -> Tensor:
        """Return the outputs of so many tokens at a time; one each when None."""
        outputs, cache = [], None
        for part in x.split(list(sizes or [1] * x.shape[1]), dim=1):
            output, cache = self.step(part, cache)
            outputs.append(output)
        return torch.cat(outputs, dim=1)

    def drawn(self) -> Tensor:
        """Return a random sequence. *Shape:* (B, T, D)."""
        return torch.randn(B, T, self.d_model)


def open_cached(thing: Thing) -> CachedSubject:
    """Return how an attention with a cache is called, found by trying."""
    names = list(parameters_of(thing.instance))
    name = next(
        (name for name in names if name.lower() in CACHE_NAMES or "cache" in name.lower()),
        names[1] if len(names) > 1 else "cache",
    )
    widths = (
        [int(thing.sizes["d_model"])]
        if "d_model" in thing.sizes
        else [*dict.fromkeys(parameter.shape[-1] for parameter in thing.parameters), D_MODEL]
    )
    first: Exception | None = None
    for width in widths:
        subject = CachedSubject(thing, name, width)
        try:
            subject.step(subject.drawn())
            return subject
        except Exception as error:
            first = first or error
    return CachedSubject(thing, name, widths[0], first)


def _runs(subject: CachedSubject) -> Finding:
    x = subject.drawn()
    output = subject.whole(x)
    if output.shape != x.shape:
        return SAYS.bad("cache_shape", got=tuple(output.shape), wanted=tuple(x.shape))
    return SAYS.good("cache_runs", shape=tuple(output.shape), name=subject.name)


def _causal(subject: CachedSubject) -> Finding:
    moved = influence(subject.whole, subject.drawn()).gt(MOVED)
    ahead = moved.triu(1).nonzero()
    if len(ahead):
        query, other = ahead[0].tolist()
        return SAYS.bad("cache_future", query=query, other=other)
    return SAYS.good("cache_causal_good")


def _steps(subject: CachedSubject) -> Finding:
    x = subject.drawn()
    whole, stepped = subject.whole(x), subject.in_steps(x)
    off = (whole - stepped).abs().amax((0, 2))
    if float(off.max()) <= 1e-4:
        return SAYS.good("steps_good", off=f"{float(off.max()):.1e}")
    step = int((off > 1e-4).nonzero()[0])
    return _why(subject, x, step, float(off.max()))


def _why(subject: CachedSubject, x: Tensor, step: int, off: float) -> Finding:
    """Which earlier tokens count in each step, how fast the cache grows, and else: where each token stands."""
    values: dict[str, Any] = {"step": step, "off": f"{off:.2g}"}
    growth = _growth(subject, x)
    if growth is not None and growth > 1.5:
        return SAYS.bad("cache_doubled", growth=f"{growth:.1f}", **values)
    moved = influence(subject.in_steps, x).gt(MOVED)
    wanted = torch.ones(T, T, dtype=torch.bool).tril()
    missing = (wanted & ~moved).nonzero().tolist()
    if missing:
        if all(query - other == 0 for query, other in missing):
            return SAYS.bad("cache_no_self", **values)
        if not bool(moved.tril(-1).any()):
            return SAYS.bad("cache_forgets", **values)
        if all(other == 0 for _, other in missing):
            return SAYS.bad("cache_drops_first", **values)
        if all(query - other == 1 for query, other in missing):
            return SAYS.bad("cache_one_off", **values)
        query, other = missing[0]
        return SAYS.bad("cache_misses", query=query, other=other, **values)
    return SAYS.bad("cache_positions" if step >= 1 else "cache_differs", **values)


def _growth(subject: CachedSubject, x: Tensor) -> float | None:
    """How many slots the cache grows by in each step."""
    sizes, cache = [], None
    for part in x.split(1, dim=1):
        _, cache = subject.step(part, cache)
        sizes.append(sum(tensor.numel() for tensor in tensors_in(cache)))
    if sizes[0] == 0 or sizes[1] == sizes[0]:
        return None  # made at full length
    return (sizes[-1] - sizes[-2]) / sizes[0]


def _chunks(subject: CachedSubject) -> Finding:
    x = subject.drawn()
    off = difference(subject.whole(x), subject.in_steps(x, (3, 2, 1)))
    return SAYS.bad("chunks_bad", off=f"{off:.2g}") if off > 1e-4 else SAYS.good("chunks_good", off=f"{off:.1e}")


def _apart(subject: CachedSubject) -> Finding:
    """A second text that begins without a cache knows nothing of the first one."""
    x, other = subject.drawn(), subject.drawn()
    before = subject.in_steps(x)
    subject.in_steps(other)
    off = difference(before, subject.in_steps(x))
    return SAYS.bad("cache_kept", off=f"{off:.2g}") if off > MOVED else SAYS.good("apart_good_cache")


def _rows(subject: CachedSubject) -> Finding:
    x = subject.drawn()
    other = x.clone()
    other[1:] = torch.randn_like(other[1:])
    off = difference(subject.in_steps(x)[0], subject.in_steps(other)[0])
    return SAYS.bad("cache_rows", off=f"{off:.2g}") if off > MOVED else SAYS.good("cache_rows_good")


AFTER = ("cache_run", "cache_apart", "cache_causal")

PROPERTIES: tuple[Property[CachedSubject], ...] = (
    Property("cache_run", WORDS, _runs),
    Property("cache_apart", WORDS, _apart, after=("cache_run",)),
    Property("cache_causal", WORDS, _causal, after=("cache_run", "cache_apart")),
    Property("cache_steps", WORDS, _steps, after=AFTER),
    Property("cache_chunks", WORDS, _chunks, after=(*AFTER, "cache_steps")),
    Property("cache_rows", WORDS, _rows, after=AFTER),
)
"""What an attention with a cache is examined for."""
