"""A cache remembers, for each row, exactly the tokens that were made final, in order."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from glassformer.core.cache import KVCache, LayerShape
from glassformer.core.errors import DataError, UnsupportedError
from glassformer.core.places import Places
from glassformer.core.slots import VIEW_STEP

CAPACITY = 12


def a_cache(batch_size: int = 2, capacity: int = CAPACITY) -> KVCache:
    return KVCache([LayerShape(1, 1)], batch_size, capacity)


def push(cache: KVCache, chunks: list[list[float]], side: str = "right") -> tuple[list[list[float]], Places]:
    """Write one chunk a row, padded; return what each row's attention may look at, and where it stands."""
    width = max(len(chunk) for chunk in chunks)
    filled = [[*chunk, *[-1.0] * (width - len(chunk))] for chunk in chunks]
    if side == "left":
        filled = [[*[-1.0] * (width - len(chunk)), *chunk] for chunk in chunks]
    places = Places.from_lengths([len(chunk) for chunk in chunks], width, side=side, start=cache.lengths)
    k = torch.tensor(filled)[:, None, :, None]
    return look(cache, k, places)


def look(cache: KVCache, k: Tensor, places: Places | None) -> tuple[list[list[float]], Places]:
    plan = cache.plan(places, k.shape[2]).slots[0]
    keys, values = cache.layers[0].write(k, 2 * k, plan)
    assert torch.equal(values, 2 * keys)
    segment = plan.keys.segment.expand(cache.batch_size, -1)
    position = plan.keys.position.expand(cache.batch_size, -1)
    seen = []
    for row in range(cache.batch_size):
        real = segment[row] >= 0
        assert position[row][real].tolist() == list(range(int(real.sum())))
        seen.append(keys[row, 0, real, 0].tolist())
    return seen, plan.keys


@dataclass
class Story:
    """What a cache should hold, as lists."""

    rows: list[list[float]]
    count: float = field(default=0.0)

    def fresh(self, number: int) -> list[float]:
        new = [self.count + i for i in range(number)]
        self.count += number
        return new


@given(data=st.data())
def test_cache_remembers_exactly_what_was_made_final(data):
    """Any story of chunks, forgotten writes, shrinking, reordering and truncating."""
    size = data.draw(st.integers(1, 3))
    cache, story = a_cache(size), Story([[] for _ in range(size)])
    for _ in range(data.draw(st.integers(1, 8))):
        rows = range(cache.batch_size)
        act = data.draw(st.sampled_from(["advance", "forget", "select", "reorder", "truncate"]))
        if act in ("advance", "forget"):
            room = [min(3, CAPACITY - len(row)) for row in story.rows]
            counts = [data.draw(st.integers(0, most)) for most in room]
            if not any(counts):
                continue
            chunks = [story.fresh(count) for count in counts]
            side = data.draw(st.sampled_from(["left", "right"]))
            expected = [[*row, *chunk] for row, chunk in zip(story.rows, chunks, strict=True)]
            for _ in range(2):
                assert push(cache, chunks, side)[0] == expected
            if act == "advance":
                cache.advance(counts)
                story.rows = expected
        elif act == "truncate":
            lengths = [data.draw(st.integers(0, len(row))) for row in story.rows]
            cache.truncate(lengths)
            story.rows = [row[:length] for row, length in zip(story.rows, lengths, strict=True)]
        else:
            number = cache.batch_size if act == "reorder" else data.draw(st.integers(1, 3))
            chosen = [data.draw(st.sampled_from(rows)) for _ in range(number)]
            (cache.reorder if act == "reorder" else cache.select)(chosen)
            story.rows = [list(story.rows[row]) for row in chosen]
        assert cache.lengths == cache.length.tolist() == [len(row) for row in story.rows]
        assert cache.extent == max(len(row) for row in story.rows)


def test_stale_write_that_was_never_final_does_not_show():
    cache = a_cache(1)
    push(cache, [[1.0, 2.0]])
    cache.advance([2])
    push(cache, [[3.0, 4.0, 5.0]])  # tried and dropped
    assert push(cache, [[6.0]])[0] == [[1.0, 2.0, 6.0]]
    cache.advance([1])
    assert push(cache, [[7.0]])[0] == [[1.0, 2.0, 6.0, 7.0]]


def test_truncated_cache_starts_again_as_a_fresh_one():
    cache = a_cache(2)
    push(cache, [[1.0], [2.0]])
    cache.advance([1, 1])
    cache.truncate([0, 0])
    plan = cache.plan(None, 2)
    assert plan.at(0).fresh
    assert plan.queries.plain


def test_plan_without_places_goes_on_from_each_length():
    cache = a_cache(2)
    push(cache, [[1.0], [2.0, 3.0, 4.0]])
    cache.advance([1, 3])
    plan = cache.plan(None, 2)
    assert plan.queries.position.tolist() == [[1, 2], [3, 4]]
    assert not plan.at(0).fresh


