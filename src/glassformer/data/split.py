"""Cutting pairs into what is learned from and what is measured by, so that nothing leaks."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from glassformer.core.errors import DataError
from glassformer.data.order import generator

TextPair = tuple[str, str]


@dataclass(frozen=True)
class PairSplit:
    """Pairs in three parts.

    Attributes:
        train: All that shares neither side with the other two.
        valid: One pair for each of its keys.
        test: One pair for each of its keys.
        notes: What was left out of training, and why.
    """

    train: list[TextPair]
    valid: list[TextPair]
    test: list[TextPair]
    notes: tuple[str, ...]


def split_pairs(pairs: Sequence[TextPair], keys: Sequence[Hashable], n_valid: int, n_test: int, seed: int) -> PairSplit:
    """Return pairs split by key: of pairs with equal keys, only one is ever measured by, and none is learned from then.

    The keys are put in an order that depends on their number and the seed alone; the first `n_test` are for the test,
    the next `n_valid` for validation. Of a key's pairs the first one counts. A pair of which a side also stands in test
    or validation is left out of training: what was seen with another partner would still be seen.

    Args:
        pairs: Source and target.
        keys: What must not be in two parts at once, one for each pair, such as its English side.
        n_valid: Number of pairs to watch training with.
        n_test: Number of pairs to measure the result with; may be 0.
        seed: From 0.

    Raises:
        DataError: There are not enough keys, or pairs without a side in common, to leave any for training.
    """
    first: dict[Hashable, TextPair] = {}
    for key, pair in zip(keys, pairs, strict=True):
        first.setdefault(key, pair)
    distinct = list(first)
    if len(distinct) <= n_valid + n_test:
        raise DataError(
            f"the data has {len(distinct)} different texts, but validation and test take {n_valid} + {n_test};"
            " give more data, or lower task.valid_size and task.test_size"
        )
    order = generator(seed).permutation(len(distinct))[: n_test + n_valid]
    held = [distinct[index] for index in order.tolist()]
    test, valid = [first[key] for key in held[:n_test]], [first[key] for key in held[n_test:]]
    of_held, sources, targets = frozenset(held), _sides(test + valid, 0), _sides(test + valid, 1)
    train = [
        pair
        for key, pair in zip(keys, pairs, strict=True)
        if key not in of_held and pair[0] not in sources and pair[1] not in targets
    ]
    if not train:
        raise DataError("every pair shares a side with validation or test, so none is left to learn from; give more")
    left_out = len(pairs) - len(train) - len(held)
    shared = f"; {left_out:,} more share a side with them and are left out" if left_out else ""
    note = f"split by {len(distinct):,} different texts: {len(valid):,} to validate, {len(test):,} to test{shared}"
    return PairSplit(train, valid, test, (note,))


def _sides(pairs: Iterable[TextPair], side: int) -> frozenset[str]:
    return frozenset(pair[side] for pair in pairs)
