from __future__ import annotations

import pytest
import torch
from torch import Tensor

from glassformer.core.places import Places
from glassformer.inspection.spot import Rows, Spot, find_spot

LENGTHS = [5, 4, 3, 2]
TOKENS = torch.arange(20).view(4, 5)


def rows(side: str = "right", stack: str = "", width: int = 5) -> Rows:
    tokens = torch.arange(4 * width).view(4, width)
    return Rows(stack, tokens, Places.from_lengths(LENGTHS, width, side=side))


def bad(*shape: int, at: tuple[int, ...]) -> Tensor:
    table = torch.zeros(shape, dtype=torch.bool)
    table[at] = True
    return table


@pytest.mark.parametrize(
    ("shape", "at"),
    [
        ((4, 5, 7), (2, 2, 6)),
        ((4, 3, 5, 7), (2, 1, 2, 6)),
        ((4, 5, 3, 7), (2, 2, 1, 6)),
        ((5, 4, 7), (2, 2, 6)),
        ((20, 7), (12, 6)),
    ],
)
def test_o14_row_and_token_are_read_from_every_layout(shape, at):
    spot = find_spot("decoder.blocks.0", bad(*shape, at=at), [rows()])
    assert spot == Spot(2, 1, "", 2, position=2, token=12, n_slots=1)


def test_o14_position_is_counted_from_the_first_token_under_left_padding():
    spot = find_spot("decoder", bad(4, 5, 7, at=(2, 3, 0)), [rows("left")])
    assert spot is not None
    assert (spot.row, spot.slot, spot.position, spot.token) == (2, 3, 1, 13)


def test_o14_token_comes_before_padding():
    both = bad(4, 5, 7, at=(1, 4, 0)) | bad(4, 5, 7, at=(2, 1, 0))
    spot = find_spot("decoder", both, [rows()])
    assert spot is not None
    assert (spot.row, spot.slot, spot.position, spot.n_rows) == (2, 1, 1, 1)
    padding = find_spot("decoder", bad(4, 5, 7, at=(1, 4, 0)), [rows()])
    assert padding == Spot(1, 1, "", 4, position=None, token=None, n_slots=1)


def test_o14_position_in_a_packed_row_is_that_in_its_document():
    packed = Rows("", TOKENS, Places.packed([[5], [2, 3], [1, 1], [5]], 5))
    spot = find_spot("decoder", bad(4, 5, 7, at=(1, 3, 0)), [packed])
    assert spot is not None
    assert (spot.row, spot.position, spot.document, spot.token) == (1, 1, 1, 8)


def test_o14_vectors_of_whole_rows_have_no_token():
    assert find_spot("head", bad(4, 9, at=(3, 2)), [rows()]) == Spot(3, 1)
    assert find_spot("head", bad(4, at=(3,)), [rows()]) == Spot(3, 1)


def test_o14_what_all_rows_share_is_bad_in_all():
    spot = find_spot("decoder.input.positions", bad(1, 5, 7, at=(0, 1, 2)), [rows()])
    assert spot is not None
    assert (spot.row, spot.slot, spot.n_rows) == (0, 1, 4)


@pytest.mark.parametrize("shape", [(3, 9), (7, 5, 9), ()])
def test_o14_other_shapes_are_of_no_row(shape):
    assert find_spot("decoder", torch.ones(shape, dtype=torch.bool), [rows()]) is None


@pytest.mark.parametrize(
    ("site", "stack"),
    [
        ("encoder.blocks.0.attention", "encoder"),
        ("decoder.blocks.0.attention", "decoder"),
        ("decoder.blocks.1.cross_attention.kv", "encoder"),
        ("decoder.blocks.1.cross_attention.q", "decoder"),
        ("inner.transformer.encoder.layers.0", "encoder"),
        ("inner.layers.0", None),
    ],
)
def test_o14_source_and_target_of_equal_length_are_told_apart_by_the_site(site, stack):
    spot = find_spot(site, bad(4, 5, 7, at=(2, 1, 0)), [rows("left", "encoder"), rows("right", "decoder")])
    assert spot is not None
    assert (spot.row, spot.slot, spot.stack) == (2, 1, stack)
    expected = {"encoder": None, "decoder": 1, None: None}[stack]  # slot 1 of row 2 is padding on the left
    assert spot.position == expected


def test_o14_source_and_target_of_other_lengths_are_told_apart_by_the_shape():
    both = [rows(stack="encoder", width=6), rows(stack="decoder")]
    for width, stack in ((6, "encoder"), (5, "decoder")):
        spot = find_spot("inner.layers.0", bad(4, width, 7, at=(2, 1, 0)), both)
        assert spot is not None
        assert (spot.stack, spot.position) == (stack, 1)
