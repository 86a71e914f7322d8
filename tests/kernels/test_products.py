from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from glassformer.kernels.operators import has_operators
from glassformer.kernels.products import FEW, SOME, linear, linear_int8
from glassformer.parts.quantised import quantise, quantised_linear

pytestmark = pytest.mark.skipif(not has_operators(), reason="there is no C++ compiler")

SOME_INT8 = 16
"""Up to how many rows in 8 bits are multiplied in one go."""

MATRICES = [(1, 1), (3, 5), (37, 77), (64, 64), (130, 3), (33, 200)]
ROWS = [1, 2, 3, 7, 8, SOME, SOME_INT8, SOME_INT8 + 1, 40]


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("shape", MATRICES)
def test_float_product_is_that_of_torch(shape, offset):
    weight, bias = torch.randn(shape), torch.randn(shape[0]) if offset else None
    for rows in range(1, 2 * SOME):
        x = torch.randn(rows, shape[1])
        exact = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
        torch.testing.assert_close(linear(x, weight, bias).double(), exact, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("shape", MATRICES)
def test_o40_product_of_whole_numbers_is_the_readable_one_to_the_last_bit(shape, offset):
    (levels, steps), bias = quantise(torch.randn(shape)), torch.randn(shape[0]) if offset else None
    for rows in ROWS:
        x = torch.randn(rows, shape[1]) * torch.logspace(-6, 6, rows).unsqueeze(1)
        x[0, 0] = 0.0
        assert torch.equal(linear_int8(x, levels, steps, bias), quantised_linear(x, levels, steps, bias))


def test_rows_of_zeros_and_of_the_smallest_numbers_are_no_exception():
    levels, steps = quantise(torch.randn(5, 70))
    for x in (torch.zeros(3, 70), torch.full((20, 70), 1e-44), torch.full((2, 70), 3e38)):
        assert torch.equal(linear_int8(x, levels, steps, None), quantised_linear(x, levels, steps))


def test_o01_row_of_a_product_does_not_depend_on_the_others():
    weight, bias, x = torch.randn(30, 100), torch.randn(30), torch.randn(SOME, 100)
    assert torch.equal(linear(x, weight, bias), torch.cat([linear(row[None], weight, bias) for row in x]))
    x, (levels, steps) = torch.randn(3 * SOME_INT8, 100), quantise(weight)
    alone = torch.cat([linear_int8(row[None], levels, steps, bias) for row in x])
    assert torch.equal(linear_int8(x, levels, steps, bias), alone)


def test_product_of_no_columns_is_the_bias():
    assert torch.equal(linear(torch.zeros(3, 0), torch.zeros(2, 0), torch.ones(2)), torch.ones(3, 2))


def test_products_take_rows_of_any_shape_and_layout():
    weight = torch.randn(6, 8)
    x = torch.randn(8, 3, 2).permute(1, 2, 0)
    levels, steps = quantise(weight)
    torch.testing.assert_close(linear(x, weight, None), F.linear(x, weight), atol=1e-5, rtol=1e-5)
    assert torch.equal(linear_int8(x, levels, steps, None), quantised_linear(x, levels, steps))


def test_products_are_operators_that_a_graph_can_hold():
    x, weight, bias = torch.randn(FEW, 16), torch.randn(8, 16), torch.randn(8)
    levels, steps = quantise(weight)
    tests = ("test_schema", "test_faketensor")
    torch.library.opcheck(torch.ops.glassformer.linear.default, (x, weight, bias), test_utils=tests)
    torch.library.opcheck(torch.ops.glassformer.linear_int8.default, (x, levels, steps, None), test_utils=tests)
    graph = torch.compile(lambda x: linear(x, weight, bias) + linear_int8(x, levels, steps, bias), backend="aot_eager")
    with torch.no_grad():
        assert torch.equal(graph(x), linear(x, weight, bias) + linear_int8(x, levels, steps, bias))


@pytest.mark.parametrize("rows", [2, SOME_INT8 + 5])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_numbers_that_are_none_make_their_row_none_and_no_other(rows, bad):
    x, (levels, steps) = torch.randn(rows, 70), quantise(torch.randn(5, 70))
    x[1, 66] = bad
    out = linear_int8(x, levels, steps, None)
    assert out[1].isnan().all()
    assert out[0].isfinite().all()
    assert not linear(x[:2], torch.randn(5, 70), None)[1].isfinite().any()


def test_arrays_that_do_not_fit_are_refused_before_they_are_read():
    levels, steps = quantise(torch.randn(5, 8))
    for x, matrix, bias in (
        (torch.randn(4, 16), torch.randn(5, 8), None),
        (torch.randn(4, 8), torch.randn(5, 8), torch.randn(4)),
    ):
        with pytest.raises(RuntimeError, match="not fit"):
            linear(x, matrix, bias)
    with pytest.raises(RuntimeError, match="do not fit"):
        linear_int8(torch.randn(4, 16), levels, steps, None)
    with pytest.raises(RuntimeError, match="another type"):
        linear(torch.randn(4, 8).double(), torch.randn(5, 8), None)
    bias = torch.randn(10)[::2]
    torch.testing.assert_close(linear(torch.eye(8)[:4], torch.zeros(5, 8), bias), bias.expand(4, 5), atol=0.0, rtol=0.0)
