from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError
from glassformer.core.position_config import LinearScaling, Llama3Scaling, RotaryConfig, YarnScaling
from glassformer.parts.rotary import attention_factor, rotary_angles, rotate, speeds

HALVES, INTERLEAVED = RotaryConfig(), RotaryConfig(pairing="interleaved")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (HALVES, [-1.984111, 1.959901, 2.462378, 4.019800]),
        (INTERLEAVED, [-1.142640, 1.922076, 2.959851, 4.029800]),
    ],
)
def test_o20_rotation_turns_the_pairs_its_layout_names(config, expected):
    """x = [1, 2, 3, 4] at position 1, angles 1 and 0.01; halves pair (1, 3) and (2, 4), interleaved (1, 2), (3, 4)."""
    angles = rotary_angles(torch.tensor([[1]]), 4, config)
    got = rotate(torch.tensor([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 1, 4), angles, config)
    assert got.flatten().tolist() == pytest.approx(expected, abs=1e-5)


def test_o20_layouts_agree_once_the_weights_are_permuted():
    """Interleaved dimension 2i is dimension i of halves, 2i + 1 is i + d/2; applied to q and k, scores agree."""
    T, d = 6, 8
    x = torch.randn(1, 1, T, 5, dtype=torch.float64)
    w_q, w_k = torch.randn(2, 5, d, dtype=torch.float64)
    order = torch.arange(d).reshape(2, d // 2).T.flatten()  # 0, 4, 1, 5, ..
    positions = torch.arange(1, T + 1)[None]

    def scores(q, k, config):
        angles = rotary_angles(positions, d, config, dtype=torch.float64)
        return rotate(q, angles, config) @ rotate(k, angles, config).transpose(-2, -1)

    halves = scores(x @ w_q, x @ w_k, HALVES)
    torch.testing.assert_close(scores(x @ w_q[:, order], x @ w_k[:, order], INTERLEAVED), halves)
    assert not torch.allclose(scores(x @ w_q, x @ w_k, INTERLEAVED), halves, atol=1e-2)


@given(p=st.integers(0, 500), k=st.integers(0, 500), shift=st.integers(0, 500), halves=st.booleans())
def test_rotated_products_depend_on_the_distance_only(p, k, shift, halves):
    config = HALVES if halves else INTERLEAVED
    generator = torch.Generator().manual_seed(0)
    q, key = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64, generator=generator)

    def product(at_q: int, at_k: int) -> float:
        turned = [
            rotate(x, rotary_angles(torch.tensor([[at]]), 8, config, dtype=torch.float64), config)
            for x, at in ((q, at_q), (key, at_k))
        ]
        return float((turned[0] * turned[1]).sum())

    assert product(p, k) == pytest.approx(product(p + shift, k + shift), abs=1e-9)


def test_rotation_keeps_lengths_and_type():
    x = torch.randn(2, 3, 4, 6)
    angles = rotary_angles(torch.arange(4)[None], 6, HALVES)
    torch.testing.assert_close(rotate(x, angles, HALVES).norm(dim=-1), x.norm(dim=-1))
    assert rotate(x.bfloat16(), angles, HALVES).dtype == torch.bfloat16


def test_a_share_of_a_head_turns_as_a_head_of_that_width():
    """The first 4 of 10 numbers turn by the angles of a head of 4; the other 6 are untouched."""
    share = RotaryConfig(share=0.4)
    x = torch.randn(2, 3, 5, 10)
    positions = torch.arange(5)[None]
    got = rotate(x, rotary_angles(positions, 10, share), share)
    assert torch.equal(got[..., 4:], x[..., 4:])
    expected = rotate(x[..., :4], rotary_angles(positions, 4, HALVES), HALVES)
    torch.testing.assert_close(got[..., :4], expected)


def test_o32_linear_scaling_by_four_puts_position_eight_where_two_was():
    scaled = RotaryConfig(scaling=LinearScaling(factor=4.0))
    for found, expected in zip(
        rotary_angles(torch.tensor([[8]]), 64, scaled), rotary_angles(torch.tensor([[2]]), 64, HALVES), strict=True
    ):
        torch.testing.assert_close(found, expected, atol=1e-7, rtol=1e-6)


def test_o32_llama3_scaling_keeps_fast_pairs_slows_slow_ones_and_blends_between():
    """Pair i turns by 500000^(-i/64) a position, in 8192 positions 4.2 times for i = 28 (kept), 2.8 times for i = 30
    (blended), 0.997 times for i = 35 (divided by 8)."""
    plain = speeds(RotaryConfig(theta=500_000.0), 128, dtype=torch.float64)
    scaling = Llama3Scaling(factor=8.0, low=1.0, high=4.0, original_positions=8192)
    got = speeds(RotaryConfig(theta=500_000.0, scaling=scaling), 128, dtype=torch.float64)
    expected = [1.0, 3.211446e-03, 1.371894e-03, 9.556212e-05]
    assert got[[0, 28, 30, 35]].tolist() == pytest.approx(expected, rel=1e-6)
    assert got[28] == plain[28]
    assert float(got[35]) == pytest.approx(float(plain[35]) / 8, rel=1e-15)
    assert plain[30] / 8 < got[30] < plain[30]


def test_o32_yarn_makes_scores_larger_unless_told_otherwise():
    """0.1 ln 4 + 1 = 1.138629; cosines and sines carry it."""
    for factor, expected in ((None, 1.138629), (1.0, 1.0), (0.5, 0.5)):
        scaling = YarnScaling(factor=4.0, original_positions=32, attention_factor=factor)
        config = RotaryConfig(scaling=scaling)
        assert attention_factor(config) == pytest.approx(expected, abs=1e-6)
        cos, sin = rotary_angles(torch.arange(50)[None], 16, config, dtype=torch.float64)
        torch.testing.assert_close(cos**2 + sin**2, torch.full_like(cos, attention_factor(config) ** 2))


def test_yarn_takes_the_factor_from_two_scales_where_both_are_given():
    def factor(**scales: float) -> float:
        return attention_factor(RotaryConfig(scaling=YarnScaling(factor=4.0, original_positions=32, **scales)))

    grown = 0.1 * math.log(4.0)
    assert factor(mscale=0.7, mscale_all=0.5) == pytest.approx((0.7 * grown + 1) / (0.5 * grown + 1))
    assert factor(mscale=1.0, mscale_all=1.0) == 1.0
    assert factor(mscale=0.7) == factor(mscale_all=0.5) == pytest.approx(grown + 1)
    assert attention_factor(RotaryConfig(scaling=YarnScaling(factor=0.5, original_positions=32))) == 1.0


@pytest.mark.parametrize(
    ("truncate", "begin", "end"), [(True, 1.0, 6.0), (False, 1.5, 5.0)], ids=["whole pairs", "between pairs"]
)
def test_yarn_blends_along_the_pairs(truncate, begin, end):
    """With base 16 and 16 numbers pair i turns n = L / (2 pi 16^(i/8)) times in L positions: i = 8 log16(L / 2 pi n);
    for L = 2 pi 64 that is 1.5 where n = 64 / 16^(1.5/8), and 5 where n = 64 / 16^(5/8)."""
    fast, slow = 64 / 16 ** (1.5 / 8), 64 / 16 ** (5 / 8)
    if truncate:
        slow *= 16 ** (-0.5 / 8)  # 5.5, which ends with pair 6
    length = 100_000  # so many that rounding L = 2 pi 64 k to a whole number does not show
    k = length / (2 * math.pi * 64)
    scaling = YarnScaling(factor=4.0, original_positions=length, fast=fast * k, slow=slow * k, truncate=truncate)
    plain = speeds(RotaryConfig(theta=16.0), 16, dtype=torch.float64)
    got = speeds(RotaryConfig(theta=16.0, scaling=scaling), 16, dtype=torch.float64)
    for pair in range(8):
        slowed = min(max((pair - begin) / (end - begin), 0.0), 1.0)
        expected = float(plain[pair]) * ((1 - slowed) + slowed / 4)
        assert float(got[pair]) == pytest.approx(expected, rel=1e-9), pair


@pytest.mark.parametrize(
    "scaling",
    [
        LinearScaling(factor=1.0),
        Llama3Scaling(factor=1.0, original_positions=64),
        YarnScaling(factor=1.0, original_positions=64),
    ],
)
def test_scaling_by_one_changes_nothing(scaling):
    config = RotaryConfig(scaling=scaling)
    positions = torch.arange(9)[None]
    for found, expected in zip(rotary_angles(positions, 16, config), rotary_angles(positions, 16, HALVES), strict=True):
        torch.testing.assert_close(found, expected)


def test_o32_unknown_kind_of_scaling_is_an_error():
    for kind in ("dynamic", "longrope", "default"):
        with pytest.raises(ConfigError, match="kind"):
            RotaryConfig.parse({"scaling": {"kind": kind, "factor": 2.0}})
    with pytest.raises(ConfigError, match=r"low is 4\.0 and high 4\.0"):
        Llama3Scaling(factor=8.0, low=4.0, high=4.0, original_positions=8192)


def test_o32_scaling_keeps_all_its_settings_in_a_file():
    scaling = YarnScaling(
        factor=4.0, original_positions=32, fast=20.0, slow=2.0, attention_factor=0.9, mscale=0.7, mscale_all=0.5,
        truncate=False,
    )  # fmt: skip
    for each in (
        scaling,
        Llama3Scaling(factor=8.0, low=2.0, high=5.0, original_positions=9),
        LinearScaling(factor=3.0),
    ):
        config = RotaryConfig(theta=50.0, share=0.5, pairing="interleaved", scaling=each)
        assert RotaryConfig.parse(config.model_dump()) == config
        assert RotaryConfig.model_validate_json(config.model_dump_json()) == config
