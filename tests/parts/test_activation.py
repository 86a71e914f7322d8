from __future__ import annotations

import math

import pytest
import torch

from glassformer.parts.activation import ACTIVATIONS


def tanh_gelu(x: float) -> float:
    return x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


FORMULAS = {
    "relu": lambda x: max(0.0, x),
    "gelu": lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh": tanh_gelu,
    "silu": lambda x: x / (1 + math.exp(-x)),
    "tanh": math.tanh,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_is_its_formula(name):
    x = torch.linspace(-4, 4, 17, dtype=torch.float64)
    expected = [FORMULAS[name](value) for value in x.tolist()]
    assert ACTIVATIONS[name](x).tolist() == pytest.approx(expected, abs=1e-12)
