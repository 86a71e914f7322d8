"""Attention in chunks is the equation under a window, forward and backward."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.core.call import Sight
from glassformer.core.errors import UnsupportedError
from glassformer.core.mask import Mask, Structure
from glassformer.core.places import Places
from glassformer.kernels.attend import attend
from glassformer.kernels.registry import choose_kernel
from glassformer.kernels.windowed import band, chunk_of

from .sparse import assert_compiled_equals_eager, assert_equals_reference, inputs

SIDES = pytest.mark.parametrize("causal", [True, False], ids=["causal", "two_sided"])


@SIDES
@pytest.mark.parametrize("window", [1, 2, 63, 64, 65, 66, 129, 260])
@pytest.mark.parametrize("length", [64, 65, 128, 200, 320, 321])
def test_windowed_equals_the_reference(length, window, causal):
    if window < length:
        assert_equals_reference("windowed", Mask(causal, window), length)


@SIDES
@settings(max_examples=25)
@given(
    length=st.integers(2, 300),
    share=st.floats(0.0, 1.0),
    kv_heads=st.sampled_from([1, 2, 4]),
    d_value=st.sampled_from([3, 8]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    soft_cap=st.sampled_from([None, 0.5]),
)
def test_windowed_equals_the_reference_whatever_the_shapes(length, share, kv_heads, d_value, dtype, soft_cap, causal):
    window = 1 + int(share * (length - 2))  # from 1 to one less than the length
    assert_equals_reference("windowed", Mask(causal, window), length, kv_heads, d_value, dtype, soft_cap)


@pytest.mark.parametrize(("window", "chunk"), [(1, 64), (256, 64), (257, 128), (512, 128), (513, 256), (4096, 1024)])
def test_chunk_is_a_quarter_of_the_window_or_more(window, chunk):
    assert chunk_of(window) == chunk


def test_band_by_hand():
    """Queries 2, 3 and 4 on keys 0 to 4 through a window of 2."""
    seen = band(Mask(causal=True, window=2), 3, 5, 2, torch.device("cpu"))
    assert seen.long().tolist() == [[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]
    seen = band(Mask(window=2), 3, 5, 2, torch.device("cpu"))
    assert seen.long().tolist() == [[0, 1, 1, 1, 0], [0, 0, 1, 1, 1], [0, 0, 0, 1, 1]]


def test_equal_scores_give_the_mean_of_the_neighbourhood():
    """A window of 3 over values 0, 1, 2 ..: the query at t > 1 gets t - 1, or t if it sees both sides."""
    length = 200
    x, v = torch.zeros(1, 1, length, 2), torch.arange(float(length))[None, None, :, None]
    out = attend(x, x, v, mask=Mask(causal=True, window=3), kernel="windowed")[0, 0, :, 0]
    torch.testing.assert_close(out, torch.tensor([0.0, 0.5, *range(1, length - 1)]))
    out = attend(x, x, v, mask=Mask(window=2), kernel="windowed")[0, 0, :, 0]
    torch.testing.assert_close(out, torch.tensor([0.5, *range(1, length - 1), length - 1.5]))


@SIDES
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("soft_cap", [None, 5.0])
def test_o13_half_precision_equals_the_reference(causal, dtype, soft_cap):
    """The fused kernel rounds its weights before it mixes the values: one unit in the last place of values near 1."""
    q, k, v = inputs(200, dtype=dtype)
    mask, unit = Mask(causal, 20), torch.finfo(dtype).eps
    got = attend(q, k, v, mask=mask, soft_cap=soft_cap, kernel="windowed").float()
    expected = attend(q, k, v, mask=mask, soft_cap=soft_cap, kernel="reference").float()
    torch.testing.assert_close(got, expected, atol=max(2e-3, unit), rtol=unit)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_o13_product_beyond_half_precision_stays_finite(dtype):
    """q.k = 8 * 300 * 300 = 720,000 > 65,504; equal scores average values of 1 and 3 in turn."""
    q = torch.full((1, 1, 130, 8), 300.0, dtype=dtype)
    v = torch.tensor([1.0, 3.0], dtype=dtype).repeat(65)[None, None, :, None]
    out = attend(q, q, v, mask=Mask(causal=True, window=2), kernel="windowed")
    assert out[0, 0, :, 0].tolist() == [1.0, *[2.0] * 129]


def test_o15_queries_that_are_the_last_of_more_keys_are_refused_by_name_and_right_by_choice():
    q, k, v = inputs(400)
    mask = Mask(causal=True, window=3)
    with pytest.raises(
        UnsupportedError, match=r"kernel=windowed cannot do this: it is for texts longer than the window.*kernel=auto"
    ):
        attend(q[:, :, 100:], k, v, mask=mask, kernel="windowed")
    whole = attend(q, k, v, mask=mask, kernel="windowed")
    torch.testing.assert_close(attend(q[:, :, 100:], k, v, mask=mask), whole[:, :, 100:], atol=1e-10, rtol=1e-10)


def test_o04_rows_with_padding_are_refused_by_name_and_right_by_choice():
    """An empty row among windows: the choice falls on a kernel that gives zeros."""
    q, k, v = inputs(400)
    places, mask = Places.from_lengths([400, 0]), Mask(causal=True, window=3)
    with pytest.raises(UnsupportedError, match="without padding"):
        attend(q, k, v, mask=mask, queries=places, keys=places, kernel="windowed")
    out = attend(q, k, v, mask=mask, queries=places, keys=places)
    assert out[1].eq(0).all()
    torch.testing.assert_close(out[0], attend(q, k, v, mask=mask, kernel="windowed")[0], atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(
    "mask",
    [Mask(), Mask(causal=True), Mask(window=9), Mask(window=2, allow=torch.ones(9, 9, dtype=torch.bool))],
    ids=["full", "causal", "window_over_all", "restricted"],
)
def test_masks_that_are_no_window_are_refused(mask):
    q, k, v = inputs(9)
    with pytest.raises(
        UnsupportedError, match=r"it is for (a window and no other restriction|texts longer than the window)"
    ):
        attend(q, k, v, mask=mask, kernel="windowed")


def test_window_over_all_is_none():
    plain = Places.full(9)
    assert Mask(window=9).structure(plain, plain) is Structure.FULL
    assert Mask(causal=True, window=9).structure(plain, plain) is Structure.CAUSAL
    assert Mask(causal=True, window=8).structure(plain, plain) is Structure.WINDOWED


def test_bias_is_refused_by_name_and_right_by_choice():
    q, k, v = inputs(400)
    bias, mask = torch.randn(1, 4, 400, 400, dtype=torch.float64), Mask(causal=True, window=3)
    with pytest.raises(UnsupportedError, match="it adds no bias"):
        attend(q, k, v, mask=mask, bias=bias, kernel="windowed")
    expected = attend(q, k, v, mask=mask, bias=bias, kernel="reference")
    torch.testing.assert_close(attend(q, k, v, mask=mask, bias=bias), expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(
    ("mask", "length", "name"),
    [
        (Mask(True, 128), 384, "windowed"),
        (Mask(True, 128), 383, "sdpa"),
        (Mask(False, 128), 765, "windowed"),
        (Mask(False, 128), 764, "sdpa"),
        (Mask(True, 1), 384, "windowed"),
        (Mask(True, 4096), 8192, "sdpa"),
        (Mask(True), 8192, "sdpa"),
    ],
)
def test_auto_takes_it_for_texts_that_are_much_longer_than_what_is_seen(mask, length, name):
    places = Places.full(length)
    assert choose_kernel("auto", Sight.of(mask, places, places)).name == name


@SIDES
@pytest.mark.parametrize("soft_cap", [None, 1.0])
def test_dropout_has_the_right_mean_and_share(causal, soft_cap):
    """Equal weights over a window with value 1: kept or dropped, the mean stays 1; each survives with 1 - p."""
    window, length = 8, 256
    x, v = torch.zeros(20, 1, length, 4), torch.ones(20, 1, length, 1)
    mask = Mask(causal, window)
    out = attend(x, x, v, mask=mask, dropout=0.25, soft_cap=soft_cap, kernel="windowed")[:, :, window:-window]
    seen = window if causal else 2 * window - 1
    kept = out * seen * 0.75
    torch.testing.assert_close(kept, kept.round(), atol=1e-4, rtol=0)
    assert float(out.mean()) == pytest.approx(1.0, abs=0.02)
    assert float(out.var()) == pytest.approx(0.25 / 0.75 / seen, rel=0.15)


@SIDES
def test_nothing_as_large_as_a_square_is_made(causal):
    """What autograd keeps of 2,048 tokens is a few times q, k and v, and no 2,048 x 2,048 scores."""
    length = 2048
    leaves = [x.requires_grad_() for x in inputs(length, dtype=torch.float32)]
    sizes: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: sizes.append(x.numel()) or x, lambda x: x):
        attend(*leaves, mask=Mask(causal, 16), kernel="windowed").sum().backward()
    assert max(sizes) <= 3 * 2 * leaves[0].numel()
    assert max(sizes) < length * length


@pytest.mark.parametrize(("causal", "soft_cap"), [(True, None), (False, 1.0)])
def test_compiled_equals_eager(causal, soft_cap):
    assert_compiled_equals_eager("windowed", Mask(causal, 20), soft_cap)
