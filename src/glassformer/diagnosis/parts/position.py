"""Examining positions: a table, what adds one to its input, or a rotation of queries and keys."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from glassformer.diagnosis.parts.calling import Says, difference, unlisted
from glassformer.diagnosis.parts.making import MAX_LEN, Thing
from glassformer.diagnosis.parts.other_wording import WORDS
from glassformer.diagnosis.parts.position_bias import ALIKE, FALLS, MOVES
from glassformer.diagnosis.parts.positioning import B, H, Kind, PositionSubject, T, plain_tensors
from glassformer.diagnosis.property import Property
from glassformer.diagnosis.verdict import Finding, Said
from glassformer.parts.position import sinusoid

SAYS = Says(WORDS)


def _runs(subject: PositionSubject) -> Finding:
    if subject.kind == "rotary":
        x = torch.randn(B, H, T, subject.d_model)
    elif subject.kind == "added":
        x = torch.randn(B, T, subject.d_model)
    if subject.kind != "table":
        given = x.clone()
        one, other = subject.call(x).clone(), subject.call(given.clone())
        if not torch.equal(x, given):
            return SAYS.bad("input_changed")
        if difference(one, other):
            return SAYS.bad("dropout_on", change=f"{difference(one, other):.2g}")
    if subject.kind == "rotary":
        order = "(B, T, H, E)" if subject.heads_last else "(B, H, T, E)"
        return SAYS.good("rotary_runs", order=order)
    table = subject.table()
    if tuple(table.shape) != (T, subject.d_model):
        return SAYS.bad("position_shape", got=tuple(table.shape), wanted=(T, subject.d_model))
    return SAYS.good("position_runs", shape=tuple(table.shape), kind=subject.kind)


def _offset(subject: PositionSubject) -> Finding:
    """What begins at place k is the rest of what begins at 0."""
    shape = (B, T, subject.d_model) if subject.kind == "added" else (B, H, T, subject.d_model)
    x, begin = torch.randn(shape), T // 2
    dim = -2 if subject.kind == "added" or not subject.heads_last else 1
    x = x.transpose(1, 2) if subject.heads_last else x
    with torch.no_grad():
        whole, rest = subject.later(x, 0), subject.later(x.narrow(dim, begin, T - begin), begin)
    off = difference(whole.narrow(dim, begin, T - begin), rest)
    if off > 1e-4:
        return SAYS.bad("position_offset_bad", name=subject.offset_name, begin=begin, off=f"{off:.2g}")
    return SAYS.good("offset_good", name=subject.offset_name, begin=begin)


def _has_offset(subject: PositionSubject) -> Said | None:
    return None if subject.offset_name is not None and subject.expect != "time_first" else SAYS.idle("no_offset")


def _prefix(subject: PositionSubject) -> Finding:
    """A place does not depend on how many come behind it."""
    if subject.kind == "rotary":
        x = torch.randn(B, H, T, subject.d_model)
        whole, part = subject.rotated(x)[:, :, : T // 2], subject.rotated(x[:, :, : T // 2].clone())
    else:
        whole, part = subject.table(T)[: T // 2], subject.table(T // 2)
    off = difference(whole, part)
    return SAYS.bad("position_of_length", off=f"{off:.2g}") if off > 1e-5 else SAYS.good("prefix_good")


def _learns(subject: PositionSubject) -> Finding:
    """The input gets its gradient, and so does what is learned."""
    x = torch.randn(B, T, subject.d_model) if subject.kind == "added" else torch.randn(B, H, T, subject.d_model)
    x.requires_grad_()
    module = subject.thing.module
    with torch.enable_grad():
        out = subject.call(x)
        if out.requires_grad:
            (out * torch.randn(out.shape)).sum().backward()
    if x.grad is None or not bool(x.grad.abs().max() > 1e-9):
        return SAYS.bad("no_gradient_back", names="x")
    left = unlisted(module, lambda: subject.call(x.detach()))
    if left:
        return SAYS.bad("unlisted", shapes=", ".join(map(str, left)))
    without = [name for name, each in ([] if module is None else module.named_parameters()) if each.grad is None]
    if without:
        return SAYS.bad("no_gradient", where=without[0], names=", ".join(without))
    return SAYS.good("learns_good")


def _distinct(subject: PositionSubject) -> Finding:
    table = subject.table(MAX_LEN) if _holds(subject, MAX_LEN) else subject.table()
    apart = torch.cdist(table.double(), table.double())
    apart.fill_diagonal_(torch.inf)
    nearest = float(apart.min())
    if nearest < 1e-6:
        a, b = divmod(int(apart.argmin()), len(table))
        return SAYS.bad("position_same", a=a, b=b)
    return SAYS.good("distinct_good", nearest=f"{nearest:.2g}", n=len(table))


def _holds(subject: PositionSubject, length: int) -> bool:
    try:
        return len(subject.table(length)) == length
    except Exception:
        return False


def _over_time(subject: PositionSubject) -> Finding:
    """What is added depends on the position alone: it is the same for every row, and differs along time."""
    zero = subject.added(torch.zeros(B, T, subject.d_model))
    by_row = difference(zero[:1].expand_as(zero), zero) > 1e-6
    by_time = difference(zero[:, :1].expand_as(zero), zero) > 1e-6
    if by_row and not by_time:
        return SAYS.bad("position_over_rows")
    if by_row:
        return SAYS.bad("position_rows_differ")
    return SAYS.good("over_time_good") if by_time else SAYS.bad("position_same", a=0, b=1)


def _adds(subject: PositionSubject) -> Finding:
    """y(x) - y(0) = c x, with c = 1 or sqrt(D)."""
    x = torch.randn(B, T, subject.d_model)
    zero = subject.added(torch.zeros_like(x))
    moved = subject.added(x) - zero
    factor = float((moved * x).sum() / x.square().sum())
    if difference(moved, factor * x) > 1e-3:
        return SAYS.bad("position_not_added")
    root = subject.d_model**0.5
    if min(abs(factor - 1), abs(factor - root)) > 1e-3:
        return SAYS.bad("position_factor", factor=f"{factor:.3g}", root=f"{root:.3g}")
    times = _times(subject)
    if times is not None and abs(times - 1) > 1e-3:
        return SAYS.bad("position_twice" if abs(times - 2) < 1e-3 else "position_scaled", times=f"{times:.3g}")
    return SAYS.good("adds_good", factor=f"{factor:.3g}")


def _times(subject: PositionSubject) -> float | None:
    """How often a known table is in what is added: the paper's, or a learned one."""
    table = subject.table()
    for known, _ in _known_tables(subject):
        for offset in range(3):
            rows = known[offset : offset + T]
            if rows.shape == table.shape and float(rows.square().sum()) > 0:
                times = float((table * rows).sum() / rows.square().sum())
                if times > 0 and difference(table, times * rows) < 1e-4 * times:
                    return times
    return None


