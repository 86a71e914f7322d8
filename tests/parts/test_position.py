from __future__ import annotations

import math

import pytest
import torch

from glassformer.core.errors import DataError
from glassformer.core.places import Places
from glassformer.core.position_config import PositionConfig
from glassformer.parts.position import (
    Learned,
    Sinusoidal,
    build_positions,
    frequencies,
    sinusoid,
)


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


def test_learned_positions_begin_after_their_offset():
    """Two rows before that of position 0 are stored and never read: no number depends on them."""
    part = Learned(4, 3, offset=2)
    assert part.weight.shape == (6, 3)
    with torch.no_grad():
        part.weight.copy_(torch.arange(18.0).reshape(6, 3))
    got = part(Places.from_lengths([2, 4], side="left"))
    assert got[0, 2:, 0].tolist() == [6, 9]
    assert got[1, :, 0].tolist() == [6, 9, 12, 15]
    got.sum().backward()
    assert part.weight.grad[:2].eq(0).all()
    assert part.weight.grad[2:].ne(0).all()


def test_table_with_an_offset_has_places_for_max_positions(tiny):
    model = tiny(positions="learned", max_positions=4, position_offset=2)
    assert model.max_positions == 4
    assert model(torch.tensor([[5, 6, 7, 8]])).isfinite().all()
    with pytest.raises(DataError, match="5 tokens are more than the context of 4"):
        model(torch.tensor([[5, 6, 7, 8, 9]]))


@pytest.mark.parametrize("d", [4, 5, 8])
def test_halves_are_the_same_numbers_in_another_order(d):
    """All sines, of which an odd width has one more, then all cosines."""
    positions = torch.tensor([[0, 1, 7, 400]])
    interleaved = sinusoid(positions, d, dtype=torch.float64)
    halves = sinusoid(positions, d, layout="halves", dtype=torch.float64)
    assert torch.equal(halves, torch.cat((interleaved[..., 0::2], interleaved[..., 1::2]), dim=-1))


def test_o18_halves_of_an_odd_width_have_one_sine_more():
    got = sinusoid(torch.tensor([[1]]), 5, layout="halves")[0, 0].tolist()
    assert got == pytest.approx([0.841471, 0.0251162, 0.000630957, 0.540302, 0.9996845], rel=1e-5)


def test_positions_are_built_as_the_config_says():
    halves = build_positions(PositionConfig(kind="sinusoidal", layout="halves"), 4)
    assert torch.equal(halves(Places.full(3)), sinusoid(torch.arange(3)[None], 4, layout="halves"))
    assert build_positions(PositionConfig(kind="learned", max_positions=7, offset=2), 4).weight.shape == (9, 4)
    assert build_positions(PositionConfig(kind="none"), 4) is None
    assert isinstance(build_positions(PositionConfig(kind="sinusoidal"), 4), Sinusoidal)
    learned = build_positions(PositionConfig(kind="learned", max_positions=7), 4)
    assert isinstance(learned, Learned)
    assert learned.weight.shape == (7, 4)
