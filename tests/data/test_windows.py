import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.places import IGNORED
from glassformer.data.windows import WindowSource, compact


def test_windows_labels_are_the_next_tokens() -> None:
    source = WindowSource(np.arange(100, 120), context=4, seed=0, shift=True)
    for epoch in range(8):
        batch = source.batch([2, 0], epoch)
        assert batch.inputs.dtype == batch.labels.dtype == torch.long
        assert torch.equal(batch.labels, batch.inputs + 1)
        assert batch.inputs[0, 0] - batch.inputs[1, 0] == 8
        assert batch.places.plain
        assert (batch.items, batch.lengths) == ((2, 0), (4, 4))


@given(st.integers(1, 9), st.integers(0, 40), st.integers(0, 20))
@settings(max_examples=60, deadline=None)
def test_windows_of_every_epoch_fit_and_do_not_overlap(context: int, more: int, epoch: int) -> None:
    ids = np.arange(2 * context + more)
    source = WindowSource(ids, context, seed=5, shift=True)
    labels = source.batch(range(len(source)), epoch).labels.flatten()
    assert len(labels) == len(source) * context
    assert torch.equal(labels, torch.arange(int(labels[0]), int(labels[0]) + len(labels)))
    assert 1 <= labels[0] <= context
    assert len(ids) - len(labels) < 2 * context  # one more window would not fit at every offset


def test_windows_of_epochs_begin_at_different_offsets() -> None:
    source = WindowSource(np.arange(1000), context=50, seed=0, shift=True)
    offsets = [int(source.batch([0], epoch).inputs[0, 0]) for epoch in range(400)]
    assert set(offsets) == set(range(50))
    assert offsets == [int(source.batch([0], epoch).inputs[0, 0]) for epoch in range(400)]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=50), st.integers(1, 60), st.integers(1, 7))
@settings(max_examples=100, deadline=None)
def test_evaluation_scores_every_token_once(text: list[int], context: int, size: int) -> None:
    source = WindowSource.evaluation(text, context, before=77)
    read, scored = [], []
    for start in range(0, len(source), size):
        items = range(start, min(start + size, len(source)))
        batch = source.batch(items, epoch=start)
        for row, length in enumerate(batch.lengths):
            read += batch.inputs[row, :length].tolist()
            scored += batch.labels[row, :length].tolist()
            assert (batch.labels[row, length:] == IGNORED).all()
        assert batch.inputs.shape[1] == max(batch.lengths) <= context
    assert scored == text
    assert read == [77, *text[:-1]]
    assert source.longest == (0, min(context, len(text)))


def test_evaluation_without_a_token_before_only_reads_the_first() -> None:
    source = WindowSource.evaluation(np.array([5, 6, 7, 8]), context=2)
    batch = source.batch(range(len(source)), epoch=0)
    assert batch.inputs.tolist() == [[5, 6], [7, 0]]
    assert batch.labels.tolist() == [[6, 7], [8, IGNORED]]
    assert batch.lengths == (2, 1)


def test_windows_refuse_too_short_a_text() -> None:
    with pytest.raises(DataError, match="has 7 tokens, but windows of context 4 need 8"):
        WindowSource(np.arange(7), context=4, seed=0, shift=True)
    assert len(WindowSource(np.arange(8), context=4, seed=0, shift=True)) == 1
    with pytest.raises(DataError, match=r"has 1 tokens, .* need 2"):
        WindowSource.evaluation(np.arange(1), context=4)
    with pytest.raises(DataError, match=r"has 1 tokens, .* need 2"):
        WindowSource.evaluation([], context=4, before=3)


def test_windows_refuse_impossible_numbers() -> None:
    with pytest.raises(ConfigError, match="context is 0"):
        WindowSource(np.arange(8), context=0, seed=0, shift=True)
    with pytest.raises(ConfigError, match="seed is -1"):
        WindowSource(np.arange(8), context=1, seed=-1, shift=True)
    with pytest.raises(DataError, match="the id -7"):
        WindowSource(np.array([1, -7, 3, 4]), context=1, seed=0, shift=True)


def test_compact_takes_two_or_four_bytes() -> None:
    assert compact([0, 65535]).dtype == np.uint16
    assert compact([0, 65536]).dtype == np.int32
    assert compact([0, 65536]).tolist() == [0, 65536]
    small = np.array([1, 2], dtype=np.uint16)
    assert compact(small) is small


@pytest.mark.parametrize("n", range(2, 12))
def test_window_source_lengths_are_those_of_its_windows(n: int) -> None:
    source = WindowSource.evaluation(np.arange(n), 4)
    batch = source.batch(range(len(source)), epoch=0)
    assert source.lengths == [(0, length) for length in batch.lengths]
    assert WindowSource(np.arange(8 + n), 4, seed=0, shift=True).lengths == [(0, 4)] * ((8 + n) // 4 - 1)
