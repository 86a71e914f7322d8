"""What a part computes on its way: its products with learned matrices, and its softmaxes, in the order they happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from glassformer.diagnosis.parts.calling import tensors_in


@dataclass(frozen=True, eq=False)
class Product:
    """A product with a learned matrix.

    Attributes:
        x: What went in.
        y: What came out.
    """

    x: Tensor
    y: Tensor


@dataclass
class Recording:
    """What happened during a call.

    Attributes:
        products: Products with learned matrices, first to last.
        scores: What each softmax over the last dimension was given, with its mask. *Shape:* (B, H, T, S), (B H, T, S)
            or, a head at a time, (B, T, S).
        result: What the call returned.
    """

    products: list[Product] = field(default_factory=list)
    scores: list[Tensor] = field(default_factory=list)
    result: Any = None

    def scores_by_head(self, rows: int) -> Tensor | None:
        """Return the scores of all heads, if only one attention was made. *Shape:* (B, H, T, S).

        Args:
            rows: B.
        """
        shapes = {each.shape for each in self.scores}
        if len(shapes) != 1:
            return None
        [shape] = shapes
        if len(shape) == 3 and shape[0] == rows:
            return torch.stack(self.scores, dim=1)
        if not all(torch.equal(each, self.scores[0]) for each in self.scores):  # the same one twice is one
            return None
        if len(shape) == 3:
            return self.scores[0].unflatten(0, (rows, -1)) if shape[0] % rows == 0 else None
        return self.scores[0]


MULTI_HEAD = FunctionType(
    F.multi_head_attention_forward.__code__,
    {**F.__dict__, "has_torch_function": lambda tensors: False},
    "multi_head_attention_forward",
    F.multi_head_attention_forward.__defaults__,
)
"""torch's own attention, which is written in Python, made to call on instead of handing itself to a mode as a whole."""


class _Mode(TorchFunctionMode):
    """Sees every function of torch that is called from Python."""

    def __init__(self, recording: Recording, learned: frozenset[int]) -> None:
        super().__init__()
        self.recording, self.learned = recording, learned

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        if func is F.multi_head_attention_forward:
            with self:
                return MULTI_HEAD(*args, **options)
        result = func(*args, **options)
        name = func.__name__
        operands = [each for each in (*args, *options.values()) if isinstance(each, Tensor)]
        if "softmax" in name and operands:
            dim = options.get("dim", args[1] if len(args) > 1 and isinstance(args[1], int) else None)
            if operands[0].ndim in (3, 4) and dim in (-1, operands[0].ndim - 1):
                self.recording.scores.append(operands[0].detach())
        if func is F.scaled_dot_product_attention and len(operands) >= 3:
            scores = _scores_of(operands[0], operands[1], args, options)
            self.recording.scores += [] if scores is None else [scores]
        made = product_of(name, args, options, result, self.learned)
        if made is not None:
            self.recording.products.append(made)
        return result


def _scores_of(q: Tensor, k: Tensor, args: Sequence[Any], options: Mapping[str, Any]) -> Tensor | None:
    """What torch's fused function puts into its softmax; None where it does more than that."""
    named = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args, strict=False)) | dict(
        options
    )
    if q.ndim != 4 or q.shape[1] != k.shape[1]:
        return None
    scale, mask = named.get("scale"), named.get("attn_mask")
    scores: Tensor = q.detach() @ k.detach().transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if named.get("is_causal"):
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is None:
        return scores
    added: Tensor = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else mask
    return scores + added.detach()


MULTIPLYING = ("linear", "matmul", "__matmul__", "__rmatmul__", "bmm", "einsum", "addmm", "mm")


def product_of(
    name: str, args: Sequence[Any], options: Mapping[str, Any], result: Any, learned: frozenset[int]
) -> Product | None:
    """Return what a function of torch was given and made, if it multiplied something with a learned matrix.

    Args:
        name: Of the function.
        args: What it was called with.
        options: And by name.
        result: What it returned.
        learned: Where learned parameters are in memory.
    """
    if name not in MULTIPLYING or not isinstance(result, Tensor):
        return None
    operands = tensors_in(list(args)) or tensors_in(dict(options))
    matrices = [each for each in operands if each.data_ptr() in learned or _is_view(each, learned)]
    others = [each for each in operands if not any(each is one for one in matrices)]
    return Product(others[0].detach(), result.detach()) if matrices and others else None


def learned_in(modules: Sequence[nn.Module]) -> frozenset[int]:
    """Return where the parameters of some modules are in memory."""
    return frozenset(parameter.data_ptr() for module in modules for parameter in module.parameters())


def _is_view(tensor: Tensor, learned: frozenset[int]) -> bool:
    return tensor._base is not None and tensor._base.data_ptr() in learned


def straight(products: Sequence[tuple[Tensor, Tensor]]) -> bool:
    """Return whether a product to a greater width goes into the next one, which leads back, as it is: no activation.

    Args:
        products: What went in and came out of each, in order.
    """
    return any(
        x.shape[-1] == back.shape[-1] < y.shape[-1] and y.shape == inner.shape and torch.equal(y, inner)
        for (x, y), (inner, back) in pairwise(products)
    )


def recorded(run: Callable[[], Any], modules: Sequence[nn.Module]) -> Recording:
    """Return what a call computes, without gradients.

    Args:
        run: The call.
        modules: Whose parameters count as learned.
    """
    recording = Recording()
    learned = learned_in(modules)
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # one function that nobody can look into
    try:
        with torch.no_grad(), _whole(recording, modules), _Mode(recording, learned):
            recording.result = run()
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return recording


@contextmanager
def _whole(recording: Recording, modules: Sequence[nn.Module]) -> Iterator[None]:
    """Note what projections in 8 bits were given and made: the products inside them are of rounded numbers."""
    parts = dict.fromkeys(part for module in modules for part in module.modules() if _is_whole(part))

    def note(part: nn.Module, args: tuple[Tensor, ...], result: Tensor) -> None:
        recording.products.append(Product(args[0].detach(), result.detach()))

    handles = [part.register_forward_hook(note) for part in parts]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _is_whole(part: nn.Module) -> bool:
    return isinstance(part, nn.Linear) and not part.weight.is_floating_point()