def test_first_plain_chunk_is_fresh_and_needs_no_view():
    plan = a_cache(2).plan(Places.full(3), 3)
    assert plan.at(0).fresh
    assert plan.at(0).keys is plan.queries


def test_padding_costs_no_slot():
    """Rows of 1 and 0 tokens in a chunk five wide fit a cache with room for one."""
    cache = a_cache(2, capacity=1)
    places = Places.from_lengths([1, 0], 5, side="left")
    seen, _ = look(cache, torch.arange(10.0).reshape(2, 1, 5, 1), places)
    assert seen == [[4.0], []]


def test_view_is_rounded_up_and_never_beyond_the_capacity():
    cache = KVCache([LayerShape(1, 1)], 1, 3 * VIEW_STEP - 100)
    assert cache.plan(Places.from_lengths([1], 2), 2).at(0).view == VIEW_STEP
    cache.advance([VIEW_STEP])
    assert cache.plan(None, 1).at(0).view == 2 * VIEW_STEP
    cache.advance([VIEW_STEP])
    assert cache.plan(None, 1).at(0).view == 3 * VIEW_STEP - 100


def test_reorder_leaves_the_memory_alone_and_select_does_not():
    cache = a_cache(2)
    cross = torch.arange(2.0)[:, None, None, None]
    cache.layers[0].cross = (cross, cross)
    cache.reorder([1, 0])
    assert cache.layers[0].cross[0] is cross
    cache.select([1, 1, 0])
    assert cache.layers[0].cross[0].flatten().tolist() == [1.0, 1.0, 0.0]
    assert cache.batch_size == 3


def test_rows_that_share_a_memory_are_selected_with_its_rows():
    cache = a_cache(6)
    cross = torch.arange(2.0)[:, None, None, None]
    cache.layers[0].cross = (cross, cross)
    cache.select([0, 2, 3, 4], [0, 1])
    assert cache.layers[0].cross[0] is cross, "all of them in order are no copy"
    cache.select([2, 3, 2], [1])
    assert cache.layers[0].cross[0].flatten().tolist() == [1.0]
    with pytest.raises(DataError, match="memory has 1 rows, the cache 3; say which stay with memory_rows"):
        cache.select([0])
    with pytest.raises(DataError, match="no row 1 in the memory of a cache of 1 rows"):
        cache.select([0], [1])
    assert cache.batch_size == 3, "what is refused changes nothing"


def test_o31_reorder_copies_only_rows_that_change_and_slots_in_use():
    cache = a_cache(3)
    push(cache, [[1.0, 2.0], [3.0], [4.0, 5.0]])
    cache.advance([2, 1, 2])
    keys, values = cache.layers[0].keys, cache.layers[0].values
    keys[:, :, 2:], values[:, :, 2:] = torch.tensor([9.0, 10.0, 11.0])[:, None, None, None], 0.0  # in no one's use
    cache.reorder([0, 1, 2])
    cache.reorder([1, 1, 0])
    assert cache.layers[0].keys.data_ptr() == keys.data_ptr()
    assert keys[:, 0, :3, 0].tolist() == [[3.0, 0.0, 9.0], [3.0, 0.0, 10.0], [1.0, 2.0, 11.0]]
    assert cache.lengths == [1, 1, 2]
    keys[:, :, 2:] = 0.0
    assert push(cache, [[7.0], [], [8.0]])[0] == [[3.0, 7.0], [3.0], [1.0, 2.0, 8.0]]


