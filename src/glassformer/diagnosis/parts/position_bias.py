"""Examining a bias of the scores by position, as ALiBi and T5 have one: (H, T, T), the same along each diagonal.

A softmax does not notice what is added to all scores of a query: every row is looked at from its own diagonal.
"""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.diagnosis.parts.bias_wording import WORDS
from glassformer.diagnosis.parts.calling import Says
from glassformer.diagnosis.parts.positioning import PositionSubject, T
from glassformer.diagnosis.property import Property
from glassformer.diagnosis.verdict import Finding, Said

SAYS = Says(WORDS)
LOW = -1e3
"""What is lower hides a key; it is no bias."""


def _relative(subject: PositionSubject) -> Tensor:
    """The bias of each key, less that of the query's own place; later keys, which are often hidden, at zero."""
    bias = subject.call(T)
    bias = bias.expand(-1, T, T)
    return torch.where(
        torch.ones(T, T, dtype=torch.bool).tril(), bias - bias.diagonal(dim1=-2, dim2=-1)[..., None], 0.0
    )


def _moves(subject: PositionSubject) -> Finding:
    bias = subject.call(T)
    seen = torch.where(bias > LOW, bias, 0.0)
    if not bool(torch.isfinite(seen).all()):
        return SAYS.bad("bias_nan")
    if float(_relative(subject).abs().max()) < 1e-6:
        by_query = bias.shape[1] > 1 and bool((bias[:, 1:] - bias[:, :1]).abs().max() > 1e-6)
        return SAYS.bad("bias_queries" if by_query else "bias_none")
    return SAYS.good("bias_moves", shape=tuple(bias.shape))


def _alike(subject: PositionSubject) -> Finding:
    """b(t, s) = b(t + 1, s + 1)"""
    bias = _relative(subject)
    off = float((bias[:, 1:, 1:] - bias[:, :-1, :-1]).tril().abs().max())
    if off > 1e-4:
        return SAYS.bad("bias_absolute", off=f"{off:.2g}")
    return SAYS.good("bias_alike")


def _falls(subject: PositionSubject) -> Finding:
    """What is farther away gets no more than what is near."""
    last = _relative(subject)[:, -1]  # (H, T): the nearest key is the last one
    if bool((last[:, :-1] > last[:, 1:] + 1e-6).any()):
        return SAYS.bad("bias_far")
    if len(last) > 1 and bool((last - last[:1]).abs().max() < 1e-6):
        return SAYS.bad("bias_one_slope")
    return SAYS.good("bias_falls")


def _is_bias(subject: PositionSubject) -> Said | None:
    return None if subject.kind == "bias" else SAYS.idle("no_bias")


def _is_fixed(subject: PositionSubject) -> Said | None:
    return SAYS.idle("bias_learned") if subject.kind == "bias" and subject.thing.parameters else _is_bias(subject)


MOVES = Property("bias_moves", WORDS, _moves, _is_bias)
ALIKE = Property("bias_alike", WORDS, _alike, _is_bias, ("bias_moves",))
FALLS = Property("bias_falls", WORDS, _falls, _is_fixed, ("bias_moves", "bias_alike"))
