import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.order import BatchOrder, TokenOrder, generator, item_uniforms


def test_generator_depends_on_seed_and_every_key() -> None:
    keys = [(1,), (1, 0), (1, 0, 0), (0, 1), (1, 1), (2,)]
    assert len({int(generator(*key).integers(2**63)) for key in keys}) == len(keys)
    assert generator(1, 2, 3).integers(2**63) == generator(1, 2, 3).integers(2**63)


def test_generator_refuses_a_negative_seed() -> None:
    with pytest.raises(ConfigError, match="seed is -1"):
        generator(-1, 0)


def test_item_uniforms_of_an_item_do_not_depend_on_the_others() -> None:
    many = item_uniforms(range(50), 5, 7, 1)
    assert np.array_equal(item_uniforms([31], 5, 7, 1)[0], many[31])
    assert np.array_equal(item_uniforms([31, 3], 9, 7, 1)[:, :5], many[[31, 3]])
    assert many.min() >= 0
    assert many.max() < 1


def test_item_uniforms_differ_between_items_and_keys() -> None:
    drawn = [item_uniforms(range(100), 10, *keys).ravel() for keys in ((0,), (1,), (0, 0), (0, 1))]
    assert len(np.unique(np.concatenate(drawn))) == 4 * 100 * 10
    with pytest.raises(ConfigError, match="seed is -3"):
        item_uniforms([0], 1, -3)


def test_batch_order_holds_every_item_once() -> None:
    order = BatchOrder(10, 4, seed=3, shuffle=True)
    batches = order.batches(0)
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert len(order) == 3
    assert sorted(item for batch in batches for item in batch) == list(range(10))


def test_batch_order_is_a_function_of_seed_and_epoch() -> None:
    order = BatchOrder(100, 10, seed=3, shuffle=True)
    first = order.batches(0)
    assert order.batches(1) != first
    assert order.batches(0) == first == BatchOrder(100, 10, seed=3, shuffle=True).batches(0)
    assert BatchOrder(100, 10, seed=4, shuffle=True).batches(0) != first


def test_batch_order_without_shuffling_is_in_order() -> None:
    assert BatchOrder(5, 2, seed=0, shuffle=False).batches(7) == [[0, 1], [2, 3], [4]]


def test_batch_order_refuses_impossible_numbers() -> None:
    with pytest.raises(DataError, match="there are 0 items"):
        BatchOrder(0, 2, seed=0, shuffle=False)
    with pytest.raises(ConfigError, match="batch_size is 0"):
        BatchOrder(5, 0, seed=0, shuffle=False)
    with pytest.raises(ConfigError, match="seed is -2"):
        BatchOrder(5, 1, seed=-2, shuffle=False)


LENGTHS = [(3, 4), (1, 2), (4, 3), (2, 2), (2, 1), (9, 1), (4, 4)]


def test_token_order_puts_like_lengths_together_longest_first() -> None:
    order = TokenOrder(LENGTHS, 10, seed=0, shuffle=False)
    # Longer sides, falling: 9, 4 (of 4), 4, 4 (of 3), 2 (of 2), 2, 2 (of 1); 10 tokens are 1 row of 9, 2 of 4, 5 of 2.
    assert order.batches(0) == [[5], [6, 0], [2, 3], [1, 4]]
    assert order.batches(5) == order.batches(0)
    assert len(order) == 4


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=60),
    st.integers(12, 60),
    st.integers(0, 5),
    st.booleans(),
)
def test_token_order_holds_every_item_once_and_no_batch_too_large(
    lengths: list[tuple[int, int]], batch_tokens: int, epoch: int, shuffle: bool
) -> None:
    order = TokenOrder(lengths, batch_tokens, seed=1, shuffle=shuffle)
    batches = order.batches(epoch)
    assert len(batches) == len(order)
    assert sorted(item for batch in batches for item in batch) == list(range(len(lengths)))
    for batch in batches:
        assert batch
        assert len(batch) * max(max(lengths[item]) for item in batch) <= batch_tokens


def test_token_order_fills_every_batch_but_the_last() -> None:
    lengths = [(length, 1) for length in range(1, 50)]
    batches = TokenOrder(lengths, 100, seed=0, shuffle=False).batches(0)
    for batch in batches[:-1]:
        assert (len(batch) + 1) * lengths[batch[0]][0] > 100


def test_token_order_gives_each_epoch_new_batches_in_a_new_order() -> None:
    lengths = [(5, 5)] * 40 + [(7, 2)] * 40
    order = TokenOrder(lengths, 40, seed=3, shuffle=True)
    first, second = order.batches(0), order.batches(1)
    assert first != second
    assert {frozenset(batch) for batch in first}.isdisjoint({frozenset(batch) for batch in second})
    longest = [[max(lengths[batch[0]]) for batch in batches] for batches in (first, second)]
    assert longest[0] != longest[1]
    assert longest[0] != sorted(longest[0], reverse=True)


def test_token_order_is_a_function_of_seed_and_epoch() -> None:
    order = TokenOrder(LENGTHS * 9, 20, seed=3, shuffle=True)
    order.batches(4)
    assert order.batches(2) == TokenOrder(LENGTHS * 9, 20, seed=3, shuffle=True).batches(2)
    assert order.batches(2) != TokenOrder(LENGTHS * 9, 20, seed=4, shuffle=True).batches(2)
    assert {len(order.batches(epoch)) for epoch in range(20)} == {len(order)}


def test_token_order_refuses_impossible_numbers() -> None:
    with pytest.raises(ConfigError, match=r"item 5 has 9 tokens, more than batch_tokens 8; set batch_tokens to 9 or"):
        TokenOrder(LENGTHS, 8, seed=0, shuffle=True)
    with pytest.raises(ConfigError, match="batch_tokens is 0"):
        TokenOrder(LENGTHS, 0, seed=0, shuffle=True)
    with pytest.raises(ConfigError, match="seed is -1"):
        TokenOrder(LENGTHS, 10, seed=-1, shuffle=True)
    with pytest.raises(DataError, match="0 items"):
        TokenOrder([], 10, seed=0, shuffle=True)
