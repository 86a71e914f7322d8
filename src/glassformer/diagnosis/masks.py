"""The forms in which people hand padding and causality to a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Shape = Literal["row", "key", "head_key", "square", "head_square", "causal", "open", "lengths"]


@dataclass(frozen=True)
class MaskForm:
    """One way of writing a mask down.

    Attributes:
        shape: "row" (B, T), "key" (B, 1, T), "head_key" (B, 1, 1, T), "square" (B, T, T), "head_square" (B, 1, T, T),
            "causal" (T, T) without padding, "open" (T, T) that hides nothing, "lengths" (B), the number of tokens.
        hides: True if True hides, False if True shows.
        dtype: Of the mask; a number that hides is -inf and is added.
        causal: Whether later positions are hidden, in a square one.
    """

    shape: Shape
    hides: bool
    dtype: torch.dtype = torch.bool
    causal: bool = False

    def build(self, keep: Tensor) -> Tensor:
        """Return the mask for texts whose tokens are marked True. *Shape:* (B, T)."""
        if self.shape == "lengths":
            return keep.sum(1)
        length = keep.shape[1]
        row = keep[:, None, None, :]
        square = torch.ones(length, length, dtype=torch.bool, device=keep.device)
        if self.causal:
            square = square.tril()
        both = row & square
        shows = {
            "row": keep,
            "key": row[:, 0],
            "head_key": row,
            "square": both[:, 0],
            "head_square": both,
            "causal": square,
            "open": square,
        }[self.shape]
        if self.dtype.is_floating_point and self.hides:
            zeros = torch.zeros(shows.shape, dtype=torch.get_default_dtype(), device=keep.device)
            return zeros.masked_fill(~shows, -torch.inf)
        return (~shows if self.hides else shows).to(self.dtype)


def padding_forms(pads: bool | None, *, causal: bool) -> Iterator[MaskForm]:
    """Yield the ways in which padding is written down, the usual ones first.

    Args:
        pads: What True means, where the argument's name says it: padding, or a token.
        causal: Whether a square mask hides what is later too.
    """
    shapes: Sequence[Shape] = ("row", "head_key", "key", "head_square", "square")
    for shape in shapes:
        for hides in (False, True) if pads is None else (pads,):
            squares = causal and "square" in shape
            yield MaskForm(shape, hides, torch.bool, squares)
            if not hides:
                yield MaskForm(shape, hides, torch.long, squares)
                yield MaskForm(shape, hides, torch.float32, squares)
            elif shape != "row":
                yield MaskForm(shape, hides, torch.float32, squares)


def causal_forms() -> Iterator[MaskForm]:
    """Yield the ways in which causality is written down."""
    yield MaskForm("causal", True, torch.bool, True)
    yield MaskForm("causal", True, torch.float32, True)
    yield MaskForm("causal", False, torch.bool, True)
    yield MaskForm("causal", False, torch.long, True)


def open_forms() -> Iterator[MaskForm]:
    """Yield the ways of hiding nothing, for a mask that must be given."""
    yield MaskForm("open", True)
    yield MaskForm("open", True, torch.float32)
    yield MaskForm("open", False)


COUNTS = MaskForm("lengths", False, torch.long)
"""The number of tokens of each text, which stand at its beginning."""
