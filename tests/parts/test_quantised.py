from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from glassformer.parts.embedding import Embedding
from glassformer.parts.quantised import QuantisedEmbedding, QuantisedLinear, quantise, quantised_linear


@pytest.mark.parametrize(
    ("row", "levels", "step"),
    [
        ([1.27, -1.27, 0.0, 0.64], [127, -127, 0, 64], 0.01),
        ([0.0, 0.0, 0.0, 0.0], [0, 0, 0, 0], 0.0),
        ([1e4, 1e-4, 0.0, 0.0], [127, 0, 0, 0], 1e4 / 127),
        ([1e-44, 0.0, 0.0, 0.0], [0, 0, 0, 0], 0.0),  # below what float32 has a step for
    ],
)
def test_o40_rows_are_rounded_to_steps_of_their_own(row, levels, step):
    got, of_row = quantise(torch.tensor([row, [2.54, 0.0, 0.0, 0.0]]))
    assert got.dtype == torch.int8
    assert got.tolist() == [levels, [127, 0, 0, 0]]
    torch.testing.assert_close(of_row, torch.tensor([[step], [0.02]]), atol=1e-9, rtol=1e-6)


def test_o40_no_weight_is_off_by_more_than_half_a_step():
    weight = torch.randn(50, 40) * torch.logspace(-6, 6, 50).unsqueeze(1)
    levels, step = quantise(weight)
    off = (levels * step - weight).abs()
    assert (off <= 0.5 * step * (1 + 1e-5)).all()
    assert levels.abs().amax(1).eq(127).all()


def test_quantised_product_is_that_of_the_rounded_numbers():
    x, weight, bias = torch.randn(2, 3, 20), torch.randn(7, 20), torch.randn(7)
    (levels, steps), (rows, step) = quantise(weight), quantise(x)
    expected = F.linear((rows * step).double(), (levels * steps).double(), bias.double())
    torch.testing.assert_close(quantised_linear(x, levels, steps, bias).double(), expected, atol=1e-5, rtol=1e-5)


def test_o01_row_of_a_quantised_product_does_not_depend_on_the_others():
    x, (levels, steps) = torch.randn(5, 20), quantise(torch.randn(7, 20))
    x[3] *= 1000
    alone = torch.cat([quantised_linear(row.unsqueeze(0), levels, steps) for row in x])
    assert torch.equal(quantised_linear(x, levels, steps), alone)


def test_quantised_product_of_zeros_is_zero():
    levels, steps = quantise(torch.zeros(3, 4))
    assert torch.equal(quantised_linear(torch.randn(2, 4), levels, steps), torch.zeros(2, 3))
    assert torch.equal(quantised_linear(torch.zeros(2, 4), *quantise(torch.randn(3, 4))), torch.zeros(2, 3))


def test_quantised_parts_use_their_levels():
    """Changing one of the whole numbers changes what comes out by one step, where it counts."""
    linear, table = QuantisedLinear(nn.Linear(4, 3)), QuantisedEmbedding(_drawn(5, 4))
    x, tokens = torch.eye(4)[None, :1], torch.tensor([[2, 1]])
    before, vectors = linear(x), table(tokens)
    linear.weight[1, 0] -= 2
    table.weight[2, 3] -= 2
    torch.testing.assert_close(before - linear(x), 2 * torch.tensor([[[0.0, float(linear.step[1]), 0.0]]]))
    expected = torch.zeros(1, 2, 4)
    expected[0, 0, 3] = 2 * float(table.step[2])
    torch.testing.assert_close(vectors - table(tokens), expected)


def test_quantised_product_keeps_the_type_of_its_rows():
    levels, steps = quantise(torch.randn(3, 8))
    x = torch.randn(2, 8)
    got = quantised_linear(x.bfloat16(), levels, steps.bfloat16())
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), quantised_linear(x, levels, steps), atol=0.1, rtol=0.1)


def _drawn(vocab_size: int, d_model: int) -> Embedding:
    table = Embedding(vocab_size, d_model)
    nn.init.normal_(table.weight)
    return table
