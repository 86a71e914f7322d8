"""Which positions of a model's output change when something of its input does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from glassformer.diagnosis.flow import Passed, Places, first_changed, record
from glassformer.diagnosis.subject import ROWS, Given, ModelSubject

PADS = 3
"""Positions that are padding, in the rows that have some."""
TEXTS = 6
"""Texts over which it is averaged what a token is felt by."""


def with_other(given: Given, other: Given, where: slice, rows: slice = slice(None)) -> Given:
    """Return a text with the content of another one at some positions of some rows."""
    inputs = given.inputs.clone()
    inputs[rows, where] = other.inputs[rows, where]
    return replace(given, inputs=inputs)


def with_other_source(given: Given, other: Given, where: slice, rows: slice = slice(None)) -> Given:
    """The same for the source."""
    assert given.source is not None
    assert other.source is not None
    source = given.source.clone()
    source[rows, where] = other.source[rows, where]
    return replace(given, source=source)


def kept(rows: int, length: int, *, left: bool = False) -> Tensor:
    """Return which slots hold tokens: all of row 0, all but a few at one end of the others. *Shape:* (B, T)."""
    keep = torch.ones(rows, length, dtype=torch.bool)
    keep[1:, slice(0, PADS) if left else slice(length - PADS, None)] = False
    return keep


def padded(subject: ModelSubject, *, of_source: bool, left: bool = False) -> tuple[Given, Given]:
    """Return two batches that differ in nothing but what stands where there is no token."""
    one, other = subject.draw(ROWS), subject.draw(ROWS, seed=1)
    length = subject.source_length if of_source else subject.length
    keep = kept(ROWS, length, left=left).to(one.inputs.device)
    where = slice(0, PADS) if left else slice(length - PADS, None)
    if of_source:
        changed = with_other_source(one, other, where, slice(1, None))
        return replace(one, source_keep=keep), replace(changed, source_keep=keep)
    changed = with_other(one, other, where, slice(1, None))
    return replace(one, keep=keep), replace(changed, keep=keep)


def hides_padding(subject: ModelSubject, *, of_source: bool) -> bool:
    """Return whether what stands at padding is hidden, and what stands elsewhere is not.

    With a causal stack right padding is hidden anyway; there, padding is put on the left.
    """
    caller = subject.caller
    if caller.pad is not None:
        return _pad_id_hides(subject)
    for left in (False,) if caller.counts else (False, True):
        one, changed = padded(subject, of_source=of_source, left=left)
        a, b = subject.run(one), subject.run(changed)
        whole = of_source or caller.pooled
        real = slice(None) if whole else slice(PADS, None) if left else slice(0, subject.length - PADS)
        if not bool(a[:, real].isfinite().all()):
            return left  # a query that sees nothing, in code that does without that case
        if subject.differs(a[:, real], b[:, real]) > subject.tolerance:
            return False
    one = subject.draw(ROWS)
    full = kept(ROWS, subject.source_length if of_source else subject.length).to(one.inputs.device)
    other = subject.draw(ROWS, seed=2)
    if of_source:
        given = replace(one, source_keep=full)
        moved = with_other_source(given, other, slice(0, 1))
    else:
        given = replace(one, keep=full)
        moved = with_other(given, other, slice(0, 1))
    real = slice(None) if of_source or caller.pooled else slice(1, subject.length - PADS)
    return subject.differs(subject.run(given)[:, real], subject.run(moved)[:, real]) > subject.tolerance


def _pad_id_hides(subject: ModelSubject) -> bool:
    of_source = subject.kind == "encoder_decoder"
    one, _ = padded(subject, of_source=of_source)
    length = (subject.source_length if of_source else subject.length) - PADS
    if of_source:
        assert one.source is not None
        short = replace(one, source=one.source[:, :length], source_keep=None)
        return subject.differs(subject.run(short)[1:], subject.run(one)[1:]) <= subject.tolerance
    short = Given(one.inputs[:, :length])
    return subject.differs(subject.run(short)[1:], subject.run(one)[1:, :length]) <= subject.tolerance


def marks_padding(subject: ModelSubject, token: int, *, of_source: bool) -> bool:
    """Return whether some module is handed a mask that marks where an id stands, and nothing else.

    Args:
        subject: The model.
        token: The id.
        of_source: Whether it stands in the source.
    """
    one = subject.draw(ROWS)
    text = one.source if of_source else one.inputs
    if text is None or text.is_floating_point():
        return False
    place = ~kept(ROWS, text.shape[1]).to(text.device)
    text = text.masked_fill(text == token, token + 1).masked_fill(place, token)
    given = replace(one, source=text) if of_source else replace(one, inputs=text)
    for call in record(subject.model, lambda: subject.run(given)):
        for mask in call.inputs:
            if mask.ndim < 2 or mask.shape[0] != ROWS or text.shape[1] not in mask.shape[-2:]:
                continue
            low, high = mask.min(), mask.max()
            last = mask.shape[-2:] if mask.ndim > 2 else mask.shape[-1:]
            marked = (mask != mask.flatten()[0]).reshape(ROWS, -1, *last)
            two = bool(((mask == low) | (mask == high)).all()) and bool(low != high)
            if two and any(torch.equal(marked, each.expand_as(marked)) for each in _laid_out(place, marked)):
                return True
    return False


def _laid_out(place: Tensor, mask: Tensor) -> Iterator[Tensor]:
    """A mark of slots as keys of a mask, and as its queries, where their number fits. *Shape:* (B, 1, ...)."""
    length = place.shape[1]
    if mask.shape[-1] == length:
        yield place[:, None, None] if mask.ndim == 4 else place[:, None]
    if mask.ndim == 4 and mask.shape[-2] == length:
        yield place[:, None, :, None]


def influence(subject: ModelSubject) -> Tensor:
    """Return how much output i of each text changes when token j does, by the outputs' size. *Shape:* (B, T, T)."""
    one = subject.draw(TEXTS)
    other = subject.draw(TEXTS, seed=3)
    base = subject.run(one)
    size = base.double().pow(2).mean().sqrt().clamp(min=1e-30)
    columns = []
    for position in range(subject.length):
        out = subject.run(with_other(one, other, slice(position, position + 1)))
        columns.append(((out.double() - base.double()).abs().amax(-1) / size).nan_to_num(1e30))
    return torch.stack(columns, 2)


