"""The loss that a model computes itself, against the same computed from its logits."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.places import IGNORED
from glassformer.diagnosis.influence import with_other
from glassformer.diagnosis.model.findings import failed, passed, reason, skipped
from glassformer.diagnosis.subject import Given, ModelSubject, quietly
from glassformer.diagnosis.verdict import Finding, Said

CLOSE = 1e-4


def has_loss(subject: ModelSubject) -> Said | None:
    """Why the loss cannot be examined."""
    found = subject.caller.loss is not None or subject.caller.told is not None
    return None if found else reason("loss.none")


def shifts(subject: ModelSubject) -> Said | None:
    """Why it cannot be asked how labels or inputs are moved."""
    return None if subject.kind != "encoder" and subject.caller.vocab is not None else has_loss(subject)


def _moves_inputs(subject: ModelSubject) -> bool:
    """Whether a token changes what comes after its own output, but not that."""
    one, other = subject.draw(), subject.draw(seed=1)
    at = subject.length // 2
    before, after = subject.run(one), subject.run(with_other(one, other, slice(at, at + 1)))
    own, later = (subject.differs(before[:, here], after[:, here]) for here in (at, slice(at + 1, None)))
    return own <= subject.tolerance < later


def _loss(subject: ModelSubject, given: Given, labels: Tensor) -> float:
    assert subject.caller.loss is not None
    with quietly(subject.model), torch.no_grad():
        return float(subject.caller.loss(subject.model, given, labels))


def _labels(subject: ModelSubject, given: Given) -> Tensor:
    generator = torch.Generator().manual_seed(17)
    classes = subject.run(given).shape[-1]
    return torch.randint(classes, given.inputs.shape[:2], generator=generator).to(given.inputs.device)


def _moved(logits: Tensor, labels: Tensor, shift: int) -> tuple[Tensor, Tensor]:
    """Scores and the labels that they are compared with, row by row."""
    length = labels.shape[1]
    return logits[:, : length - shift].double(), labels[:, shift:]


def _mean(logits: Tensor, labels: Tensor, ignored: int = IGNORED) -> float:
    return float(F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=ignored))


def _shift(subject: ModelSubject) -> tuple[int | None, float, dict[int, float]]:
    """By how much the labels are moved: the one number that explains the loss; None if none does."""
    given = subject.draw()
    labels, logits = _labels(subject, given), subject.run(given)
    loss = _loss(subject, given, labels)
    expected = {shift: _mean(*_moved(logits, labels, shift)) for shift in (0, 1, 2)}
    found = next((shift for shift, value in expected.items() if abs(value - loss) <= CLOSE * abs(value)), None)
    return found, loss, expected


def label_shift(subject: ModelSubject) -> Finding:
    """Position t is compared with the token behind it: the labels are moved once, by the caller or by the model."""
    if subject.kind != "encoder" and _moves_inputs(subject):
        return failed("label_shift.inside", fault="label_shift.inside")
    if subject.caller.told is not None:
        return _told(subject)
    if subject.caller.loss is None:
        return passed("label_shift.own")
    wrong = _fed(subject)
    if wrong is not None:
        return wrong
    found, loss, expected = _shift(subject)
    allowed = subject.caller.shifts
    if found is None:
        if _viewed(subject, loss):
            return failed("label_shift.viewed", fault="label_shift.scrambled")
        told = _compared(subject)
        if isinstance(told, Finding):
            return told
        if told is None and _rows_matter(subject):
            return failed("label_shift.rows", fault="label_shift.scrambled")
        if told is None:
            return skipped("label_shift.other", loss=loss, expected=expected[allowed[0]] if allowed else expected[0])
        found = told
    if not allowed or found in allowed:
        return passed(f"label_shift.by_{min(found, 1)}", loss=loss)
    fault = "label_shift.twice" if found > max(allowed) else "label_shift.never"
    return failed("label_shift.wrong", fault=fault, found=found, wanted=max(allowed), loss=loss)


def _asked(subject: ModelSubject, *, padded: bool) -> tuple[float, Tensor, Tensor]:
    """Loss, logits (B, T, V) and text (B, T + 1) of a model that takes the labels from the text."""
    assert subject.caller.told is not None
    given = subject.draw(length=subject.length + 1)
    if padded and subject.caller.pad is not None:
        inputs = given.inputs.clone()
        inputs[1:, -3:] = subject.caller.pad
        given = replace(given, inputs=inputs)
    with quietly(subject.model), torch.no_grad():
        logits, loss = subject.caller.told(subject.model, subject.fitted(given, subject.model))
    return float(loss), logits.double(), given.inputs


def _told(subject: ModelSubject) -> Finding:
    """The score at each position is compared with the token behind it."""
    loss, logits, text = _asked(subject, padded=False)
    if abs(_mean(logits, text[:, 1:]) - loss) <= CLOSE * abs(loss):
        return passed("label_shift.by_0", loss=loss)
    if abs(_mean(logits, text[:, :-1]) - loss) <= CLOSE * abs(loss):
        return failed("label_shift.read", fault="label_shift.never")
    return skipped("label_shift.other", loss=loss, expected=_mean(logits, text[:, 1:]))


def _told_padding(subject: ModelSubject) -> Finding:
    """Padding of a text is not asked for."""
    pad = subject.caller.pad
    loss, logits, text = _asked(subject, padded=True)
    if pad is None:
        return skipped("loss.no_label")
    right = _mean(logits, text[:, 1:], pad)
    if abs(right - loss) <= CLOSE * abs(loss):
        return passed("loss_padding.seen", ignored=pad)
    if abs(_mean(logits, text[:, 1:]) - loss) <= CLOSE * abs(loss):
        return failed("loss_padding.reached", loss=loss, right=right)
    return skipped("loss.unknown")


def _fed(subject: ModelSubject) -> Finding | None:
    """What is wrong with how a decoder's text is made of the labels: at position t it is the label of t - 1."""
    if subject.caller.fed is None:
        return None
    given = subject.draw()
    labels = given.inputs
    base = _scores(subject, given, labels)
    for at in range(labels.shape[1]):
        changed = labels.clone()
        changed[:, at] = labels[:, at - 1]  # no token stands beside itself
        felt = (_scores(subject, given, changed) - base).abs().amax((0, 2)) > subject.tolerance * base.abs().max()
        first = int(felt.nonzero()[0]) if bool(felt.any()) else labels.shape[1]
        if first != at + 1:
            fault = "label_shift.never" if first == at else "label_shift.fed"
            return failed("label_shift.fed", fault=fault, label=at, first=first)
    return None


