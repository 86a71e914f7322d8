import numpy as np
import pytest

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.order import BatchOrder, generator, item_uniforms


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
