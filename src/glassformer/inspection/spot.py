"""Which row and which token of a batch a bad number belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor

from glassformer.core.places import Places

READS_MEMORY = ("cross_attention.kv", "cross_attention.k_norm")
"""What stands in a decoder and has a vector for each token of the source."""


@dataclass(frozen=True, eq=False)
class Rows:
    """What one stack of a model reads.

    Attributes:
        stack: "encoder" or "decoder".
        tokens: *Shape:* (B, T).
        places: Where they stand, padding on either side.
    """

    stack: str
    tokens: Int[Tensor, "batch length"]
    places: Places


@dataclass(frozen=True)
class Spot:
    """A row of a batch, and a token in it.

    Attributes:
        row: Counted from 0; the first with a bad number at a token, or else at padding.
        n_rows: How many rows have one.
        stack: Whose token it is; None where it cannot be told, or only the row can.
        slot: Its column in the batch; None where vectors belong to whole rows.
        position: Its place in its document; None for padding, and where the stack cannot be told.
        document: Which of the row's documents it is in, with packing.
        token: Its id; None as `position` is.
        n_slots: How many slots of the row have a bad number.
    """

    row: int
    n_rows: int
    stack: str | None = None
    slot: int | None = None
    position: int | None = None
    document: int = 0
    token: int | None = None
    n_slots: int = 0


def find_spot(site: str, bad: Bool[Tensor, "*shape"], rows: Sequence[Rows]) -> Spot | None:
    """Return the first row and token at which a tensor is bad; None if its shape is of neither.

    Understood are (B, T, ..), (B, H, T, ..), (T, B, ..), (B T, ..), (1, T, ..) for all rows alike, and (B, ..), in
    which rows are all that can be told.

    Args:
        site: Path of the module whose input or output the tensor is: where source and target are equally long, it
            tells them apart.
        bad: True where the tensor is not finite.
        rows: What the stacks read: the source first, where there is one.
    """
    fits = [(each, table) for each in rows if (table := _by_token(bad, *each.tokens.shape)) is not None]
    if not fits:
        size = rows[-1].tokens.shape[0]
        if bad.ndim < 1 or bad.shape[0] != size:
            return None
        of_row = bad.flatten(1).any(1) if bad.ndim > 1 else bad
        return Spot(int(of_row.int().argmax()), int(of_row.sum())) if bool(of_row.any()) else None
    parts = site.split(".")
    known = len(rows) == 1 or len(fits) == 1 or "encoder" in parts or "decoder" in parts
    of_source = "encoder" in parts or any(name in site for name in READS_MEMORY)
    stood, table = fits[0] if of_source else fits[-1]
    is_token = stood.places.is_token.cpu().expand(table.shape)
    # A number at padding is nobody's business, unless there is no other.
    shown = table & is_token if bool((table & is_token).any()) else table
    if not bool(shown.any()):
        return None
    row = int(shown.any(1).int().argmax())
    slot = int(shown[row].int().argmax())
    spot = Spot(row, int(shown.any(1).sum()), slot=slot, n_slots=int(shown[row].sum()))
    if not known:
        return spot
    if not bool(is_token[row, slot]):
        return Spot(row, spot.n_rows, stood.stack, slot, n_slots=spot.n_slots)
    position = stood.places.position.cpu().expand(table.shape)[row, slot]
    segment = stood.places.segment.cpu().expand(table.shape)[row, slot]
    token = int(stood.tokens[row, slot])
    return Spot(row, spot.n_rows, stood.stack, slot, int(position), int(segment), token, spot.n_slots)


def _by_token(bad: Tensor, n_rows: int, width: int) -> Bool[Tensor, "batch length"] | None:
    """Whether anything is bad at each token; None if that is not the tensor's shape."""
    shape = tuple(bad.shape)
    if len(shape) == 2 and shape[0] == n_rows * width and width > 1:
        return bad.any(1).reshape(n_rows, width)
    if len(shape) < 3:
        return None
    if len(shape) == 4 and shape[0] == n_rows and shape[2] == width:
        return bad.any(3).any(1)
    if shape[1] == width and shape[0] in (1, n_rows):
        return bad.flatten(2).any(2).expand(n_rows, width)
    if shape[:2] == (width, n_rows):
        return bad.flatten(2).any(2).T
    return None
