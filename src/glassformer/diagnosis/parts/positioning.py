"""Calling positions: a table, what adds one to its input, a rotation of queries and keys, or a bias of the scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from glassformer.diagnosis.parts.calling import difference, modules_of, tensors_in
from glassformer.diagnosis.parts.making import D_HEAD, D_MODEL, MAX_LEN, N_HEADS, ROLES, Thing, parameters_of

B, T, H = 3, 8, 2

Kind = Literal["table", "added", "rotary", "bias"]


@dataclass(frozen=True, eq=False)
class PositionSubject:
    """Positions, and how they are called.

    Attributes:
        thing: What the user named.
        kind: "table" makes a table, "added" adds one to its input, "rotary" turns its input, "bias" makes what is
            added to the scores.
        call: Of a table: n -> (n, D); of a bias: n -> (H, n or 1, n); else x -> x with positions.
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

    def later(self, x: Tensor, offset: int) -> Tensor:
        """Return x with the positions from `offset` on, by the argument that says where it begins."""
        name = self.offset_name
        assert name is not None, "it is asked only where there is one"
        return tensors_in(self.thing.instance(x, **{name: offset}))[0]

    @property
    def offset_name(self) -> str | None:
        """The argument that says at which place the input begins; None = there is none."""
        if self.kind not in ("added", "rotary"):
            return None
        known = parameters_of(self.thing.instance)
        return next((name for name, each in known.items() if name.lower() in OFFSETS and each.default == 0), None)

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
    bias = _bias(thing)
    if bias is not None:
        return bias
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
    sizes += [int(tensor.shape[-1]) for tensor in plain_tensors(module) if tensor.ndim >= 2]
    sizes += [2 * size for size in sizes]  # a frequency for every two
    sizes += [times * len(tensor) for times in (2, 1) for tensor in tensors if tensor.ndim == 1]
    sizes += [value for value in ({} if module is None else vars(module)).values() if type(value) is int and value > 1]
    return list(dict.fromkeys((*sizes, D_MODEL, D_HEAD)))


def plain_tensors(module: nn.Module | None) -> list[Tensor]:
    """Return the tensors that a module holds and has not registered."""
    held = () if module is None else vars(module).values()
    return [each for each in held if isinstance(each, Tensor) and not isinstance(each, nn.Parameter)]


def _ways(made: Any, width: int, names: Sequence[str]) -> list[tuple[Kind, Callable[..., Tensor]]]:
    def run(*arguments: Any, which: int = 0) -> Tensor:
        wanted = any(isinstance(each, Tensor) and each.requires_grad for each in arguments)
        with torch.set_grad_enabled(wanted):
            return _waves(tensors_in(made(*arguments)), which)

    def rows(table: Tensor) -> Tensor:
        return (
            table.squeeze(0)
            if table.ndim == 3 and table.shape[0] == 1
            else (table.squeeze(1) if table.ndim == 3 and table.shape[1] == 1 else table)
        )

    width_first = bool(names) and ROLES.get(names[0]) in ("d_model", "d_head")
    turned: tuple[Kind, Callable[..., Tensor]] = ("table", lambda n: rows(run(width, n)))
    table: list[tuple[Kind, Callable[..., Tensor]]] = [
        *([turned] if width_first else []),
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


def _waves(found: Sequence[Tensor], which: int) -> Tensor:
    """One of what came back; cosines and sines that come apart, or as complex numbers, are one table."""
    if len(found) == 2 and found[0].shape == found[1].shape and found[0].is_floating_point():
        first, second = found
        if bool(((first.square() + second.square() - 1).abs() < 1e-4).all()):
            return torch.cat((second, first), dim=-1)
    one = found[which]
    return torch.view_as_real(one).flatten(-2) if one.is_complex() else one


OFFSETS = ("offset", "start", "start_pos", "position_offset", "past_length", "past_key_values_length", "begin", "shift")


def _bias(thing: Thing) -> PositionSubject | None:
    """How a bias of the scores is made, if it is one: (H, n, n), (1, H, n, n), or (H, 1, n)."""
    made, first = thing.instance, [name.lower() for name in parameters_of(thing.instance)][:1]
    heads = thing.sizes.get("n_heads", N_HEADS)
    ways: list[Callable[[int], Any]] = [
        lambda n: made(heads, n),
        lambda n: made(n, heads),
        lambda n: made(n, n),
        lambda n: made(n),
        lambda n: made(torch.zeros(B, heads, n, n)),
        lambda n: made(heads, n, n),
    ]
    takes_scores = bool(first) and ("score" in first[0] or first[0] in ("attn", "sim", "logits", "dots"))
    for way in ways[4:5] if takes_scores else [*ways[:4], ways[5]]:

        def call(n: int, way: Callable[[int], Any] = way) -> Tensor:
            with torch.no_grad():
                made = tensors_in(way(n))[0].float()
            return made[0] if made.ndim == 4 and (made.shape[0] == 1 or takes_scores) else made

        try:
            found, longer = call(T), call(T + 3)
        except Exception:
            continue
        fits = all(
            each.ndim == 3 and each.shape[-1] == n and each.shape[-2] in (1, n) and each.shape[0] == found.shape[0]
            for each, n in ((found, T), (longer, T + 3))
        )
        if fits and (found.shape[0] > 1 or thing.parameters) and found.shape[0] != T:
            return PositionSubject(thing, "bias", call, found.shape[0])
    return None


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
