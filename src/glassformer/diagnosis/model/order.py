"""What a position may know: no future, no padding, and where it stands."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import torch
from torch import Tensor, nn

from glassformer.diagnosis.flow import Passed, Places, first_changed, record
from glassformer.diagnosis.influence import PADS, padded, with_other, with_other_source
from glassformer.diagnosis.model.findings import failed, passed, reason
from glassformer.diagnosis.probe import Attended, attentions
from glassformer.diagnosis.subject import ROWS, Given, ModelSubject
from glassformer.diagnosis.verdict import Finding, Said

EARLY = 16
"""Calls of modules among which the sum of words and positions is read."""


def writes(subject: ModelSubject) -> Said | None:
    """Why causality cannot be asked."""
    return reason("causality.encoder") if subject.kind == "encoder" else None


def causality(subject: ModelSubject) -> Finding:
    """A token changes no output before it."""
    one, other = subject.draw(), subject.draw(seed=1)
    base, length = subject.run(one), subject.length
    worst, at = 0.0, 0
    for position in range(1, length):
        changed = subject.run(with_other(one, other, slice(position, position + 1)))
        gap = subject.differs(base[:, :position], changed[:, :position])
        if gap > worst:
            worst, at = gap, position
    patterns = [_pattern(each, length) for each in _own_attentions(subject)]
    if worst <= subject.tolerance:
        strict = [number for number, pattern in enumerate(patterns) if pattern == "strict"]
        if strict:
            return failed("causality.strict", fault="causality.strict", layers=strict)
        return passed("causality.seen", length=length)
    trial = with_other(one, other, slice(at, at + 1))
    where = _leak(subject, one, trial, {length: torch.arange(length) < at})
    fault = next((pattern for pattern in patterns if pattern not in ("causal", "unknown")), None)
    known = f"causality.{fault}" if fault in ("late", "transposed", "one_ahead", "strict") else None
    return failed("causality.leak", where=where, fault=known, token=at, gap=worst)


def _own_attentions(subject: ModelSubject) -> list[Attended]:
    """The attentions of a causal stack among itself."""
    calls = attentions(lambda: subject.run(subject.draw()))
    own = [each for each in calls if each.weights.shape[-2:] == (subject.length, subject.length)]
    return own if subject.source_length != subject.length else []


def _pattern(call: Attended, length: int) -> str:
    """Which keys are looked at, as one word."""
    if not call.summed:
        return "unknown"
    seen = (call.weights.abs() > 1e-9).reshape(-1, length, length).any(0)
    whole = torch.ones_like(seen)
    if call.late:
        return "late"
    for name, expected in (
        ("causal", whole.tril()),
        ("transposed", whole.triu()),
        ("one_ahead", whole.tril(1)),
        ("strict", whole.tril(-1)),
    ):
        if torch.equal(seen, expected):
            return name
    if torch.equal(seen[1:], whole.tril(-1)[1:]):
        return "strict"  # the first query sees nothing, and its softmax falls back on everything
    return "open" if bool(seen.all()) else "unknown"


def _leak(subject: ModelSubject, one: Given, other: Given, still: dict[int, Tensor]) -> str:
    found = leaking(subject, one, other, still)
    return "" if found is None else found.name


def leaking(subject: ModelSubject, one: Given, other: Given, still: dict[int, Tensor]) -> Passed | None:
    """Return the first module through which a difference comes to where it must not be."""
    before = record(subject.model, lambda: subject.run(one))
    after = record(subject.model, lambda: subject.run(other))
    return first_changed(before, after, Places(still, one.inputs.shape[0], subject.tolerance))


def can_pad(subject: ModelSubject) -> Said | None:
    """Why padding cannot be asked."""
    if subject.caller.takes_keep or subject.caller.takes_source_keep:
        return None
    return reason("padding.no_way")


def padding(subject: ModelSubject) -> Finding:
    """What stands where there is no token changes no output of a token; nor does it that it stands there."""
    caller = subject.caller
    if caller.takes_source_keep:
        found = _source_padding(subject)
        if found is not None:
            return found
    if not caller.takes_keep:
        return passed("padding.seen")
    return _left_padding(subject) if caller.kind == "encoder_decoder" else _own_padding(subject)


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
        where = _leak(subject, one, changed, still)
        return failed("padding.content", where=where, fault=_padding_fault(subject, one, length), gap=gap)
    short = subject.run(Given(one.inputs[:, :real]))
    gap = subject.differs(short[1:], a[1:, :real])
    if gap > subject.tolerance:
        return failed("padding.presence", fault=_padding_fault(subject, one, length), gap=gap)
    return _left_padding(subject) if subject.kind == "decoder" else passed("padding.seen")


def _left_padding(subject: ModelSubject) -> Finding:
    """What causality does not hide anyway: padding in front of the tokens."""
    length = subject.length
    if subject.caller.pad is not None:
        return passed("padding.seen")
    one, changed = padded(subject, of_source=False, left=True)
    a, b = subject.run(one)[:, PADS:], subject.run(changed)[:, PADS:]
    if not bool(a.isfinite().all()):
        return passed("padding.no_left")
    gap = subject.differs(a, b)
    if gap <= subject.tolerance:
        return passed("padding.seen")
    where = _leak(subject, one, changed, {length: torch.arange(length) >= PADS})
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


def knows_order(subject: ModelSubject) -> Said | None:
    """Why positions cannot be asked."""
    return reason("position.embeddings") if subject.caller.vocab is None else None


def position(subject: ModelSubject) -> Finding:
    """The order of the tokens can be seen.

    An encoder without positions gives the same outputs in another order. A causal stack of two layers tells order even
    without positions, from what each token could see; its first attention does not: there, the last query has the same
    keys in whatever order the earlier tokens stand.
    """
    same = subject.draw(1)
    rows = Given(same.inputs.repeat(ROWS, 1), source=None if same.source is None else same.source.repeat(ROWS, 1))
    out = subject.run(rows)
    gap = subject.differs(out[:1].expand_as(out), out)
    if gap > subject.tolerance:
        return failed("position.rows", fault="position.rows", gap=gap)
    twice = _twice(subject)
    if twice is not None:
        return twice
    if subject.kind == "encoder":
        return _encoder_order(subject)
    if subject.kind == "encoder_decoder":
        assert same.source is not None
        turned = replace(same, source=same.source.flip(1))
        gap = subject.differs(out[:1], subject.run(turned))
        if gap <= subject.tolerance < subject.differs(out[:1], subject.run(_elsewhere(subject, same))):
            return failed("position.source", fault="position.source", gap=gap)
    return _decoder_order(subject, same)


def _elsewhere(subject: ModelSubject, given: Given) -> Given:
    return with_other_source(given, subject.draw(1, seed=4), slice(None))


def _encoder_order(subject: ModelSubject) -> Finding:
    given = subject.draw()
    gap = subject.differs(subject.run(given), subject.run(Given(given.inputs.flip(1))).flip(1))
    if gap <= subject.tolerance:
        return failed("position.none", gap=gap)
    return passed("position.seen", gap=gap)


def _decoder_order(subject: ModelSubject, given: Given) -> Finding:
    length = subject.length
    turned = replace(given, inputs=torch.cat([given.inputs[:, :-1].flip(1), given.inputs[:, -1:]], 1))
    last = {length: torch.arange(length) == length - 1}
    other = with_other(given, subject.draw(1, seed=1), slice(0, 1))
    mixing = leaking(subject, given, other, last)
    if mixing is None:
        return passed("position.inline")
    places = Places(last, 1, subject.tolerance)
    before = record(subject.model, lambda: subject.run(given))
    after = record(subject.model, lambda: subject.run(turned))
    number = next(n for n, call in enumerate(before) if call.name == mixing.name)
    a, b = before[number].result, after[number].result
    assert a is not None
    assert b is not None
    if not places.changed(a, b):
        return failed("position.causal", where=mixing.name)
    return passed("position.first", where=mixing.name)


def _twice(subject: ModelSubject) -> Finding | None:
    """Positions of a table, by the share with which they are in what the first layer reads."""
    given = subject.draw()
    calls = record(subject.model, lambda: subject.run(given))
    words = next((c for c in calls if isinstance(c.module, nn.Embedding) and _is(c, given.inputs)), None)
    if words is None or words.result is None:
        return None
    e = words.result  # (B, T, D)
    tables = [each for each in _tables(subject.model, e.shape[-1]) if each.shape[0] >= subject.length]
    pointers = {parameter.data_ptr() for parameter in words.module.parameters()}
    tables = [each for each in tables if each.data_ptr() not in pointers]
    read = [call.first for call in calls[:EARLY] if call.first is not None and call.first.shape == e.shape]
    for x, table in product(read, tables):
        both = torch.stack([e.flatten(), table[: subject.length].to(e).expand_as(e).flatten()], 1).double()
        target = x.flatten().double()
        share = torch.linalg.lstsq(both, target.unsqueeze(1)).solution.squeeze(1)
        if float((target - both @ share).abs().max()) > 1e-6 * float(target.abs().max()):
            continue
        times = float(share[1])
        if times > 1.5 and abs(times - round(times)) < 1e-3:
            return failed("position.twice", fault="position.twice", times=round(times))
    return None


def _is(call: Passed, inputs: Tensor) -> bool:
    return any(each.shape == inputs.shape and torch.equal(each, inputs) for each in call.inputs)


def _tables(model: nn.Module, width: int) -> list[Tensor]:
    """The tensors that could be a table of positions. *Shape:* (L, D)."""
    found = [*model.parameters(), *model.buffers()]
    flat = [each.detach().squeeze() for each in found if each.is_floating_point()]
    return [each for each in flat if each.ndim == 2 and each.shape[1] == width]


def crosses(subject: ModelSubject) -> Said | None:
    """Why cross-attention cannot be asked."""
    return None if subject.kind == "encoder_decoder" else reason("cross_attention.none")


def cross_attention(subject: ModelSubject) -> Finding:
    """Every output depends on the source; queries come from the target, keys and values from the source."""
    if subject.source_length == subject.length:
        return failed("cross_attention.lengths", fault="cross_attention.roles")
    one, other = subject.draw(), subject.draw(seed=1)
    base = subject.run(one)
    changed = subject.run(with_other_source(one, other, slice(None)))
    felt = (base.double() - changed.double()).abs().amax(-1).amin()
    if float(felt) <= subject.tolerance * float(base.double().pow(2).mean().sqrt()):
        return failed("cross_attention.deaf", fault="cross_attention.deaf")
    wrong = _roles(subject, one, other)
    if wrong is not None:
        return wrong
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
        return failed(
            "cross_attention.padding", _leak(subject, given, moved, still), "cross_attention.padding", gap=gap
        )
    return passed("cross_attention.seen")


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
