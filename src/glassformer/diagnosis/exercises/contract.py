"""What a rung's file asks for besides being right: the examiner takes a mask of either meaning, later rungs do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from glassformer.diagnosis.exercises.wording import WORDS
from glassformer.diagnosis.report import Report
from glassformer.diagnosis.verdict import Said

GIVES_WEIGHTS = ("attention_weights", "heads_weights")
"""Keys of the properties of the weights that come back."""

TOKENS, PAD = torch.tensor([[5, 3, 8, 2], [5, 3, 9, 9], [0, 9, 9, 9]]), 9
"""The padding is not 0, which is an id like another one here."""


def broken(report: Report, value: Any) -> Iterator[Said]:
    """Yield where something is right, or could be, and is not what its file asks for.

    Args:
        report: What the examiner found.
        value: What was examined.
    """
    if report.subject in MASKS:
        yield from _mask(report.subject, value)
        return
    named = set[str]()
    for each in report.verdicts:
        seen = each.finding.seen
        meaning, name = each.numbers.get("meaning", "keep"), str(each.numbers.get("name", "mask"))
        if meaning != "keep" and name not in named:
            named.add(name)
            yield Said(WORDS, f"asked.{'hide' if str(meaning).startswith('hide') else 'other'}", {"name": name})
        if each.key in GIVES_WEIGHTS and each.status == "not_applicable":
            yield Said(WORDS, "asked.weights")
        if each.key == "attention_runs" and each.numbers.get("shape", (2,))[0] == 1:
            yield Said(WORDS, "asked.batch")
        if seen is not None and seen.key == "blind_finite":
            yield Said(WORDS, "asked.zeros")


def _mask(name: str, value: Any) -> Iterator[Said]:
    call, wanted = MASKS[name]
    try:
        found = call(value)
    except Exception:  # of the user's own code: the report says it
        return
    if not isinstance(found, Tensor) or found.dtype != torch.bool or found.shape != wanted.shape:
        got = f"{found.dtype} {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        values = {"got": got.removeprefix("torch."), "wanted": f"bool {tuple(wanted.shape)}"}
        yield Said(WORDS, "asked.form", values)
    elif not torch.equal(found, wanted):
        shown = {"got": found.int().squeeze().tolist(), "wanted": wanted.int().squeeze().tolist()}
        yield Said(WORDS, f"asked.{name}", {**shown, "tokens": TOKENS.tolist(), "pad": PAD})


MASKS: Mapping[str, tuple[Callable[[Any], Any], Tensor]] = {
    "causal_mask": (lambda made: made(3), torch.tensor([[True, False, False], [True, True, False], [True] * 3])),
    "padding_mask": (lambda made: made(TOKENS.clone(), PAD), (TOKENS != PAD)[:, None, None, :]),
}
"""How each function of the second rung is called, and what it returns then."""
