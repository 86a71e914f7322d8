"""Products of rows with a matrix, in C++ of our own (products.cpp), for writing."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from glassformer.kernels.operators import OPERATORS

FEW, SOME = 4, 12
"""From how many rows on, and up to how many, our product in float32 is faster than torch's."""

OPERATORS.define("linear(Tensor x, Tensor weight, Tensor? bias) -> Tensor")
OPERATORS.define("linear_int8(Tensor x, Tensor levels, Tensor steps, Tensor? bias) -> Tensor")


def _shape(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x.new_empty(*x.shape[:-1], weight.shape[0])


def _shape_int8(x: Tensor, levels: Tensor, steps: Tensor, bias: Tensor | None) -> Tensor:
    return x.new_empty(*x.shape[:-1], levels.shape[0])


torch.library.register_fake("glassformer::linear", _shape)
torch.library.register_fake("glassformer::linear_int8", _shape_int8)

linear: Callable[[Tensor, Tensor, Tensor | None], Tensor] = torch.ops.glassformer.linear.default
"""W x + b in float32, on a processor; x is (..., I), W (O, I), b (O,)."""

linear_int8: Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor] = torch.ops.glassformer.linear_int8.default
"""`quantised_linear` to the last bit, on a processor; x and steps in float32."""
