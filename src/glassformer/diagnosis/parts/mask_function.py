"""Examining a function that makes masks: a causal one from a length, or one of padding from lengths or tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from glassformer.diagnosis.parts.calling import Says, modules_of, tensors_in
from glassformer.diagnosis.parts.making import Thing, parameters_of
from glassformer.diagnosis.parts.other_wording import WORDS
from glassformer.diagnosis.property import Property
from glassformer.diagnosis.verdict import Finding, Said

SAYS = Says(WORDS)
N = 6
PAD = 11
LENGTHS = (6, 4, 1)


def tokens_padded(pad: int) -> Tensor:
    """Return three texts of the lengths above. Where the id of padding goes in, 0 is an id like another one."""
    other = 0 if pad else 6
    return torch.tensor([[5, 3, other, 2, 7, 4], [5, 3, 8, 2, pad, pad], [other, pad, pad, pad, pad, pad]])


TOKENS, ZEROS = tokens_padded(PAD), tokens_padded(0)

Rule = Literal["causal", "padding", "both"]


@dataclass(frozen=True, eq=False)
class MaskSubject:
    """A function that makes masks.

    Attributes:
        thing: What the user named.
        call: Calls it with what it takes.
        rule: What it is to hide: what comes later, padding, or both.
        way: What it was given, in words.
        error: Why no call worked; None = one did.
    """

    thing: Thing
    call: Callable[[], Tensor]
    rule: Rule
    way: str
    error: Exception | None = None

    def modules(self) -> Sequence[nn.Module]:
        """Return the module, if it is one."""
        return modules_of(self.thing.instance)


def open_mask(thing: Thing) -> MaskSubject:
    """Return how a mask function is called, found by trying a length, lengths, and tokens."""
    ways: list[tuple[str, tuple[Any, ...]]] = [
        ("n", (N,)),
        ("tokens, pad", (TOKENS, PAD)),
        ("tokens", (ZEROS,)),
        ("lengths, n", (torch.tensor(LENGTHS), N)),
        ("lengths", (torch.tensor(LENGTHS),)),
        ("lengths, n", (list(LENGTHS), N)),
        ("lengths", (list(LENGTHS),)),
        ("n, n", (N, N)),
        ("x", (torch.randn(len(LENGTHS), N, 4),)),
        ("tokens, tokens", (ZEROS, ZEROS)),
    ]
    told = dict.fromkeys([name for name in parameters_of(thing.instance) if "pad" in name.lower()], PAD)
    names = " ".join(getattr(thing.value, "__code__", _NO_CODE).co_varnames).lower()
    if "length" in names or "lens" in names:
        ways = sorted(ways, key=lambda way: "lengths" not in way[0])
    first: Exception | None = None
    for way, arguments in ways:
        if way == "tokens" and "length" in names:
            continue

        # The id of padding goes in by its name where it has a default that would be taken instead.
        options = told if way == "tokens" else {}
        given = (TOKENS,) if options else arguments

        def call(given: tuple[Any, ...] = given, options: dict[str, int] = options) -> Tensor:
            return tensors_in(thing.instance(*given, **options))[-1]

        try:
            mask = call()
        except Exception as error:
            first = first or error
            continue
        if mask.ndim > 2 and mask.shape[-2:] == (N, 1):  # one number for each query: it spreads over the keys

            def spread(call: Callable[[], Tensor] = call) -> Tensor:
                column = call()
                return column.expand(*column.shape[:-1], N)

            return MaskSubject(thing, spread, "padding", way)
        if mask.ndim < 2 or mask.shape[-1] != N:
            continue
        return MaskSubject(thing, call, _rule(mask, way), way)

    def fails() -> Tensor:
        assert first is not None, "it was tried"
        raise first

    return MaskSubject(thing, fails, "causal", "n", first)


class _NoCode:
    co_varnames: tuple[str, ...] = ()


_NO_CODE = _NoCode()


def _rule(mask: Tensor, way: str) -> Rule:
    if not way.startswith(("tokens", "lengths")):
        return "causal"
    square = _hidden(mask)
    full = square.reshape(len(LENGTHS), -1, square.shape[-2], N)[:, 0] if square.ndim > 2 else square[:, None]
    if full.shape[0] == len(LENGTHS) and full.shape[1] == N and bool((full != full[:, :1]).any()):
        return "both"
    return "padding"


def _hidden(mask: Tensor) -> Tensor:
    """True where a number or an additive mask differs from its other value; as it is for bool."""
    if mask.dtype == torch.bool:
        return mask
    if mask.is_floating_point() and bool((mask < -1).any()):
        return mask < -1
    return mask != 0


def _wanted(subject: MaskSubject, shape: Sequence[int]) -> Tensor:
    """What may be seen. *Shape:* (B or 1, T, S)."""
    causal = torch.ones(N, N, dtype=torch.bool).tril()
    keys = (TOKENS != PAD)[:, None].expand(-1, N, -1)
    if subject.rule == "causal":
        return causal[None]
    return keys if subject.rule == "padding" else keys & causal


def _seen_by(subject: MaskSubject) -> tuple[Tensor, bool]:
    """The mask as (B or 1, T or 1, S), True where it is set, and whether set means hidden for certain."""
    mask = subject.call()
    additive = mask.is_floating_point() and bool((mask < -1).any())
    marked = _hidden(mask)
    rows = 1 if subject.rule == "causal" else len(LENGTHS)
    return marked.reshape(rows, -1, N), additive


def _runs(subject: MaskSubject) -> Finding:
    mask = subject.call()
    rows = 1 if subject.rule == "causal" else len(LENGTHS)
    length = N if subject.rule != "padding" else mask.numel() // (rows * N)
    if mask.shape[-1] != N or mask.numel() != rows * length * N or length not in (1, N):
        return SAYS.bad("mask_shape", got=tuple(mask.shape), rule=subject.rule, n=N)
    return SAYS.good(
        "mask_runs", shape=tuple(mask.shape), dtype=str(mask.dtype).removeprefix("torch."), way=subject.way
    )


def _hides(subject: MaskSubject) -> Finding:
    marked, certain = _seen_by(subject)
    wanted = _wanted(subject, marked.shape).expand(marked.shape[0], N, N)
    marked = marked.expand(marked.shape[0], N, N)
    meanings = {"hide": ~marked} if certain else {"keep": marked, "hide": ~marked}
    for meaning, visible in meanings.items():
        if torch.equal(visible, wanted):
            said = "additive" if certain else meaning
            return SAYS.good("mask_right", meaning=said, rule=subject.rule)
    nearest = min(meanings.values(), key=lambda visible: int((visible != wanted).sum()))
    return _explained(subject, meanings, wanted, nearest)


def _explained(subject: MaskSubject, meanings: dict[str, Tensor], wanted: Tensor, nearest: Tensor) -> Finding:
    ones = torch.ones(N, N, dtype=torch.bool)
    keys = (TOKENS != PAD)[:, None].expand(-1, N, -1)
    faults: dict[str, Tensor] = {}
    if subject.rule == "causal":
        faults = {
            "causal_no_self": ones.tril(-1)[None],
            "causal_one_ahead": ones.tril(1)[None],
            "causal_all": ones[None],
            "causal_transposed": ones.triu()[None],
        }
        if len(meanings) > 1 and torch.equal(meanings["keep"], faults["causal_transposed"].expand_as(wanted)):
            return SAYS.bad("causal_upper")  # either of two faults, by what 1 is to mean
    elif subject.rule == "padding":
        shifted = torch.arange(N) < torch.tensor(LENGTHS)[:, None]
        less = torch.arange(N) < torch.tensor(LENGTHS)[:, None] - 1
        more = torch.arange(N) <= torch.tensor(LENGTHS)[:, None]
        faults = {
            "padding_last": less[:, None].expand(-1, N, -1),
            "padding_first": more[:, None].expand(-1, N, -1),
            "padding_queries": shifted[:, :, None].expand(-1, -1, N),
            "padding_none": torch.ones_like(keys),
            "padding_fixed": (TOKENS != 0)[:, None].expand(-1, N, -1),
        }
    else:
        causal = ones.tril()
        faults = {
            "both_no_padding": causal.expand_as(keys),
            "both_or": keys | causal,
            "causal_no_self": keys & ones.tril(-1),
            "causal_one_ahead": keys & ones.tril(1),
            "causal_transposed": keys & ones.triu(),
            "padding_queries": (TOKENS != PAD)[:, :, None].expand(-1, -1, N),
            "padding_fixed": (TOKENS != 0)[:, None] & causal,
            "both_queries": (TOKENS != PAD)[:, :, None] & causal,
        }
    for fault, visible in faults.items():
        if any(torch.equal(said, visible) for said in meanings.values()):
            return SAYS.bad(fault)
    wrong = (nearest != wanted).nonzero()
    row, query, other = wrong[0].tolist()
    return SAYS.bad("mask_wrong", wrong=len(wrong), row=row, query=query, other=other)


def _spreads(subject: MaskSubject) -> Finding:
    """It must broadcast to the scores (B, H, T, S), each row's own where rows differ."""
    mask = subject.call()
    rows = len(LENGTHS)
    if subject.rule == "causal":
        return SAYS.good("spreads_good", shape=tuple(mask.shape))
    if mask.ndim == 2:
        return SAYS.good("spreads_keys", shape=tuple(mask.shape))
    if mask.ndim == 3:
        return SAYS.good("spreads_rows", shape=tuple(mask.shape))
    fits = mask.ndim == 4 and mask.shape[0] == rows and mask.shape[1] == 1
    return (
        SAYS.good("spreads_good", shape=tuple(mask.shape)) if fits else SAYS.bad("spreads_bad", got=tuple(mask.shape))
    )


def _lengths_one(subject: MaskSubject) -> Finding:
    mask = tensors_in(subject.thing.instance(1))[-1]
    marked = _hidden(mask).reshape(-1)
    if mask.numel() != 1:
        return SAYS.bad("mask_shape", got=tuple(mask.shape), rule=subject.rule, n=1)
    return SAYS.good("one_good", value=bool(marked[0]))


def _takes_length(subject: MaskSubject) -> Said | None:
    return None if subject.way == "n" else SAYS.idle("not_from_length")


PROPERTIES: tuple[Property[MaskSubject], ...] = (
    Property("mask_run", WORDS, _runs),
    Property("mask_hides", WORDS, _hides, after=("mask_run",)),
    Property("mask_spreads", WORDS, _spreads, after=("mask_run",)),
    Property("mask_one", WORDS, _lengths_one, _takes_length, ("mask_run",)),
)
"""What a mask function is examined for."""