def _known_tables(subject: PositionSubject) -> list[tuple[Tensor, str]]:
    steps = torch.arange(MAX_LEN + 3)[None]
    tables = [
        (sinusoid(steps, subject.d_model)[0], "interleaved"),
        (sinusoid(steps, subject.d_model, layout="halves")[0], "halves"),
    ]
    learned = [each.detach() for each in subject.thing.parameters]
    tables += [(each.squeeze(0) if each.ndim == 3 else each, "learned") for each in learned if each.ndim in (2, 3)]
    return tables


def _begins(subject: PositionSubject) -> Finding:
    if subject.kind == "rotary":
        x = torch.randn(B, H, T, subject.d_model)
        off = difference(subject.rotated(x)[:, :, 0], x[:, :, 0])
        return SAYS.bad("rotary_begins", off=f"{off:.2g}") if off > 1e-5 else SAYS.good("begins_good")
    table = subject.table()
    for known, name in _known_tables(subject):
        if known.ndim != 2 or known.shape[1] != table.shape[1]:
            continue
        for offset in (0, 1, 2):
            rows = known[offset : offset + T]
            times = 1.0 if rows.shape != table.shape else float((table * rows).sum() / rows.square().sum().clamp(1e-9))
            if rows.shape == table.shape and times > 0 and difference(table, times * rows) < 1e-4 * max(1.0, times):
                if offset:
                    return SAYS.bad("position_begins", offset=offset)
                return SAYS.good("begins_known", name=name)
    return Finding("not_applicable", SAYS.idle("begins_unknown"))


def _shift(subject: PositionSubject) -> Finding:
    """PE(p + k) = M_k PE(p), by least squares over p in float64."""
    length = 64 if _holds(subject, 64) else MAX_LEN if _holds(subject, MAX_LEN) else T
    table = subject.table(length).double()
    worst = 0.0
    for step in (1, 3):
        before, after = table[:-step], table[step:]
        if len(before) <= table.shape[1]:
            return Finding("not_applicable", SAYS.idle("shift_short", n=length))
        linear = torch.linalg.lstsq(before, after, driver="gelsd").solution
        worst = max(worst, float((before @ linear - after).abs().max()))
    if worst > 1e-3:
        held = any(table.shape[-1] == each.shape[-1] for each in plain_tensors(subject.thing.module) if each.ndim > 1)
        return SAYS.bad("position_unregistered") if held else SAYS.bad("shift_none", residual=f"{worst:.2g}")
    return SAYS.good("shift_good", residual=f"{worst:.1e}", n=length)


