"""A recurrent layer keeps two sums a row; they move, shrink and start again with their rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from glassformer.core.cache import KVCache, LayerShape
from glassformer.core.errors import DataError, UnsupportedError
from glassformer.core.places import Places


def a_cache(batch_size: int = 2, capacity: int | None = None) -> KVCache:
    return KVCache([LayerShape(1, 1, recurrent=True)], batch_size, capacity)


def push(cache: KVCache, values: list[float], counts: list[int] | None = None) -> list[float]:
    """Add one number to each row's sum, as a forward pass would; return the sums it arrives at."""
    layer = cache.layers[0]
    counts = counts or [1] * len(values)
    cache.plan(Places.from_lengths(counts, start=cache.lengths), max(counts))
    new = torch.tensor(values)
    layer.write((layer.state[0] + new[:, None, None, None], layer.state[1] + new[:, None, None]))
    return (layer.state[0].flatten() + new).tolist()


def test_sums_become_final_by_advance_and_a_pass_can_be_run_again():
    cache = a_cache()
    for _ in range(2):
        assert push(cache, [1.0, 2.0]) == [1.0, 2.0]
    cache.advance([1, 1])
    assert push(cache, [4.0, 8.0]) == [5.0, 10.0]
    assert cache.lengths == [1, 1]


def test_sums_move_with_their_rows():
    cache = a_cache()
    push(cache, [1.0, 2.0])
    cache.advance([1, 1])
    cache.reorder([1, 1])
    assert push(cache, [0.0, 0.5]) == [2.0, 2.5]
    cache.advance([1, 1])
    cache.select([1, 0, 1])
    assert push(cache, [0.0, 0.0, 1.0]) == [2.5, 2.0, 3.5]
    assert cache.lengths == [2, 2, 2]


def test_a_row_can_start_again_while_others_go_on():
    cache = a_cache()
    push(cache, [torch.inf, 2.0])
    cache.advance([1, 1])
    cache.truncate([0, 1])
    assert push(cache, [4.0, 8.0]) == [4.0, 10.0]
    assert cache.lengths == [0, 1]


def test_sums_are_of_one_size_and_in_float32_at_least():
    for dtype, exact in ((torch.bfloat16, torch.float32), (torch.float64, torch.float64)):
        cache = KVCache([LayerShape(2, 3, recurrent=True)], 4, None, dtype=dtype)
        sums, total = cache.layers[0].state
        assert (sums.shape, total.shape) == ((4, 2, 3, 3), (4, 2, 3))
        assert sums.dtype == total.dtype == exact
        assert not cache.slots, "no slot, no position is kept"


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda cache: cache.advance([1, 0]), DataError, r"given \[1, 1\] tokens and are advanced by \[1, 0\]"),
        (
            lambda cache: cache.truncate([0, 2]),
            UnsupportedError,
            "row 1 cannot go back from 3 tokens to 2.*truncate it",
        ),
        (lambda cache: cache.plan(Places.packed([[1, 1], [2]]), 2), UnsupportedError, "one text a row"),
    ],
)
def test_what_sums_cannot_do_is_refused_and_changes_nothing(
    act: Callable[[KVCache], object], error: type[Exception], message: str
):
    cache = a_cache()
    push(cache, [1.0, 2.0], [3, 3])
    cache.advance([3, 3])
    push(cache, [1.0, 1.0])
    with pytest.raises(error, match=message):
        act(cache)
    assert cache.lengths == [3, 3]
    assert push(cache, [1.0, 1.0]) == [2.0, 3.0]


def test_rows_of_unequal_chunks_are_advanced_by_what_each_was_given():
    cache = a_cache()
    push(cache, [1.0, 2.0], [3, 1])
    with pytest.raises(DataError, match=r"given \[3, 1\] tokens and are advanced by \[3, 3\]"):
        cache.advance([3, 3])
    cache.advance([3, 1])
    with pytest.raises(DataError, match=r"given \[0, 0\] tokens and are advanced by \[1, 1\]"):
        cache.advance([1, 1])


def test_a_capacity_is_kept_to():
    cache = a_cache(1, capacity=2)
    push(cache, [1.0], [2])
    cache.advance([2])
    with pytest.raises(DataError, match="3 tokens do not fit a cache of 2"):
        push(cache, [1.0])


def test_sums_with_a_gradient_are_refused():
    cache = a_cache(1)
    cache.plan(None, 1)
    x = torch.ones(1, requires_grad=True)
    with pytest.raises(UnsupportedError, match="no_grad"):
        cache.layers[0].write((cache.layers[0].state[0] + x, cache.layers[0].state[1] + x))
