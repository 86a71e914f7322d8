"""What a position may know of the others: no future, and in which order they stand."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import torch
from torch import Tensor, nn

from glassformer.diagnosis.flow import Passed, Places, record
from glassformer.diagnosis.influence import hidden_future, leak, leaking, with_other, with_other_source
from glassformer.diagnosis.model.findings import failed, passed, reason, skipped
from glassformer.diagnosis.model.modes import in_training, same_in_training
from glassformer.diagnosis.model.rotation import BEGIN, turned_wrong
from glassformer.diagnosis.parts.position import wrong_waves
from glassformer.diagnosis.parts.recording import recorded
from glassformer.diagnosis.probe import Attended, attentions
from glassformer.diagnosis.subject import ROWS, Given, ModelSubject
from glassformer.diagnosis.verdict import Finding, Said

EARLY = 16
"""Calls of modules among which the sum of words and positions is read."""


def causality(subject: ModelSubject) -> Finding:
    """A token changes no output before it; in an encoder it does."""
    if subject.kind == "encoder":
        one_sided = hidden_future(subject)
        return failed("causality.one_sided", fault="causality.one_sided") if one_sided else skipped("causality.encoder")
    one, other = subject.draw(), subject.draw(seed=1)
    length = subject.length
    worst, at = _future(subject, one, other)
    patterns = [_pattern(each, length) for each in _own_attentions(subject)]
    if worst <= subject.tolerance:
        strict = [number for number, pattern in enumerate(patterns) if pattern == "strict"]
        if strict:
            return failed("causality.strict", fault="causality.strict", layers=strict)
        if subject.caller.takes_keep and subject.caller.pad is None:
            every = torch.ones(one.inputs.shape[:2], dtype=torch.bool, device=one.inputs.device)
            worst, at = _future(subject, replace(one, keep=every), other)
            if worst > subject.tolerance:
                return failed("causality.masked", fault="causality.masked", token=at, gap=worst)
        if not same_in_training(subject):
            with in_training(subject.model):
                worst, at = _future(subject, one, other)
            if worst > subject.tolerance:
                return failed("causality.training", fault="causality.training", token=at, gap=worst)
        return passed("causality.seen", length=length)
    trial = with_other(one, other, slice(at, at + 1))
    where = leak(subject, one, trial, {length: torch.arange(length) < at})
    fault = next((pattern for pattern in patterns if pattern not in ("causal", "unknown")), None)
    known = f"causality.{fault}" if fault in ("late", "transposed", "one_ahead", "strict") else None
    return failed("causality.leak", where=where, fault=known, token=at, gap=worst)


def _future(subject: ModelSubject, one: Given, other: Given) -> tuple[float, int]:
    """The largest change of an output by a token behind it, and which token it is."""
    base, worst, at = subject.run(one), 0.0, 0
    for position in range(1, subject.length):
        changed = subject.run(with_other(one, other, slice(position, position + 1)))
        gap = subject.differs(base[:, :position], changed[:, :position])
        if gap > worst:
            worst, at = gap, position
    return worst, at


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
    wrong = _table(subject) or turned_wrong(subject) or _equal_places(subject)
    if wrong is not None:
        return wrong
    if subject.kind == "encoder":
        return _encoder_order(subject)
    if subject.kind == "encoder_decoder":
        assert same.source is not None
        turned = replace(same, source=same.source[:, _dealt(subject.source_length)])
        gap = subject.differs(out[:1], subject.run(turned))
        if gap <= subject.tolerance < subject.differs(out[:1], subject.run(_elsewhere(subject, same))):
            return failed("position.source", fault="position.source", gap=gap)
    return _of_prefix(subject, same) or _decoder_order(subject, same)


def _of_prefix(subject: ModelSubject, given: Given) -> Finding | None:
    """The outputs of a beginning are the beginning of the outputs, where no token knows what follows."""
    length = subject.length - 3
    try:
        short = subject.run(replace(given, inputs=given.inputs[:, :length]))
    except Exception:  # of the subject's own code, which takes texts of one length
        return None
    gap = subject.differs(subject.run(given)[:, :length], short)
    other = with_other(given, subject.draw(1, seed=1), slice(length, None))
    leaks = subject.differs(subject.run(given)[:, :length], subject.run(other)[:, :length]) > subject.tolerance
    if gap <= subject.tolerance or leaks:
        return None
    return failed("position.prefix", fault="position.prefix", length=length, gap=gap)


def _elsewhere(subject: ModelSubject, given: Given) -> Given:
    return with_other_source(given, subject.draw(1, seed=4), slice(None))


def _dealt(length: int) -> Tensor:
    """Every other position, then the rest: backwards would keep all distances, and some positions are nothing else."""
    return torch.cat([torch.arange(0, length, 2), torch.arange(1, length, 2)])


def _equal_places(subject: ModelSubject) -> Finding | None:
    """In a text of one id, tokens differ by their positions: by all of them, or where positions are not added, by none.

    The first ones may lack the neighbours that the others have.
    """
    given = subject.draw(1)
    trial = Given(given.inputs[:, :1].expand_as(given.inputs).clone(), source=given.source)
    products = recorded(lambda: subject.run(trial), [subject.model]).products
    first = next((made.x for made in products if made.x.shape.count(subject.length) == 1), None)
    if first is None:
        return None
    rows = first.double().movedim(first.shape.index(subject.length), 0).flatten(1)[BEGIN:]
    apart = torch.cdist(rows, rows) > 1e-9 * float(rows.norm(dim=-1).max())
    same = ~apart & ~torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    if bool(apart.any()) and bool(same.any()):
        one, other = (int(each) + BEGIN for each in same.nonzero()[0])
        return failed("position.same", fault="position.same", one=one, other=other)
    return None


def _encoder_order(subject: ModelSubject) -> Finding:
    given, order = subject.draw(), _dealt(subject.length)
    base = subject.run(given)
    same = base if subject.caller.pooled else base[:, order]
    gap = subject.differs(same, subject.run(Given(given.inputs[:, order])))
    if gap <= subject.tolerance:
        return failed("position.none", gap=gap)
    if subject.caller.takes_keep and subject.caller.pad is None:
        with_mask = replace(
            given, keep=torch.ones(given.inputs.shape[:2], dtype=torch.bool, device=given.inputs.device)
        )
        turned = subject.run(replace(with_mask, inputs=given.inputs[:, order]))
        base = subject.run(with_mask)
        unmoved = subject.differs(base if subject.caller.pooled else base[:, order], turned) <= subject.tolerance
        other = subject.run(with_other(with_mask, subject.draw(seed=1), slice(0, 1)))
        rest = slice(None) if subject.caller.pooled else slice(1, None)
        if unmoved and subject.differs(base[:, rest], other[:, rest]) > subject.tolerance:
            return failed("position.masked", fault="position.masked")
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


def _table(subject: ModelSubject) -> Finding | None:
    """Positions of a table, by the share with which they are in what the first layer reads."""
    given = subject.draw()
    calls = record(subject.model, lambda: subject.run(given))
    words = next((c for c in calls if isinstance(c.module, nn.Embedding) and _is(c, given.inputs)), None)
    if words is None or words.result is None:
        return None
    e = words.result  # (B, T, D)
    tables = [each for each in _tables(subject.model, e.shape[-1]) if each.shape[0] >= subject.length]
    pointers = {parameter.data_ptr() for parameter in words.module.parameters()}
    learned = {parameter.data_ptr() for parameter in subject.model.parameters()}
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
        if abs(times) > 1e-3 and table.data_ptr() not in learned:
            wrong = wrong_waves(table)
            plain = table.data_ptr() not in {each.data_ptr() for each in subject.model.buffers()}
            if wrong is not None and plain:
                return failed("position.unregistered", fault="position.unregistered")
            if wrong is not None and float(table.abs().max()) <= 1.0:
                return wrong
    return None


def _is(call: Passed, inputs: Tensor) -> bool:
    return any(each.shape == inputs.shape and torch.equal(each, inputs) for each in call.inputs)


def _tables(model: nn.Module, width: int) -> list[Tensor]:
    """The tensors that could be a table of positions. *Shape:* (L, D)."""
    plain = [each for part in model.modules() for each in vars(part).values() if isinstance(each, Tensor)]
    found = [*model.parameters(), *model.buffers(), *plain]
    flat = [each.detach().squeeze() for each in found if each.is_floating_point()]
    return [each for each in flat if each.ndim == 2 and each.shape[1] == width]
