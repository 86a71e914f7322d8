"""A window's slots hold, of each row, at least what the next query sees, and storage of one size."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from glassformer.core import slots as slots_module
from glassformer.core.cache import KVCache, LayerShape
from glassformer.core.errors import UnsupportedError
from glassformer.core.mask import Mask
from glassformer.core.places import Places

SLACK = 2


@pytest.fixture(autouse=True)
def _little_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens are thrown out early and often."""
    monkeypatch.setattr(slots_module, "SLACK", SLACK)


def a_cache(window: int, batch_size: int = 1, capacity: int | None = None) -> KVCache:
    return KVCache([LayerShape(1, 1, window=window)], batch_size, capacity)


def push(cache: KVCache, rows: list[list[int]], counts: list[int], side: str = "right", layer: int = 0) -> Tensor:
    """Write the next tokens of each row, which are their own positions; return what is wrong in what attention sees.

    Token n of a row holds 100 row + n as its key; the rows are named by `rows`.
    """
    starts, width = cache.lengths, max(counts)
    places = Places.from_lengths(counts, width, side=side, start=starts)
    k = torch.where(places.is_token, places.position + 100 * torch.tensor(rows)[:, :1], -1.0)
    k = k.expand(len(rows), -1)[:, None, :, None]
    plan = cache.plan(places, width)
    own = plan.at(layer)
    keys, values = cache.layers[layer].write(k, -k, own)
    assert torch.equal(keys, -values)
    window = cache.slots[cache.of_layer[layer]].window
    seen = Mask(causal=True, window=window).dense(places, own.keys).expand(len(rows), 1, -1, -1)[:, 0]
    for row, name in enumerate(rows):
        for t in range(width):
            if not bool(places.is_token.expand(len(rows), -1)[row, t]):
                continue
            at = int(places.position.expand(len(rows), -1)[row, t])
            first = 0 if window is None else max(at - window + 1, 0)
            expected = [100.0 * name[0] + n for n in range(first, at + 1)]
            assert sorted(keys[row, 0, seen[row, t], 0].tolist()) == expected
    return keys


@given(data=st.data())
def test_every_query_sees_its_whole_window_whatever_came_before(data):
    """Any story of chunks, forgotten passes, reordering, selecting, and rows that start again or go back."""
    size, window = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 5))
    cache = a_cache(window, size, data.draw(st.sampled_from([None, 40])))
    names = [[row] for row in range(size)]
    for _ in range(data.draw(st.integers(1, 12))):
        act = data.draw(st.sampled_from(["advance", "advance", "advance", "forget", "part", "select", "again", "back"]))
        if act in ("advance", "forget", "part"):
            if data.draw(st.booleans()):
                counts = [data.draw(st.integers(1, 6))] * cache.batch_size
            else:
                counts = [data.draw(st.integers(0, 6)) for _ in names]
            if not any(counts) or max(cache.lengths) + max(counts) > 40:
                continue
            side = data.draw(st.sampled_from(["left", "right"]))
            for _ in range(2):
                push(cache, names, counts, side)
            if act == "advance":
                cache.advance(counts)
            elif act == "part":
                cache.advance([data.draw(st.integers(0, count)) for count in counts])
        elif act == "select":
            chosen = [data.draw(st.sampled_from(range(cache.batch_size))) for _ in range(data.draw(st.integers(1, 4)))]
            cache.select(chosen)
            names = [names[row] for row in chosen]
        elif act == "again":
            cache.truncate([data.draw(st.sampled_from([0, length])) for length in cache.lengths])
        else:
            lengths = [data.draw(st.integers(max(length - 2, 0), length)) for length in cache.lengths]
            before = list(cache.lengths)
            try:
                cache.truncate(lengths)
            except UnsupportedError:
                assert cache.lengths == before
        own = cache.slots[0]
        if act in ("advance", "part"):
            assert own.size == own.usual <= window - 1 + SLACK
        assert own.layers[0].keys.shape[2] == own.size + 1
        assert [held + gone for held, gone in zip(own.held, own.dropped, strict=True)] == cache.lengths
        assert own.filled.tolist() == own.held


