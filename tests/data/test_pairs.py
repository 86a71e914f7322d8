import pytest

from glassformer.core.errors import DataError
from glassformer.core.places import IGNORED
from glassformer.data.pairs import PairSource

PAIRS = [([5, 6, 7], [8]), ([9], [10, 11]), ([], [])]


def test_pair_source_adds_specials_and_shifts_labels() -> None:
    batch = PairSource(PAIRS, bos=1, eos=2, pad=3).batch([1, 0], epoch=0)
    assert batch.source is not None
    assert batch.source.tolist() == [[9, 2, 3, 3], [5, 6, 7, 2]]
    assert batch.source_lengths == (2, 4)
    assert batch.inputs.tolist() == [[1, 10, 11], [1, 8, 3]]
    assert batch.lengths == (3, 2)
    assert batch.labels.tolist() == [[10, 11, 2], [8, 2, IGNORED]]
    assert batch.items == (1, 0)


def test_pair_source_keeps_empty_sides() -> None:
    batch = PairSource(PAIRS, bos=1, eos=2, pad=None).batch([2, 1], epoch=0)
    assert batch.source is not None
    assert batch.source.tolist() == [[2, 0], [9, 2]]
    assert batch.inputs.tolist() == [[1, 0, 0], [1, 10, 11]]
    assert batch.labels.tolist() == [[2, IGNORED, IGNORED], [10, 11, 2]]


def test_o02_the_real_eos_is_a_target_also_where_it_is_the_pad() -> None:
    batch = PairSource([([4], [5, 6]), ([4], [7])], bos=1, eos=2, pad=2).batch([0, 1], epoch=0)
    assert batch.labels.tolist() == [[5, 6, 2], [7, 2, IGNORED]]
    assert batch.inputs.tolist() == [[1, 5, 6], [1, 7, 2]]
    assert batch.lengths == (3, 2)
    assert batch.places.segment.tolist() == [[0, 0, 0], [0, 0, -1]]


def test_pair_source_knows_its_longest_rows() -> None:
    source = PairSource(PAIRS, bos=1, eos=2, pad=0)
    assert len(source) == 3
    assert source.longest == (4, 3)
    assert source.lengths == [(4, 2), (2, 3), (1, 1)]


def test_pair_source_refuses_nothing() -> None:
    with pytest.raises(DataError, match="0 pairs"):
        PairSource([], bos=1, eos=2, pad=0)


def test_pair_source_lengths_are_those_of_its_batches() -> None:
    source = PairSource(PAIRS, bos=1, eos=2, pad=0)
    batch = source.batch(range(3), epoch=0)
    assert list(zip(batch.source_lengths, batch.lengths, strict=True)) == source.lengths
