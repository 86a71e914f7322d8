"""Examining positions: a table, what adds one to its input, or a rotation of queries and keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from glassformer.diagnosis.parts.calling import Says, difference, modules_of, tensors_in
from glassformer.diagnosis.parts.making import D_HEAD, D_MODEL, MAX_LEN, Thing, parameters_of
from glassformer.diagnosis.parts.other_wording import WORDS
from glassformer.diagnosis.property import Property
from glassformer.diagnosis.verdict import Finding, Said
from glassformer.parts.position import sinusoid

SAYS = Says(WORDS)
B, T, H = 3, 8, 2

Kind = Literal["table", "added", "rotary"]


@dataclass(frozen=True, eq=False)
class PositionSubject:
    """Positions, and how they are called.

    Attributes:
        thing: What the user named.
        kind: "table" makes a table, "added" adds one to its input, "rotary" turns its input.
        call: Of a table: n -> (n, D); else x -> x with positions.
        d_model: D; of a rotation, E.
        heads_last: Of a rotation: it wants (B, T, H, E), and not (B, H, T, E).
        expect: What the user says of it: "paper" or "time_first".
        error: Why no call worked; None = one did.
    """

    thing: Thing
    kind: Kind
    call: Callable[..., Tensor]
    d_model: int = D_MODEL
    heads_last: bool = False
    expect: str | None = None
    error: Exception | None = None

    def modules(self) -> Sequence[nn.Module]:
        """Return the module, if it is one."""
        return modules_of(self.thing.instance)

    def table(self, length: int = T) -> Tensor:
        """Return the positions. *Shape:* (T, D)."""
        if self.kind == "table":
            return self.call(length)[:length]
        return self.added(torch.zeros(B, length, self.d_model))[0]

    def added(self, x: Tensor) -> Tensor:
        """Return (B, T, D) with positions added."""
        return self.call(x.transpose(0, 1)).transpose(0, 1) if self.expect == "time_first" else self.call(x)

    def rotated(self, x: Tensor, *, as_key: bool = False) -> Tensor:
        """Return (B, H, T, E) turned, as a query or, where both come back, as a key."""
        call = partial(self.call, which=1) if as_key and self.takes_both else self.call
        return call(x.transpose(1, 2)).transpose(1, 2) if self.heads_last else call(x)

    @property
    def takes_both(self) -> bool:
        """Whether queries and keys go in, and come out, together."""
        return self.kind == "rotary" and "which" in parameters_of(self.call)


def open_position(thing: Thing) -> PositionSubject:
    """Return how positions are called, found by trying."""
    made = thing.instance
    names = [name.lower() for name in parameters_of(made)]
    first: Exception | None = None
    for told in (False, True):  # the second time around, whatever tells places apart
        for width in _widths(thing):
            for kind, call in _ways(made, width, names):
                try:
                    with torch.no_grad():
                        subject = _tried(PositionSubject(thing, kind, call, width), told=told)
                except Exception as error:
                    first = first or error
                    continue
                if subject is not None:
                    return subject
    failing = first or TypeError("nothing that could be read as positions came back")

    def fails(given: Any) -> Tensor:
        raise failing

    return PositionSubject(thing, "table", fails, error=failing)


def _widths(thing: Thing) -> list[int]:
    """What D, or E, may be: as it was made, else by what it holds; a rotation holds half as many frequencies."""
    if "d_model" in thing.sizes:
        return [int(thing.sizes["d_model"]), D_HEAD]
    module = thing.module
    tensors = [] if module is None else [*module.parameters(), *module.buffers()]
    sizes = [int(tensor.shape[-1]) for tensor in tensors if tensor.ndim >= 2]
    sizes += [int(tensor.shape[-1]) for tensor in _plain_tensors(module) if tensor.ndim >= 2]
    sizes += [times * len(tensor) for times in (2, 1) for tensor in tensors if tensor.ndim == 1]
    sizes += [value for value in ({} if module is None else vars(module)).values() if type(value) is int and value > 1]
    return list(dict.fromkeys((*sizes, D_MODEL, D_HEAD)))


def _plain_tensors(module: nn.Module | None) -> list[Tensor]:
    """Tensors that a module holds and has not registered."""
    held = () if module is None else vars(module).values()
    return [each for each in held if isinstance(each, Tensor) and not isinstance(each, nn.Parameter)]


def _ways(made: Any, width: int, names: Sequence[str]) -> list[tuple[Kind, Callable[..., Tensor]]]:
    def run(*arguments: Any, which: int = 0) -> Tensor:
        wanted = any(isinstance(each, Tensor) and each.requires_grad for each in arguments)
        with torch.set_grad_enabled(wanted):
            return tensors_in(made(*arguments))[which]

    def rows(table: Tensor) -> Tensor:
        return (
            table.squeeze(0)
            if table.ndim == 3 and table.shape[0] == 1
            else (table.squeeze(1) if table.ndim == 3 and table.shape[1] == 1 else table)
        )

    table: list[tuple[Kind, Callable[..., Tensor]]] = [
        ("table", lambda n: rows(run(n, width))),
        ("table", lambda n: rows(run(n))),
        ("table", lambda n: rows(run(torch.arange(n), width))),
        ("table", lambda n: rows(run(torch.arange(n)))),
        ("table", lambda n: rows(run(torch.zeros(1, n, dtype=torch.long)))),
    ]

    def both(x: Tensor, which: int = 0) -> Tensor:
        return run(x, x, which=which)

    turn: list[tuple[Kind, Callable[..., Tensor]]] = [
        ("rotary", lambda x: run(x)),
        ("rotary", lambda x: run(x, torch.arange(x.shape[-2]))),
        ("rotary", both),
        ("rotary", lambda x: run(x, torch.arange(x.shape[-2])[None].expand(x.shape[0], -1))),
        ("rotary", lambda x: run(x, x.shape[-2])),
    ]
    added: list[tuple[Kind, Callable[..., Tensor]]] = [("added", lambda x: run(x))]
    if names and names[0] in ("q", "query", "xq"):
        return (
            [("rotary", both), *turn, *added] if len(names) > 1 and names[1] in ("k", "key", "xk") else [*turn, *added]
        )
    return [*table, *added, *turn] if not isinstance(made, nn.Module) else [*added, *turn, *table]


def _tried(subject: PositionSubject, *, told: bool) -> PositionSubject | None:
    if subject.kind == "table":
        table = subject.call(T)
        fits = table.ndim == 2 and table.shape[0] >= T and table.is_floating_point()
        return replace(subject, d_model=table.shape[-1]) if fits and table.shape[0] in (T, MAX_LEN) else None
    if subject.kind == "added":
        x = torch.randn(B, T, subject.d_model)
        out = subject.call(x.clone())
        turned = difference(out.norm(dim=-1), x.norm(dim=-1)) < 1e-4
        silent = not bool(subject.call(torch.zeros_like(x)).any())  # what is added, is added to zeros too
        if told and out.shape == x.shape:
            over_time = subject.call(x[:, :1].expand_as(x).clone())
            silent = difference(over_time[:, :1].expand_as(x), over_time) < 1e-6
        return subject if out.shape == x.shape and not turned and not silent else None
    x = torch.randn(B, H, T, subject.d_model)
    out = subject.call(x.clone())
    if out.shape != x.shape:
        return None
    same = torch.randn(subject.d_model).expand(
        B, H, T, subject.d_model
    )  # where does it turn: along the heads, or along time?
    found = subject.call(same)
    by_time = difference(found[:, :, :1].expand_as(found), found) > 1e-5
    by_head = difference(found[:, :1].expand_as(found), found) > 1e-5
    return replace(subject, heads_last=by_head and not by_time)


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
        held = any(table.shape[-1] == each.shape[-1] for each in _plain_tensors(subject.thing.module) if each.ndim > 1)
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
    near = float((table[1:] * table[:-1]).sum(-1).mean() / square.mean())
    if near < NEAR:
        return SAYS.bad("position_far", near=f"{near:.2f}")
    steps = torch.arange(len(table))[None]
    if any(
        difference(table, sinusoid(steps, subject.d_model, layout=layout, theta=10000.0**2)[0].double()) < 1e-4
        for layout in ("interleaved", "halves")
    ):
        return SAYS.bad("position_exponent")
    if int(torch.linalg.matrix_rank(table, rtol=1e-5)) <= 2:
        return SAYS.bad("position_one_wave")
    return SAYS.good("near_good", near=f"{near:.2f}")


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
    if subject.kind == "rotary":
        return SAYS.idle("other_kind", kind=subject.kind)
    return SAYS.idle("learned") if subject.thing.parameters else None


def _is_claimed(subject: PositionSubject) -> Said | None:
    return None if subject.expect == "paper" and subject.kind != "rotary" else SAYS.idle("not_claimed")


PROPERTIES: tuple[Property[PositionSubject], ...] = (
    Property("position_run", WORDS, _runs),
    Property("position_over_time", WORDS, _over_time, _is("added"), ("position_run",)),
    Property("position_adds", WORDS, _adds, _is("added"), ("position_run", "position_over_time")),
    Property("position_distinct", WORDS, _distinct, _is("table", "added"), ("position_run", "position_over_time")),
    Property("position_prefix", WORDS, _prefix, after=("position_run", "position_over_time")),
    Property("rotary_norms", WORDS, _norms, _is("rotary"), ("position_run",)),
    Property("rotary_relative", WORDS, _relative, _is("rotary"), ("position_run", "rotary_norms")),
    Property("rotary_pairs", WORDS, _pairs, _is("rotary"), ("position_run", "rotary_norms", "rotary_relative")),
    Property("rotary_apart", WORDS, _apart, _is("rotary"), ("position_run",)),
    Property(
        "position_begins",
        WORDS,
        _begins,
        after=("position_run", "position_over_time", "rotary_norms", "rotary_relative"),
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
