"""Randomness and order as pure functions of a seed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from glassformer.core.errors import ConfigError, DataError


def generator(seed: int, *keys: int) -> np.random.Generator:
    """Return the random generator of a seed and any further keys, such as an epoch and an item.

    What is drawn for one item then depends on nothing that was drawn before, so that workers cannot repeat
    each other and a resumed run sees what it would have seen.

    Args:
        seed: From 0.
        keys: From 0.

    Raises:
        ConfigError: The seed is negative.
    """
    return np.random.default_rng(_entropy(seed, keys))


def item_uniforms(items: Sequence[int], width: int, seed: int, *keys: int) -> NDArray[np.float64]:
    """Return `width` random numbers in [0, 1) for each item.

    An item's row depends on the item, the seed and the keys, not on the other items. One counter-based
    generator serves all of them, at a tenth of the cost of a `generator` for each.

    Args:
        items: From 0.
        width: Numbers of each item.
        seed: From 0.
        keys: From 0.

    Raises:
        ConfigError: The seed is negative.
    """
    bits = np.random.Philox(_entropy(seed, keys))
    stream = np.random.Generator(bits)
    state = bits.state
    numbers = np.empty((len(items), width))
    for row, item in zip(numbers, items, strict=True):
        state["state"]["counter"][:] = (0, 0, 0, item)  # 2^192 blocks lie between two items
        bits.state = state
        stream.random(out=row)
    return numbers


class Order(Protocol):
    """Which items make up each batch of each epoch, as a pure function of the seed and the epoch."""

    @property
    def seed(self) -> int:
        """From 0."""
        ...

    def __len__(self) -> int:
        """Return the number of batches, the same in every epoch."""
        ...

    def batches(self, epoch: int) -> list[list[int]]:
        """Return the items of each batch of an epoch, every item once.

        Args:
            epoch: From 0.
        """
        ...


class BatchOrder:
    """Which items make up each batch of each epoch.

    Args:
        n_items: Number of items of the source. From 1.
        batch_size: Items of a batch; the last batch of an epoch may have fewer. From 1.
        seed: From 0.
        shuffle: Whether each epoch has its own order; else items come in order.

    Raises:
        DataError: There are no items.
        ConfigError: The batch size or the seed is not possible.
    """

    def __init__(self, n_items: int, batch_size: int, seed: int, shuffle: bool) -> None:
        if n_items < 1:
            raise DataError(f"there are {n_items} items to make batches of; at least 1 is needed")
        if batch_size < 1:
            raise ConfigError(f"batch_size is {batch_size}; a batch holds at least 1 item")
        check_seed(seed)
        self.n_items = n_items
        self.batch_size = batch_size
        self.seed = seed
        self.shuffle = shuffle

    def __len__(self) -> int:
        return -(-self.n_items // self.batch_size)

    def batches(self, epoch: int) -> list[list[int]]:
        """Return the items of each batch of an epoch, every item once; a pure function of seed and epoch.

        Args:
            epoch: From 0.
        """
        if self.shuffle:
            items = generator(self.seed, epoch).permutation(self.n_items).tolist()
        else:
            items = list(range(self.n_items))
        return [items[start : start + self.batch_size] for start in range(0, self.n_items, self.batch_size)]


class TokenOrder:
    """Batches of items of like length, each of about the same number of tokens.

        rows of the batch x its longest row on the longer side <= batch_tokens        (padding included)

    Items are sorted by (longer side, shorter side), the longest first, and cut greedily. Items of equal lengths
    change places from epoch to epoch, which moves no cut: the number of batches never changes.

    Args:
        lengths: Tokens of the source (0 if there is none) and of the inputs of each item, as a source tells them.
        batch_tokens: Most tokens of a batch on the longer side. From 1.
        seed: From 0.
        shuffle: Whether each epoch has its own order of batches and its own mates among equals; else the longest come
            first, so that memory is short at once or never.

    Raises:
        DataError: There are no items.
        ConfigError: An item alone has more tokens than a batch may, or the seed is not possible.
    """

    def __init__(self, lengths: Sequence[tuple[int, int]], batch_tokens: int, seed: int, shuffle: bool) -> None:
        if not len(lengths):
            raise DataError("there are 0 items to make batches of; at least 1 is needed")
        if batch_tokens < 1:
            raise ConfigError(f"batch_tokens is {batch_tokens}; a batch holds at least 1 token")
        check_seed(seed)
        shorter, longer = np.sort(np.asarray(lengths, dtype=np.int64), axis=1).T
        longer = np.maximum(longer, 1)
        item = int(longer.argmax())
        most = int(longer[item])
        if most > batch_tokens:
            raise ConfigError(
                f"item {item} has {most} tokens, more than batch_tokens {batch_tokens}; set batch_tokens to {most} or"
                " more, or cut or leave out long items"
            )
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.shuffle = shuffle
        self._falling = -(longer * (most + 1) + shorter)  # the pair of lengths as one number, the longest first
        falling = np.sort(longer)[::-1].tolist()
        self._cuts = [0]
        while self._cuts[-1] < len(falling):
            self._cuts.append(min(len(falling), self._cuts[-1] + batch_tokens // falling[self._cuts[-1]]))

    def __len__(self) -> int:
        return len(self._cuts) - 1

    def batches(self, epoch: int) -> list[list[int]]:
        """Return the items of each batch of an epoch, every item once; a pure function of seed and epoch.

        Args:
            epoch: From 0.
        """
        random = generator(self.seed, epoch)
        n_items = len(self._falling)
        mixed = random.permutation(n_items) if self.shuffle else np.arange(n_items)
        items = mixed[np.argsort(self._falling[mixed], kind="stable")].tolist()
        batches = [items[begin:end] for begin, end in pairwise(self._cuts)]
        return [batches[index] for index in random.permutation(len(batches))] if self.shuffle else batches


def check_seed(seed: int) -> None:
    """Make sure that a seed can be used.

    Raises:
        ConfigError: It is negative.
    """
    if seed < 0:
        raise ConfigError(f"seed is {seed}; seeds start at 0")


def _entropy(seed: int, keys: tuple[int, ...]) -> np.random.SeedSequence:
    check_seed(seed)
    assert all(key >= 0 for key in keys), f"epochs and items count from 0, not {keys}"
    # As spawn keys, not in one list with the seed: numpy takes [1] and [1, 0] for the same.
    return np.random.SeedSequence(seed, spawn_key=keys)