def test_what_a_selected_cache_has_not_written_is_finite_where_a_mask_must_hide_it():
    """In step nothing but what was written is read; out of step a view of whole slots is."""
    cache = a_cache(2)
    push(cache, [[1.0], [2.0]])
    cache.advance([1, 1])
    cache.select([1, 0, 1])
    cache.layers[0].keys[:, :, 1:] = torch.nan
    assert push(cache, [[3.0], [4.0], [5.0]])[0] == [[2.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    push(cache, [[3.0], [4.0, 5.0], [6.0]])
    assert cache.layers[0].keys.isfinite().all()


def test_writing_with_a_gradient_is_refused():
    cache = a_cache(1)
    k = torch.ones(1, 1, 1, 1, requires_grad=True)
    with pytest.raises(UnsupportedError, match="no_grad"):
        cache.layers[0].write(k, k, cache.plan(None, 1).at(0))


def test_cache_keeps_its_type_and_gives_back_the_callers():
    cache = KVCache([LayerShape(1, 1)], 1, 4, dtype=torch.bfloat16)
    k = torch.full((1, 1, 2, 1), 1.0 + 2.0**-12)
    keys, _ = cache.layers[0].write(k, k, cache.plan(Places.from_lengths([1], 2), 2).at(0))
    assert cache.layers[0].keys.dtype == torch.bfloat16
    assert keys.dtype == torch.float32
    assert float(keys[0, 0, 0, 0]) == 1.0


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda cache: cache.plan(None, CAPACITY + 1), "13 tokens do not fit a cache of 12"),
        (lambda cache: cache.advance([1]), "1 counts for a cache of 2 rows"),
        (lambda cache: cache.advance([1, CAPACITY + 1]), r"lengths \[1, 13\] do not fit a cache of 12"),
        (lambda cache: cache.advance([1, -1]), "do not fit"),
        (lambda cache: cache.reorder([0]), "1 rows for a cache of 2; use select"),
        (lambda cache: cache.truncate([0]), "1 lengths for a cache of 2"),
        (lambda cache: cache.truncate([0, 1]), "row 1 holds 0 tokens and cannot be truncated to 1"),
        (lambda cache: cache.plan(Places.from_lengths([1, 0, 1]), 1), "3 rows of places for a cache of 2"),
        (lambda cache: cache.select([]), "at least one row"),
        (lambda cache: cache.select([0, 2]), r"no row 2 in a cache of 2"),
        (lambda cache: cache.reorder([0, -1]), r"no row -1 in a cache of 2"),
        (lambda cache: KVCache([LayerShape(1, 1)], 0, 4), "at least one row and one slot, not 0 and 4"),
        (lambda cache: KVCache([LayerShape(1, 1)], 1, 0), "not 1 and 0"),
        (
            lambda cache: KVCache([LayerShape(1, 1, window=2), LayerShape(1, 1)], 1, None),
            r"capacity is None, but layers \[1\] keep the keys of all tokens",
        ),
    ],
)
def test_what_a_cache_cannot_do_is_refused(act, message):
    with pytest.raises(DataError, match=message):
        act(a_cache())


def test_overflow_is_by_row_and_by_real_tokens():
    cache = a_cache(2, capacity=4)
    push(cache, [[1.0], [2.0, 3.0, 4.0]])
    cache.advance([1, 3])
    # Row 1 is full to its last slot, and its padding still goes elsewhere.
    assert push(cache, [[5.0, 6.0, 7.0], [8.0]])[0] == [[1.0, 5.0, 6.0, 7.0], [2.0, 3.0, 4.0, 8.0]]
    with pytest.raises(DataError, match="5 tokens do not fit a cache of 4"):
        push(cache, [[5.0], [8.0, 9.0]])


def test_rows_in_step_read_exactly_what_is_there_and_need_no_mask():
    cache = a_cache(2)
    for number, chunk in enumerate(([[1.0, 2.0], [3.0, 4.0]], [[5.0], [6.0]])):
        seen, keys = push(cache, chunk)
        assert keys.plain
        cache.advance([len(chunk[0])] * 2)
        assert [len(row) for row in seen] == [2 + number] * 2
    assert seen == [[1.0, 2.0, 5.0], [3.0, 4.0, 6.0]]
    cache.reorder([1, 0])
    assert push(cache, [[7.0], [8.0]])[0] == [[3.0, 4.0, 6.0, 7.0], [1.0, 2.0, 5.0, 8.0]]


def test_rows_that_were_out_of_step_once_are_never_taken_for_it_again():
    """Row 1 alone is left: all rows have one length, but its left padding was written by another rule."""
    cache = a_cache(2)
    push(cache, [[1.0], [2.0, 3.0]])
    cache.advance([1, 2])
    cache.select([1])
    seen, keys = push(cache, [[4.0]])
    assert not keys.plain
    assert seen[0][:3] == [2.0, 3.0, 4.0]


def test_rows_in_step_can_fall_out_of_it():
    cache = a_cache(2)
    push(cache, [[1.0], [2.0]])
    cache.advance([1, 1])
    cache.select([1, 0, 1])
    _, keys = push(cache, [[3.0, 4.0], [5.0], [6.0, 7.0]])
    cache.advance([2, 1, 2])
    assert cache.lengths == [3, 2, 3]
    assert [
        [p for p, s in zip(*row, strict=True) if s >= 0]
        for row in zip(keys.position.tolist(), keys.segment.tolist(), strict=True)
    ] == [[0, 1, 2], [0, 1], [0, 1, 2]]
    assert cache.layers[0].keys.isfinite().all(), "what a mask hides must still be finite"


def test_rows_in_step_that_do_not_fit_are_refused():
    cache = a_cache(1)
    push(cache, [[0.0] * CAPACITY])
    cache.advance([CAPACITY])
    with pytest.raises(DataError, match=f"{CAPACITY + 1} tokens do not fit a cache of {CAPACITY}"):
        push(cache, [[1.0]])
