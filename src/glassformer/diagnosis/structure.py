"""The layers of somebody else's model, found by what they take and return."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from glassformer.diagnosis.flow import Passed


def layer_groups(model: nn.Module) -> dict[str, list[str]]:
    """Return the lists of equal modules that hold matrices, by the list's name; lists inside those are left out."""
    groups: dict[str, list[str]] = {}
    for name, module in model.named_modules():
        if not isinstance(module, (nn.ModuleList, nn.Sequential)) or any(
            name.startswith(f"{member}.") for members in groups.values() for member in members
        ):
            continue
        children = {key: child for key, child in module._modules.items() if child is not None}
        kinds = Counter(type(child) for child in children.values())
        if not kinds:
            continue
        kind, count = kinds.most_common(1)[0]
        if isinstance(module, nn.Sequential) and count < 2:
            continue
        members = [
            f"{name}.{key}" if name else key
            for key, child in children.items()
            if type(child) is kind and any(True for _ in child.children()) and _has_matrix(child)
        ]
        if members:
            groups[name] = members
    return groups


def blocks_among(model: nn.Module, calls: Sequence[Passed]) -> list[Passed]:
    """Return the calls of layers that read the residual stream and hand it on, in order."""
    members = {member for group in layer_groups(model).values() for member in group}
    return [call for call in calls if call.name in members and hands_on(call)]


def chains_among(model: nn.Module, calls: Sequence[Passed]) -> list[Passed]:
    """Return the calls of layers of which each reads what the one before it handed on: whole layers, not parts."""
    blocks = blocks_among(model, calls)
    found = []
    for members in layer_groups(model).values():
        own = [call for call in blocks if call.name in members]
        linked = all(
            a.result is not None and b.first is not None and torch.equal(a.result, b.first) for a, b in pairwise(own)
        )
        if linked and (len(own) > 1 or any(feed_forwards_among(_inside(call, calls)) for call in own)):
            found += own
    return found


def _inside(call: Passed, calls: Sequence[Passed]) -> list[Passed]:
    return [each for each in calls if each.name.startswith(f"{call.name}.")]


def hands_on(call: Passed) -> bool:
    """Whether a module returned something of the shape that it was given."""
    given, result = call.first, call.result
    return given is not None and result is not None and given.shape == result.shape and given.ndim == 3


def feed_forwards_among(calls: Sequence[Passed]) -> list[Passed]:
    """Return the calls of feed-forward networks: the smallest modules with a way out to another width, and back."""
    found = [call for call in calls if hands_on(call) and _widens(call.module)]
    names = {call.name for call in found}
    return [call for call in found if not any(name.startswith(f"{call.name}.") for name in names)]


def norms_among(calls: Sequence[Passed]) -> list[Passed]:
    """Return the calls of modules without parts and matrices that hand something on: norms, activations, dropout."""
    return [call for call in calls if hands_on(call) and not list(call.module.children()) and _is_flat(call.module)]


def _has_matrix(module: nn.Module) -> bool:
    return any(parameter.ndim >= 2 for parameter in module.parameters())


def _is_flat(module: nn.Module) -> bool:
    return not any(
        parameter.ndim >= 3 or (parameter.ndim == 2 and _linear(module)) for parameter in module.parameters()
    )


def _linear(module: nn.Module) -> bool:
    return isinstance(module, (nn.Linear, nn.Embedding)) or not isinstance(module, nn.LayerNorm)


def _widens(module: nn.Module) -> bool:
    """True for matrices D to F and F to D with F != D, at most two ways out, and no other matrix of width D."""
    shapes = Counter(tuple(matrix.shape[:2]) for matrix in _matrices(module))
    for (rows, columns), back in shapes.items():
        gated = shapes.get((2 * columns, rows), 0) if columns >= rows else 0
        out = shapes.get((columns, rows), 0) + gated
        if rows == columns or not out or {back, out} - {1, 2}:
            continue
        width = rows if _norm_width(module, rows) else min(rows, columns)
        related = [shape for shape in shapes if width in shape]
        if all(set(shape) <= {rows, columns, 2 * columns, 2 * rows} for shape in related) and back + out <= 3:
            return sum(shapes[shape] for shape in related) <= 3
    return False


def _matrices(module: nn.Module) -> list[Tensor]:
    """Of a part in 8 bits the matrix is its whole numbers; their steps, a column, are none of their own."""
    found: dict[int, Tensor] = {}
    for part in module.modules():
        own = [parameter for parameter in part.parameters(recurse=False) if parameter.ndim >= 2]
        whole = [parameter for parameter in own if not parameter.is_floating_point()]
        found |= {id(parameter): parameter for parameter in whole or own}
    return list(found.values())


def _norm_width(module: nn.Module, width: int) -> bool:
    return any(isinstance(part, nn.LayerNorm) and part.normalized_shape == (width,) for part in module.modules())


def matrices_of(module: nn.Module) -> list[Tensor]:
    """Return the parameters of every part that has a matrix, offsets included."""
    return [
        parameter
        for part in module.modules()
        if any(own.ndim >= 2 for own in part.parameters(recurse=False))
        for parameter in part.parameters(recurse=False)
    ]


def norm_place_said(module: nn.Module) -> str | None:
    """Return "pre" or "post" where an attribute such as torch's `norm_first` says it."""
    told: dict[str, object] = {}
    for each in (*reversed(type(module).__mro__), module):
        told |= vars(each)
    for name in ("norm_first", "pre_norm", "prenorm", "normalize_before"):
        value = told.get(name)
        if isinstance(value, bool):
            return "pre" if value else "post"
    value = told.get("norm_place")
    return value if isinstance(value, str) and value in ("pre", "post") else None
