"""Examining one function: (q, k, v[, mask]) -> output, or output and weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.diagnosis.parts.attention_wording import WORDS
from glassformer.diagnosis.parts.calling import (
    MEANINGS,
    MaskForm,
    Says,
    difference,
    is_length,
    meanings_against,
    modules_of,
    same,
    tensors_in,
)
from glassformer.diagnosis.parts.hypotheses import RIGHT, explained, measured_scale, shared_out
from glassformer.diagnosis.parts.making import D_HEAD, Thing, asked_in, parameters_of, positional_of, required_of
from glassformer.diagnosis.property import Property
from glassformer.diagnosis.verdict import Finding, Said

B, H, T, S = 2, 3, 5, 7
SAYS = Says(WORDS)


@dataclass(frozen=True, eq=False)
class AttentionSubject:
    """An attention function, and how it is called.

    Attributes:
        thing: What the user named.
        dims: Dimensions of its tensors: 4 (B, H, T, E), 3 (B, T, E) or 2 (T, E).
        mask_name: The argument that takes the mask; None = there is none.
        form: How the mask is said; None = no form was understood.
        expect: What the user says of it: "safe" = a query that may see nothing gives no NaN.
    """

    thing: Thing
    dims: int
    mask_name: str | None
    form: MaskForm | None = None
    expect: str | None = None

    def modules(self) -> Sequence[nn.Module]:
        """Return the module, if it is one."""
        return modules_of(self.thing.instance)

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None = None, form: MaskForm | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return output and weights, always with heads. *Shape:* (B, H, T, E), (B, H, T, S)."""
        form = form or self.form
        options: dict[str, Any] = {}
        if visible is not None:
            assert form is not None, "asked only where there is a mask"
            assert self.mask_name is not None, "asked only where there is a mask"
            options[self.mask_name] = form.of(visible[:, 0])
        for name in required_of(self.thing.instance)[3:]:
            options.setdefault(name, None)  # a mask that it insists on
        with torch.no_grad():
            given = {"q": self._flat(q), "k": self._flat(k), "v": self._flat(v)}
            found = self.thing.instance(*(given[each] for each in asked_in(self.thing.instance) or "qkv"), **options)
        tensors = [self._back(tensor, q.shape) for tensor in tensors_in(found)]
        if not tensors:
            raise TypeError(f"it returned {type(found).__name__}, and not a tensor")
        output, rest = tensors[0], tensors[1:]
        wanted = (*q.shape[:3], k.shape[2])
        if (
            rest
            and output.shape == wanted != (*q.shape[:3], v.shape[3])
            and rest[0].shape == (*q.shape[:3], v.shape[3])
        ):
            output, rest = rest[0], [output]  # weights first
        return output, rest[0] if rest else None

    def _flat(self, x: Tensor) -> Tensor:
        return x if self.dims == 4 else x[:, 0] if self.dims == 3 else x[0, 0]

    def _back(self, x: Tensor, shape: torch.Size) -> Tensor:
        return x if self.dims == 4 else x[:, None] if self.dims == 3 else x[None, None]

    @property
    def heads(self) -> int:
        """How many heads it can be given."""
        return H if self.dims == 4 else 1

    @property
    def rows(self) -> int:
        """How many rows it can be given."""
        return 1 if self.dims == 2 else B

    def drawn(self, queries: int = T, keys: int = S, d_value: int = D_HEAD) -> tuple[Tensor, Tensor, Tensor]:
        """Return random q, k and v."""
        return (
            torch.randn(self.rows, self.heads, queries, D_HEAD),
            torch.randn(self.rows, self.heads, keys, D_HEAD),
            torch.randn(self.rows, self.heads, keys, d_value),
        )


def open_attention(thing: Thing) -> AttentionSubject:
    """Return how an attention function is called, found by trying."""
    names = positional_of(thing.instance)
    named = parameters_of(thing.instance)
    later = (*names[3:], *named)
    mask = next((name for name in later if "mask" in name.lower() or name in ("visible", "allow", "keep")), None)
    mask = mask or next(filter(is_length, later), None)
    if not named and mask is None:  # a builtin of torch, whose names nobody can ask for
        mask = "attn_mask"
    subject = AttentionSubject(thing, 4, mask)
    for dims in (4, 3, 2):
        subject = AttentionSubject(thing, dims, mask)
        try:
            torch.manual_seed(0)
            q, k, v = subject.drawn(S, S)
            if subject(q, k, v)[0].shape == q.shape:
                break
        except Exception:
            continue
    else:
        subject = AttentionSubject(thing, 4, mask)
    return AttentionSubject(thing, subject.dims, mask, None if mask is None else _form(subject))


