"""What makes a feed-forward network more than one matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

_TWICE = 2 * math.sqrt(2 / math.pi)


def relu(x: Tensor) -> Tensor:
    """Return max(0, x).

    A compiled graph computes x h, h = 1 where x > 0, else 0: of a maximum it would keep truth values for the way back,
    which on a processor are written one by one. Of -inf that gives NaN.
    """
    if torch.compiler.is_compiling():
        return x * x.detach().sign().clamp_min(0)
    return F.relu(x)


def gelu_tanh(x: Tensor) -> Tensor:
    """Return GELU in the tanh approximation, as GPT-2 computes it.

    y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).

    A compiled graph computes x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)), which is the same number: an exponential is
    several times as quickly made as a tanh.

    Source: Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2.
    """
    if torch.compiler.is_compiling():
        return x * torch.sigmoid(x * (_TWICE + _TWICE * 0.044715 * x * x))
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "relu": relu,
    "gelu": F.gelu,  # x Phi(x), Phi the normal distribution function
    "gelu_tanh": gelu_tanh,
    "silu": F.silu,  # x / (1 + exp(-x)), also called swish
    "tanh": torch.tanh,
}
"""The activations by the name the config uses."""
