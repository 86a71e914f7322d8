"""Attention as it is computed, whoever wrote it: seen by the functions of torch that are called."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

SCALING = {"mul", "__mul__", "__rmul__", "mul_", "__imul__", "multiply"}
DIVIDING = {"div", "__truediv__", "div_", "__itruediv__", "true_divide", "divide"}
PRODUCTS = {"matmul", "__matmul__", "bmm", "__rmatmul__"}
VIEWS = {
    "view", "reshape", "transpose", "permute", "contiguous", "unsqueeze", "squeeze", "expand", "flatten", "unflatten",
    "swapaxes", "clone", "to", "float", "double", "type_as", "movedim", "__getitem__", "split", "chunk", "unbind",
    "repeat_interleave", "repeat", "t", "narrow", "select", "rearrange", "__get__", "type", "swapdims", "moveaxis",
    "view_as", "reshape_as", "detach", "tensor_split",
}  # fmt: skip
MASKING = {"masked_fill", "masked_fill_", "where", "add", "__add__", "__radd__", "__iadd__", "add_", "sub", "__sub__"}


@dataclass(eq=False)
class Scores:
    """Products of queries and keys on their way to the softmax.

    Attributes:
        q: The queries as they came to the product.
        k: The keys.
        width: Numbers that each product sums over.
        factor: What the scores were multiplied by since the projections.
        exact: Whether that is known.
    """

    q: Tensor
    k: Tensor
    width: int
    factor: float
    exact: bool = True


@dataclass(eq=False)
class Attended:
    """One attention as it was computed.

    Attributes:
        q: The queries.
        k: The keys.
        v: The values.
        width: Numbers of a query, E.
        factor: What the scores were multiplied by; None = unknown.
        weights: What the values were mixed with, keys in the last axis. *Shape:* (..., T, S).
        summed: The axis that the softmax made sum to one is the axis that is summed over.
        out: The mixture.
        late: Whether the weights were masked after the softmax.
        added: Whether something was added to the weights after the softmax, other weights aside.
        after: What the weights were multiplied by after the softmax.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    width: int
    factor: float | None
    weights: Tensor
    summed: bool
    out: Tensor
    late: bool = False
    added: bool = False
    after: float = 1.0


@dataclass(eq=False)
class _Weights:
    scores: Scores
    axis: int
    rank: int
    late: bool = False
    added: bool = False
    """Whether something that is no softmax was added."""
    factor: float = 1.0
    """What the weights were multiplied by."""


@dataclass(eq=False)
class _Powers:
    """exp(scores), of a softmax that is written out."""

    scores: Scores