def _form(subject: AttentionSubject) -> MaskForm | None:
    """The form of a mask under which hidden keys have no say; else the first one that can be explained."""
    torch.manual_seed(0)
    q, k, v = subject.drawn(S, S)
    if is_length(subject.mask_name or ""):
        return MaskForm("length", "lengths")
    visible = _some_visible(subject, S, S)
    told: list[tuple[int, MaskForm, bool]] = []
    against = meanings_against(subject.mask_name or "", parameters_of(subject.thing.instance))
    for shape in ("full", "rows", "square") if subject.dims == 4 else ("rows", "square"):
        seen = visible[:1].expand_as(visible) if shape == "square" else visible
        for meaning in MEANINGS:
            form = MaskForm(meaning, shape)
            if meaning in against:
                continue
            try:
                output = subject(q, k, v, seen, form)[0]
            except Exception:
                continue
            if output.shape != q.shape:
                continue
            if same(output, RIGHT.output(q, k, v, seen), 1e-4):
                return next((each for _, each, rows in told if rows), form)
            if shape == "full" and shared_out(output, q, k, v, seen):
                told.append((0, form, True))  # a mask for each row is taken, and handed to other rows
                continue
            found = explained(output, q, k, v, seen)
            # A fault of the mask itself, such as an inverted one, is believed last: it may be another meaning.
            faults = (
                9
                if found is None
                else sum(3 if fault == "mask_inverted" and not against else 1 for fault in found.faults())
            )
            told.append((faults, form, False))
    return min(told, key=lambda each: each[0])[1] if told else None


def _some_visible(subject: AttentionSubject, queries: int, keys: int) -> Tensor:
    if subject.form is not None and subject.form.meaning == "length":
        lengths = 2 + 2 * torch.arange(subject.rows)
        return (torch.arange(keys) < lengths[:, None])[:, None, None].expand(-1, -1, queries, -1)
    visible = torch.rand(subject.rows, 1, queries, keys) > 0.4
    visible[..., 0] = True
    visible[..., -1] = False
    return visible


def _runs(subject: AttentionSubject) -> Finding:
    q, k, v = subject.drawn(S, S)
    output, _ = subject(q, k, v)
    if output.shape != q.shape:
        return SAYS.bad("attention_shape", got=tuple(output.shape), wanted=tuple(q.shape))
    if subject.dims == 2:
        return SAYS.good("attention_runs_flat", shape=tuple(output.shape))
    return SAYS.good("attention_runs", shape=tuple(output.shape))


def _repeats(subject: AttentionSubject) -> Finding:
    q, k, v = subject.drawn(S, S)
    given = [each.clone() for each in (q, k, v)]
    visible = None if subject.form is None else torch.ones(subject.rows, 1, S, S, dtype=torch.bool)
    subject(q, k, v, visible)
    if not all(map(torch.equal, given, (q, k, v))):
        return SAYS.bad("input_changed")
    change = difference(subject(q, k, v)[0], subject(q, k, v)[0])
    return SAYS.bad("dropout_on", change=f"{change:.2g}") if change else SAYS.good("repeats_good")