def _scores(subject: ModelSubject, given: Given, labels: Tensor) -> Tensor:
    assert subject.caller.fed is not None
    with quietly(subject.model), torch.no_grad():
        return subject.caller.fed(subject.model, given, labels)


def _viewed(subject: ModelSubject, loss: float) -> bool:
    """Whether the loss takes the scores, time before classes, for classes before time."""
    given = subject.draw()
    labels, logits = _labels(subject, given), subject.run(given).double()
    found = F.cross_entropy(logits.reshape(logits.shape[0], logits.shape[2], -1), labels)
    return abs(float(found) - loss) <= CLOSE * abs(loss)


def _rows_matter(subject: ModelSubject) -> bool:
    """Whether texts in another order, with their labels, give another loss."""
    given = subject.draw()
    labels = _labels(subject, given)
    loss = _loss(subject, given, labels)
    source = None if given.source is None else given.source.flip(0)
    return abs(_loss(subject, Given(given.inputs.flip(0), source=source), labels.flip(0)) - loss) > CLOSE * abs(loss)


def _compared(subject: ModelSubject) -> Finding | int | None:
    """By how much the labels of any loss are moved, or what is wrong with it: which scores' gradients a label changes.

    The gradient of the scores at (b, t) depends on the label that they are compared with, and on no other.
    """
    given = subject.draw()
    labels = _labels(subject, given)
    rows, length = labels.shape
    classes = int(labels.max()) + 1
    base = _gradient(subject, given, labels)
    if base is None:
        return None
    loss, logits = _loss(subject, given, labels), subject.run(given)
    if abs(loss - _mean(logits.double().softmax(-1), labels)) <= CLOSE * abs(loss):
        return failed("label_shift.softmaxed", fault="label_shift.softmaxed")
    places = [(row, at) for row in (0, rows - 1) for at in range(2, length - 2)]
    moved: dict[tuple[int, int], list[list[int]]] = {}
    for row, at in places:
        other = labels.clone()
        other[row, at] = (other[row, at] + 1) % classes
        changed = _gradient(subject, given, other)
        assert changed is not None, "it was one before"
        gap = (changed - base).abs().amax(-1)
        moved[row, at] = (gap > 0.05 * gap.max().clamp(min=1e-6 * float(base.abs().max()))).nonzero().tolist()
    elsewhere = _gradient(subject, given, (labels + 1) % classes)
    if not any(moved.values()) and elsewhere is not None and torch.equal(elsewhere, base):
        own = given.inputs.shape == labels.shape and not given.inputs.is_floating_point()
        copies = own and abs(loss - _mean(logits.double(), given.inputs)) <= CLOSE * abs(loss)
        fault = "label_shift.never" if copies else "label_shift.unread"
        return failed("label_shift.unread", fault=fault)
    silent = [at for (_, at), found in moved.items() if not found]
    if silent:
        return failed("label_shift.few", fault="label_shift.few", label=silent[0])
    shifts = {(found[0][0] - row, at - found[0][1]) for (row, at), found in moved.items()}
    if any(len(found) > 1 for found in moved.values()) or len(shifts) > 1 or {row for row, _ in shifts} != {0}:
        (row, at), found = next(each for each in moved.items() if each[1] != [list(each[0])])
        return failed("label_shift.scrambled", fault="label_shift.scrambled", label=(row, at), score=tuple(found[0]))
    if bool((base > 0).any()) is False:
        return failed("label_shift.raw", fault="label_shift.raw")
    return next(iter(shifts))[1]


