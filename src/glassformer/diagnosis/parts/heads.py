"""What a multi-head attention made of its queries, keys and values: how it split them into heads and joined those."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, Literal

import torch
from torch import Tensor

from glassformer.diagnosis.parts.calling import same
from glassformer.diagnosis.parts.hypotheses import RIGHT, Attending, suspicions

Split = Literal["right", "view", "strided"]
"""How D numbers become H heads: E neighbours each; read over positions, without a transpose; every H-th number."""

Merge = Literal["right", "view", "strided"]
"""How they are joined: side by side; read without a transpose; the first number of every head, then the second."""


@dataclass(frozen=True)
class Heads:
    """A multi-head attention, perhaps a wrong one.

    Attributes:
        n_heads: H.
        order: Which projections are q, k and v.
        split: How they become heads.
        merge: How heads are joined.
        attending: What each head does.
        places: Whether its scores know places, by a rotation or a bias.
        factor: What q k was multiplied with, where no other fault says it; None = as `attending` says.
        d_head: E, where there is a factor.
    """

    n_heads: int
    order: tuple[int, int, int]
    split: Split = "right"
    merge: Merge = "right"
    attending: Attending = RIGHT
    places: bool = False
    factor: float | None = None
    d_head: int = 1

    @property
    def measured(self) -> dict[str, Any]:
        """What is said of the factor."""
        factor = 0.0 if self.factor is None else self.factor
        return {"factor": f"{factor:.4g}", "wanted": f"{self.d_head**-0.5:.4g}", "d_head": self.d_head}

    @property
    def faults(self) -> list[str]:
        """Names of what is wrong, as the words have them."""
        found = [f"split_{self.split}"] if self.split != "right" else []
        found += [f"merge_{self.merge}"] if self.merge != "right" else []
        if self.split == self.merge == "strided":
            found = []  # every H-th number in and out again: other columns, the same attention
        if self.order[2] == self.order[1]:
            found.append("values_k")
        if self.order[2] == self.order[0]:
            found.append("values_q")
        if self.order[0] == self.order[1]:
            found.append("keys_q")
        if self.factor is not None and abs(self.factor * self.d_head**0.5 - 1) > 1e-3:
            found.append("scale_other")
        return found + self.attending.faults()

    def merged(self, projections: Sequence[Tensor], visible: Tensor | None = None) -> Tensor:
        """Return what goes into the output projection.

        Args:
            projections: *Shape:* (B, T, D) each.
            visible: *Shape:* (B, T, S).
        """
        q, k, v = (self._split(projections[index]) for index in self.order)
        out = self.attending.output(q, k, v, None if visible is None else visible[:, None])  # (B, H, T, E)
        batch, heads, length, width = out.shape
        if self.merge == "view":
            return out.reshape(batch, length, heads * width)
        if self.merge == "strided":
            return out.permute(0, 2, 3, 1).reshape(batch, length, heads * width)
        return out.transpose(1, 2).reshape(batch, length, heads * width)

    def _split(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        if self.split == "view":
            return x.reshape(batch, self.n_heads, length, width // self.n_heads)
        if self.split == "strided":
            return x.reshape(batch, length, width // self.n_heads, self.n_heads).permute(0, 3, 1, 2)
        return x.reshape(batch, length, self.n_heads, width // self.n_heads).transpose(1, 2)


def explained_products(
    products: Sequence[tuple[Tensor, Tensor]], d_model: int, heads: Sequence[int], visible: Tensor | None = None
) -> tuple[Heads | None, bool]:
    """Return the multi-head attention with the fewest faults that made products of one another, and whether any could.

    One matrix for q, k and v may hold them side by side, or head by head, each head's q, k and v side by side; and
    several heads may share a key and a value.

    Args:
        products: As `projections_of` takes them.
        d_model: D.
        heads: What H may be.
        visible: What could be seen, where a mask was given. *Shape:* (B, T, S).

    Returns:
        The attention, or None if none is known that does it; False if the products are not those of one attention.
    """
    plain = projections_of(products, d_model)
    apart = [(projections_of(products, d_model, n_heads=number), [number]) for number in heads]
    layouts = [(seen, numbers) for seen, numbers in apart if seen is not None and _is_new(seen, plain)]
    if plain is not None:
        layouts = [(plain, list(heads)), *layouts]
    for first in (True, False):  # no fault in any layout before any fault in one
        for (projections, merged), numbers in layouts:
            most = 0 if first else None if projections is layouts[0][0][0] else 1
            found = explained_heads(merged, projections, numbers, visible, most)
            if found is not None:
                return found, True
    return None, bool(layouts)


def _is_new(seen: tuple[list[Tensor], Tensor], plain: tuple[list[Tensor], Tensor] | None) -> bool:
    return plain is None or any(not torch.equal(a, b) for a, b in zip(seen[0], plain[0], strict=False))


def explained_heads(
    merged: Tensor,
    projections: Sequence[Tensor],
    heads: Sequence[int],
    visible: Tensor | None = None,
    most: int | None = None,
) -> Heads | None:
    """Return the multi-head attention with the fewest faults that gives `merged`; None if none does.

    Args:
        merged: What went into the last projection. *Shape:* (B, T, D).
        projections: All that was made of the inputs by learned matrices. *Shape:* (B, T or S, D) each.
        heads: What H may be.
        visible: What could be seen, where a mask was given. *Shape:* (B, T, S).
        most: Most faults that are thought of; None = all that are known.
    """
    for guess in _guesses(len(projections), heads, masked=visible is not None):
        if most is not None and len(guess.faults) > most:
            continue
        try:
            if same(guess.merged(projections, visible), merged, 1e-4):
                return guess
        except RuntimeError:
            continue
    return None


def _guesses(number: int, heads: Sequence[int], *, masked: bool) -> Iterator[Heads]:
    """Orders of distinct projections first, and of each the right attention before any fault."""
    indices = range(number)
    orders = sorted(permutations(indices, 3)) if number >= 3 else []
    shared = [(q, k, k) for q in indices for k in indices if q != k]
    shared += [(q, k, q) for q in indices for k in indices if q != k]
    shared += [(q, q, v) for q in indices for v in indices if q != v]
    shared += [(q, q, q) for q in indices]
    for order in (*orders, *shared):
        for n_heads in heads:
            yield Heads(n_heads, order)
    wrong = [each for each in suspicions(masked=masked, most=1) if each.values == "v"]  # other values: other orders
    for order in (*orders, *shared):
        for n_heads in heads:
            yield from (replace(Heads(n_heads, order), attending=each) for each in wrong)
            for split in ("right", "view", "strided"):
                for merge in ("right", "view", "strided"):
                    yield Heads(n_heads, order, split, merge)
    for order in orders if len(heads) == 1 else ():
        for n_heads in heads:
            for split, merge in (("view", "view"), ("view", "right"), ("right", "view"), ("right", "strided")):
                for each in wrong:
                    yield Heads(n_heads, order, split, merge, each)  # type: ignore[arg-type]


def projections_of(
    products: Sequence[tuple[Tensor, Tensor]], d_model: int, n_heads: int | None = None
) -> tuple[list[Tensor], Tensor] | None:
    """Return the queries, keys and values in any order, and what went into the last projection.

    Args:
        products: What went in and came out of each product with a learned matrix, in order. *Shape:* (B, T, ...).
        d_model: D.
        n_heads: H, where q, k and v of each head stand side by side, or heads share keys; None = each in one piece.

    Returns:
        Projections (B, T, D) and what was merged; None where the products are not those of one attention.
    """
    if len(products) < 2:
        return None
    *first, (merged, _) = products
    merged = merged.flatten(2) if merged.ndim > 3 else merged
    outputs: list[Tensor] = []
    parts: list[Tensor] = []  # a head at a time
    for _, y in first:
        y = y if y.ndim == 3 else y.flatten(2) if y.ndim > 3 else y
        if y.ndim != 3:
            return None
        if y.shape[-1] == d_model:
            outputs.append(y)
        elif n_heads is not None and y.shape[-1] == 3 * d_model:
            outputs += [each.flatten(2) for each in y.unflatten(-1, (n_heads, -1)).chunk(3, dim=-1)]
        elif y.shape[-1] in (2 * d_model, 3 * d_model):
            outputs += y.split(d_model, dim=-1)
        elif n_heads is not None and _fused(n_heads, y.shape[-1], d_model):
            kept = (y.shape[-1] - d_model) // 2
            asks, *shared = y.split((d_model, kept, kept), dim=-1)
            outputs += [asks, *(_shared(each, n_heads, d_model) for each in shared)]
        elif d_model % y.shape[-1] == 0:
            parts.append(y)
        else:
            return None
    width = parts[0].shape[-1] if parts else 0
    if n_heads is not None and (len(first), len(parts)) == (3, 2) and _share(n_heads, width, d_model):
        outputs, parts = [*outputs, *(_shared(each, n_heads, d_model) for each in parts)], []
    if parts:
        if len(parts) != 3 * (d_model // parts[0].shape[-1]):
            return None
        in_turns = [torch.cat(parts[which::3], dim=-1) for which in range(3)]
        outputs += in_turns
    # The same numbers twice are one matrix used twice.
    outputs = [y for index, y in enumerate(outputs) if not any(torch.equal(y, other) for other in outputs[:index])]
    if merged.ndim != 3 or merged.shape[-1] != d_model or not outputs:
        return None
    return outputs, merged


def _fused(n_heads: int, width: int, d_model: int) -> bool:
    """Whether a width is that of queries, and behind them of keys and values that heads share."""
    both = width - d_model
    return 0 < both < 2 * d_model and both % 2 == 0 and _share(n_heads, both // 2, d_model)


def _share(n_heads: int, width: int, d_model: int) -> bool:
    """Whether keys of that width in all are those of a number of heads that divides H."""
    groups = width * n_heads // d_model
    return groups > 0 and width * n_heads % d_model == 0 and n_heads % groups == 0


def _shared(y: Tensor, n_heads: int, d_model: int) -> Tensor:
    """Keys or values of fewer heads, as each head that shares them sees them."""
    groups = y.shape[-1] * n_heads // d_model
    apart: Tensor = y.unflatten(-1, (groups, -1))  # (B, T, groups, E)
    return apart.repeat_interleave(n_heads // groups, dim=-2).flatten(-2)


def placed(
    scores: Tensor, products: Sequence[tuple[Tensor, Tensor]], d_model: int, visible: Tensor | None = None
) -> bool:
    """Return whether an attention is right whose scores know places: it averages values by the softmax of its scores,
    and the score of a position for itself is q k / sqrt(E), or q k, and the same number everywhere.

    A rotation by the distance, a bias by the distance: both leave the diagonal as it is, but for that number.

    Args:
        scores: What the softmax was given. *Shape:* (B, H, T, T).
        products: As `projections_of` takes them.
        d_model: D.
        visible: What could be seen, where a mask was given. *Shape:* (B, T, T).
    """
    n_heads = scores.shape[1]
    seen = projections_of(products, d_model, n_heads=n_heads) or projections_of(products, d_model)
    if seen is None or scores.shape[-1] != scores.shape[-2] or d_model % n_heads:
        return False
    outputs, merged = seen
    apart = [each.unflatten(-1, (n_heads, -1)).transpose(1, 2) for each in outputs]  # (B, H, T, E)
    weights = scores.softmax(-1)
    if visible is not None and bool((weights * ~visible[:, None]).any()):
        return False
    for v in apart:
        if v.shape[2] != scores.shape[-1] or not same((weights @ v).transpose(1, 2).flatten(2), merged, 1e-4):
            continue
        itself = scores.diagonal(dim1=-2, dim2=-1)  # (B, H, T)
        for q, k in permutations([each for each in apart if each is not v], 2):
            plain = (q * k).sum(-1)
            for factor in (q.shape[-1] ** -0.5, 1.0):
                more = itself - plain * factor
                if float((more - more.mean((0, 2), keepdim=True)).abs().max()) < 1e-3:
                    return True
    return False


def scaled(
    scores: Tensor, products: Sequence[tuple[Tensor, Tensor]], d_model: int, visible: Tensor | None = None
) -> Heads | None:
    """Return an attention whose scores are q k times some number, and that averages values by their softmax.

    The number is found by least squares over all scores that are not hidden; the scores must lie on its line.

    Args:
        scores: What the softmax was given. *Shape:* (B, H, T, S).
        products: As `projections_of` takes them.
        d_model: D.
        visible: What could be seen, where a mask was given. *Shape:* (B, T, S).
    """
    n_heads = scores.shape[1]
    if d_model % n_heads or (visible is not None and visible.shape[1:] != scores.shape[2:]):
        return None
    for seen in (projections_of(products, d_model), projections_of(products, d_model, n_heads=n_heads)):
        if seen is None:
            continue
        outputs, merged = seen
        apart = [each.unflatten(-1, (n_heads, -1)).transpose(1, 2) for each in outputs]  # (B, H, T or S, E)
        weights = scores.softmax(-1)
        shown = (scores > -1e3) if visible is None else visible[:, None].expand_as(scores)
        for order in permutations(range(len(apart)), 3):
            q, k, v = (apart[index] for index in order)
            if (q.shape[2], k.shape[2], v.shape[2]) != (*scores.shape[2:], scores.shape[3]):
                continue
            if not same((weights @ v).transpose(1, 2).flatten(2), merged, 1e-4):
                continue
            x, y = (each[shown].double() for each in (q @ k.transpose(-1, -2), scores))
            factor = float((x * y).sum() / x.square().sum())
            if float((y - factor * x).abs().max()) < 1e-3 * float(y.abs().max()):
                return Heads(n_heads, order, factor=factor, d_head=q.shape[-1])
    return None
