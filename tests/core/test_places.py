from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import DataError
from glassformer.core.places import NO_TOKEN, Places

WIDTH = 6
LENGTHS = st.lists(st.integers(0, WIDTH), min_size=1, max_size=4)
DOCUMENTS = st.lists(st.lists(st.integers(1, 3), max_size=2), min_size=1, max_size=3)


def test_full_places_are_plain_and_shared_by_all_rows():
    places = Places.full(3)
    assert places.plain
    assert places.position.tolist() == [[0, 1, 2]]
    assert places.segment.tolist() == [[0, 0, 0]]
    assert places.length == 3


def test_o01_left_padded_row_counts_from_its_first_token():
    places = Places.from_lengths([2, 5, 1], side="left")
    assert places.position.tolist() == [[0, 0, 0, 0, 1], [0, 1, 2, 3, 4], [0, 0, 0, 0, 0]]
    assert places.segment.tolist() == [[-1, -1, -1, 0, 0], [0, 0, 0, 0, 0], [-1, -1, -1, -1, 0]]
    assert not places.plain


def test_rows_of_one_text_in_order_are_known_to_be_that():
    keep = torch.tensor([[True, False, True]])
    single = [
        Places.full(3, begin=2),
        Places.from_lengths([2, 3], side="left", start=[4, 0]),
        Places.from_keep(keep),
        Places.packed([[3], [2], []]),
    ]
    assert all(places.single and places.to("cpu").single for places in single)
    assert not Places.packed([[2, 1], [3]]).single
    assert not Places(keep.long(), keep.long()).single, "nobody says so"
    assert not Places.full(3).side_by_side(2).single


def test_from_lengths_goes_on_from_a_start():
    places = Places.from_lengths([1, 2, 0], start=[4, 0, 7])
    assert places.position.tolist() == [[4, 0], [0, 1], [0, 0]]
    assert places.is_token.tolist() == [[True, False], [True, True], [False, False]]


def test_start_at_zero_is_no_start():
    assert Places.from_lengths([2, 2], start=[0, 0]).plain
    assert not Places.from_lengths([2, 2], start=[0, 1]).plain


@given(lengths=LENGTHS, side=st.sampled_from(["left", "right"]), start=st.integers(0, 3))
def test_from_lengths_marks_and_counts_exactly_the_tokens(lengths, side, start):
    places = Places.from_lengths(lengths, WIDTH, side=side, start=[start] * len(lengths) if start else None)
    for row, length in enumerate(lengths):
        position = places.position.expand(len(lengths), -1)[row].tolist()
        segment = places.segment.expand(len(lengths), -1)[row].tolist()
        empty = [0] * (WIDTH - length)
        counted = list(range(start, start + length))
        assert position == (counted + empty if side == "right" else empty + counted)
        marked, none = [0] * length, [NO_TOKEN] * (WIDTH - length)
        assert segment == (marked + none if side == "right" else none + marked)


@given(lengths=LENGTHS, width=st.integers(0, WIDTH))
def test_places_are_plain_only_where_every_slot_is_a_token_of_one_segment(lengths, width):
    if max(lengths) > width:
        with pytest.raises(DataError, match="outside"):
            Places.from_lengths(lengths, width)
        return
    places = Places.from_lengths(lengths, width)
    assert places.plain == all(length == width for length in lengths)
    one_document = Places.packed([[length] for length in lengths], width)
    assert one_document.plain == places.plain
    assert torch.equal(one_document.position, places.position)


@given(documents=DOCUMENTS)
def test_packed_places_count_every_document_from_zero(documents):
    places = Places.packed(documents, WIDTH)
    assert not places.plain or documents == [[WIDTH]]
    for row, lengths in enumerate(documents):
        position = [p for length in lengths for p in range(length)]
        segment = [i for i, length in enumerate(lengths) for _ in range(length)]
        rest = WIDTH - len(position)
        assert places.position[row].tolist() == position + [0] * rest
        assert places.segment[row].tolist() == segment + [NO_TOKEN] * rest


@given(keep=st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=3))
def test_from_keep_ranks_the_tokens_of_a_row(keep):
    places = Places.from_keep(torch.tensor(keep))
    for row, kept in enumerate(keep):
        rank = 0
        for slot, token in enumerate(kept):
            assert int(places.segment[row, slot]) == (0 if token else NO_TOKEN)
            assert int(places.position[row, slot]) == (rank if token else 0)
            rank += token


def test_from_keep_agrees_with_from_lengths():
    for side in ("left", "right"):
        by_length = Places.from_lengths([1, 3, 0], 4, side=side)
        by_mask = Places.from_keep(by_length.is_token)
        assert torch.equal(by_length.position, by_mask.position)
        assert torch.equal(by_length.segment, by_mask.segment)


def test_rows_side_by_side_keep_their_places():
    places = Places.from_lengths([2, 1, 0, 2], 2, start=[3, 0, 0, 7])
    one = places.side_by_side(2)
    assert one.position.tolist() == [[3, 4, 0, 0], [0, 0, 7, 8]]
    assert one.segment.tolist() == [[0, 0, 0, NO_TOKEN], [NO_TOKEN, NO_TOKEN, 0, 0]]
    assert (one.plain, one.highest) == (False, places.highest)
    assert places.side_by_side(1) is places
    shared = Places.full(2).side_by_side(3)
    assert shared.position.tolist() == [[0, 1, 0, 1, 0, 1]]
    assert not shared.plain


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Places.from_lengths([1, 4], 3), r"row 1 has length 4, outside 0\.\.3"),
        (lambda: Places.from_lengths([-1], 3), r"row 0 has length -1"),
        (lambda: Places.from_lengths([1], side="top"), "'top'.*'right' or the 'left'"),
        (lambda: Places.from_lengths([1, 2], start=[0]), "start has 1 positions for 2 rows"),
        (lambda: Places.packed([[2, 2]], 3), "row 0 holds 4 tokens, more than its width 3"),
        (lambda: Places.from_keep(torch.ones(2, 3)), r"float32 and shape \(2, 3\).*bool"),
        (lambda: Places.from_keep(torch.ones(3, dtype=torch.bool)), r"shape \(3,\)"),
    ],
)
def test_places_that_cannot_be_are_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()


def test_places_of_nothing_are_empty():
    assert Places.from_lengths([]).length == 0
    assert Places.packed([]).length == 0


def test_places_move_to_another_device():
    moved = Places.full(3).to("meta")
    assert moved.plain
    assert moved.position.device.type == moved.segment.device.type == "meta"


def test_rows_that_go_on_in_step_share_their_places_and_say_where_they_begin():
    places = Places.from_lengths([2, 2, 2], start=[5, 5, 5])
    assert places.position.tolist() == [[5, 6]]
    assert (places.plain, places.begin, places.highest) == (False, 5, 6)
    assert Places.from_lengths([2, 2]).begin == Places.full(2).begin == 0
    assert places.to("cpu").begin == 5


@pytest.mark.parametrize(("lengths", "start"), [([2, 1], [5, 5]), ([2, 2], [5, 4]), ([2, 1], None)])
def test_rows_that_differ_have_no_common_beginning(lengths, start):
    assert Places.from_lengths(lengths, 2, start=start).begin is None