def hidden_future(subject: ModelSubject) -> bool:
    """Return whether later tokens change no output before them, while the first one changes the last."""
    one, other = subject.draw(1), subject.draw(1, seed=3)
    base = subject.run(one)
    for position in (1, subject.length // 2, subject.length - 1):
        out = subject.run(with_other(one, other, slice(position, position + 1)))
        if subject.differs(base[:, :position], out[:, :position]) > subject.tolerance:
            return False
    first = subject.run(with_other(one, other, slice(0, 1)))
    return subject.differs(base[:, -1], first[:, -1]) > subject.tolerance


def seems_causal(subject: ModelSubject) -> bool:
    """Return whether a stack treats what is before and what is behind a token differently, as no encoder does.

    A softmax near its limits hides single tokens on either side; only a difference of the two sides tells.
    """
    felt = influence(subject)
    later = torch.ones(felt.shape[1:], dtype=torch.bool, device=felt.device).triu(1)
    ahead, behind = felt[:, later], felt[:, later.T]
    seen_ahead, seen_behind = (float((each > subject.tolerance).double().mean()) for each in (ahead, behind))
    if abs(seen_behind - seen_ahead) > 0.25:
        return True
    ratio = behind.clamp(min=subject.tolerance).log().mean() - ahead.clamp(min=subject.tolerance).log().mean()
    return abs(float(ratio)) > 1.0


def leaking(subject: ModelSubject, one: Given, other: Given, still: dict[int, Tensor]) -> Passed | None:
    """Return the first module through which a difference comes to where it must not be."""
    before = record(subject.model, lambda: subject.run(one))
    after = record(subject.model, lambda: subject.run(other))
    return first_changed(before, after, Places(still, one.inputs.shape[0], subject.tolerance))


def leak(subject: ModelSubject, one: Given, other: Given, still: dict[int, Tensor]) -> str:
    """Return the name of that module; empty where none was found."""
    found = leaking(subject, one, other, still)
    return "" if found is None else found.name
