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


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_and_its_gradient_are_the_same_in_a_graph(name):
    """Also where a bend is: at 0."""
    torch._dynamo.reset()
    graph = torch.compile(ACTIVATIONS[name], backend="aot_eager", fullgraph=True)
    x = torch.linspace(-4, 4, 17, dtype=torch.float64, requires_grad=True)
    results = [(y, *torch.autograd.grad(y.sum(), x)) for y in (ACTIVATIONS[name](x), graph(x))]
    torch.testing.assert_close(*results)
    torch._dynamo.reset()
