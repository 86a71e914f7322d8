"""How the attentions inside a model are computed, wherever they can be seen."""

from __future__ import annotations

from torch import Tensor, nn

from glassformer.diagnosis.influence import with_other, with_other_source
from glassformer.diagnosis.model.findings import failed, passed, reason, skipped
from glassformer.diagnosis.parts.recording import recorded
from glassformer.diagnosis.probe import Attended, Probe, attentions
from glassformer.diagnosis.subject import Given, ModelSubject
from glassformer.diagnosis.verdict import Finding, Said
from glassformer.kernels.attend import score_factor
from glassformer.models.transformer import Transformer


def seen_attention(subject: ModelSubject) -> Said | None:
    """Why attention cannot be looked into."""
    if _calls(subject):
        return None
    torchs = any(isinstance(part, nn.MultiheadAttention) for part in subject.model.modules())
    return reason("attention.torch" if torchs else "attention.unseen")


def _calls(subject: ModelSubject, model: nn.Module | None = None) -> list[Attended]:
    given = subject.draw()
    return attentions(lambda: subject.run(given, model=model))


def softmax_axis(subject: ModelSubject) -> Finding:
    """The weights with which values are mixed sum to one over the keys."""
    calls = _calls(subject)
    for number, call in enumerate(calls):
        if call.added:
            return failed("softmax_axis.added", fault="softmax_axis.added", number=number)
        if call.after != 1.0 and _near(call.after, call.width**-0.5):
            return failed("softmax_axis.scaled", fault="softmax_axis.scaled", number=number)
        if not call.summed:
            sums = call.weights.sum(-1)
            return failed("softmax_axis.other", number=number, low=float(sums.min()), high=float(sums.max()))
    return passed("softmax_axis.seen", count=len(calls))


def scale(subject: ModelSubject) -> Finding:
    """Scores are divided by the square root of a head's width; T5 makes its matrices so that they need not be."""
    calls = [call for call in _calls(subject) if call.factor is not None and call.width > 1]
    if not calls:
        return Finding("not_applicable", reason("scale.unknown"))
    stated = _stated_scales(subject.model)
    folded = [_folded(call) for call in _calls(subject, subject.original)]
    width = _model_width(subject)
    biased = {part.embedding_dim for part in subject.model.modules() if isinstance(part, nn.Embedding)}
    for number, call in enumerate(calls):
        assert call.factor is not None
        heads = call.width**-0.5
        if _near(call.factor, 1.0) and call.weights.ndim == 4 and call.weights.shape[1] in biased:
            continue  # a table with a number for each head is the position bias of T5, which does not divide
        if any(_near(call.factor, each) for each in stated or (heads,)):
            continue
        if len(folded) == len(calls) and folded[number] and _near(call.factor, 1.0):
            continue
        faults = {"none": 1.0, "by_d_k": 1 / call.width, "by_d_model": (width or 1) ** -0.5}
        fault = next((name for name, value in faults.items() if _near(call.factor, value)), None)
        if fault is None and 0.5 < call.factor / heads < 2:
            continue
        return failed(
            "scale.other",
            fault=None if fault is None else f"scale.{fault}",
            number=number,
            factor=call.factor,
            wanted=heads,
            width=call.width,
        )
    return passed("scale.seen", factor=calls[0].factor or 0.0, width=calls[0].width)


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-3 * abs(other)


def _stated_scales(model: nn.Module) -> list[float]:
    """What this library's own configs say."""
    if not isinstance(model, Transformer):
        return []
    stacks = [stack for stack in (model.config.encoder, model.config.decoder) if stack is not None]
    blocks = [block for stack in stacks for block in stack.blocks]
    attentions = [each for block in blocks for each in (block.attention, block.cross_attention) if each is not None]
    return [score_factor(each.scale, each.d_head) for each in attentions]


def _folded(call: Attended) -> bool:
    """Whether the queries begin so small that nothing has to be divided (T5)."""
    return float(call.q.std() / call.k.std().clamp(min=1e-30)) <= 1.4 * call.width**-0.5 and call.width >= 4


def _model_width(subject: ModelSubject) -> int | None:
    sizes = [part.embedding_dim for part in subject.model.modules() if isinstance(part, nn.Embedding)]
    return sizes[0] if sizes else None


def own_values(subject: ModelSubject) -> Finding:
    """Queries, keys and values come from three matrices."""
    calls = _calls(subject)
    for number, call in enumerate(calls):
        for one, other, a, b in (("k", "v", call.k, call.v), ("q", "k", call.q, call.k), ("q", "v", call.q, call.v)):
            if _same_norms(a, b):
                return failed("own_values.same", number=number, one=one, other=other)
    return passed("own_values.seen", count=len(calls))


