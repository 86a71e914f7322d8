"""Attention on a few words with all numbers in sight: one's own matrices, and every step worked out."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.core.call import Sight
from glassformer.core.errors import DataError
from glassformer.core.mask import Mask
from glassformer.core.places import Places
from glassformer.kernels.reference import attention_scores, attention_weights, mix

EXAMPLE = "example"
"""The name of the built-in matrices."""

NAMES = ("X", "W_q", "W_k", "W_v")

MOST = 32
"""Most rows or columns of a matrix that is to be followed by eye."""

LARGEST = 1e9
"""Numbers beyond it cannot be followed by eye, and their products might not be finite."""

FORMAT = (
    'JSON: {"words": ["I", "am"], "X": [[1, 0], [0, 1]], "W_q": [[..]], "W_k": [[..]], "W_v": [[..]]}, words being '
    "optional; CSV: a line with a name, X, W_q, W_k or W_v (or words), then its rows, one a line"
)


@dataclass(frozen=True, eq=False)
class Matrices:
    """What attention by hand begins with.

    Attributes:
        X: One vector a word. *Shape:* (T, D).
        W_q: Makes queries. *Shape:* (D, E).
        W_k: Makes keys. *Shape:* (D, E).
        W_v: Makes values. *Shape:* (D, E').
        words: What the rows are called.
    """

    X: Float[Tensor, "word d_model"]
    W_q: Float[Tensor, "d_model d_key"]
    W_k: Float[Tensor, "d_model d_key"]
    W_v: Float[Tensor, "d_model d_value"]
    words: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class HandStep:
    """One matrix on the way.

    Attributes:
        name: Its letter or word ("q", "weights").
        equation: How it is made of earlier ones.
        value: The matrix.
        columns: Whether its columns stand for words, as its rows do.
        worked: One of its numbers, worked out.
    """

    name: str
    equation: str
    value: Tensor
    columns: bool
    worked: str


def example() -> Matrices:
    """Return three words of size 4, with small whole numbers; d_k is 4, so its root is 2."""
    x = [[1, 0, 1, 0], [0, 2, 0, 1], [1, 1, 0, 1]]
    w_q = [[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]]
    w_k = [[0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 0, 1], [1, 0, 1, 0]]
    w_v = [[1, 2, 0, 0], [0, 1, 0, 3], [1, 0, 3, 0], [0, 0, 1, 1]]
    made = [torch.tensor(rows, dtype=torch.float64) for rows in (x, w_q, w_k, w_v)]
    return Matrices(made[0], made[1], made[2], made[3], ("I", "love", "you"))


def parse_matrices(text: str, path: str) -> Matrices:
    """Return the matrices of a JSON or CSV file.

    Args:
        text: What is in it, as `FORMAT` says; JSON if it begins with a brace.
        path: What an error calls it.

    Raises:
        DataError: It is neither, lacks a matrix, or the shapes do not fit.
    """
    is_json = path.endswith(".json") or text.lstrip().startswith(("{", "["))
    found = _of_json(text, path) if is_json else _of_csv(text, path)
    unknown = set(found) - {*NAMES, "words"}
    missing = [name for name in NAMES if name not in found]
    if unknown or missing:
        what = f"{', '.join(sorted(unknown))} is not known" if unknown else f"without {', '.join(missing)}"
        raise DataError(f"{path}: {what}. {FORMAT}")
    made = {name: _matrix(name, found[name], path) for name in NAMES}
    words = tuple(map(str, found.get("words") or (f"x{row}" for row in range(1, len(made["X"]) + 1))))
    matrices = Matrices(**made, words=words)
    _check(matrices, path)
    return matrices


def attend_by_hand(matrices: Matrices, *, causal: bool = False) -> tuple[HandStep, ...]:
    """Return every step of softmax(q kᵀ / √d_k) v, each with one number worked out.

    The numbers are those of the library's own equation (`kernels/reference.py`), in float64.

    Args:
        matrices: From `example` or `parse_matrices`.
        causal: Whether a word sees only itself and those before it.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1.
    """
    x = matrices.X
    steps = [HandStep("X", "X", x, False, "")]
    made: dict[str, Tensor] = {}
    for letter, weight in (("q", matrices.W_q), ("k", matrices.W_k), ("v", matrices.W_v)):
        made[letter] = x @ weight
        steps.append(HandStep(f"W_{letter}", f"W_{letter}", weight, False, ""))
        worked = _dot(f"{letter}[1,1]", x[0], weight[:, 0], made[letter][0, 0])
        steps.append(HandStep(letter, f"{letter} = X W_{letter}", made[letter], False, worked))
    q, k, v = (made[letter][None, None] for letter in "qkv")
    root = math.sqrt(matrices.W_q.shape[1])
    places = Places.full(len(x))
    sight = Sight.of(Mask(causal=causal), places, places)
    products, scaled = attention_scores(q, k), attention_scores(q, k, scale=1 / root)
    weights = attention_weights(scaled, sight)
    last = len(x) - 1
    at = f"[{last + 1},1]"
    first = _dot(f"products{at}", q[0, 0, last], k[0, 0, 0], products[0, 0, last, 0])
    steps.append(HandStep("products", "products = q kᵀ", products[0, 0], True, first))
    cell = f"scores{at} = {number(products[0, 0, last, 0])} / {number(root)} = {number(scaled[0, 0, last, 0])}"
    steps.append(HandStep("scaled", "scores = products / √d_k", scaled[0, 0], True, cell))
    if causal:
        steps.append(HandStep("mask", "mask[t, s] = s ≤ t", sight.dense()[0, 0], True, ""))
    row = scaled[0, 0, last]
    powers = [math.exp(value) for value in row.tolist()]
    parts = " + ".join(f"e^{_signed(value)}" for value in row.tolist())
    share = f"weights{at} = e^{_signed(row[0])} / ({parts}) = {number(powers[0])} / {number(sum(powers))}"
    share += f" = {number(weights[0, 0, last, 0], 3)}"
    steps.append(HandStep("weights", "weights = softmax(scores)", weights[0, 0], True, share))
    output = mix(weights, v)[0, 0]
    terms = [f"{number(w, 3)} · {_signed(value)}" for w, value in zip(weights[0, 0, last], v[0, 0, :, 0], strict=True)]
    total = f"output{at} = {' + '.join(terms)} = {number(output[last, 0])}"
    steps.append(HandStep("output", "output = weights v", output, False, total))
    return tuple(steps)


def number(value: Tensor | float, places: int = 2) -> str:
    """Return a number as one would write it: whole ones without a point."""
    plain = float(value)
    return str(int(plain)) if plain == int(plain) and abs(plain) < 1e6 else f"{plain:.{places}f}"


def _signed(value: Tensor | float) -> str:
    return number(value) if float(value) >= 0 else f"({number(value)})"


def _dot(name: str, a: Tensor, b: Tensor, total: Tensor) -> str:
    terms = " + ".join(f"{_signed(left)}·{_signed(right)}" for left, right in zip(a, b, strict=True))
    return f"{name} = {terms} = {number(total)}"


def _of_json(text: str, path: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{path} is no JSON: {error.msg} in line {error.lineno}. {FORMAT}") from error
    except (RecursionError, ValueError) as error:  # nested too deep, or a number of thousands of digits
        raise DataError(f"{path} cannot be read: {error}. {FORMAT}") from error
    if not isinstance(found, dict):
        raise DataError(f"{path} holds a JSON {type(found).__name__} and no names. {FORMAT}")
    return found


def _of_csv(text: str, path: str) -> Mapping[str, Any]:
    found: dict[str, list[Any]] = {}
    name = ""
    for line, row in enumerate(csv.reader(text.splitlines()), start=1):
        cells = [cell.strip() for cell in row if cell.strip()]
        if not cells:
            continue
        if len(cells) == 1 and cells[0] in (*NAMES, "words"):
            name = cells[0]
            found[name] = []
        elif not name:
            raise DataError(f"{path}, line {line}: {cells[0][:40]!r} stands before any name. {FORMAT}")
        elif name == "words":
            found[name] += cells
        else:
            found[name].append(cells)
    return found


def _matrix(name: str, rows: Any, path: str) -> Tensor:
    try:
        made = torch.tensor([[float(value) for value in row] for row in rows], dtype=torch.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{path}: {name} is no matrix of numbers, each row as long as the first: {error}") from error
    if made.ndim != 2 or made.numel() == 0 or max(made.shape) > MOST:
        raise DataError(f"{path}: {name} has shape {tuple(made.shape)}; give 1 to {MOST} rows of 1 to {MOST} numbers")
    if not bool((made.abs() <= LARGEST).all()):
        raise DataError(f"{path}: {name} has a number that is not finite or beyond ±{LARGEST:g}; give smaller ones")
    return made


def _check(matrices: Matrices, path: str) -> None:
    width = matrices.X.shape[1]
    shapes: Sequence[tuple[str, Tensor]] = [(name, matrices.__dict__[name]) for name in NAMES]
    told = ", ".join(f"{name} {tuple(value.shape)}" for name, value in shapes)
    if any(value.shape[0] != width for _, value in shapes[1:]):
        raise DataError(f"{path}: {told}: X has {width} columns, so W_q, W_k and W_v must have {width} rows")
    if matrices.W_q.shape[1] != matrices.W_k.shape[1]:
        raise DataError(f"{path}: {told}: a query meets a key, so W_q and W_k must have as many columns")
    if len(matrices.words) != len(matrices.X):
        raise DataError(f"{path}: there are {len(matrices.words)} words for {len(matrices.X)} rows of X")