def _paper(subject: PositionSubject) -> Finding:
    table = subject.table()
    steps = torch.arange(T)[None]
    off = min(
        difference(table, sinusoid(steps, subject.d_model)[0]),
        difference(table, sinusoid(steps, subject.d_model, layout="halves")[0]),
    )
    return SAYS.good("paper_good", off=f"{off:.1e}") if off < 1e-4 else SAYS.bad("paper_other", off=f"{off:.2g}")


def _norms(subject: PositionSubject) -> Finding:
    x = torch.randn(B, H, T, subject.d_model)
    off = max(difference(subject.rotated(x, as_key=key).norm(dim=-1), x.norm(dim=-1)) for key in (False, True))
    return SAYS.bad("rotary_norm", off=f"{off:.2g}") if off > 1e-4 else SAYS.good("norms_good", off=f"{off:.1e}")


def _relative(subject: PositionSubject) -> Finding:
    """The same query and the same key everywhere: their products are equal along each diagonal."""
    q, k = (torch.randn(subject.d_model).expand(1, 1, T, subject.d_model).clone() for _ in range(2))
    scores = (subject.rotated(q) @ subject.rotated(k, as_key=True).transpose(-1, -2))[0, 0]
    off = max(float((scores[1:, 1:] - scores[:-1, :-1]).abs().max()), 0.0)
    if off > 1e-3:
        return SAYS.bad("rotary_absolute", off=f"{off:.2g}")
    spread = float((scores[0] - scores[0, 0]).abs().max())
    if spread < 1e-4:
        return SAYS.bad("rotary_still")
    return SAYS.good("relative_good", off=f"{off:.1e}")


def _pairs(subject: PositionSubject) -> Finding:
    """What each unit vector becomes: enough of them turn, and not all at one speed."""
    unit = torch.eye(subject.d_model)[None, :, None].expand(1, -1, T, -1)  # one vector a head
    if subject.heads_last:
        unit = torch.eye(subject.d_model)[:, None, None].expand(-1, 1, T, -1)
    stays = (subject.rotated(unit.clone()) * unit).sum(-1).reshape(subject.d_model, T)  # cos of each angle
    turned = (1 - stays).abs().amax(1) > 1e-7
    if int(turned.sum()) < min(4, subject.d_model):
        return SAYS.bad("rotary_few", turned=int(turned.sum()), width=subject.d_model)
    ahead = stays[turned][:, -1]
    if subject.d_model > 2 and float(ahead.max() - ahead.min()) < 1e-4:
        return SAYS.bad("rotary_one_speed")
    return SAYS.good("pairs_good", turned=int(turned.sum()), width=subject.d_model)


def _near(subject: PositionSubject) -> Finding:
    """Waves of many lengths, most of them long: neighbours are alike."""
    table = subject.table(MAX_LEN if _holds(subject, MAX_LEN) else T).double()
    square = table.square().sum(-1)
    if float((square - subject.d_model / 2).abs().max()) > 1e-3 * subject.d_model or subject.d_model < 4:
        return Finding("not_applicable", SAYS.idle("no_waves"))
    moving = int((table.amax(0) - table.amin(0) > STILL).sum())
    if 2 * moving < table.shape[1]:
        return SAYS.bad("position_still", moving=moving, width=table.shape[1], n=len(table))
    near = float((table[1:] * table[:-1]).sum(-1).mean() / square.mean())
    if near < NEAR:
        return SAYS.bad("position_far", near=f"{near:.2f}")
    steps = torch.arange(len(table))[None]
    if any(
        difference(table, sinusoid(steps, subject.d_model, layout=layout, theta=10000.0**2)[0].double()) < 1e-4
        for layout in ("interleaved", "halves")
    ):
        return SAYS.bad("position_exponent")
    base = _base(table)
    if base is not None and base < LEAST_BASE:
        return SAYS.bad("position_base", base=f"{base:.3g}")
    if int(torch.linalg.matrix_rank(table, rtol=1e-5)) <= 2:
        return SAYS.bad("position_one_wave")
    return SAYS.good("near_good", near=f"{near:.2f}")


def _base(table: Tensor) -> float | None:
    """What the exponent is a power of, by the second wave; None where the others do not follow from that."""
    steps, width = torch.arange(len(table))[None], table.shape[1]
    for layout, column in (("interleaved", 2), ("halves", 1)):
        speed = float(table[1, column].clamp(-1, 1).arcsin())
        if not 0 < speed < 1:
            continue
        base: float = speed ** (-width / 2)
        if difference(table, sinusoid(steps, width, layout=layout, theta=base)[0].double()) < 1e-3:  # type: ignore[arg-type]
            return base
    return None