def _equation(subject: AttentionSubject) -> Finding:
    q, k, v = subject.drawn(S, S)
    output = subject(q, k, v)[0]
    found = explained(output, q, k, v)
    off = difference(output, RIGHT.output(q, k, v))
    if found == RIGHT:
        return SAYS.good("equation_good", off=f"{off:.1e}")
    if found is not None:
        return SAYS.bad(found.faults()[0], off=f"{off:.2g}")
    past = torch.ones(subject.rows, 1, S, S, dtype=torch.bool).tril()
    if same(output, RIGHT.output(q, k, v, past), 1e-4):
        return SAYS.bad("mask_always") if subject.mask_name is not None else SAYS.good("equation_causal")
    weights = _weights(subject, q, k)
    unread = _unread(subject, q, k, v)
    if unread is not None:
        return SAYS.bad("keys_unread", at=unread, keys=S)
    sums = None if weights is None else weights.sum(-1)
    if sums is not None and float((sums - 1).abs().max()) > 1e-3:
        return SAYS.bad("axis_sums", low=f"{float(sums.min()):.2f}", high=f"{float(sums.max()):.2f}")
    factor = None if weights is None else measured_scale(weights, q, k)
    if factor is not None and abs(factor - D_HEAD**-0.5) > 1e-3:
        return SAYS.bad("scale_other", factor=f"{factor:.4g}", wanted=f"{D_HEAD**-0.5:.4g}", d_head=D_HEAD)
    return SAYS.bad("axis_parts" if _in_parts(subject, q, k) else "equation_other", off=f"{off:.2g}")


def _unread(subject: AttentionSubject, q: Tensor, k: Tensor, v: Tensor) -> int | None:
    """The first key that no query reads: other keys and values there change nothing."""
    before = subject(q, k, v)[0]
    for key in range(k.shape[2]):
        other_k, other_v = k.clone(), v.clone()
        other_k[:, :, key], other_v[:, :, key] = torch.randn(2, *k.shape[:2], D_HEAD)
        if difference(before, subject(q, other_k, other_v)[0]) <= EXACT_ZERO:
            return key
    return None


def _in_parts(subject: AttentionSubject, q: Tensor, k: Tensor) -> bool:
    """Whether another key leaves the weights of some keys as they are, and not those of others.

    In a softmax over all keys, every weight gives way to a key that fits better.
    """
    other = k.clone()
    other[:, :, 0] = torch.randn_like(other[:, :, 0])
    before, after = _weights(subject, q, k), _weights(subject, q, other)
    if before is None or after is None:
        return False
    stays = [difference(before[..., key], after[..., key]) <= EXACT_ZERO for key in range(1, k.shape[2])]
    return any(stays) and not all(stays)


def _weights(subject: AttentionSubject, q: Tensor, k: Tensor) -> Tensor | None:
    """With the unit vectors as values, the output is the weights."""
    unit = torch.eye(S).expand(subject.rows, subject.heads, S, S)
    try:
        output = subject(q, k, unit)[0]
    except Exception:
        return None
    return output if output.shape[-1] == S else None


def _lengths(subject: AttentionSubject) -> Finding:
    q, k, v = subject.drawn(T, S)
    output = subject(q, k, v)[0]
    if output.shape != q.shape:
        return SAYS.bad("attention_shape", got=tuple(output.shape), wanted=tuple(q.shape))
    found = explained(output, q, k, v)
    if found == RIGHT or found is None:
        return SAYS.good("lengths_good", T=T, S=S)
    return SAYS.bad(found.faults()[0], off=f"{difference(output, RIGHT.output(q, k, v)):.2g}")


def _hides(subject: AttentionSubject) -> Finding:
    assert subject.form is not None, "it applies only with a mask"
    q, k, v = subject.drawn(S, S)
    visible = _some_visible(subject, S, S)
    visible = visible[:1].expand_as(visible) if subject.form.shape == "square" else visible
    output = subject(q, k, v, visible)[0]
    found = explained(output, q, k, v, visible)
    off = difference(output, RIGHT.output(q, k, v, visible))
    faults = [] if found is None else [fault for fault in found.faults() if fault.startswith("mask")]
    if faults:
        return SAYS.bad(faults[0], off=f"{off:.2g}")
    if found is None and subject.rows > 1 and shared_out(output, q, k, v, visible):
        return SAYS.bad("mask_row")
    usual, strong = _leaks(subject, q, k, v, visible)
    if max(usual, strong) > EXACT_ZERO:
        fault = "mask_weak" if found is not None or strong > 2 * usual else "mask_leaks"
        return SAYS.bad(fault, leak=f"{max(usual, strong):.2g}")
    if found is None and off > 1e-3:
        return SAYS.bad("mask_other", off=f"{off:.2g}")
    return SAYS.good("mask_good", meaning=subject.form.meaning, shape=subject.form.size)


EXACT_ZERO = 1e-6
"""Largest share of a change at a hidden key that may come through."""

