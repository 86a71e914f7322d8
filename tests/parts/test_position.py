from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.config import PositionConfig, RotaryConfig
from glassformer.core.places import Places
from glassformer.parts.position import (
    Learned,
    Sinusoidal,
    build_positions,
    frequencies,
    sinusoid,
)
from glassformer.parts.rotary import rotary_angles, rotate


def test_sinusoid_is_the_papers_formula():
    """PE(p, 2i) = sin(p 10000^(-2i/d)), PE(p, 2i+1) = cos of the same angle."""
    d = 6
    got = sinusoid(torch.tensor([[0, 1, 7]]), d, dtype=torch.float64)[0]
    for row, p in enumerate((0, 1, 7)):
        for i in range(d):
            angle = p / 10_000 ** (2 * (i // 2) / d)
            expected = math.sin(angle) if i % 2 == 0 else math.cos(angle)
            assert float(got[row, i]) == pytest.approx(expected, abs=1e-12)


def test_o18_sinusoid_of_an_odd_width_ends_with_a_sine():
    """sin and cos of 1, of 10000^(-2/5) = 0.0251189, and the sine of 10000^(-4/5) = 0.000630957."""
    got = sinusoid(torch.tensor([[1]]), 5)[0, 0].tolist()
    assert got == pytest.approx([0.841471, 0.540302, 0.0251162, 0.9996845, 0.000630957], rel=1e-5)


@pytest.mark.parametrize("d", [8, 64])
@pytest.mark.parametrize("k", [1, 5, 30])
def test_shift_of_a_sinusoid_is_one_linear_map(d, k):
    """PE(p + k) = M_k PE(p), where M_k turns every pair by k times its frequency, whatever p is.

    In float32 an angle of p + k = 129 is known to 129 * 2^-24 = 8e-6, and that is the whole error.
    """
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        turn = k * frequencies(d, 10_000.0, dtype=dtype)
        blocks = [torch.tensor([[c, s], [-s, c]], dtype=dtype) for c, s in zip(turn.cos(), turn.sin(), strict=True)]
        shift = torch.block_diag(*blocks)
        positions = torch.arange(100)[None]
        here, there = (sinusoid(p, d, dtype=dtype)[0] for p in (positions, positions + k))
        torch.testing.assert_close(here @ shift.T, there, atol=tolerance, rtol=0)


def test_no_linear_map_shifts_sines_and_cosines_of_different_frequencies():
    """The formula read with exponent i/d for every column, as some notes have it, has no such map."""
    p = torch.arange(200, dtype=torch.float64)[:, None]
    columns = torch.arange(8, dtype=torch.float64)
    angle = p * 10_000 ** (-columns / 8)
    mixed = torch.where(columns % 2 == 0, angle.sin(), angle.cos())
    fitted = torch.linalg.lstsq(mixed[:-1], mixed[1:]).solution
    assert float((mixed[:-1] @ fitted - mixed[1:]).abs().max()) > 0.1
    right = sinusoid(torch.arange(200)[None], 8, dtype=torch.float64)[0]
    fitted = torch.linalg.lstsq(right[:-1], right[1:]).solution
    assert float((right[:-1] @ fitted - right[1:]).abs().max()) < 1e-9


def test_sinusoidal_part_has_no_limit_and_keeps_the_streams_type():
    places = Places.from_lengths([1], start=[1_000_000])
    part = Sinusoidal(4)
    assert part(places).isfinite().all()
    for dtype in (torch.float64, torch.bfloat16):
        assert part(places, dtype).dtype == dtype
    exact = sinusoid(places.position, 4, dtype=torch.float64)
    assert torch.equal(part(places, torch.float64), exact)


def test_learned_positions_are_rows_of_a_table():
    part = Learned(5, 3)
    with torch.no_grad():
        part.weight.copy_(torch.arange(15.0).reshape(5, 3))
    got = part(Places.from_lengths([2, 4], side="left"))
    assert got[0, 2:].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert got[1, :, 0].tolist() == [0, 3, 6, 9]
    assert part(Places.full(2), torch.float64).dtype == torch.float64


def test_positions_are_built_as_the_config_says():
    assert build_positions(PositionConfig(kind="none"), 4) is None
    assert isinstance(build_positions(PositionConfig(kind="sinusoidal"), 4), Sinusoidal)
    learned = build_positions(PositionConfig(kind="learned", max_positions=7), 4)
    assert isinstance(learned, Learned)
    assert learned.weight.shape == (7, 4)


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
