from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from glassformer.parts import quantised
from glassformer.parts.embedding import Embedding
from glassformer.parts.quantised import QuantisedEmbedding, QuantisedLinear, quantise, quantised_linear

HALF = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])


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


@HALF
@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-5])
def test_o13_rows_of_half_precision_are_rounded_to_their_nearest_level(dtype, size):
    """A step that is rounded down would make its largest level 128, which 8 bits take for -128; a step below the
    smallest number of float16 would be no step."""
    x = (torch.randn(200, 40) * size).to(dtype)
    levels, step = quantise(x)
    assert step.dtype == dtype
    off = (levels.double() * step.double() - x.double()).abs()
    assert (off <= 0.5 * step.double() * (1 + 1e-5)).all()
    assert levels.abs().amax() <= 127
    assert (step.double() - x.double().abs().amax(1, keepdim=True) / 127 <= _unit(step)).all()


@HALF
def test_o13_product_of_half_precision_is_rounded_once_at_the_end(dtype):
    """Also where its sums, of 40 products of up to 127 * 127, are beyond float16; a row of zeros stays one."""
    x, (levels, steps) = (100 * torch.randn(5, 40)).to(dtype), quantise(torch.randn(7, 40).to(dtype))
    x[2], x[3] = 300.0, 0.0
    levels[0] = 127
    got = quantised_linear(x, levels, steps)
    assert torch.equal(got, quantised_linear(x.float(), levels, steps.float()).to(dtype))
    assert got.isfinite().all()
    assert got[3].eq(0).all()


@HALF
def test_o13_sums_of_a_device_without_whole_numbers_stay_finite_under_autocast(monkeypatch, dtype):
    """Its product is that of the processor: 127 * 127 * 40 = 645,160 > 65,504."""
    levels, steps = quantise(torch.randn(7, 40))
    levels[0] = 127
    x = torch.cat((torch.full((1, 40), 3.0), torch.randn(4, 40)))
    expected = quantised_linear(x, levels, steps)
    monkeypatch.setattr(quantised, "WHOLE", ())
    with torch.autocast("cpu", dtype):
        torch.testing.assert_close(quantised_linear(x, levels, steps), expected, atol=1e-6, rtol=1e-6)


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


def _unit(x: torch.Tensor) -> torch.Tensor:
    """How far the next number is from each."""
    return (torch.nextafter(x.float().to(x.dtype), torch.full_like(x, torch.inf)) - x).double()


def _drawn(vocab_size: int, d_model: int) -> Embedding:
    table = Embedding(vocab_size, d_model)
    nn.init.normal_(table.weight)
    return table
