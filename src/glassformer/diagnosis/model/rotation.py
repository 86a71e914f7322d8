"""Positions that are turned into queries and keys: products must depend on the distance alone."""

from __future__ import annotations

from torch import Tensor

from glassformer.diagnosis.model.findings import failed
from glassformer.diagnosis.parts.recording import recorded
from glassformer.diagnosis.probe import Attended, attentions
from glassformer.diagnosis.subject import Given, ModelSubject
from glassformer.diagnosis.verdict import Finding

BEGIN = 4
"""Tokens at the beginning that are not looked at: they lack the neighbours that the others have."""
FAR = 2e-2
"""Largest difference of products at one distance, by their size, where cosines are kept in 16 bits."""


def turned_wrong(subject: ModelSubject) -> Finding | None:
    """Return what is wrong with a rotation of queries and keys in the first attention; None if nothing is, or none is.

    In a text of one id every token is the same: what differs between queries, keys or values is put there by their
    positions. A product q_t k_s then depends on t - s alone, and values have no position.
    """
    given = subject.draw(1)
    token = given.inputs[:, :1].expand_as(given.inputs).clone()
    trial = Given(token, source=given.source)
    record = recorded(lambda: subject.run(trial), [subject.model])
    first = next((made.x for made in record.products if made.x.shape.count(subject.length) == 1), None)
    if first is None or not _still(first, subject.length):
        return None  # positions are added, and these stand for the rest
    square = (subject.length, subject.length)
    calls = [each for each in attentions(lambda: subject.run(trial)) if each.weights.shape[-2:] == square]
    if not calls:
        return None
    parts = [_heads_first(each, subject.length) for each in (calls[0].q, calls[0].k, calls[0].v)]
    if any(each.shape[-2] != subject.length for each in parts):
        return _biased_wrong(subject, calls[0])
    q, k, v = (each.double().reshape(-1, *each.shape[-2:]) for each in parts)
    if not _still(v, subject.length):
        return failed("position.values", fault="position.values")
    heads = max(len(q), len(k))
    q, k = (each.repeat_interleave(heads // len(each), 0) for each in (q, k))
    products = (q @ k.transpose(-1, -2))[:, BEGIN:, BEGIN:]
    off = float((products[:, 1:, 1:] - products[:, :-1, :-1]).abs().max() / products.abs().mean().clamp(min=1e-30))
    if off > FAR:
        return failed("position.absolute", fault="position.absolute", off=off)
    return _biased_wrong(subject, calls[0])


def _biased_wrong(subject: ModelSubject, call: Attended) -> Finding | None:
    """What is wrong with a bias of the scores by distance: it favours what is far, or does not tell one side at all.

    Where all products are the same, log weights are the bias. Heads differ, and none of them need favour what is near;
    but the linear bias that grows with the distance in every head has lost its sign.
    """
    length = subject.length
    query = length - (3 if subject.kind == "encoder" else 1)
    weights = call.weights.double().reshape(-1, length, length)[:, query]  # (H, S)
    sides = [side for side in (weights[:, BEGIN:query].flip(-1), weights[:, query + 1 :]) if side.shape[-1] > 1]
    steps = [side.log().diff(dim=-1) for side in sides if bool((side > 0).all())]
    if not steps:
        return None
    told = [bool((each.abs() > 1e-9).any()) for each in steps]
    if subject.kind == "encoder" and len(steps) == 2 and any(told) and not all(told):
        return failed("position.one_sided", fault="position.one_sided")
    if all(bool((each > 1e-9).all()) and float(each.diff(dim=-1).abs().max()) < 1e-6 for each in steps):
        return failed("position.far", fault="position.far")
    return None


def _heads_first(x: Tensor, length: int) -> Tensor:
    """The same with time in the last axis but one, where it stands before the heads."""
    return x.transpose(1, 2) if x.ndim == 4 and x.shape[-2] != length == x.shape[1] else x


def _still(x: Tensor, length: int) -> bool:
    """Whether every position has the same numbers, but for the first ones."""
    axis = next(axis for axis, size in enumerate(x.shape) if size == length)
    rows = x.double().movedim(axis, 0)[BEGIN:]
    return float((rows - rows[:1]).abs().max()) <= 1e-6 * float(rows.abs().max().clamp(min=1e-30))
