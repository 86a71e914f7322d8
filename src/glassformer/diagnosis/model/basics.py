"""Shapes, finite numbers, and chance: what every other experiment stands on."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.core.places import IGNORED
from glassformer.diagnosis.flow import record
from glassformer.diagnosis.model.findings import failed, passed, skipped
from glassformer.diagnosis.model.modes import is_share, same_in_training
from glassformer.diagnosis.subject import Given, ModelSubject, quietly
from glassformer.diagnosis.verdict import Finding


def shapes(subject: ModelSubject) -> Finding:
    """The output has a row of scores for every token, also for one token, and is finite."""
    given = subject.draw()
    out = subject.run(given)
    rows, length = given.inputs.shape[0], 1 if subject.caller.pooled else given.inputs.shape[1]
    if out.ndim != 3 or out.shape[:2] != (rows, length):
        return failed("shapes.wrong", shape=tuple(out.shape), rows=rows, length=length)
    if not bool(out.isfinite().all()):
        return failed("shapes.infinite", fault="shapes.infinite")
    for what, trial in _extremes(subject).items():
        try:
            one = subject.run(trial.rows(slice(0, 1)))
            if one.ndim != out.ndim or one.shape[0] != 1:
                return failed("shapes.row", fault="shapes.row", shape=tuple(one.shape))
            subject.run(trial)
        except Exception as error:  # of the subject's own code
            if what == "one":
                return failed("shapes.one", error=f"{type(error).__name__}: {error}".splitlines()[0])
            raise
    sums = out.double().sum(-1)
    if (
        out.shape[-1] > 1
        and not subject.caller.pooled
        and bool((out >= 0).all())
        and bool(((sums - 1).abs() < 1e-4).all())
    ):
        return failed("shapes.softmaxed", fault="shapes.softmaxed")
    return passed("shapes.seen", shape=tuple(out.shape))


def finite(subject: ModelSubject) -> Finding:
    """The output is finite for one token, and for texts of nothing but the first or the last id."""
    for what, trial in _extremes(subject).items():
        if not bool(subject.run(trial).isfinite().all()):
            return failed("finite.infinite", fault="finite.one" if what == "one" else "shapes.infinite", what=what)
    return passed("finite.seen")


def _extremes(subject: ModelSubject) -> dict[str, Given]:
    tangled = subject.kind == "encoder_decoder" and subject.source_length == subject.length
    trials = {} if tangled else {"one": subject.draw(2, 1)}
    vocab = subject.caller.vocab
    if vocab is None:
        return trials
    given = subject.draw(2)
    for what, token in (("first", 0), ("last", vocab - 1)):
        if token != subject.caller.pad:
            trials[what] = Given(torch.full_like(given.inputs, token), source=given.source)
    return trials


def determinism(subject: ModelSubject) -> Finding:
    """Two runs in eval mode are equal, whatever the generators' state is."""
    given = subject.draw()
    for trial in (given, *_extremes(subject).values()):
        before = [None if each is None else each.clone() for each in (trial.inputs, trial.source)]
        subject.run(trial)
        after = (trial.inputs, trial.source)
        if any(a is not None and b is not None and not torch.equal(a, b) for a, b in zip(before, after, strict=True)):
            return failed("determinism.changed", fault="determinism.changed")
    if subject.caller.loss is not None and _overwrites_labels(subject, given):
        return failed("determinism.labels", fault="determinism.changed")
    one, other = subject.run(given, seed=1), subject.run(given, seed=2)
    gap = subject.differs(one, other)
    if gap == 0.0 or (gap <= subject.tolerance and gap < 1e-6):
        return passed("determinism.seen")
    first = record(subject.model, lambda: subject.run(given, seed=1))
    second = record(subject.model, lambda: subject.run(given, seed=2))
    where = next((a.name for a, b in zip(first, second, strict=True) if _random(a.result, b.result)), "")
    return failed("determinism.differs", where=where, gap=gap)


def _overwrites_labels(subject: ModelSubject, given: Given) -> bool:
    assert subject.caller.loss is not None
    labels = given.inputs.clone()
    labels[1:, -1] = IGNORED
    before = labels.clone()
    try:
        with quietly(subject.model), torch.no_grad():
            subject.caller.loss(subject.model, given, labels)
            if subject.caller.fed is not None:
                subject.caller.fed(subject.model, given, labels)
    except Exception:  # of the subject's own code: another property says so
        return False
    return not torch.equal(before, labels)


def _random(one: Tensor | None, other: Tensor | None) -> bool:
    return one is not None and other is not None and not torch.equal(one.nan_to_num(), other.nan_to_num())


def dropout(subject: ModelSubject) -> Finding:
    """Where dropout is configured, training is random, and for nothing else than that unlike evaluation."""
    if not same_in_training(subject):
        return failed("dropout.modes", fault="dropout.modes")
    if not _dropouts(subject.model):
        return skipped("dropout.none")
    given = subject.draw()
    subject.model.train()
    gap = subject.differs(subject.run(given, seed=1), subject.run(given, seed=2))
    share = max(_dropouts(subject.model))
    if gap > 0:
        return passed("dropout.seen", share=share)
    return failed("dropout.idle", share=share)


def _dropouts(model: nn.Module) -> list[float]:
    """The shares of the dropouts of a model that are configured, by the names that such a share goes by."""
    return [value for part in model.modules() for name, value in vars(part).items() if is_share(name, value)]


def batch_mates(subject: ModelSubject) -> Finding:
    """A row's outputs are the same alone and beside any other rows."""
    one, other = subject.draw(), subject.draw(seed=1)
    mixed = Given(
        torch.cat([other.inputs[:1], one.inputs[1:2], other.inputs[2:]]),
        source=None
        if one.source is None or other.source is None
        else torch.cat([other.source[:1], one.source[1:2], other.source[2:]]),
    )
    base = subject.run(one)[1:2]
    for key, trial in (("alone", one.rows(slice(1, 2))), ("mates", mixed)):
        out = subject.run(trial)
        row = out if key == "alone" else out[1:2]
        gap = subject.differs(base, row)
        if gap > subject.tolerance:
            return failed(f"batch_mates.{key}", gap=gap)
    return passed("batch_mates.seen")
