"""Padding: what stands where there is no token, and that it stands there, is not read."""

from __future__ import annotations

import torch

from glassformer.diagnosis.influence import PADS, leak, leaking, padded
from glassformer.diagnosis.model.basics import batch_mates
from glassformer.diagnosis.model.cross import misread
from glassformer.diagnosis.model.findings import failed, passed, reason, skipped
from glassformer.diagnosis.probe import attentions
from glassformer.diagnosis.subject import ROWS, Given, ModelSubject
from glassformer.diagnosis.verdict import Finding, Said


def can_pad(subject: ModelSubject) -> Said | None:
    """Why padding cannot be asked."""
    if subject.caller.takes_keep or subject.caller.takes_source_keep:
        return None
    return reason("padding.no_way")


def padding(subject: ModelSubject) -> Finding:
    """What stands where there is no token changes no output of a token; nor does it that it stands there."""
    caller = subject.caller
    if batch_mates(subject).status == "fail":
        return skipped("rows")
    if caller.takes_source_keep:
        found = _source_padding(subject)
        if found is not None:
            return found
    if not caller.takes_keep:
        return passed("padding.seen")
    if caller.kind != "encoder_decoder":
        return _own_padding(subject)
    return _left_padding(subject) if misread(subject) is None else skipped("misread")


def _source_padding(subject: ModelSubject) -> Finding | None:
    """The encoder's part of it; what the cross-attention does is another property."""
    one, changed = padded(subject, of_source=True)
    length = subject.source_length
    if subject.caller.pad is not None:
        return None  # the id is the same in every row: shown by the cross-attention's experiment
    a, b = subject.run(one), subject.run(changed)
    gap = subject.differs(a, b)
    if gap <= subject.tolerance:
        return None
    still = {length: torch.arange(length) < length - PADS, subject.length: torch.ones(subject.length, dtype=torch.bool)}
    found = leaking(subject, one, changed, still)
    if found is None or found.result is None or subject.length in found.result.shape[:3]:
        return None
    fault = _padding_fault(subject, one, length)
    return failed("padding.source", where=found.name, fault=fault, gap=gap)


def _own_padding(subject: ModelSubject) -> Finding:
    length = subject.length
    real = length - PADS
    one, changed = padded(subject, of_source=False)
    a, b = subject.run(one), subject.run(changed)
    still = {length: torch.arange(length) < real}
    gap = subject.differs(a[:, :real], b[:, :real])
    if gap > subject.tolerance:
        where = leak(subject, one, changed, still)
        return failed("padding.content", where=where, fault=_padding_fault(subject, one, length), gap=gap)
    short = subject.run(Given(one.inputs[:, :real]))
    gap = subject.differs(short[1:], a[1:, :real])
    if gap > subject.tolerance:
        return failed("padding.presence", fault=_padding_fault(subject, one, length), gap=gap)
    return _left_padding(subject) if subject.kind == "decoder" else passed("padding.seen")


def _left_padding(subject: ModelSubject) -> Finding:
    """What causality does not hide anyway: padding in front of the tokens."""
    length = subject.length
    if subject.caller.pad is not None or subject.caller.counts:
        return passed("padding.seen")
    one, changed = padded(subject, of_source=False, left=True)
    a, b = subject.run(one)[:, PADS:], subject.run(changed)[:, PADS:]
    if not bool(a.isfinite().all()):
        return passed("padding.no_left")
    gap = subject.differs(a, b)
    if gap <= subject.tolerance:
        return passed("padding.seen")
    where = leak(subject, one, changed, {length: torch.arange(length) >= PADS})
    return failed("padding.left", where=where, fault=_padding_fault(subject, one, length), gap=gap)


def _padding_fault(subject: ModelSubject, given: Given, length: int) -> str | None:
    """What the attention weights show of the padding."""
    keep = given.keep if given.source_keep is None else given.source_keep
    assert keep is not None
    for call in attentions(lambda: subject.run(given)):
        weights = call.weights
        if weights.shape[-2:] != (length, length) or weights.ndim < 3 or weights.shape[0] % ROWS:
            continue
        apart = weights.reshape(ROWS, -1, length, length)[1].double()  # (H, T, S) of a padded row
        tokens = keep[1]
        on_pads, on_tokens = apart[:, tokens][..., ~tokens].abs().amax(), apart[:, tokens][..., tokens].abs().amax()
        if call.late:
            return "padding.late"
        if float(on_tokens) < 1e-9 < float(on_pads):
            return "padding.inverted"
        asked = apart[:, ~tokens]
        flat = bool((asked - asked.mean(-1, keepdim=True)).abs().amax() < 1e-9)
        if float(on_pads) > 1e-9 and (flat or float(asked.abs().amax()) < 1e-9):
            return "padding.queries"
    return None
