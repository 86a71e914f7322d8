"""Examining a module of attention with several heads: its matrices, its heads, its masks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from glassformer.diagnosis.parts.attention_wording import WORDS
from glassformer.diagnosis.parts.calling import Says, difference, influence, unlisted, without_gradient
from glassformer.diagnosis.parts.heads import Heads, explained_products, placed, scaled
from glassformer.diagnosis.parts.making import Thing, asked_in, parameters_of, positional_of, required_of
from glassformer.diagnosis.parts.recording import recorded
from glassformer.diagnosis.parts.sequence import (
    AGAIN,
    COUNTS,
    MEMORY_NAMES,
    MOVED,
    B,
    S,
    SequenceSubject,
    T,
    folded,
    open_sequence,
    overwrites,
)
from glassformer.diagnosis.property import Property
from glassformer.diagnosis.verdict import Finding, Said

SAYS = Says(WORDS)


def open_multi_head(thing: Thing) -> SequenceSubject:
    """Return how a multi-head attention is called, found by trying."""
    required = [name for name in required_of(thing.instance) if "mask" not in name]
    several = len(required) >= 2 or bool(asked_in(thing.instance))
    subject = open_sequence(thing, ("x x x", "x x", "x") if several else ("x", "x x x", "x x"))
    if subject.error is None and subject.inputs == "x x x":
        apart = replace(subject, inputs=_crossing(subject) or "x m m")
        return apart if _reads_another(apart) else subject
    if subject.error is None and subject.inputs == "x x":
        return replace(subject, inputs="x m")
    return subject


def _reads_another(subject: SequenceSubject) -> bool:
    try:
        return subject(subject.drawn(), subject.drawn(S)).shape[1] == T
    except Exception:
        return False


def _crossing(subject: SequenceSubject) -> str | None:
    """How another sequence goes in, by the names of the arguments; None if they name none."""
    order = asked_in(subject.thing.instance)
    if order:
        return " ".join("x" if each == "q" else "m" for each in order)
    names = positional_of(subject.thing.instance)
    return "x m" if len(names) > 1 and names[1].lower() in MEMORY_NAMES else None


def _cross(subject: SequenceSubject) -> Finding:
    """Another sequence, of another length, is read; and a key that is left out is the value, or the other way round."""
    way = _crossing(subject)
    assert way is not None, "it applies only where one goes in"
    apart = replace(subject, inputs=way)
    x, memory = subject.drawn(), subject.drawn(S)
    try:
        output = apart(x, memory)
    except Exception as error:
        said = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        if "cannot be multiplied" in said:  # made for a second sequence of another width
            return Finding("not_applicable", SAYS.idle("cross_width"))
        return SAYS.bad("cross_crash", T=T, S=S, what=said)
    if output.shape != x.shape:
        return SAYS.bad("heads_shape", got=tuple(output.shape), wanted=tuple(x.shape))
    if difference(output, apart(x, subject.drawn(S))) <= MOVED:
        return SAYS.bad("cross_unread", name=positional_of(subject.thing.instance)[1])
    if way == "x m m" and len(required_of(subject.thing.instance)) == 2:
        name, whole = positional_of(subject.thing.instance)[2], subject.drawn()
        if difference(replace(subject, inputs="x m")(x, whole), apart(x, whole)) > COUNTS:
            return SAYS.bad("cross_default", name=name)
    return SAYS.good("cross_read", T=T, S=S)


def _crosses(subject: SequenceSubject) -> Said | None:
    if _crossing(subject) is None:
        return SAYS.idle("no_second")
    return SAYS.idle("is_causal") if subject.built_in_causal else None


def _runs(subject: SequenceSubject) -> Finding:
    if subject.thing.refused is not None:
        return Finding("error", Said(WORDS, "not_made", {"why": subject.thing.refused}), fault="not_made")
    x = subject.drawn()
    output = subject(x)
    if output.shape != x.shape:
        return SAYS.bad("heads_shape", got=tuple(output.shape), wanted=tuple(x.shape))
    order = "(T, B, D)" if subject.time_first else "(B, T, D)"
    return SAYS.good("heads_runs", shape=tuple(output.shape), order=order)


def _repeats(subject: SequenceSubject) -> Finding:
    x = subject.drawn()
    if overwrites(subject, x):
        return SAYS.bad("input_changed")
    before = subject(x)
    change = max(difference(before, subject(x)) for _ in range(AGAIN))
    return SAYS.bad("dropout_on", change=f"{change:.2g}") if change else SAYS.good("repeats_good")


def _rows(subject: SequenceSubject) -> Finding:
    x = subject.drawn()
    other = x.clone()
    other[1:] = torch.randn_like(other[1:])
    change = difference(subject(x)[0], subject(other)[0])
    return SAYS.bad("rows_mixed", change=f"{change:.2g}") if change > MOVED else SAYS.good("rows_good")


def _order(subject: SequenceSubject) -> Finding:
    """f(P x) = P f(x): without positions and masks, attention does not know the order."""
    found, _ = _found(subject)
    if found is not None and found.places:
        return Finding("not_applicable", SAYS.idle("heads_know"))
    x, order = subject.drawn(), torch.randperm(T)
    off = difference(subject(x[:, order]), subject(x)[:, order])
    return SAYS.bad("positions_mixed", off=f"{off:.2g}") if off > 1e-4 else SAYS.good("order_good", off=f"{off:.1e}")


def _found(subject: SequenceSubject, visible: Tensor | None = None) -> tuple[Heads | None, bool]:
    """The attention that explains what happens inside, and whether its inside could be seen."""
    x = subject.drawn()
    memory = subject.drawn(S) if "m" in subject.inputs.split() and visible is None else None
    options = subject.masks(T, visible)
    record = recorded(lambda: subject.run(x, memory, **options), subject.modules())
    pairs = [folded(product, subject) for product in record.products]
    known, width = subject.n_heads, subject.d_model
    if pairs:
        width = pairs[-1][0].flatten(2).shape[-1]  # that of all heads together, which need not be D
    heads = [known] if known else [n for n in range(1, width + 1) if width % n == 0]
    if visible is None and subject.built_in_causal:
        visible = torch.ones(T, T, dtype=torch.bool).tril().expand(B, T, T)
    found = explained_products(pairs, width, heads, visible)
    scores = record.scores_by_head(B)
    if found[0] is None and scores is not None:
        if memory is None and placed(scores, pairs, width, visible):
            return Heads(scores.shape[1], (0, 1, 2), places=True), True
        given = any(each.numel() in (1, scores.shape[1]) for each in subject.thing.parameters)  # a learned factor
        return None if given else scaled(scores, pairs, width, visible), found[1]
    return found


def _equation(subject: SequenceSubject) -> Finding:
    found, seen = _found(subject)
    if not seen:
        return Finding("not_applicable", SAYS.idle("inside_hidden"))
    if found is None:
        run = partial(_ran, subject)
        if unlisted(subject.thing.module, run):
            return Finding("not_applicable", SAYS.idle("unlisted_first"))
        if _rows(subject).status == "fail":
            return Finding("not_applicable", SAYS.idle("rows_first"))
        idle = without_gradient(subject.thing.module, run)
        return Finding("not_applicable", SAYS.idle("matrix_idle", name=idle[0])) if idle else SAYS.bad("heads_other")
    if found.faults:
        return SAYS.bad(found.faults[0], off="1", heads=found.n_heads, **found.measured)
    if found.places:
        return SAYS.good("heads_placed", heads=found.n_heads)
    ignored = _ignored(subject)
    if ignored is not None:
        return SAYS.bad("argument_ignored", name=ignored)
    return SAYS.good("heads_good", heads=found.n_heads)


def _ran(subject: SequenceSubject) -> Tensor:
    return subject.output(subject.run(subject.drawn(), None))


def _ignored(subject: SequenceSubject) -> str | None:
    """The name of the query, key or value that changes nothing; None where each counts, or there is only one."""
    names = positional_of(subject.thing.instance)[:3]
    if len(subject.inputs.split()) != 3:
        return None
    given = [subject.drawn() for _ in names]
    with torch.no_grad():
        base = subject.output(subject.call(*given))
        for at, name in enumerate(names):
            other = [subject.drawn() if at == number else each for number, each in enumerate(given)]
            if difference(base, subject.output(subject.call(*other))) <= MOVED:
                return name
    return None


def _learns(subject: SequenceSubject) -> Finding:
    module = subject.thing.module
    assert module is not None, "it applies to modules"
    left = unlisted(module, partial(_ran, subject))
    if left:
        return SAYS.bad("unlisted", shapes=", ".join(map(str, left)))
    x = subject.drawn().requires_grad_()
    without = without_gradient(module, lambda: subject.output(subject.run(x, None)))
    if without:
        return SAYS.bad("no_gradient", where=without[0], names=", ".join(without))
    if x.grad is None or not bool(x.grad.abs().max() > 1e-9):
        return SAYS.bad("no_gradient_back", names="x")
    matrices = sum(each.ndim > 1 for each in module.parameters())
    return SAYS.good("gradient_good", matrices=matrices)


def _hides(subject: SequenceSubject) -> Finding:
    assert subject.pairs is not None, "it applies only with a mask"
    visible = torch.ones(T, T, dtype=torch.bool).tril().expand(B, T, T)
    moved = influence(lambda x: subject(x, visible=visible), subject.drawn()).gt(MOVED)
    seen = visible[0]
    found, _ = _found(subject, visible)
    faults = [] if found is None else [fault for fault in found.faults if fault.startswith("mask")]
    if faults:
        return SAYS.bad(faults[0], off="1")
    if bool((moved & ~seen).any()):
        query, other = (moved & ~seen).nonzero()[0].tolist()
        return SAYS.bad("mask_leaks_at", query=query, other=other)
    if bool((seen & ~moved).any()):
        query, other = (seen & ~moved).nonzero()[0].tolist()
        return SAYS.bad("mask_closes", query=query, other=other)
    return SAYS.good("mask_good", meaning=subject.pairs.form.meaning, shape=subject.pairs.form.size)


def _rows_masked(subject: SequenceSubject) -> Finding:
    """As many rows as heads, and another mask for each row: a mask that is spread over the wrong dimension shows."""
    assert subject.padding is not None, "it applies only with such a mask"
    heads = subject.n_heads or B
    x = torch.randn(heads, T, subject.d_model)
    real = torch.ones(heads, T, dtype=torch.bool)
    for row in range(heads):
        real[row, T - 1 - row % (T - 1) :] = False
    other = torch.where(real[..., None], x, torch.randn_like(x))
    change = (subject(x, real=real) - subject(other, real=real)).abs()[real].max()
    if float(change) > MOVED:
        return SAYS.bad("mask_rows", change=f"{float(change):.2g}")
    short = int(real[0].sum())
    off = difference(subject(x, real=real)[:1, :short], subject(x[:1, :short]))
    if off > COUNTS:
        return SAYS.bad("padding_counts", name=subject.padding.name, off=f"{off:.2g}")
    return SAYS.good(
        "padding_good", name=subject.padding.name, meaning=subject.padding.form.meaning, shape=subject.padding.form.size
    )


def _returned(subject: SequenceSubject) -> Finding:
    x = subject.drawn()
    with torch.no_grad():
        weights = subject.weights(subject.run(x))
    assert weights is not None, "it applies only where weights come back"
    heads = subject.n_heads
    averaged = weights.ndim == 3 and tuple(weights.shape) == (B, T, T)
    wanted = (B, heads or "H", T, T)
    if not averaged and (
        weights.ndim != 4
        or (weights.shape[0], *weights.shape[2:]) != (B, T, T)
        or heads not in (None, weights.shape[1])
    ):
        return SAYS.bad("weights_shape", got=tuple(weights.shape), wanted=wanted)
    total = difference(weights.sum(-1), torch.ones(weights.shape[:-1]))
    if total > 1e-4:
        return SAYS.bad("weights_sum", off=f"{total:.2g}")
    return SAYS.good("weights_averaged" if averaged else "weights_good", shape=tuple(weights.shape))


def _divides(subject: SequenceSubject) -> Finding:
    try:
        made = subject.thing.again(n_heads=5)
    except Exception as error:
        return SAYS.good("divides_good", message=str(error).strip().partition("\n")[0] or type(error).__name__)
    try:
        output = replace(subject, thing=replace(subject.thing, instance=made.eval()))(subject.drawn())
    except Exception as error:
        return SAYS.good("divides_at_call", message=str(error).strip().partition("\n")[0] or type(error).__name__)
    return SAYS.bad("divides_late", d_model=subject.d_model, then=tuple(output.shape))


def _has_pairs(subject: SequenceSubject) -> Said | None:
    return None if subject.pairs is not None else SAYS.idle("no_mask")


def _has_padding(subject: SequenceSubject) -> Said | None:
    return None if subject.padding is not None else SAYS.idle("no_mask")


def _is_free(subject: SequenceSubject) -> Said | None:
    return SAYS.idle("is_causal") if subject.built_in_causal else None


def _has_weights(subject: SequenceSubject) -> Said | None:
    with torch.no_grad():
        return SAYS.idle("no_weights") if subject.weights(subject.run(subject.drawn())) is None else None


def _is_made(subject: SequenceSubject) -> Said | None:
    names = [name.lower() for name in parameters_of(subject.thing.value)]
    if any(name in ("d_k", "d_v", "key_dim") or ("head" in name and "dim" in name) for name in names):
        return SAYS.idle("head_given")
    return None if "n_heads" in subject.thing.sizes else SAYS.idle("not_a_class")


def _property(
    key: str,
    test: Callable[[SequenceSubject], Finding],
    applies: Callable[[SequenceSubject], Said | None] = lambda subject: None,
    after: tuple[str, ...] = ("heads_run", "heads_repeat"),
) -> Property[SequenceSubject]:
    return Property(key, WORDS, test, applies, after)


PROPERTIES: tuple[Property[SequenceSubject], ...] = (
    _property("heads_run", _runs, after=()),
    _property("heads_repeat", _repeats, after=("heads_run",)),
    _property("heads_equation", _equation),
    _property("heads_cross", _cross, _crosses),
    _property("heads_order", _order, _is_free, ("heads_run", "heads_repeat", "heads_equation")),
    _property("heads_rows", _rows, after=("heads_run", "heads_repeat", "heads_equation")),
    _property("heads_learn", _learns, after=("heads_run", "heads_equation")),
    _property("heads_mask", _hides, _has_pairs, ("heads_run", "heads_repeat", "heads_equation", "heads_order")),
    _property(
        "heads_padding",
        _rows_masked,
        _has_padding,
        ("heads_run", "heads_repeat", "heads_equation", "heads_order", "heads_mask", "heads_rows"),
    ),
    _property("heads_weights", _returned, _has_weights, ("heads_run", "heads_repeat", "heads_equation")),
    _property("heads_divide", _divides, _is_made, ()),
)
"""What a multi-head attention is examined for."""
