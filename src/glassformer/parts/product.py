"""A matrix times vectors: the equation, and the same by code of our own where that is faster."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.kernels.products import FEW, SOME, linear, linear_int8
from glassformer.parts.quantised import quantised_linear

LARGE = 1 << 18
"""Numbers in a matrix in float32 that are worth a call of our own."""

Product = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]


def product(
    x: Float[Tensor, "*batch column"],
    weight: Num[Tensor, "row column"],
    step: Float[Tensor, "row 1"] | None,
    bias: Float[Tensor, " row"] | None,
) -> Float[Tensor, "*batch row"]:
    """Return W x + b.

    Args:
        x: *Shape:* (..., I).
        weight: W, or the levels of it in 8 bits. *Shape:* (O, I).
        step: In 8 bits, the size of a level of each row. *Shape:* (O, 1).
        bias: b. *Shape:* (O,).
    """
    return F.linear(x, weight, bias) if step is None else quantised_linear(x, weight, step, bias)


def quick_product(x: Tensor, weight: Tensor, step: Tensor | None, bias: Tensor | None) -> Tensor:
    """Return the same by glassformer::linear and glassformer::linear_int8, which have no gradient.

    In 8 bits it is the same to the last bit, whatever rows stand beside a row. In float32 it is for `FEW` to `SOME`
    rows that meet a large matrix, with sums in another order; among these a row's result does not depend on the others.

    Args:
        x: As for `product`, on a processor.
        weight: As for `product`.
        step: As for `product`.
        bias: As for `product`.
    """
    rows, exact = x.numel() // x.shape[-1], torch.float32
    if x.dtype == exact and rows and weight.is_contiguous() and (bias is None or bias.dtype == exact):
        if step is not None and step.dtype == exact:
            return linear_int8(x, weight, step, bias)
        if step is None and FEW <= rows <= SOME and weight.numel() >= LARGE and weight.dtype == exact:
            return linear(x, weight, bias)
    return product(x, weight, step, bias)


class QuickLinear(nn.Linear):
    """A projection, in float32 or 8 bits, by `quick_product`.

    It is made of one that is there: `quick_copy` gives its contents another class.
    """

    def forward(self, input: Float[Tensor, "*batch column"]) -> Float[Tensor, "*batch row"]:
        """Return W x + b. *Shape:* (..., O)."""
        return quick_product(input, self.weight, self._parameters.get("step"), self.bias)