STRONG = 40.0
"""How much larger than usual the scores of hidden keys are made: a mask that is not strong enough shows."""


def _leaks(subject: AttentionSubject, q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> tuple[float, float]:
    """How far hidden keys and values move the output: usual ones, and such that match the queries well."""
    hidden = ~visible.any(-2, keepdim=True)[:, :, 0, :, None]  # (B, 1, S, 1)
    other_v = torch.where(hidden, torch.randn_like(v), v)
    plain = subject(q, k, v, visible)[0], subject(q, torch.where(hidden, torch.randn_like(k), k), other_v, visible)[0]
    toward = STRONG * q.mean(2, keepdim=True).sign()
    tempting = torch.where(hidden, toward, -toward)  # what may be seen fits badly, what may not fits well
    strong = subject(q.sign(), tempting, v, visible)[0], subject(q.sign(), tempting, other_v, visible)[0]
    return difference(*plain), difference(*strong)


def _blind(subject: AttentionSubject) -> Finding:
    q, k, v = subject.drawn(S, S)
    visible = torch.ones(subject.rows, 1, S, S, dtype=torch.bool)
    visible[:, :, 2] = False
    if subject.form is not None and subject.form.meaning == "length":
        visible[0] = False
    output = subject(q, k, v, visible)[0]
    if not bool(torch.isfinite(output).all()):
        wanted = subject.expect == "safe"
        return SAYS.bad("blind_nan") if wanted else Finding("not_applicable", SAYS.idle("blind_unsaid"))
    if bool((output[:, :, 2] == 0).all()):
        return SAYS.good("blind_zero")
    return SAYS.good("blind_finite")


def _large(subject: AttentionSubject) -> Finding:
    q, k, v = subject.drawn(S, S)
    output = subject(200 * q, 200 * k, v)[0]
    top = float(200 * 200 * (q @ k.transpose(-1, -2)).abs().max())
    return (
        SAYS.good("large_good", top=f"{top:.0e}")
        if bool(torch.isfinite(output).all())
        else SAYS.bad("large_nan", top=f"{top:.0e}")
    )


def _returned(subject: AttentionSubject) -> Finding:
    q, k, v = subject.drawn(S, S)
    output, weights = subject(q, k, v)
    assert weights is not None, "it applies only where weights come back"
    wanted = (*q.shape[:3], S)
    if tuple(weights.shape) != wanted:
        return SAYS.bad("weights_shape", got=tuple(weights.shape), wanted=wanted)
    total = difference(weights.sum(-1), torch.ones(wanted[:3]))
    if total > 1e-4:
        return SAYS.bad("weights_sum", off=f"{total:.2g}")
    if not same(weights @ v, output, 1e-4):
        return SAYS.bad("weights_other")
    return SAYS.good("weights_good", shape=wanted)


def _has_mask(subject: AttentionSubject) -> Said | None:
    if subject.mask_name is None:
        return SAYS.idle("no_mask")
    return None if subject.form is not None else SAYS.idle("mask_unknown", name=subject.mask_name)


def _has_weights(subject: AttentionSubject) -> Said | None:
    return SAYS.idle("no_weights") if subject(*subject.drawn(S, S))[1] is None else None


def _property(
    key: str,
    test: Callable[[AttentionSubject], Finding],
    applies: Callable[[AttentionSubject], Said | None] = lambda subject: None,
    after: tuple[str, ...] = ("attention_runs", "attention_repeats"),
) -> Property[AttentionSubject]:
    return Property(key, WORDS, test, applies, after)


PROPERTIES: tuple[Property[AttentionSubject], ...] = (
    _property("attention_runs", _runs, after=()),
    _property("attention_repeats", _repeats, after=("attention_runs",)),
    _property("attention_equation", _equation),
    _property("attention_lengths", _lengths, after=("attention_runs", "attention_repeats", "attention_equation")),
    _property(
        "attention_mask",
        _hides,
        _has_mask,
        ("attention_runs", "attention_repeats", "attention_equation", "attention_large"),
    ),
    _property("attention_large", _large),
    _property("attention_blind", _blind, _has_mask),
    _property(
        "attention_weights", _returned, _has_weights, ("attention_runs", "attention_repeats", "attention_equation")
    ),
)
"""What an attention function is examined for."""
