"""What is done with each vector by itself, in C++ of our own (vectors.cpp), for writing."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from glassformer.kernels.operators import OPERATORS

OPERATORS.define("rms_norm(Tensor x, Tensor weight, float eps) -> Tensor")
OPERATORS.define("rotate(Tensor x, Tensor cos, Tensor sin, bool halves) -> Tensor")


def _same(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x.new_empty(x.shape)


def _dense(x: Tensor, cos: Tensor, sin: Tensor, halves: bool) -> Tensor:
    return x.new_empty(x.shape)


torch.library.register_fake("glassformer::rms_norm", _same)
torch.library.register_fake("glassformer::rotate", _dense)

rms_norm: Callable[[Tensor, Tensor, float], Tensor] = torch.ops.glassformer.rms_norm.default
"""x / sqrt(mean(x^2) + eps) * weight over the last dimension, in float32, on a processor."""

rotate: Callable[[Tensor, Tensor, Tensor, bool], Tensor] = torch.ops.glassformer.rotate.default
"""(a, b) -> (a cos - b sin, a sin + b cos) for the pairs of each vector, in float32, on a processor.

x is (B, H, T, E); cosines and sines are (B or 1, 1, T, P). Pairs are (i, i + P) by halves, else (2i, 2i + 1), i < P.
"""
