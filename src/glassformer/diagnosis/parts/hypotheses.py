"""What attention is when something is wrong with it: each known fault as an equation to hold against a result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import Literal

from torch import Tensor


@dataclass(frozen=True)
class Attending:
    """softmax(scale q k^T) v, or one that is wrong in places.

    Attributes:
        scale: "sqrt" 1/sqrt(E), "none" 1, "d_k" 1/E, "d_model" 1/sqrt(H E), "times" sqrt(E), "keys" 1/sqrt(S).
        axis: Over what the softmax goes: "keys", "queries", "heads" or "batch"; "nothing" = there is none, "twice" =
            there are two.
        values: What is averaged: "v", "k" or "q".
        sides: "right" q k^T, "swapped" k q^T, "reshaped" where k was read as (E, S) and not transposed.
        mask: "right", "after" the softmax, "transposed", "inverted", "ignored", "first_head" only, "times" the scores,
            "plus" them as 1 and 0.
    """

    scale: Literal["sqrt", "none", "d_k", "d_model", "times", "keys"] = "sqrt"
    axis: Literal["keys", "queries", "heads", "batch", "nothing", "twice"] = "keys"
    values: Literal["v", "k", "q"] = "v"
    sides: Literal["right", "swapped", "reshaped"] = "right"
    mask: Literal["right", "after", "transposed", "inverted", "ignored", "first_head", "times", "plus"] = "right"

    def faults(self) -> list[str]:
        """Return the names of what is wrong, as the words have them."""
        return [
            f"{each.name}_{getattr(self, each.name)}"
            for each in fields(self)
            if getattr(self, each.name) != each.default
        ]

    def weights(self, q: Tensor, k: Tensor, visible: Tensor | None = None) -> Tensor:
        """Return how much each query takes of each key.

        Args:
            q: *Shape:* (B, H, T, E).
            k: *Shape:* (B, H, S, E).
            visible: True = may be seen. *Shape:* (B or 1, 1, T, S).
        """
        heads, d_head, keys = q.shape[1], q.shape[-1], k.shape[-2]
        factor = {
            "sqrt": d_head**-0.5,
            "none": 1.0,
            "d_k": 1.0 / d_head,
            "d_model": (heads * d_head) ** -0.5,
            "times": d_head**0.5,
            "keys": keys**-0.5,
        }[self.scale]
        asks, answers = (k, q) if self.sides == "swapped" else (q, k)
        turned = answers.transpose(-1, -2)
        scores = asks @ (answers.reshape(turned.shape) if self.sides == "reshaped" else turned) * factor
        if visible is not None and self.mask == "times":
            scores = scores * visible
        elif visible is not None and self.mask == "plus":
            scores = scores + visible
        elif visible is not None and self.mask not in ("after", "ignored"):
            seen = {"transposed": visible.transpose(-1, -2), "inverted": ~visible}.get(self.mask, visible)
            seen = seen.expand(scores.shape).clone()
            if self.mask == "first_head":
                seen[:, 1:] = True
            scores = scores.masked_fill(~seen, -1e9)
        dim = {"keys": -1, "queries": -2, "heads": 1, "batch": 0, "nothing": None, "twice": -1}[self.axis]
        weights: Tensor = scores if dim is None else scores.softmax(dim)
        weights = weights.softmax(-1) if self.axis == "twice" else weights
        return weights * visible if visible is not None and self.mask == "after" else weights

    def output(self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None = None) -> Tensor:
        """Return what comes of it. *Shape:* (B, H, T, E)."""
        return self.weights(q, k, visible) @ {"v": v, "k": k, "q": q}[self.values]


RIGHT = Attending()


def suspicions(*, masked: bool, most: int = 2) -> Iterator[Attending]:
    """Yield the right attention first, then those with one fault, then with more.

    Args:
        masked: Whether the faults of masks are among them.
        most: Most faults at once.
    """
    choices = {
        "scale": ("none", "d_k", "d_model", "times", "keys"),
        "axis": ("queries", "heads", "batch", "nothing", "twice"),
        "values": ("k", "q"),
        "sides": ("swapped", "reshaped"),
        "mask": ("after", "transposed", "inverted", "ignored", "first_head", "times", "plus") if masked else (),
    }
    yield RIGHT
    single = [(name, choice) for name, options in choices.items() for choice in options]
    for number in range(1, most + 1):
        for faults in combinations(single, number):
            if len({name for name, _ in faults}) == number:
                yield replace(RIGHT, **dict(faults))  # type: ignore[arg-type]


def explained(result: Tensor, q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None = None) -> Attending | None:
    """Return the attention with the fewest faults that gives a result; None if none does.

    Args:
        result: What was observed. *Shape:* (B, H, T, E).
        q: Queries; k, v and `visible` as in `Attending.output`.
        k: Keys.
        v: Values.
        visible: What may be seen.
    """
    from glassformer.diagnosis.parts.calling import same

    for suspicion in suspicions(masked=visible is not None):
        try:
            expected = suspicion.output(q, k, v, visible)
        except RuntimeError:
            continue  # shapes that this fault needs to be equal are not
        if same(result, expected, 1e-4):
            return suspicion
    return None


def measured_scale(weights: Tensor, q: Tensor, k: Tensor) -> float | None:
    """Return the factor of the scores that weights were made with, by least squares over their logarithms.

    log w_ts - log w_t0 = scale (q_t k_s - q_t k_0)

    Args:
        weights: That sum to one over the keys. *Shape:* (B, H, T, S).
        q: Queries.
        k: Keys.

    Returns:
        The factor; None where the logarithms do not lie on a line.
    """
    if not bool((weights > 0).all()):
        return None
    products = (q @ k.transpose(-1, -2)).double()
    x = products - products[..., :1]
    y = weights.double().log()
    y = y - y[..., :1]
    factor = float((x * y).sum() / (x * x).sum())
    return factor if float((y - factor * x).abs().max()) < 1e-2 * float(y.abs().max()) else None


def shared_out(result: Tensor, q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> bool:
    """Return whether every row and head attends rightly, but under the mask of some row that is not always its own.

    Args:
        result: What was observed; the others as in `Attending.output`.
        q: Queries.
        k: Keys.
        v: Values.
        visible: What may be seen; another one for each row.
    """
    from glassformer.diagnosis.parts.calling import same

    rows = len(q)
    under = [RIGHT.output(q, k, v, visible[row : row + 1]) for row in range(rows)]
    own = [[same(result[b, h], under[b][b, h], 1e-4) for h in range(q.shape[1])] for b in range(rows)]
    some = [
        [any(same(result[b, h], each[b, h], 1e-4) for each in under) for h in range(q.shape[1])] for b in range(rows)
    ]
    return all(map(all, some)) and not all(map(all, own))