def test_a_single_query_reads_its_window_and_needs_no_mask():
    """In step the keys are the newest ones alone, so that the last one of them sees all."""
    cache = a_cache(4, 2)
    push(cache, [[0], [1]], [3, 3])
    cache.advance([3, 3])
    for step in range(3, 20):
        plan = cache.plan(None, 1)
        keys = plan.at(0).keys
        assert keys.position.tolist() == [list(range(step - 3, step + 1))]
        assert Mask(causal=True, window=4).structure(plan.queries, keys).value == "full"
        push(cache, [[0], [1]], [1, 1])
        cache.advance([1, 1])


def test_storage_grows_for_a_long_chunk_and_is_given_back_when_it_is_final():
    cache = a_cache(3)
    assert cache.layers[0].keys.shape[2] == 3 - 1 + SLACK + 1
    push(cache, [[0]], [20])
    assert cache.layers[0].keys.shape[2] >= 20
    cache.advance([20])
    assert cache.layers[0].keys.shape[2] == 3 - 1 + SLACK + 1
    push(cache, [[0]], [1])


def test_a_cache_smaller_than_its_window_forgets_nothing():
    cache = a_cache(100, 1, capacity=5)
    assert cache.slots[0].size == 5
    push(cache, [[0]], [5])
    cache.advance([5])
    cache.truncate([2])
    push(cache, [[0]], [3])


def test_going_back_is_refused_only_where_the_window_has_lost_its_tokens():
    cache = a_cache(3, 2)
    for _ in range(6):
        push(cache, [[0], [1]], [1, 1])
        cache.advance([1, 1])
    assert cache.slots[0].dropped == [4, 4]
    with pytest.raises(
        UnsupportedError, match=r"row 1 cannot go back from 6 tokens to 5.*window of 3.*use_cache=False"
    ):
        cache.truncate([6, 5])
    assert cache.lengths == [6, 6]
    cache.truncate([0, 6])
    push(cache, [[0], [1]], [4, 1])


def test_layers_of_several_windows_have_slots_of_their_own():
    shapes = [LayerShape(1, 1, window=2), LayerShape(2, 3), LayerShape(1, 1, window=5), LayerShape(1, 1, window=2)]
    cache = KVCache(shapes, 1, 30)
    assert [slots.window for slots in cache.slots] == [2, None, 5]
    assert cache.of_layer == (0, 1, 2, 0)
    for counts in ([9], [1], [4], [1]):
        for layer in (0, 2, 3):
            push(cache, [[0]], counts, layer=layer)
        cache.advance(counts)
    assert [slots.held[0] for slots in cache.slots] == [2, 15, 5]
    assert cache.lengths == [15]


def test_documents_of_a_row_follow_one_another_through_a_window():
    """The second one begins in the middle of a chunk, and goes on from its own position."""
    cache = a_cache(3)
    whole = Places.packed([[7, 6]])
    for begin, end in ((0, 5), (5, 9), (9, 10), (10, 13)):
        places = Places(whole.position[:, begin:end], whole.segment[:, begin:end])
        own = cache.plan(places, end - begin).at(0)
        k = torch.arange(float(begin), float(end))[None, None, :, None]
        keys, _ = cache.layers[0].write(k, k, own)
        seen = Mask(causal=True, window=3).dense(places, own.keys)[0, 0]
        for t, token in enumerate(range(begin, end)):
            first = max(token - 2, 0 if token < 7 else 7)
            assert keys[0, 0, seen[t], 0].tolist() == list(range(first, token + 1))
        cache.advance([end - begin])


def test_storage_that_grew_in_inference_mode_can_be_written_outside_of_it():
    cache = a_cache(3)
    with torch.inference_mode():
        push(cache, [[0]], [20])
    with torch.no_grad():
        push(cache, [[0]], [20])
        cache.advance([20])
        push(cache, [[0]], [9])
