"""What a decoder reads of its source: all of it, none of its padding, and through keys and values."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.diagnosis.flow import record
from glassformer.diagnosis.influence import PADS, leak, padded, with_other, with_other_source
from glassformer.diagnosis.model.basics import batch_mates
from glassformer.diagnosis.model.findings import failed, passed, reason, skipped
from glassformer.diagnosis.probe import attentions
from glassformer.diagnosis.subject import Given, ModelSubject
from glassformer.diagnosis.verdict import Finding, Said


def crosses(subject: ModelSubject) -> Said | None:
    """Why cross-attention cannot be asked."""
    return None if subject.kind == "encoder_decoder" else reason("cross_attention.none")


def cross_attention(subject: ModelSubject) -> Finding:
    """Every output depends on the source; queries come from the target, keys and values from the source."""
    one = subject.draw()
    wrong = misread(subject)
    if wrong is not None:
        rows = batch_mates(subject)  # a stack that reads rows for positions wants both texts equally long
        return skipped("rows") if rows.status == "fail" else wrong
    if not subject.caller.takes_source_keep:
        return passed("cross_attention.unpadded")
    given, moved = padded(subject, of_source=True)
    a = subject.run(given)
    real = subject.source_length - PADS
    if subject.caller.pad is None:
        gap = subject.differs(a, subject.run(moved))
    else:
        assert one.source is not None
        gap = subject.differs(a[1:], subject.run(Given(one.inputs, source=one.source[:, :real]))[1:])
    if gap > subject.tolerance:
        still = {subject.length: torch.ones(subject.length, dtype=torch.bool)}
        still[subject.source_length] = torch.arange(subject.source_length) < real
        where = leak(subject, given, moved, still)
        return failed("cross_attention.padding", where, "cross_attention.padding", gap=gap)
    return passed("cross_attention.seen")


def misread(subject: ModelSubject) -> Finding | None:
    """Return what is wrong with how the source is read, padding aside; None if nothing is."""
    one, other = subject.draw(), subject.draw(seed=1)
    if subject.source_length == subject.length:
        return _roles(subject, one, other) or failed("cross_attention.lengths", fault="cross_attention.lengths")
    base = subject.run(one)
    changed = subject.run(with_other_source(one, other, slice(None)))
    felt = (base.double() - changed.double()).abs().amax(-1).amin()
    if float(felt) <= subject.tolerance * float(base.double().pow(2).mean().sqrt()):
        return failed("cross_attention.deaf", fault="cross_attention.deaf")
    return _roles(subject, one, other) or _hidden(subject, one) or _one_sided(subject, one, other)


def _hidden(subject: ModelSubject, one: Given) -> Finding | None:
    """Nothing of a source without padding is hidden from any token of the target."""
    for call in attentions(lambda: subject.run(one)):
        if call.weights.shape[-2:] != (subject.length, subject.source_length) or not call.summed:
            continue
        seen = (call.weights != 0).reshape(-1, subject.length, subject.source_length).any(0)
        if not bool(seen.all()):
            query, at = (~seen).nonzero()[0].tolist()
            return failed("cross_attention.hidden", fault="cross_attention.hidden", query=query, at=at)
    return None


def _one_sided(subject: ModelSubject, one: Given, other: Given) -> Finding | None:
    """A state of the encoder depends on what stands before it and on what stands behind it."""
    last, first = subject.source_length - 1, slice(0, 1)
    runs = (one, with_other_source(one, other, slice(last, last + 1)), with_other_source(one, other, first))
    triples = [_triples(subject, given) for given in runs]
    for base, later, earlier in zip(*triples, strict=False):
        axes = [axis for axis, size in enumerate(base[1].shape) if size == subject.source_length]
        if len(axes) != 1 or subject.length not in base[0].shape:
            continue
        keys, after, before = (each[1].movedim(axes[0], 0) for each in (base, later, earlier))
        if torch.equal(keys[:last], after[:last]) and not torch.equal(keys[1:], before[1:]):
            return failed("cross_attention.one_sided", fault="cross_attention.one_sided")
        return None
    return None


def _roles(subject: ModelSubject, one: Given, other: Given) -> Finding | None:
    """Where queries, keys and values of the first attention across come from."""
    runs = (one, with_other_source(one, other, slice(None)), with_other(one, other, slice(None)))
    base, source, target = (_triples(subject, given) for given in runs)
    if not len(base) == len(source) == len(target):
        return None
    began = False
    for each, by_source, by_target in zip(base, source, target, strict=True):
        of_source = [not torch.equal(a, b) for a, b in zip(each, by_source, strict=True)]
        of_target = [not torch.equal(a, b) for a, b in zip(each, by_target, strict=True)]
        if of_target == [True, True, True] and not any(of_source):
            began = True  # the decoder's own attention, in its first layer
            continue
        if not began:
            continue
        for name, asked, from_source, from_target in zip(
            "qkv", (True, False, False), of_source, of_target, strict=True
        ):
            if from_target != asked or from_source == asked:
                came = "target" if from_target else "source"
                return failed("cross_attention.roles", fault="cross_attention.roles", name=name, came=came)
        return None
    return None


def _triples(subject: ModelSubject, given: Given) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Queries, keys and values, or what torch's own attention makes them from, in the order of the computation."""
    found: list[tuple[Tensor, Tensor, Tensor]] = [(c.q, c.k, c.v) for c in attentions(lambda: subject.run(given))]
    if found:
        return found
    calls = record(subject.model, lambda: subject.run(given))
    return [
        (call.inputs[0], call.inputs[1], call.inputs[2])
        for call in calls
        if isinstance(call.module, nn.MultiheadAttention) and len(call.inputs) >= 3
    ]