def _gradient(subject: ModelSubject, given: Given, labels: Tensor) -> Tensor | None:
    """The gradient of the loss by the scores, (B, T, V); None where they do not come with it."""
    if subject.caller.scored is None:
        return None
    with quietly(subject.model), torch.enable_grad():
        loss, scores = subject.caller.scored(subject.model, given, labels)
        if not loss.requires_grad or not scores.requires_grad or scores is loss:
            return None
        [found] = torch.autograd.grad(loss, [scores], allow_unused=True)
    if found is None or found.numel() % labels.numel():
        return None
    return found.reshape(*labels.shape, -1)


def _ignored(subject: ModelSubject) -> int | None:
    """The label that says "nothing to predict here": one that can be given without a crash."""
    given = subject.draw()
    labels = _labels(subject, given)
    for value in (IGNORED, -1):
        trial = labels.clone()
        trial[:, -3:] = value
        try:
            if torch.isfinite(torch.tensor(_loss(subject, given, trial))):
                return value
        except (IndexError, RuntimeError):
            continue
    return None


def loss_padding(subject: ModelSubject) -> Finding:
    """Positions without a label add nothing to the loss and are not counted."""
    if subject.caller.told is not None:
        return _told_padding(subject)
    shift, _, _ = _shift(subject)
    if shift is None:
        return skipped("loss.unknown")
    ignored = _ignored(subject)
    given = subject.draw()
    labels, logits = _labels(subject, given), subject.run(given)
    if ignored is None:
        return skipped("loss.no_label") if not subject.caller.takes_keep else _by_mask(subject, given, labels)
    labels[1:, -3:] = ignored
    if subject.caller.fed is not None:
        _scores(subject, given, labels)  # which must not look such a label up
    loss = _loss(subject, given, labels)
    scores, wanted = _moved(logits, labels, shift)
    right = _mean(scores, wanted, ignored)
    over_all = float(
        F.cross_entropy(scores.flatten(0, 1), wanted.flatten(), ignore_index=ignored, reduction="sum") / wanted.numel()
    )
    if abs(loss - right) <= CLOSE * abs(right) or abs(loss - _of_means(scores, wanted, ignored)) <= CLOSE * abs(right):
        return passed("loss_padding.seen", ignored=ignored)
    if abs(loss - over_all) <= CLOSE * abs(over_all):
        return failed("loss_padding.counted", fault="loss_padding.counted", loss=loss, right=right)
    return failed("loss_padding.reached", loss=loss, right=right)


def _by_mask(subject: ModelSubject, given: Given, labels: Tensor) -> Finding:
    """Where no label says "nothing", the mask has to."""
    keep = torch.ones_like(labels, dtype=torch.bool)
    keep[1:, -3:] = False
    padded = Given(given.inputs, keep, given.source)
    other = labels.clone()
    other[1:, -3:] = (other[1:, -3:] + 1) % int(labels.max() + 1)
    one, two = _loss(subject, padded, labels), _loss(subject, padded, other)
    if abs(one - two) <= CLOSE * abs(one):
        return passed("loss_padding.mask")
    return failed("loss_padding.reached", loss=two, right=one)


def _of_means(logits: Tensor, labels: Tensor, ignored: int) -> float:
    each = [_mean(logits[row : row + 1], labels[row : row + 1], ignored) for row in range(logits.shape[0])]
    return sum(each) / len(each)


def accumulation(subject: ModelSubject) -> Finding:
    """The loss is a mean over labels: parts of a batch, weighed by their labels, make up the whole."""
    if subject.caller.loss is None:
        return skipped("loss.no_label")
    shift, loss, expected = _shift(subject)
    ignored = _ignored(subject)
    if shift is None:
        times = _summed(subject, loss, expected)
        if times is not None:
            return failed("accumulation.sum", fault="accumulation.sum", times=times)
    if shift is None or ignored is None:
        return skipped("loss.unknown" if shift is None else "loss.no_label")
    given = subject.draw()
    labels = _labels(subject, given)
    labels[1:, -6:] = ignored
    counts = [int((labels[row, shift:] != ignored).sum()) for row in range(labels.shape[0])]
    parts = [_loss(subject, given.rows(slice(row, row + 1)), labels[row : row + 1]) for row in range(labels.shape[0])]
    whole = _loss(subject, given, labels)
    by_label = sum(part * count for part, count in zip(parts, counts, strict=True)) / sum(counts)
    if abs(whole - by_label) <= CLOSE * abs(by_label):
        return passed("accumulation.seen")
    return failed("accumulation.other", whole=whole, by_label=by_label, by_row=sum(parts) / len(parts))


def _summed(subject: ModelSubject, loss: float, expected: dict[int, float]) -> int | None:
    """How often the mean loss of a label is in the loss, where that is a number of rows, of tokens, or of labels."""
    rows, length = subject.draw().inputs.shape[:2]
    for shift, mean in expected.items():
        for times in (rows, length - shift, rows * (length - shift)):
            if abs(loss - times * mean) <= CLOSE * abs(loss):
                return times
    return None
