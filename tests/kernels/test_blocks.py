"""Gathered blocks are the equation under a pattern, forward and backward."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.core.call import Sight
from glassformer.core.errors import UnsupportedError
from glassformer.core.mask import Mask
from glassformer.core.pattern import Blocks
from glassformer.core.places import Places
from glassformer.kernels.attend import attend
from glassformer.kernels.blocks import groups_of
from glassformer.kernels.registry import choose_kernel

from .sparse import assert_compiled_equals_eager, assert_equals_reference, inputs

SIDES = pytest.mark.parametrize("causal", [True, False], ids=["causal", "two_sided"])
PATTERNS = {
    "own": Blocks(8, near=0),
    "near": Blocks(8, near=2),
    "first": Blocks(8, first=2),
    "every": Blocks(8, near=0, every=3),
    "random": Blocks(8, near=0, random=2),
    "bigbird": Blocks(8, near=1, first=1, random=2, seed=3),
    "all": Blocks(8, near=0, every=1),
}


@SIDES
@pytest.mark.parametrize("length", [1, 8, 15, 64, 75, 129])
@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=list(PATTERNS))
def test_blocks_equal_the_reference(pattern, length, causal):
    assert_equals_reference("blocks", Mask(causal, patterns=(pattern,)), length)


patterns = st.builds(
    Blocks,
    size=st.integers(1, 40),
    near=st.integers(0, 3),
    first=st.integers(0, 3),
    every=st.sampled_from([None, 1, 2, 5]),
    random=st.integers(0, 3),
    seed=st.integers(0, 99),
)


@SIDES
@settings(max_examples=25)
@given(
    pattern=patterns,
    length=st.integers(1, 120),
    kv_heads=st.sampled_from([1, 2, 4]),
    d_value=st.sampled_from([3, 8]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    soft_cap=st.sampled_from([None, 0.5]),
)
def test_blocks_equal_the_reference_whatever_the_shapes(pattern, length, kv_heads, d_value, dtype, soft_cap, causal):
    mask = Mask(causal, patterns=(pattern,))
    assert_equals_reference("blocks", mask, length, kv_heads, d_value, dtype, soft_cap)


@given(pattern=patterns, n_blocks=st.integers(1, 40), causal=st.booleans())
def test_lists_hold_what_the_pattern_shows_and_each_block_is_in_one_group(pattern, n_blocks, causal):
    found: dict[int, list[int]] = {}
    for rows, lists in groups_of(pattern, n_blocks, causal):
        each = len(lists) // len(rows)
        assert each * len(rows) == len(lists)
        for i, row in enumerate(rows):
            assert row not in found
            found[row] = list(lists[i * each : (i + 1) * each])
    places = Places.full(n_blocks)
    alone = Blocks(1, pattern.near, pattern.first, pattern.every, pattern.random, pattern.seed)
    dense = Mask(causal, patterns=(alone,)).dense(places, places)[0, 0]
    assert found == {row: dense[row].nonzero().flatten().tolist() for row in range(n_blocks)}


def test_groups_by_hand():
    """Five blocks, the first seen by all: by the length of their lists, those with the last block apart."""
    pattern = Blocks(near=1, first=1)
    assert groups_of(pattern, 5, True) == (
        ((0,), (0,)),
        ((1,), (0, 1)),
        ((2, 3), (0, 1, 2, 0, 2, 3)),
        ((4,), (0, 3, 4)),
    )
    assert groups_of(pattern, 5, False) == (
        ((1,), (0, 1, 2)),
        ((4,), (0, 3, 4)),
        ((2,), (0, 1, 2, 3)),
        ((3,), (0, 2, 3, 4)),
        ((0,), (0, 1, 2, 3, 4)),
    )


@SIDES
def test_what_is_seen_grows_as_the_length(causal):
    """Twice the text, twice the pairs of blocks, but for a few at the ends and what is drawn."""
    pattern = Blocks(near=1, first=1, random=2)
    pairs = [sum(len(lists) for _, lists in groups_of(pattern, n, causal)) for n in (500, 1000)]
    assert 1.95 < pairs[1] / pairs[0] < 2.05


@SIDES
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("soft_cap", [None, 5.0])
def test_o13_half_precision_equals_the_reference(causal, dtype, soft_cap):
    """The fused kernel rounds its weights before it mixes the values: one unit in the last place of values near 1."""
    q, k, v = inputs(75, dtype=dtype)
    mask, unit = Mask(causal, patterns=(PATTERNS["bigbird"],)), torch.finfo(dtype).eps
    got = attend(q, k, v, mask=mask, soft_cap=soft_cap, kernel="blocks").float()
    expected = attend(q, k, v, mask=mask, soft_cap=soft_cap, kernel="reference").float()
    torch.testing.assert_close(got, expected, atol=max(2e-3, unit), rtol=unit)


def test_o13_product_beyond_half_precision_stays_finite():
    """q.k = 8 * 300 * 300 = 720,000 > 65,504; equal scores average values of 1 and 3 in turn."""
    q = torch.full((1, 1, 32, 8), 300.0, dtype=torch.float16)
    v = torch.tensor([1.0, 3.0], dtype=torch.float16).repeat(16)[None, None, :, None]
    out = attend(q, q, v, mask=Mask(patterns=(Blocks(4, near=1, random=1),)), kernel="blocks")
    assert out[0, 0, :, 0].tolist() == [2.0] * 32


def test_o04_and_o15_padding_and_cached_queries_are_refused_by_name_and_right_by_choice():
    q, k, v = inputs(64)
    mask = Mask(causal=True, patterns=(PATTERNS["bigbird"],))
    whole = attend(q, k, v, mask=mask, kernel="blocks")
    with pytest.raises(UnsupportedError, match=r"kernel=blocks cannot do this: it is for whole rows.*kernel=auto"):
        attend(q[:, :, 20:], k, v, mask=mask, kernel="blocks")
    torch.testing.assert_close(attend(q[:, :, 20:], k, v, mask=mask), whole[:, :, 20:], atol=1e-10, rtol=1e-10)
    places = Places.from_lengths([64, 0])
    with pytest.raises(UnsupportedError, match="without a window, padding"):
        attend(q, k, v, mask=mask, queries=places, keys=places, kernel="blocks")
    out = attend(q, k, v, mask=mask, queries=places, keys=places)
    assert out[1].eq(0).all()
    torch.testing.assert_close(out[0], whole[0], atol=1e-10, rtol=1e-10)


def test_a_window_or_a_second_pattern_or_a_bias_is_refused_by_name_and_right_by_choice():
    q, k, v = inputs(64)
    near = Mask(causal=True, patterns=(Blocks(8),))
    bias = torch.randn(1, 4, 64, 64, dtype=torch.float64)
    for mask, added in (
        (near & Mask(window=9), {}),
        (near & Mask(patterns=(Blocks(4),)), {}),
        (Mask(causal=True), {}),
        (near, {"bias": bias}),
    ):
        with pytest.raises(UnsupportedError, match="kernel=blocks cannot do this"):
            attend(q, k, v, mask=mask, kernel="blocks", **added)
        expected = attend(q, k, v, mask=mask, kernel="reference", **added)
        torch.testing.assert_close(attend(q, k, v, mask=mask, **added), expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(
    ("pattern", "length", "name"),
    [
        (Blocks(64), 1024, "blocks"),
        (Blocks(64), 256, "sdpa"),
        (Blocks(32), 256, "sdpa"),
        (Blocks(32), 512, "blocks"),
        (Blocks(64, every=1), 4096, "sdpa"),
        (Blocks(64, every=8), 4096, "blocks"),
        (Blocks(4), 1024, "sdpa"),
        (Blocks(16), 1024, "blocks"),
    ],
)
def test_auto_takes_it_where_most_blocks_are_hidden(pattern, length, name):
    places = Places.full(length)
    assert choose_kernel("auto", Sight.of(Mask(patterns=(pattern,)), places, places)).name == name


@SIDES
@pytest.mark.parametrize("soft_cap", [None, 1.0])
def test_dropout_has_the_right_mean_and_share(causal, soft_cap):
    """Equal weights over the own block of 8 with value 1, and over all that stands before in it, if causal."""
    size = 8
    x, v = torch.zeros(20, 1, 256, 4), torch.ones(20, 1, 256, 1)
    mask = Mask(causal, patterns=(Blocks(size, near=0),))
    out = attend(x, x, v, mask=mask, dropout=0.25, soft_cap=soft_cap, kernel="blocks")[:, :, size - 1 :: size]
    kept = out * size * 0.75
    torch.testing.assert_close(kept, kept.round(), atol=1e-4, rtol=0)
    assert float(out.mean()) == pytest.approx(1.0, abs=0.05)
    assert float(out.var()) == pytest.approx(0.25 / 0.75 / size, rel=0.2)


@SIDES
def test_nothing_as_large_as_a_square_is_made(causal):
    """What autograd keeps of 2,048 tokens is a few times q, k and v, and no 2,048 x 2,048 scores."""
    length = 2048
    leaves = [x.requires_grad_() for x in inputs(length, dtype=torch.float32)]
    sizes: list[int] = []
    mask = Mask(causal, patterns=(Blocks(64, near=1, first=1, random=1),))
    with torch.autograd.graph.saved_tensors_hooks(lambda x: sizes.append(x.numel()) or x, lambda x: x):
        attend(*leaves, mask=mask, kernel="blocks").sum().backward()
    assert max(sizes) <= 6 * leaves[1].numel()
    assert max(sizes) < length * length


@pytest.mark.parametrize(("causal", "soft_cap"), [(True, None), (False, 1.0)])
def test_compiled_equals_eager(causal, soft_cap):
    assert_compiled_equals_eager("blocks", Mask(causal, patterns=(PATTERNS["bigbird"],)), soft_cap)
