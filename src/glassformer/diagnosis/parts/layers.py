"""Examining a layer of an encoder or of a decoder, and a feed-forward network, as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from glassformer.diagnosis.flow import record
from glassformer.diagnosis.parts import layer_masks as masks
from glassformer.diagnosis.parts.calling import Says, difference, influence, unlisted, without_gradient
from glassformer.diagnosis.parts.heads import Heads, explained_products, scaled
from glassformer.diagnosis.parts.layer_weights import shared
from glassformer.diagnosis.parts.layers_wording import WORDS
from glassformer.diagnosis.parts.making import Thing, positional_of
from glassformer.diagnosis.parts.recording import Recording, recorded, straight
from glassformer.diagnosis.parts.sequence import (
    AGAIN,
    MOVED,
    B,
    SequenceSubject,
    T,
    folded,
    memory_of,
    open_sequence,
    overwrites,
)
from glassformer.diagnosis.property import Property
from glassformer.diagnosis.stream import doubled, dropped
from glassformer.diagnosis.structure import norm_place_said, norms_among
from glassformer.diagnosis.verdict import Finding, Said

SAYS = Says(WORDS)


def open_encoder_layer(thing: Thing) -> SequenceSubject:
    """Return how a layer of an encoder is called, found by trying."""
    return open_sequence(thing, ("x",))


def open_feed_forward(thing: Thing) -> SequenceSubject:
    """Return how a feed-forward network is called, found by trying."""
    return open_sequence(thing, ("x",))


def open_decoder_layer(thing: Thing) -> SequenceSubject:
    """Return how a layer of a decoder is called, found by trying; first with a memory of another length."""
    names = positional_of(thing.instance)
    memory_first = bool(names) and any(word in names[0].lower() for word in ("memory", "enc", "src"))
    ways = ("m x", "x m") if memory_first else ("x m", "m x")
    found = open_sequence(thing, ways, crosses=True)
    if found.error is None:
        return found
    equal = open_sequence(thing, ways, crosses=True, memory_length=T)
    return found if equal.error is not None else equal


def _runs(subject: SequenceSubject) -> Finding:
    if subject.thing.refused is not None:
        return Finding("error", Said(WORDS, "not_made", {"why": subject.thing.refused}), fault="not_made")
    x = subject.drawn()
    output = subject(x, memory_of(subject))
    if output.shape != x.shape:
        return SAYS.bad("layer_shape", got=tuple(output.shape), wanted=tuple(x.shape))
    order = "(T, B, D)" if subject.time_first else "(B, T, D)"
    return SAYS.good("layer_runs", shape=tuple(output.shape), order=order)


def _repeats(subject: SequenceSubject) -> Finding:
    x, memory = subject.drawn(), memory_of(subject)
    if overwrites(subject, x, memory):
        return SAYS.bad("input_changed")
    before = subject(x, memory)
    change = max(difference(before, subject(x, memory)) for _ in range(AGAIN))
    return SAYS.bad("dropout_on", change=f"{change:.2g}") if change else SAYS.good("repeats_good")


def _rows(subject: SequenceSubject) -> Finding:
    x, memory = subject.drawn(), memory_of(subject)
    other = x.clone()
    other[1:] = torch.randn_like(other[1:])
    before, after = subject(x, memory)[0], subject(other, memory)[0]
    change = difference(before, after)
    if memory is not None:
        memory = memory.clone()
        memory[1:] = torch.randn_like(memory[1:])
        change = max(change, difference(before, subject(x, memory)[0]))
    return SAYS.bad("rows_mixed", change=f"{change:.2g}") if change > MOVED else SAYS.good("rows_good")


def _residual(subject: SequenceSubject) -> Finding:
    """With all matrices at zero, what goes in must come out, or its norm."""
    inner = _inner_width(subject)
    if not _moves(subject, lambda parameter, owner: True):
        if inner is None:
            return SAYS.bad("residual_none")
        if not _moves(subject, lambda parameter, owner: _is_inner(owner, inner)):
            both = not _moves(subject, lambda parameter, owner: not _is_inner(owner, inner))
            return SAYS.bad("residual_none" if both else "residual_feed_forward")
        return SAYS.bad("residual_attention")
    module, memory = subject.thing.module, memory_of(subject)
    assert module is not None, "layers are modules"
    lost = _lost(subject)
    if lost:
        return SAYS.bad("residual_lost", names=", ".join(lost))
    if doubled(module, lambda x: subject(x, memory), subject.drawn()):
        return SAYS.bad("residual_twice")
    x = subject.drawn()
    return SAYS.bad("residual_dropped") if dropped(module, lambda: subject(x, memory)) else SAYS.good("residual_good")


def _lost(subject: SequenceSubject) -> list[str]:
    """The names of matrices of a sublayer that runs, and whose result nobody reads."""
    module, x, memory = subject.thing.module, subject.drawn(), memory_of(subject)
    assert module is not None, "layers are modules"
    matrices = {name: each for name, each in module.named_parameters() if each.ndim > 1}
    idle = without_gradient(module, lambda: subject.output(subject.run(x, memory)))
    lost = [name for name in idle if name in matrices]
    before = subject(x, memory)
    ran = {call.name for call in record(module, lambda: subject(x, memory))}
    if len(lost) < 2 or not any(name.rpartition(".")[0] in ran for name in lost):
        return []
    saved = {name: matrices[name].detach().clone() for name in lost}
    with torch.no_grad():
        for name in lost:
            matrices[name].normal_()
        after = subject(x, memory)
        for name, value in saved.items():
            matrices[name].copy_(value)
    return lost if torch.equal(before, after) else []  # else it is read, and detached


def _moves(subject: SequenceSubject, chosen: Callable[[nn.Parameter, nn.Module], bool]) -> bool:
    """Whether the output still moves with the input where the chosen matrices, with their offsets, are zero."""
    saved = [parameter.detach().clone() for parameter in subject.thing.parameters]
    _zero(subject, chosen)
    x, memory = subject.drawn(), memory_of(subject)
    moved = difference(subject(x, memory), subject(x + torch.randn_like(x), memory))
    with torch.no_grad():
        for parameter, value in zip(subject.thing.parameters, saved, strict=True):
            parameter.copy_(value)
    return moved > 1e-3


def _zero(subject: SequenceSubject, chosen: Callable[[nn.Parameter, nn.Module], bool]) -> None:
    module = subject.thing.module
    assert module is not None, "layers are modules"
    with torch.no_grad():
        for owner in module.modules():
            own = list(owner.parameters(recurse=False))
            if any(parameter.ndim > 1 for parameter in own):
                for parameter in own:
                    if chosen(parameter, owner):
                        parameter.zero_()


def _plain_norms(subject: SequenceSubject) -> None:
    """Norms as they are when they are new: a learned scale hides that something was normed."""
    module = subject.thing.module
    assert module is not None, "layers are modules"
    with torch.no_grad():
        for owner in module.modules():
            for name, parameter in owner.named_parameters(recurse=False):
                if isinstance(owner, (nn.LayerNorm, nn.RMSNorm)):
                    parameter.fill_(0.0 if name == "bias" else 1.0)


Inner = tuple[int, int]
"""Into what width a feed-forward network leads, and from what width it leads back: half of it, if one half gates."""


def _inner_width(subject: SequenceSubject) -> Inner | None:
    """F of the feed-forward network: there is a matrix from D to it, or to twice as many with a gate, and one back."""
    shapes = {tuple(parameter.shape[:2]) for parameter in subject.thing.parameters if parameter.ndim >= 2}
    d_model = subject.d_model
    wide = sorted(a for a, b in shapes if b == d_model != a)
    plain = [(a, a) for a in wide if (d_model, a) in shapes]
    gated = [(a, a // 2) for a in wide if a != 2 * d_model and a % 2 == 0 and (d_model, a // 2) in shapes]
    return max(plain or gated, default=None)


def _is_inner(owner: nn.Module, widths: Inner) -> bool:
    shapes = [parameter.shape[:2] for parameter in owner.parameters(recurse=False) if parameter.ndim >= 2]
    return any(width in shape for shape in shapes for width in widths)


def _norm(subject: SequenceSubject) -> Finding:
    """Where the norms are, from what was normed: the inputs of the sublayers, or the output."""
    _plain_norms(subject)
    x, memory = 3 * subject.drawn() + 1, memory_of(subject)
    record = recorded(lambda: subject.run(x, memory, **subject.masks(T)), subject.modules())
    y = subject.output(record.result)
    width = _inner_width(subject)
    products = [folded(product, subject) for product in record.products]
    at = _feed_forward_at(products, width)
    feed = None if at is None else products[at][0]
    attention = next((a for a, b in products if a.shape[-1] == subject.d_model), None)
    _zero(subject, lambda parameter, owner: True)
    bare = subject(x, memory)
    through = difference(bare, x) < 1e-5
    inputs = attention is not None and _normed(attention)
    inner = feed is None or _normed(feed)
    values = {"place": "pre" if through else "post"}
    if through:
        if inputs and inner:
            return _as_expected(subject, "pre")
        if not inputs and not inner:
            return SAYS.bad("norm_missing", **values)
        return SAYS.bad("norm_feed_forward" if inputs else "norm_attention", **values)
    if _normed(y):
        if inputs:
            twice = _normed_twice(subject)
            return SAYS.good("norm_both") if twice is None else SAYS.bad("norm_twice", name=twice)
        return _as_expected(subject, "post") if inner else SAYS.bad("norm_attention", **values)
    if inputs:
        return SAYS.bad("norm_stream", **values)
    return SAYS.bad("norm_feed_forward", **values) if _normed(bare) else SAYS.bad("norm_missing", **values)


def _normed_twice(subject: SequenceSubject) -> str | None:
    """The name of a norm that is used twice in one pass; None if there is none."""
    module, x, memory = subject.thing.module, subject.drawn(), memory_of(subject)
    assert module is not None, "layers are modules"
    names = Counter(call.name for call in norms_among(record(module, lambda: subject(x, memory))))
    learned = [name for name, part in module.named_modules() if any(True for _ in part.parameters(recurse=False))]
    return next((name for name, times in names.items() if times > 1 and name in learned), None)


def _feed_forward_at(products: Sequence[tuple[Tensor, Tensor]], widths: Inner | None) -> int | None:
    """The number of the product from D to F that one from F follows."""
    at = range(len(products) - 1)
    return next((i for i in at if (products[i][1].shape[-1], products[i + 1][0].shape[-1]) == widths), None)


def _as_expected(subject: SequenceSubject, place: str) -> Finding:
    module = subject.thing.module
    expected = subject.expect or (None if module is None else norm_place_said(module))
    if expected in ("pre", "post") and expected != place:
        return SAYS.bad("norm_other_side", place=place, expected=expected)
    return SAYS.good("norm_good", place=place)


def _normed(x: Tensor) -> bool:
    """Whether every vector has mean 0 and variance 1, or a mean square of 1."""
    square = x.square().mean(-1)
    return bool(((square - 1).abs() < 0.02).all())


def _feed_forward_local(subject: SequenceSubject) -> Finding:
    width = _inner_width(subject)
    assert width is not None, "it applies only where there is one"
    x, memory = subject.drawn(), memory_of(subject)
    products = recorded(lambda: subject.run(x, memory, **subject.masks(T)), subject.modules()).products
    if straight([(product.x, product.y) for product in products]):
        return SAYS.bad("feed_forward_straight")
    _zero(subject, lambda parameter, owner: not _is_inner(owner, width))
    return _local(subject)


def _local(subject: SequenceSubject) -> Finding:
    memory = memory_of(subject)
    moved = influence(lambda x: subject(x, memory), subject.drawn())
    off = moved - torch.diag(moved.diagonal())
    if bool((off > MOVED).any()):
        to, source = (off > MOVED).nonzero()[0].tolist()
        return SAYS.bad("feed_forward_mixes", to=to, source=source)
    return SAYS.good("feed_forward_good")


def _mixes(subject: SequenceSubject) -> Finding:
    memory = memory_of(subject)
    moved = influence(lambda x: subject(x, memory), subject.drawn())
    off = moved - torch.diag(moved.diagonal())
    if not bool((off > MOVED).any()):
        return SAYS.bad("mixes_nothing")
    if subject.told and subject.built_in_causal and subject.padding is not None:
        return SAYS.bad("mixes_past", name=subject.padding.name)
    return SAYS.good("mixes_good")


def _order(subject: SequenceSubject) -> Finding:
    x, order = subject.drawn(), torch.randperm(T)
    off = difference(subject(x[:, order]), subject(x)[:, order])
    return SAYS.bad("positions_mixed", off=f"{off:.2g}") if off > 1e-3 else SAYS.good("order_good", off=f"{off:.1e}")


def _learns(subject: SequenceSubject) -> Finding:
    module = subject.thing.module
    assert module is not None, "layers are modules"
    left = unlisted(module, lambda: subject.output(subject.run(subject.drawn(), memory_of(subject))))
    if left:
        return SAYS.bad("unlisted", shapes=", ".join(map(str, left)))
    x, memory = subject.drawn().requires_grad_(), memory_of(subject)
    if memory is not None:
        memory.requires_grad_()
    without = without_gradient(module, lambda: subject.output(subject.run(x, memory)))
    if without:
        return SAYS.bad("no_gradient", where=without[0], names=", ".join(without))
    for name, given in (("x", x), ("memory", memory)):
        if given is not None and (given.grad is None or not bool(given.grad.abs().max() > 1e-9)):
            return SAYS.bad("no_gradient_back", names=name)
    return SAYS.good("gradient_good", matrices=sum(each.ndim > 1 for each in module.parameters()))


def _attention(subject: SequenceSubject) -> Finding:
    """The first attention inside: what comes of the first projections, before the feed-forward network."""
    if _lost(subject):
        return Finding("not_applicable", SAYS.idle("lost_first"))
    x, memory = 2 * subject.drawn(), memory_of(subject)
    record = recorded(lambda: subject.run(x, memory, **subject.masks(T)), subject.modules())
    width = _inner_width(subject)
    products = [folded(product, subject) for product in record.products]
    stop = _feed_forward_at(products, width)
    heads = (
        [subject.n_heads] if subject.n_heads else [n for n in range(1, subject.d_model + 1) if subject.d_model % n == 0]
    )
    sights = _sights(subject, memory)
    seen = False
    for end in range(2, min(5, stop or len(products)) + 1):
        if any(each.shape[1] != T for _, each in products[:end]):
            continue
        tried = [explained_products(products[:end], subject.d_model, heads, visible) for visible in sights]
        found = next((each for each, _ in tried if each is not None), None)
        found = found or _scaled(subject, record, products[:end], sights)
        if found is not None:
            if found.faults:
                return SAYS.bad(found.faults[0], heads=found.n_heads, off="1", **found.measured)
            return SAYS.good("heads_good", heads=found.n_heads)
        seen = seen or (end >= 4 and tried[0][1])
    if seen and unlisted(subject.thing.module, lambda: subject.output(subject.run(x, memory))):
        return Finding("not_applicable", SAYS.idle("unlisted_first"))
    if seen and _rows(subject).status == "fail":
        return Finding("not_applicable", SAYS.idle("rows_first"))
    return SAYS.bad("heads_other") if seen and stop else Finding("not_applicable", SAYS.idle("inside_hidden"))


def _scaled(
    subject: SequenceSubject, record: Recording, products: list[tuple[Tensor, Tensor]], sights: list[Tensor | None]
) -> Heads | None:
    first = replace(record, scores=record.scores[:1])
    scores = first.scores_by_head(B)
    if scores is None or any(each.numel() in (1, scores.shape[1]) for each in subject.thing.parameters):
        return None
    return next(filter(None, (scaled(scores, products, subject.d_model, sight) for sight in sights)), None)


def _sights(subject: SequenceSubject, memory: Tensor | None) -> list[Tensor | None]:
    """What its own attention may see by what it does, whether that is right or not; with and without the diagonal."""
    moved = influence(lambda x: subject(x, memory), subject.drawn()).gt(MOVED)
    if bool(moved.all()):
        return [None]
    apart = moved & ~torch.eye(T, dtype=torch.bool)
    return [sight.expand(B, T, T) for sight in (moved, apart)]


def _cross(subject: SequenceSubject) -> Finding:
    """Keys and values from the memory: its order means nothing, and each of its states counts."""
    x, memory = subject.drawn(), memory_of(subject)
    assert memory is not None, "decoder layers have one"
    used = difference(subject(x, memory), subject(x, torch.randn_like(memory)))
    if used <= MOVED:
        return SAYS.bad("memory_ignored")
    order = torch.randperm(memory.shape[1])
    while bool((order == torch.arange(len(order))).any()):
        order = torch.randperm(memory.shape[1])
    off = difference(subject(x, memory), subject(x, memory[:, order]))
    if off > 1e-3:
        return SAYS.bad("cross_sides", off=f"{off:.2g}")
    other, step = memory.clone(), torch.randn_like(memory[:, 0])
    other[:, 0] += step
    other[:, 1] -= step
    if difference(subject(x, memory), subject(x, other)) <= 1e-5:
        return SAYS.bad("cross_mean")
    own = masks.own_over_memory(subject)
    if own is not None:
        return SAYS.bad("cross_own_mask", name=own)
    if subject.memory_length == T:
        return SAYS.bad("cross_lengths")
    return SAYS.good("cross_good", used=f"{used:.2g}")


def _curved(subject: SequenceSubject) -> Finding:
    """f(a + b) + f(0) = f(a) + f(b) holds for two linear layers with nothing between them."""
    a, b = subject.drawn(), subject.drawn()
    off = difference(subject(a + b) + subject(0 * a), subject(a) + subject(b))
    width = _inner_width(subject)
    if off < 1e-4:
        return SAYS.bad("feed_forward_linear")
    return SAYS.good("curved_good", width="?" if width is None else width[1], d_model=subject.d_model)


def _has_inner(subject: SequenceSubject) -> Said | None:
    return None if _inner_width(subject) is not None else SAYS.idle("no_feed_forward")


def _is_free(subject: SequenceSubject) -> Said | None:
    return SAYS.idle("is_causal") if subject.built_in_causal else None


def _property(
    key: str,
    test: Callable[[SequenceSubject], Finding],
    applies: Callable[[SequenceSubject], Said | None] = lambda subject: None,
    after: tuple[str, ...] = (),
) -> Property[SequenceSubject]:
    return Property(key, WORDS, test, applies, ("layer_run", "layer_repeat", *after))


RUNS = Property("layer_run", WORDS, _runs)
SAYS_THE_SAME = Property("layer_repeat", WORDS, _repeats, after=("layer_run",))

ENCODER: tuple[Property[SequenceSubject], ...] = (
    RUNS,
    SAYS_THE_SAME,
    _property("layer_residual", _residual),
    _property("layer_norm", _norm, after=("layer_residual",)),
    _property("layer_attention", _attention, after=("layer_residual",)),
    _property("layer_feed_forward", _feed_forward_local, _has_inner),
    _property("layer_mixes", _mixes, after=("layer_rows",)),
    _property("layer_order", _order, _is_free, ("layer_attention", "layer_feed_forward")),
    _property("layer_rows", _rows, after=("layer_attention",)),
    _property(
        "layer_padding", masks.padding, masks.has_padding, ("layer_attention", "layer_feed_forward", "layer_rows")
    ),
    _property("layer_learns", _learns, after=("layer_residual", "layer_attention")),
    _property("layer_shared", shared, after=("layer_residual", "layer_norm", "layer_attention", "layer_learns")),
)
"""What a layer of an encoder is examined for."""

DECODER: tuple[Property[SequenceSubject], ...] = (
    RUNS,
    SAYS_THE_SAME,
    _property("layer_cross", _cross),
    _property("layer_causal", masks.causal, after=("layer_residual", "layer_attention", "layer_cross")),
    _property("layer_memory_padding", masks.memory_padding, masks.has_memory_masks, ("layer_cross",)),
    _property("layer_residual", _residual),
    _property("layer_norm", _norm, after=("layer_residual",)),
    _property("layer_attention", _attention, after=("layer_residual",)),
    _property("layer_feed_forward", _feed_forward_local, _has_inner),
    _property("layer_rows", _rows, after=("layer_attention", "layer_cross")),
    _property(
        "layer_padding",
        masks.padding,
        masks.has_padding,
        ("layer_attention", "layer_causal", "layer_cross", "layer_rows"),
    ),
    _property("layer_learns", _learns, after=("layer_residual", "layer_attention", "layer_cross")),
    _property(
        "layer_shared", shared, after=("layer_residual", "layer_norm", "layer_attention", "layer_cross", "layer_learns")
    ),
)
"""What a layer of a decoder is examined for."""

FEED_FORWARD: tuple[Property[SequenceSubject], ...] = (
    RUNS,
    SAYS_THE_SAME,
    _property("feed_forward_local", _local),
    _property("feed_forward_curved", _curved),
    _property("layer_rows", _rows),
    _property("layer_learns", _learns),
)
"""What a feed-forward network is examined for."""