def _same_norms(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same vectors up to a factor and a rotation, as one matrix gives them."""
    if one.shape[-1] != other.shape[-1]:
        return False
    a, b = (each.double().norm(dim=-1).flatten().sort().values for each in (one, other))
    if a.numel() < b.numel():
        a, b = b, a
    if b.numel() == 0 or a.numel() % b.numel():
        return False
    a = a.reshape(b.numel(), -1)[:, 0]  # heads that are shared stand there several times
    if float(a.std()) < 1e-3 * float(a.mean()):
        return False  # every vector was brought to one length
    ratio = a / b.clamp(min=1e-30)
    return float(ratio.std()) < 1e-4 * float(ratio.mean())


def heads(subject: ModelSubject) -> Finding:
    """Splitting into heads and joining them mixes no positions."""
    length = subject.source_length if subject.kind == "encoder_decoder" else subject.length
    one, other = subject.draw(), subject.draw(seed=1)
    middle = length // 2
    where = slice(middle, middle + 1)
    moved = with_other_source(one, other, where) if one.source is not None else with_other(one, other, where)
    base, changed = _first(subject, one), _first(subject, moved)
    if base is None or changed is None:
        return Finding("not_applicable", reason("attention.unseen"))
    if mixed_before(subject) is not None:
        return skipped("heads.mixed")
    for name, a, b in (("q", base.q, changed.q), ("k", base.k, changed.k), ("v", base.v, changed.v)):
        touched = _touched(a, b, length, subject.tolerance)
        if touched is not None and touched != {middle}:
            return failed("heads.split", fault="heads.split", name=name, token=middle, touched=sorted(touched))
    touched = _joined(subject, one, length, middle)
    if touched is not None and touched - {middle}:
        return failed("heads.join", fault="heads.join", token=middle, touched=sorted(touched))
    copies = _copied(subject, one)
    if copies is not None:
        return failed("heads.copied", fault="heads.copied", width=copies)
    return passed("heads.seen")


def mixed_before(subject: ModelSubject) -> int | None:
    """Return how many positions one token reaches before any attention is computed, if it is more than one.

    Told by what goes into the first product with a learned matrix that has an axis of time.
    """
    length = subject.source_length if subject.kind == "encoder_decoder" else subject.length
    one, other = subject.draw(), subject.draw(seed=1)
    where = slice(length // 2, length // 2 + 1)
    moved = with_other_source(one, other, where) if one.source is not None else with_other(one, other, where)
    first = []
    for given in (one, moved):
        products = recorded(lambda given=given: subject.run(given), [subject.model]).products  # type: ignore[misc]
        found = next((made.x for made in products if made.x.shape.count(length) == 1), None)
        if found is None:
            return None
        first.append(found)
    touched = _touched(first[0], first[1], length, subject.tolerance)
    return None if touched is None or len(touched) < 2 else len(touched)


def _copied(subject: ModelSubject, given: Given) -> int | None:
    """The width of a piece that is repeated all along what goes into some matrix, as if heads were one and the same."""
    for made in recorded(lambda: subject.run(given), [subject.model]).products:
        x = made.x
        for number in (2, 3, 4, 6, 8, 12, 16):
            if x.ndim < 3 or x.shape[-1] % number or x.shape[-1] == number:
                continue
            pieces = x.unflatten(-1, (number, -1))
            if bool((pieces == pieces[..., :1, :]).all()) and float(x.std()) > 0:
                return int(pieces.shape[-1])
    return None


def _first(subject: ModelSubject, given: Given) -> Attended | None:
    calls = attentions(lambda: subject.run(given))
    return calls[0] if calls else None


def _joined(subject: ModelSubject, given: Given, length: int, position: int) -> set[int] | None:
    """The positions of the next projection's output that one position of the first mixture reaches."""
    projected = []
    for bump in ((0, 0, 0), (0, length, position)):
        with Probe(bump) as probe:
            subject.run(given)
        projected.append(probe.projected)
    before, after = projected
    return None if before is None or after is None else _touched(before, after, length, subject.tolerance)


def _touched(one: Tensor, other: Tensor, length: int, tolerance: float) -> set[int] | None:
    axes = [axis for axis, size in enumerate(one.shape) if size == length]
    if one.shape != other.shape or len(axes) != 1:
        return None
    gap = (one.double() - other.double()).abs().movedim(axes[0], 0).reshape(length, -1).amax(1)
    return set((gap > tolerance * float(one.double().abs().mean())).nonzero().flatten().tolist())
