from __future__ import annotations

import math

import pytest
import torch

from glassformer.core.errors import ConfigError
from glassformer.core.places import Places
from glassformer.core.position_config import AlibiConfig, RelativeBiasConfig
from glassformer.parts.position_bias import Alibi, RelativeBias, alibi_slopes, build_position_bias, relative_buckets

EIGHT = [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
DISTANCES = [0, -1, 1, -5, 5, -20, 20, -100, 100, -300, 300]
T5 = RelativeBiasConfig(n_buckets=32, max_distance=128)


# --- ALiBi


@pytest.mark.parametrize(
    ("n_heads", "expected"),
    [
        (8, EIGHT),
        (6, [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]),
        (12, [*EIGHT, 0.70710678, 0.35355339, 0.1767767, 0.08838835]),
        (1, [2.0**-8]),
        (2, [2.0**-4, 2.0**-8]),
    ],
)
def test_o38_slopes_are_those_that_models_were_trained_with(n_heads, expected):
    """2^(-8i/n); where n is no power of two, those of the next lower one and every second one of twice as many."""
    assert alibi_slopes(n_heads) == pytest.approx(expected, rel=1e-7)


def test_alibi_is_minus_the_slope_times_the_distance():
    """Two heads have slopes 1/16 and 1/256; queries at 3 and 4, keys at 0 to 4."""
    got = Alibi(2)(Places.full(2, begin=3), Places.full(5))
    distance = torch.tensor([[3.0, 2.0, 1.0, 0.0, 1.0], [4.0, 3.0, 2.0, 1.0, 0.0]])
    assert torch.equal(got, torch.stack((-distance / 16, -distance / 256))[None])


def test_alibi_counts_from_each_rows_first_token():
    got = Alibi(1)(Places.from_lengths([2, 3], side="left"), Places.from_lengths([2, 3], side="left"))
    assert got[0, 0, 1:, 1:].tolist() == [[0.0, -1 / 256], [-1 / 256, 0.0]]
    assert got[1, 0, 2].tolist() == [-2 / 256, -1 / 256, 0.0]


def test_alibi_of_far_positions_is_exact_in_small_types():
    """In bfloat16 300 is no number: the product is made in float32 and rounded once."""
    far = Places.from_lengths([1], start=[300])
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        got = Alibi(6)(far, Places.full(1), dtype)
        assert got.dtype == dtype
        assert torch.equal(got.flatten(), (-300 * torch.tensor(alibi_slopes(6))).to(dtype))


def test_alibi_has_nothing_to_learn():
    assert list(Alibi(4).parameters()) == []


# --- relative positions


@pytest.mark.parametrize(
    ("causal", "expected"),
    [
        (False, [0, 1, 17, 5, 21, 10, 26, 15, 31, 15, 31]),
        (True, [0, 1, 0, 5, 0, 17, 0, 30, 0, 31, 0]),
    ],
)
def test_o38_buckets_are_those_that_models_were_trained_with(causal, expected):
    """Distances are key - query. All 32 buckets look back in a causal stack, else 16 and 16."""
    assert relative_buckets(torch.tensor(DISTANCES), T5, causal=causal).tolist() == expected


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n_buckets", "max_distance"), [(32, 128), (8, 20), (4, 3), (6, 9), (64, 1000)])
def test_buckets_grow_with_the_distance_and_end_at_the_last(causal, n_buckets, max_distance):
    config = RelativeBiasConfig(n_buckets=n_buckets, max_distance=max_distance)
    back = relative_buckets(-torch.arange(3000), config, causal=causal)
    size = n_buckets if causal else n_buckets // 2
    assert back.diff().min() >= 0
    assert back.unique().tolist() == list(range(size))
    assert back[max_distance:].unique().tolist() == [size - 1]
    ahead = relative_buckets(torch.arange(1, 3000), config, causal=causal)
    assert torch.equal(ahead, torch.zeros_like(ahead) if causal else back[1:] + size)


def test_buckets_are_those_of_the_equation():
    """exact + floor(ln(n / exact) / ln(max / exact) (buckets - exact)), away from the borders, in plain Python."""
    for n in (17, 19, 25, 40, 47, 90, 110, 127):
        share = math.log(n / 16) / math.log(128 / 16)
        assert int(relative_buckets(torch.tensor(-n), T5, causal=True)) == 16 + math.floor(share * 16)


def test_relative_bias_is_the_buckets_row():
    """bias[h, t, s] = weight[bucket(s - t), h]; 4 buckets, all back: distances 0, 1, 2 to about 3, farther."""
    part = RelativeBias(RelativeBiasConfig(n_buckets=4, max_distance=4), 2, causal=True)
    with torch.no_grad():
        part.weight.copy_(torch.arange(8.0).reshape(4, 2))
    got = part(Places.full(1, begin=5), Places.full(6))
    assert got[0, 0, 0].tolist() == [6.0, 6.0, 6.0, 4.0, 2.0, 0.0]
    assert got[0, 1, 0].tolist() == [7.0, 7.0, 7.0, 5.0, 3.0, 1.0]
    assert [matrix.name for matrix in part.matrices()] == ["weight"]
    assert part(Places.full(2), Places.full(2), torch.bfloat16).dtype == torch.bfloat16


def test_relative_bias_reaches_every_bucket_with_its_gradient():
    part = RelativeBias(T5, 2, causal=False)
    torch.nn.init.normal_(part.weight)
    part(Places.full(200), Places.full(200)).sum().backward()
    assert part.weight.grad.ne(0).all(1).sum() == 31  # 0 ahead is no distance: bucket 16 stays empty


@pytest.mark.parametrize(("n_buckets", "max_distance"), [(7, 128), (32, 16), (2, 5)])
def test_impossible_buckets_are_refused(n_buckets, max_distance):
    with pytest.raises(ConfigError, match="n_buckets"):
        RelativeBiasConfig(n_buckets=n_buckets, max_distance=max_distance)


def test_bias_is_built_as_the_config_says():
    assert isinstance(build_position_bias(AlibiConfig(), 4, causal=True), Alibi)
    relative = build_position_bias(RelativeBiasConfig(n_buckets=6), 4, causal=True)
    assert isinstance(relative, RelativeBias)
    assert relative.weight.shape == (6, 4)
