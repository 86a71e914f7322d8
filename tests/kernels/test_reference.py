"""The equation itself, against numbers worked out without torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glassformer.core.call import Sight
from glassformer.core.mask import Mask
from glassformer.core.places import Places
from glassformer.kernels.reference import ReferenceKernel, attention_scores, attention_weights, mix

WORDS = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 2.0, 0.0, 2.0], [1.0, 1.0, 1.0, 1.0]])
W_Q = np.array([[1.0, 0, 1, 0], [1, 0, 0, 1], [0, 0, 1, 1], [0, 1, 1, 0]])
W_K = np.array([[0.0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 1], [1, 1, 0, 0]])
W_V = np.array([[0.0, 2, 0, 1], [0, 3, 0, 1], [1, 0, 3, 0], [1, 1, 0, 2]])


def tensor(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(values)[None, None]


def plain(queries: int, keys: int, mask: Mask | None = None) -> Sight:
    return Sight.of(mask or Mask(), Places.full(queries), Places.full(keys))


def test_three_words_of_size_four_step_by_step():
    """Scores, weights and values of three words, each step by numpy."""
    q, k, v = WORDS @ W_Q, WORDS @ W_K, WORDS @ W_V
    assert q.tolist() == [[1, 0, 2, 1], [2, 2, 2, 2], [2, 1, 3, 2]]
    scores = q @ k.T / np.sqrt(4)
    exp = np.exp(scores - scores.max(-1, keepdims=True))
    weights = exp / exp.sum(-1, keepdims=True)

    got = attention_scores(tensor(q), tensor(k), scale=0.5)
    np.testing.assert_allclose(got[0, 0], scores, rtol=1e-12)
    got = attention_weights(got, plain(3, 3))
    np.testing.assert_allclose(got[0, 0], weights, rtol=1e-12)
    np.testing.assert_allclose(mix(got, tensor(v))[0, 0], weights @ v, rtol=1e-12)
    whole = ReferenceKernel().attend(tensor(q), tensor(k), tensor(v), plain(3, 3), scale=0.5)
    np.testing.assert_allclose(whole[0, 0], weights @ v, rtol=1e-12)


def test_query_head_asks_the_key_head_of_its_group():
    """Four query heads, two key heads: heads 0 and 1 ask the first, 2 and 3 the second."""
    q = torch.ones(1, 4, 1, 2)
    k = torch.tensor([[1.0, 0.0], [0.0, 10.0]]).reshape(1, 2, 1, 2)
    assert attention_scores(q, k)[0, :, 0, 0].tolist() == [1.0, 1.0, 10.0, 10.0]
    v = torch.tensor([5.0, 7.0]).reshape(1, 2, 1, 1)
    assert mix(torch.ones(1, 4, 1, 1), v)[0, :, 0, 0].tolist() == [5.0, 5.0, 7.0, 7.0]


def test_soft_cap_and_bias_are_applied_in_that_order():
    """cap(s) = c tanh(s / c), then the bias: 2 tanh(6/2) + 1 = 2.9901."""
    q, k = torch.tensor([[[[6.0]]]]), torch.ones(1, 1, 1, 1)
    score = attention_scores(q, k, soft_cap=2.0, bias=torch.ones(1, 1, 1, 1))
    assert float(score) == pytest.approx(2 * np.tanh(3.0) + 1, rel=1e-6)


def test_weights_of_hidden_keys_are_exactly_zero_and_the_rest_sums_to_one():
    weights = attention_weights(torch.randn(2, 3, 4, 4) * 50, plain(4, 4, Mask(causal=True)))
    assert weights.triu(1).eq(0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 4))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("raw", [-20.0, 60.0])
def test_o13_half_precision_needs_no_magic_number(dtype, raw):
    """Key 0 is hidden; in the first row, of causal with left padding, every key is."""
    q = torch.full((1, 1, 2, 1), raw, dtype=dtype)
    k, v = torch.ones(1, 1, 2, 1, dtype=dtype), torch.tensor([[[[3.0], [5.0]]]], dtype=dtype)
    places = Places.from_lengths([1], 2, side="left")
    sight = Sight.of(Mask(causal=True), places, places)
    weights = attention_weights(attention_scores(q, k), sight)
    assert weights[0, 0].tolist() == [[0.0, 0.0], [0.0, 1.0]]
    assert ReferenceKernel().attend(q, k, v, sight)[0, 0, :, 0].tolist() == [0.0, 5.0]


@pytest.mark.parametrize("kernel", ["reference", "sdpa"])
def test_o13_product_beyond_half_precision_stays_finite(kernel):
    """q.k = 4 * 300 * 300 = 360,000 > 65,504: the scores are float32, and equal ones average."""
    from glassformer.kernels.attend import attend

    q = torch.full((1, 1, 2, 4), 300.0, dtype=torch.float16)
    v = torch.tensor([[[[1.0], [3.0]]]], dtype=torch.float16)
    assert attend(q, q, v, kernel=kernel)[0, 0, :, 0].tolist() == [2.0, 2.0]


def test_o13_half_precision_agrees_with_float32():
    q, k, v = (torch.randn(2, 2, 5, 8) for _ in range(3))
    sight = plain(5, 5, Mask(causal=True))
    expected = ReferenceKernel().attend(q, k, v, sight, scale=8**-0.5)
    for dtype in (torch.float16, torch.bfloat16):
        rounded = [x.to(dtype) for x in (q, k, v)]
        exact = ReferenceKernel().attend(*(x.float() for x in rounded), sight, scale=8**-0.5)
        got = ReferenceKernel().attend(*rounded, sight, scale=8**-0.5)
        # Only the last rounding of the output separates them: half a unit in the last place.
        torch.testing.assert_close(got.float(), exact, atol=0, rtol=torch.finfo(dtype).eps)
    got = ReferenceKernel().attend(q.half(), k.half(), v.half(), sight, scale=8**-0.5)
    torch.testing.assert_close(got.float(), expected, atol=2e-3, rtol=0)


def test_o13_products_stay_exact_under_autocast():
    q, k, v = (torch.randn(1, 2, 4, 8) for _ in range(3))
    sight = plain(4, 4)
    expected = ReferenceKernel().attend(q, k, v, sight)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(ReferenceKernel().attend(q, k, v, sight), expected)


def test_dropout_keeps_the_mean_and_scales_what_is_left():
    """With equal weights 1/2, values 1 and p = 1/4 a kept weight becomes 2/3: sums are 0, 2/3 or 4/3, mean 1."""
    v = torch.ones(4000, 1, 2, 1)
    out = ReferenceKernel().attend(torch.zeros_like(v), torch.zeros_like(v), v, plain(2, 2), dropout=0.25)
    assert set(out.mul(3).round().flatten().tolist()) == {0.0, 2.0, 4.0}
    assert float(out.mean()) == pytest.approx(1.0, abs=0.02)
