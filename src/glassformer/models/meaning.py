"""Whether numbers that were learned in one architecture mean the same in another."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from glassformer.core.config import TransformerConfig

FREE = frozenset({"dropout", "kernel", "init", "max_positions"})
"""Settings that no parameter knows of, at any depth."""

MOST = 8
"""Lines of a message, at most."""


def other_meaning(
    learned: TransformerConfig, asked: TransformerConfig, free: Collection[str] = (), *, narrower: bool = False
) -> str:
    """Return in which settings a model differs from the one that its numbers were learned in; "" if in none.

    Tensors of equal shapes fit anywhere: a softmax model's in linear attention, those of rotary positions in a model
    with a bias, and it answers noise. So it is settings that are compared, one line each, of layers that differ alike
    one line together: "decoder.blocks.*.attention.type is linear, and was softmax".

    Args:
        learned: The architecture that they were learned in.
        asked: The one they are to be used in.
        free: Names of settings that may differ, besides `FREE`.
        narrower: Whether attention may see less than it did: nothing that it still sees is new to it.
    """
    free = FREE.union(free)
    lines = dict.fromkeys(
        f"{re.sub(r'[.][0-9]+[.]', '.*.', path)} is {_told(now)}, and was {_told(was)}"
        for path, was, now in _changes(learned.model_dump(mode="json"), asked.model_dump(mode="json"))
        if free.isdisjoint(path.split(".")) and not (narrower and _sees_less(path, was, now))
    )
    more = [f"and {len(lines) - MOST} more"] if len(lines) > MOST else []
    return "\n  ".join([*list(lines)[:MOST], *more])


def _changes(was: Any, now: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two trees of settings differ, and what they say there."""
    if isinstance(was, dict) and isinstance(now, dict) and was.keys() == now.keys():
        for name in was:
            yield from _changes(was[name], now[name], f"{path}.{name}" if path else name)
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for index, (one, other) in enumerate(zip(was, now, strict=True)):
            yield from _changes(one, other, f"{path}.{index}")
    elif was != now:
        yield path, was, now


def _sees_less(path: str, was: Any, now: Any) -> bool:
    if path.endswith(".attention.window"):
        return now is not None and (was is None or now <= was)
    return path.endswith(".attention.pattern") and was is None


def _told(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("kind", "set"))
    if isinstance(value, list):
        return f"{len(value)} of them"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
