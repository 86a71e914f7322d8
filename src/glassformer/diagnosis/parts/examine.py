"""Examining one part: what it is, how it is called, and what is true of it."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from glassformer.core.errors import UnsupportedError
from glassformer.diagnosis.parts.making import thing_of
from glassformer.diagnosis.parts.other_wording import WORDS
from glassformer.diagnosis.parts.recognise import KINDS, kind_named, opened, told_by_names, told_by_trying
from glassformer.diagnosis.property import chosen, examine
from glassformer.diagnosis.report import Report, wrapped
from glassformer.diagnosis.verdict import Said, Verdict


def examine_part(
    value: Any,
    name: str,
    *,
    kind: str | None = None,
    expect: str | None = None,
    only: Sequence[str] | None = None,
    seed: int = 0,
    advanced: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Return what is true of a part.

    If it does not run, or says something else each time, that is the last verdict: nothing else can be asked of it.

    Args:
        value: A function, a module, a class or a factory.
        name: What to call it.
        kind: What it is; found by trying when None.
        expect: What is said of it besides: "pre" or "post" of a layer, "paper" of positions or a schedule.
        only: Keys of the properties to test; None = all.
        seed: Of every random number.
        advanced: Told (done, total) properties.

    Raises:
        UnsupportedError: Nobody can tell what it is.
        ConfigError: There is no such kind, property or expectation.
    """
    if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(getattr(value, "forward", None)):
        raise UnsupportedError(f"{name} is async: it returns a promise, and no tensor; write def in place of async def")
    told = None if kind is None else kind_named(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the user's own code, which is called in ways that it is not made for
        thing = thing_of(value, name)
        by_names = told_by_names(thing) if told is None else None
        what = told or by_names or told_by_trying(thing)
    if what is None:
        known = "\n".join(wrapped("  ", "; ".join(f"{each.name}: {each.call}" for each in KINDS.values()), 100))
        raise UnsupportedError(f"nothing tells what kind of part {name} is; say it, --as KIND:\n{known}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        subject = opened(what, thing, expect, told=told is not None)
    wanted = chosen(what.properties, only)
    gates, others = what.properties[: what.gates], [each for each in what.properties[what.gates :] if each in wanted]
    called = Said(WORDS, f"kind.{what.name}")
    guessed = () if kind is not None or by_names is not None else (Said(WORDS, "guessed", {"kind": what.name}),)
    passed: list[Verdict] = []
    for gate in gates:
        [verdict] = examine(subject, [gate], seed=seed)
        if verdict.failed:
            return Report(name, called, (verdict, *passed), guessed)
        passed.append(verdict)
    verdicts = examine(subject, others, seed=seed, advanced=advanced)
    keys = [each.key for each in wanted]
    held = [verdict for verdict in passed if verdict.key in keys]
    failed = [verdict for verdict in verdicts if verdict.failed]
    rest = [verdict for verdict in verdicts if not verdict.failed]
    return Report(name, called, (*failed, *held, *rest), guessed)