LEAST_BASE = 99.0
"""With the paper's 10000 the slowest wave is 62,800 places long; with less than a hundred, texts outrun it."""

STILL = 1e-4
"""Least range, over all places, of a number that tells them apart."""

NEAR = 0.5
"""Least cosine of neighbours: the fastest wave alone has cos(1) = 0.54, and every slower one more."""


def wrong_waves(table: Tensor) -> Finding | None:
    """Return what is wrong with a table of positions that is computed, and not learned; None if nothing is.

    Args:
        table: *Shape:* (L, D).
    """
    thing = Thing(table, "table", table)
    subject = PositionSubject(thing, "table", lambda n: table[:n].float(), table.shape[-1])
    found = (test(subject) for test in (_distinct, _shift, _near))
    return next((each for each in found if each.status == "fail"), None)


def _apart(subject: PositionSubject) -> Finding:
    """Every row and head is turned alike."""
    x = torch.randn(1, 1, T, subject.d_model).expand(B, H, T, subject.d_model).clone()
    turned = subject.rotated(x)
    off = difference(turned, turned[:1, :1].expand_as(turned))
    return SAYS.bad("rotary_rows", off=f"{off:.2g}") if off > 1e-5 else SAYS.good("apart_good")


def _dtype(subject: PositionSubject) -> Finding:
    module, wanted = subject.thing.module, torch.bfloat16
    if module is not None:
        module.to(wanted)
    try:
        shape = (B, T, subject.d_model) if subject.kind == "added" else (B, H, T, subject.d_model)
        got = subject.call(torch.zeros(shape, dtype=wanted)).dtype
    finally:
        if module is not None:
            module.to(torch.float32)
    name = str(got).removeprefix("torch.")
    if got == torch.float32:  # finer than what went in: nothing is lost, and the products of autocast are as before
        return SAYS.good("dtype_finer", got=name)
    return SAYS.good("dtype_good") if got == wanted else SAYS.bad("position_dtype", got=name)


def _is(*kinds: Kind) -> Callable[[PositionSubject], Said | None]:
    def applies(subject: PositionSubject) -> Said | None:
        return None if subject.kind in kinds else SAYS.idle("other_kind", kind=subject.kind)

    return applies


def _is_fixed(subject: PositionSubject) -> Said | None:
    if subject.kind in ("rotary", "bias"):
        return SAYS.idle("other_kind", kind=subject.kind)
    return SAYS.idle("learned") if subject.thing.parameters else None


def _is_claimed(subject: PositionSubject) -> Said | None:
    return None if subject.expect == "paper" and subject.kind in ("table", "added") else SAYS.idle("not_claimed")


PROPERTIES: tuple[Property[PositionSubject], ...] = (
    Property("position_run", WORDS, _runs, _is("table", "added", "rotary")),
    MOVES,
    ALIKE,
    FALLS,
    Property("position_over_time", WORDS, _over_time, _is("added"), ("position_run",)),
    Property("position_adds", WORDS, _adds, _is("added"), ("position_run", "position_over_time")),
    Property("position_distinct", WORDS, _distinct, _is("table", "added"), ("position_run", "position_over_time")),
    Property(
        "position_prefix", WORDS, _prefix, _is("table", "added", "rotary"), ("position_run", "position_over_time")
    ),
    Property("position_offset", WORDS, _offset, _has_offset, ("position_run", "rotary_norms", "rotary_relative")),
    Property("rotary_norms", WORDS, _norms, _is("rotary"), ("position_run",)),
    Property("rotary_relative", WORDS, _relative, _is("rotary"), ("position_run", "rotary_norms")),
    Property("rotary_pairs", WORDS, _pairs, _is("rotary"), ("position_run", "rotary_norms", "rotary_relative")),
    Property("rotary_apart", WORDS, _apart, _is("rotary"), ("position_run",)),
    Property(
        "position_begins",
        WORDS,
        _begins,
        _is("table", "added", "rotary"),
        ("position_run", "position_over_time", "rotary_norms", "rotary_relative"),
    ),
    Property("position_shift", WORDS, _shift, _is_fixed, ("position_run", "position_over_time", "position_distinct")),
    Property("position_near", WORDS, _near, _is_fixed, ("position_run", "position_over_time", "position_distinct")),
    Property(
        "position_paper",
        WORDS,
        _paper,
        _is_claimed,
        ("position_run", "position_over_time", "position_adds", "position_begins", "position_shift"),
    ),
    Property("position_learns", WORDS, _learns, _is("added", "rotary"), ("position_run",)),
    Property("position_dtype", WORDS, _dtype, _is("added", "rotary"), ("position_run",)),
)
"""What positions are examined for."""
