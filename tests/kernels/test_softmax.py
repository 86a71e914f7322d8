from __future__ import annotations

import pytest
import torch

from glassformer.core.call import Sight
from glassformer.core.mask import Mask
from glassformer.core.places import Places
from glassformer.kernels.operators import has_operators
from glassformer.kernels.reference import ReferenceKernel
from glassformer.kernels.registry import choose_kernel
from glassformer.kernels.softmax import QUERIES, FewKernel, choose_quick_kernel, quick_log_softmax, quick_most_probable

pytestmark = pytest.mark.skipif(not has_operators(), reason="there is no C++ compiler")

SHAPES = [
    (2, 4, 4, 1, 9, 32),
    (2, 4, 2, 3, 17, 8),
    (3, 6, 1, QUERIES, 40, 64),
    (1, 1, 1, 1, 1, 3),
    (2, 3, 3, 5, 16, 20),
]


def drawn(shape):
    B, H, K, T, S, E = shape
    return torch.randn(B, H, T, E), torch.randn(B, K, S, E), torch.randn(B, K, S, E)


def equal(q, k, v, sight):
    exact = ReferenceKernel().attend(q.double(), k.double(), v.double(), sight, scale=0.3)
    torch.testing.assert_close(FewKernel().attend(q, k, v, sight, scale=0.3).double(), exact, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_few_queries_see_what_the_equation_sees(shape):
    q, k, v = drawn(shape)
    T, S = shape[3:5]
    keys = Places.full(S, q.device)
    last = Places(keys.position[:, S - T :], keys.segment[:, S - T :])
    for mask in (Mask(), Mask(causal=True), Mask(window=2)):
        equal(q, k, v, Sight.of(mask, last, keys))
    allow = torch.rand(shape[0], 1, T, S) > 0.4
    equal(q, k, v, Sight.of(Mask(allow=allow), last, keys))


def test_few_queries_of_a_cache_are_read_where_they_stand():
    """Keys and values are views of larger storage; queries come with heads behind positions."""
    k, v = torch.randn(2, 3, 50, 16)[:, :, 5:14], torch.randn(2, 50, 3, 16).transpose(1, 2)[:, :, :9]
    q = torch.randn(2, 2, 3, 16).transpose(1, 2)
    equal(q, k, v, Sight.of(Mask(), Places.full(2, q.device), Places.full(9, q.device)))


def test_o04_query_that_sees_nothing_gets_zeros():
    q, k, v = drawn((2, 4, 2, 2, 7, 16))
    allow = torch.ones(2, 1, 2, 7, dtype=torch.bool)
    allow[1, :, 0] = False
    k[1, :, 3] = torch.nan  # what nobody may see
    allow[1, :, :, 3] = False
    sight = Sight.of(Mask(allow=allow), Places.full(2, q.device), Places.full(7, q.device))
    out = FewKernel().attend(q, k, v, sight, scale=0.25)
    assert torch.equal(out[1, :, 0], torch.zeros(4, 16))
    assert out.isfinite().all()


@pytest.mark.parametrize("size", [20.0, 60.0, 1000.0])
def test_o13_large_scores_neither_overflow_nor_vanish(size):
    q, k, v = drawn((1, 2, 2, 1, 6, 16))
    equal(q * size / q.norm(dim=-1, keepdim=True), k, v, Sight.of(Mask(), Places.full(1), Places.full(6)))


def test_other_attention_goes_where_it_went_before():
    few, many = Places.full(2), Places.full(QUERIES + 1)
    keys = Places.full(QUERIES + 1)
    assert choose_quick_kernel("auto", Sight.of(Mask(), few, keys)).name == "few"
    for name, sight, settings in (
        ("auto", Sight.of(Mask(), many, keys), {}),
        ("reference", Sight.of(Mask(), few, keys), {}),
        ("auto", Sight.of(Mask(), few, keys), {"bias": True}),
        ("auto", Sight.of(Mask(), few, keys), {"soft_cap": True}),
        ("auto", Sight.of(Mask(), few, keys), {"of": "linear"}),
    ):
        assert choose_quick_kernel(name, sight, **settings) is choose_kernel(name, sight, **settings)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_numbers_are_taken_by_the_kernel_of_torch(dtype):
    q, k, v = (x.to(dtype) for x in drawn((1, 2, 2, 1, 6, 16)))
    sight = Sight.of(Mask(), Places.full(1), Places.full(6))
    assert torch.equal(FewKernel().attend(q, k, v, sight), choose_kernel("sdpa", sight).attend(q, k, v, sight))


def test_attention_is_an_operator_that_a_graph_can_hold():
    q, k, v = drawn((2, 4, 2, 1, 9, 16))
    seen = torch.rand(2, 1, 1, 9) > 0.5
    operator = torch.ops.glassformer.attend.default
    torch.library.opcheck(operator, (q, k, v, seen, 0.5), test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("shape", [(1, 8000), (3, 17), (4, 16), (2, 1)])
def test_log_probabilities_are_those_of_the_equation(shape):
    x = torch.randn(shape) * 5
    exact = torch.log_softmax(x.double(), -1)
    torch.testing.assert_close(quick_log_softmax(x.clone()).double(), exact, atol=1e-5, rtol=1e-6)
    assert quick_log_softmax(x.clone().bfloat16()).dtype == torch.float32


def test_log_probabilities_of_what_is_impossible_and_what_is_no_number():
    x = torch.randn(4, 40)
    x[0, 3], x[1, 20], x[2], x[3, 39] = -torch.inf, torch.nan, -torch.inf, torch.inf
    before, found = x.clone(), quick_log_softmax(x)
    assert torch.equal(x.nan_to_num(), before.nan_to_num())
    assert found[0, 3] == -torch.inf
    assert found[0].exp().sum().item() == pytest.approx(1.0, abs=1e-5)
    for row in (1, 2, 3):
        assert not (found[row] > -torch.inf).any()


@pytest.mark.parametrize("keys", [3, 16, 40])
def test_scores_that_are_no_number_are_not_taken_for_nothing_to_see(keys):
    q, k, v = drawn((1, 2, 2, 2, keys, 16))
    q[:, 0, 0] = torch.nan
    k[:, 1, 1] = torch.nan
    out = FewKernel().attend(q, k, v, Sight.of(Mask(), Places.full(2), Places.full(keys)))
    assert out[0, 0, 0].isnan().all()
    assert out[0, 1].isnan().all()
    assert out[0, 0, 1].isfinite().all()


@pytest.mark.parametrize("width", [5, 127, 128, 1000, 1500])
@pytest.mark.parametrize("n", [1, 3, 7])
def test_most_probable_are_those_of_a_whole_sort(width, n):
    """Many equal scores, so that ties stand within blocks, across them, and at the end."""
    x = torch.randint(-40, 0, (60, 1500)).float() / 4
    x[:, width:] += 20.0
    x[0, 1:] = -torch.inf
    before = x.clone()
    values, places = quick_most_probable(x, n, width)
    ordered, order = x[:, :width].sort(dim=-1, descending=True, stable=True)
    assert torch.equal(places, order[:, :n])
    expected = (ordered[:, :n].double() - x.double().logsumexp(-1, keepdim=True)).float()
    torch.testing.assert_close(values, expected, atol=1e-5, rtol=1e-6)
    assert torch.equal(x, before)


def test_most_probable_of_scores_that_are_none_are_none_in_that_row_only():
    x = torch.randn(6, 300)
    x[1, 299], x[2, 5], x[3] = torch.nan, torch.inf, -torch.inf
    values, _ = quick_most_probable(x, 4, 200)
    assert values[1:4].isnan().all()
    assert values[[0, 4, 5]].isfinite().all()


def test_softmax_operators_know_their_shapes():
    tests = ("test_schema", "test_faketensor")
    torch.library.opcheck(torch.ops.glassformer.log_softmax.default, (torch.randn(3, 40),), test_utils=tests)
    torch.library.opcheck(torch.ops.glassformer.most_probable.default, (torch.randn(3, 40), 4, 30), test_utils=tests)
    with pytest.raises(RuntimeError, match="5 of 4"):
        torch.ops.glassformer.most_probable(torch.randn(3, 40), 5, 4)