class Probe(TorchFunctionMode):
    """Watches the attentions of a forward pass; with `bump` it changes one position of the mixture of one of them.

    Torch's own `nn.MultiheadAttention` computes out of its sight: that one is known.

    Args:
        bump: Which attention, and along which length which position; None = nothing is changed.
    """

    def __init__(self, bump: tuple[int, int, int] | None = None) -> None:
        super().__init__()
        self.found: list[Attended] = []
        self.projected: Tensor | None = None
        """What the first projection behind the bumped attention returned."""
        self._bump = bump
        self._waiting = False
        self._factors: dict[int, float] = {}
        self._tags: dict[int, Scores | _Powers | _Weights] = {}
        self._alive: list[Any] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        name = func.__name__
        out = func(*args, **named)
        if name == "scaled_dot_product_attention":
            return self._fused(out, *args, **named)
        if not isinstance(out, (Tensor, tuple, list)):
            return out
        if name in PRODUCTS or name in ("einsum", "baddbmm"):
            return self._product(name, out, args)
        if name in ("softmax", "_softmax") and isinstance(out, Tensor):
            self._softmax(out, args, named)
        elif name in ("exp", "exp_") and isinstance(out, Tensor):
            self._powered(out, args)
        elif name in ("linear", "addmm") and isinstance(out, Tensor):
            self._project(out)
        elif name in VIEWS:
            for each in (out,) if isinstance(out, Tensor) else out:
                self._pass_on(each, args)
        elif name in SCALING | DIVIDING and isinstance(out, Tensor):
            self._scaled(name, out, args)
        elif name in MASKING and isinstance(out, Tensor):
            self._masked(name, out, args)
        elif isinstance(out, Tensor) and name in ("dropout", "tanh", "clamp", "nan_to_num"):
            self._pass_on(out, args, exact=name != "tanh")
        return out

    def _tag(self, tensor: Any) -> Scores | _Powers | _Weights | None:
        return self._tags.get(id(tensor))

    def _mark(self, tensor: Tensor, tag: Scores | _Powers | _Weights) -> None:
        self._tags[id(tensor)] = tag
        self._alive.append(tensor)

    def _factor(self, tensor: Any) -> float:
        return self._factors.get(id(tensor), 1.0)

    def _pass_on(self, out: Any, args: Sequence[Any], *, exact: bool = True) -> None:
        if not isinstance(out, Tensor):
            return
        for source in _flat(args):
            tag = self._tag(source)
            if isinstance(tag, Scores):
                self._mark(out, Scores(tag.q, tag.k, tag.width, tag.factor, tag.exact and exact))
                return
            if tag is not None:
                # An axis that a view moved is told by its sums, when the mixture is made.
                self._mark(out, tag)
                return
            if id(source) in self._factors:
                self._factors[id(out)] = self._factors[id(source)]
                self._alive.append(out)
                return

    def _scaled(self, name: str, out: Tensor, args: Sequence[Any]) -> None:
        if name in DIVIDING and len(args) > 1 and isinstance(powers := self._tag(args[0]), _Powers):
            self._normalised(out, powers, args[1])
            return
        number = next((float(each) for each in args if _is_number(each)), None)
        tensors = [each for each in args if isinstance(each, Tensor) and not _is_number(each)]
        if number is None:
            for each in tensors:
                tag = self._tag(each)
                if isinstance(tag, _Weights):
                    self._mark(out, replace(tag, late=True))
                elif isinstance(tag, Scores):  # a learned temperature, a mask that is multiplied
                    self._mark(out, Scores(tag.q, tag.k, tag.width, tag.factor, exact=False))
            return
        if not tensors or (name in DIVIDING and number == 0):
            return
        by = 1 / number if name in DIVIDING else number
        tag = self._tag(tensors[0])
        if isinstance(tag, Scores):
            self._mark(out, Scores(tag.q, tag.k, tag.width, tag.factor * by, tag.exact))
        elif isinstance(tag, _Weights):
            self._mark(out, replace(tag, factor=tag.factor * by))
        else:
            self._factors[id(out)] = self._factor(tensors[0]) * by
            self._alive.append(out)

    def _masked(self, name: str, out: Tensor, args: Sequence[Any]) -> None:
        tags = [tag for tag in map(self._tag, args) if tag is not None]
        if not tags:
            return
        tensors = [each for each in args if isinstance(each, Tensor) and not _is_number(each)]
        first, adds = tags[0], len(tensors) > 1 and ("add" in name or "sub" in name)  # a small number is no bias
        if isinstance(first, _Weights):
            others = len(tags) > 1  # a difference of two softmaxes is a kind of attention
            first = replace(first, late=True, added=first.added or (adds and not others))
        self._mark(out, first)

    def _powered(self, out: Tensor, args: Sequence[Any]) -> None:
        tag = self._tag(args[0])
        if isinstance(tag, Scores):
            self._mark(out, _Powers(tag))

    def _normalised(self, out: Tensor, powers: _Powers, sums: Any) -> None:
        """A softmax that is written out: powers by their sums, along the axis that the sums lack."""
        if isinstance(sums, Tensor) and (sums.ndim == 0 or sums.ndim == out.ndim):
            gone = [axis for axis in range(sums.ndim) if sums.shape[axis] == 1 != out.shape[axis]]
            self._mark(out, _Weights(powers.scores, gone[-1] if gone else -1, out.ndim))

    def _softmax(self, out: Tensor, args: Sequence[Any], named: Mapping[str, Any]) -> None:
        tag = self._tag(args[0] if args else named.get("input"))
        if isinstance(tag, Scores):
            axis = named.get("dim", args[1] if len(args) > 1 else -1)
            self._mark(out, _Weights(tag, int(axis) % out.ndim, out.ndim))

    def _project(self, out: Tensor) -> None:
        if self._waiting:
            self.projected, self._waiting = out, False

    def _product(self, name: str, out: Any, args: Sequence[Any]) -> Any:
        operands = [each for each in _flat(args) if isinstance(each, Tensor)]
        if name == "baddbmm":
            operands = operands[1:]
        if len(operands) != 2 or not isinstance(out, Tensor):
            return out
        left, right = operands
        equation = args[0] if name == "einsum" and isinstance(args[0], str) else None
        for weights, values in ((left, right), (right, left)):
            tag = self._tag(weights)
            if isinstance(tag, _Weights):
                return self._mixed(out, weights, values, tag, _summed_axis(equation, weights, weights is left))
        if right.ndim == 2 and left.ndim >= 2 and equation is None:
            self._project(out)
        elif left.ndim >= 3 and right.ndim >= 3:
            q = left.movedim(_summed_axis(equation, left, True), -1)
            k = right.movedim(_summed_axis(equation, right, False), -1)
            self._mark(out, Scores(q, k, q.shape[-1], self._factor(left) * self._factor(right)))
        return out

    def _mixed(self, out: Tensor, weights: Tensor, values: Tensor, tag: _Weights, axis: int) -> Tensor:
        moved = weights.detach().movedim(axis, -1)
        sums = moved.sum(-1)
        ones = (sums - 1).abs() < 1e-3
        scores = tag.scores
        # the softmax's own axis may have moved in a view; where every sum is one, it is the one that is summed over
        summed = bool(ones.all()) or bool(tag.axis == axis and weights.ndim == tag.rank) or tag.late
        factor = scores.factor if scores.exact else None
        self.found.append(
            Attended(
                scores.q, scores.k, values, scores.width, factor, moved, summed, out, tag.late, tag.added, tag.factor
            )
        )
        return self._bumped(out)

    def _fused(
        self,
        out: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        width = query.shape[-1]
        used = 1 / math.sqrt(width) if scale is None else scale
        keys = key
        if key.shape[-3] != query.shape[-3]:
            keys = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        scores = query.detach().double() @ keys.detach().double().transpose(-1, -2) * used
        if is_causal:
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(hidden, -math.inf)
        if attn_mask is not None:
            hides = attn_mask.dtype == torch.bool
            scores = scores.masked_fill(~attn_mask, -math.inf) if hides else scores + attn_mask
        weights = scores.softmax(-1).nan_to_num(0.0)
        factor = used * self._factor(query) * self._factor(key)
        self.found.append(Attended(query, key, value, width, factor, weights, True, out))
        return self._bumped(out)

    def _bumped(self, out: Tensor) -> Tensor:
        if self._bump is None or self._bump[0] != len(self.found) - 1:
            return out
        _, length, position = self._bump
        self._waiting = True
        axes = [axis for axis, size in enumerate(out.shape) if size == length]
        if len(axes) != 1:
            return out
        changed = out.clone()
        changed.select(axes[0], position).add_(1.0)
        return changed


def attentions(run: Callable[[], object]) -> list[Attended]:
    """Return the attentions that are computed while `run` runs."""
    with Probe() as probe:
        run()
    found: list[Attended] = probe.found
    return found


def _flat(args: Sequence[Any]) -> list[Any]:
    return [each for arg in args for each in (arg if isinstance(arg, (tuple, list)) else (arg,))]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) or (isinstance(value, Tensor) and value.ndim == 0)


def _summed_axis(equation: str | None, operand: Tensor, left: bool) -> int:
    """The axis of an operand that a product sums over."""
    if equation is None:
        return operand.ndim - 1 if left else operand.ndim - 2
    terms, _, result = equation.replace(" ", "").partition("->")
    labels = terms.split(",")[0 if left else 1]
    gone = [axis for axis, label in enumerate(labels) if label not in result]
    return gone[0] if gone else operand.ndim - 1
