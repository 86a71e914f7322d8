import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.places import IGNORED
from glassformer.data.packing import PackedSource, pack

X, Y = [5, 6, 7], [8, 9]


def test_pack_takes_the_first_row_with_room() -> None:
    documents = [[0] * length for length in (4, 3, 2, 1, 5, 1)]
    assert pack(documents, width=5) == [[0, 3], [1, 2], [4], [5]]


@given(st.lists(st.integers(1, 8), max_size=40), st.integers(8, 20))
@settings(max_examples=100, deadline=None)
def test_pack_loses_nothing_and_wastes_no_row(lengths: list[int], width: int) -> None:
    rows = pack([[0] * length for length in lengths], width)
    assert sorted(index for row in rows for index in row) == list(range(len(lengths)))
    filled = [sum(lengths[index] for index in row) for row in rows]
    assert all(1 <= total <= width for total in filled)
    assert sum(2 * total <= width for total in filled) <= 1  # two such rows would have become one


def test_o34_documents_of_a_row_stand_and_predict_alone() -> None:
    batch = PackedSource([X, Y], width=6).batch([0], epoch=0)
    assert batch.inputs.tolist() == [[5, 6, 7, 8, 9]]
    assert batch.documents == ((3, 2),)
    assert batch.places.position.tolist() == [[0, 1, 2, 0, 1]]
    assert batch.places.segment.tolist() == [[0, 0, 0, 1, 1]]
    assert batch.labels.tolist() == [[6, 7, IGNORED, 9, IGNORED]]
    assert batch.lengths == (5,)


def test_packed_source_pads_short_rows() -> None:
    batch = PackedSource([X, Y, [10]], width=3, pad=4).batch([1, 0], epoch=0)
    assert batch.inputs.tolist() == [[8, 9, 10], [5, 6, 7]]
    assert batch.documents == ((2, 1), (3,))
    batch = PackedSource([X, Y], width=3, pad=4).batch([1, 0], epoch=0)
    assert batch.inputs.tolist() == [[8, 9, 4], [5, 6, 7]]
    assert batch.labels.tolist() == [[9, IGNORED, IGNORED], [6, 7, IGNORED]]
    assert batch.places.segment.tolist() == [[0, 0, -1], [0, 0, 0]]
    assert batch.items == (1, 0)


def test_packed_source_begins_and_ends_each_document() -> None:
    batch = PackedSource([X, Y], width=7, bos=1, eos=2).batch([0], epoch=0)
    assert batch.inputs.tolist() == [[1, 5, 6, 7, 1, 8, 9]]
    assert batch.labels.tolist() == [[5, 6, 7, 2, 8, 9, 2]]
    assert batch.documents == ((4, 3),)


def test_o02_a_pad_that_is_the_eos_hides_no_target() -> None:
    batch = PackedSource([[5, 6, 2], [7, 2]], width=3, pad=2).batch([0, 1], epoch=0)
    assert batch.inputs.tolist() == [[5, 6, 2], [7, 2, 2]]
    assert batch.labels.tolist() == [[6, 2, IGNORED], [2, IGNORED, IGNORED]]
    assert int((batch.labels != IGNORED).sum()) == 3


@given(st.lists(st.lists(st.integers(3, 9), min_size=1, max_size=6), min_size=1, max_size=20), st.booleans())
@settings(max_examples=60, deadline=None)
def test_packed_source_keeps_every_token_and_target(documents: list[list[int]], ends: bool) -> None:
    source = PackedSource(documents, width=8, bos=1, eos=2 if ends else None)
    seen = []
    for item in range(len(source)):
        batch = source.batch([item], epoch=0)
        assert batch.documents is not None
        begin = 0
        for length in batch.documents[0]:
            inputs = batch.inputs[0, begin : begin + length].tolist()
            labels = batch.labels[0, begin : begin + length].tolist()
            assert inputs[0] == 1
            assert labels == [*inputs[1:], 2 if ends else IGNORED]
            seen.append(inputs[1:])
            begin += length
        assert begin == batch.lengths[0] <= source.longest[1] <= 8
    assert sorted(seen) == sorted(documents)


def test_packing_refuses_what_does_not_fit() -> None:
    with pytest.raises(DataError, match=r"document 1 has 3 tokens, outside 1\.\.2"):
        pack([Y, X], width=2)
    with pytest.raises(DataError, match=r"document 0 has 4 tokens, outside 1\.\.3"):
        PackedSource([X], width=3, bos=1)
    with pytest.raises(DataError, match="document 1 has 0 tokens"):
        pack([X, []], width=4)
    with pytest.raises(ConfigError, match="width is 0"):
        pack([X], width=0)
    with pytest.raises(DataError, match="0 documents"):
        PackedSource([], width=4)


def test_packed_source_lengths_are_those_of_its_rows() -> None:
    source = PackedSource([X, Y, [10]], width=5, bos=1)
    assert source.lengths == [(0, 4), (0, 5)]
    assert source.batch([0, 1], epoch=0).lengths == (4, 5)
    assert max(source.lengths) == source.longest
