from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.split import TextPair, split_pairs

PAIRS = [(f"s{number}", f"t{number}") for number in range(100)]


def by_source(pairs: list[TextPair]) -> list[str]:
    return [source for source, _ in pairs]


def test_distinct_pairs_are_cut_into_parts_of_the_sizes_asked_for() -> None:
    split = split_pairs(PAIRS, by_source(PAIRS), 10, 20, 0)
    assert (len(split.train), len(split.valid), len(split.test)) == (70, 10, 20)
    assert sorted(split.train + split.valid + split.test) == sorted(PAIRS)
    assert split.train == [pair for pair in PAIRS if pair in set(split.train)]  # in the order of the file
    assert split.notes == ("split by 100 different texts: 10 to validate, 20 to test",)


def test_a_test_of_nothing_is_possible() -> None:
    split = split_pairs(PAIRS, by_source(PAIRS), 99, 0, 0)
    assert (len(split.train), len(split.valid), split.test) == (1, 99, [])


def test_what_is_split_off_depends_on_the_seed_alone() -> None:
    keys = by_source(PAIRS)
    assert split_pairs(PAIRS, keys, 10, 20, 5) == split_pairs(PAIRS, keys, 10, 20, 5)
    assert split_pairs(PAIRS, keys, 10, 20, 5).test != split_pairs(PAIRS, keys, 10, 20, 6).test
    assert split_pairs(PAIRS, keys, 40, 20, 5).test == split_pairs(PAIRS, keys, 10, 20, 5).test
    with pytest.raises(ConfigError, match="seed is -1"):
        split_pairs(PAIRS, keys, 10, 20, -1)


def test_of_pairs_with_one_key_the_first_is_measured_by_and_none_is_learned_from() -> None:
    pairs = [("a", "1"), ("a", "2"), ("b", "3"), ("a", "4"), ("c", "5")]
    held_a = [split for seed in range(9) if (split := split_pairs(pairs, list("aabac"), 1, 0, seed)).valid[0][0] == "a"]
    assert held_a
    for split in held_a:
        assert (split.train, split.valid) == ([("b", "3"), ("c", "5")], [("a", "1")])
        assert split.notes == (
            "split by 3 different texts: 1 to validate, 0 to test; 2 more share a side with them and are left out",
        )


def test_a_pair_that_shares_the_other_side_is_not_learned_from() -> None:
    """By source all are different; the translation of the one that is held out has another source, too."""
    pairs = [("a", "1"), ("b", "1"), ("c", "2"), ("d", "3")]
    splits = [split_pairs(pairs, by_source(pairs), 1, 0, seed) for seed in range(30)]
    assert {split.valid[0] for split in splits} == set(pairs)
    for split in splits:
        assert not {target for _, target in split.train} & {target for _, target in split.valid}
        assert len(split.train) == (2 if split.valid[0][1] == "1" else 3)


texts = st.text("abc", min_size=1, max_size=2)


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=40), st.sampled_from((0, 1)), st.integers(0, 3))
def test_nothing_leaks_and_the_counts_add_up(pairs: list[TextPair], side: int, seed: int) -> None:
    keys = [pair[side] for pair in pairs]
    try:
        split = split_pairs(pairs, keys, 2, 1, seed)
    except DataError:
        return
    held = split.valid + split.test
    assert (len(split.valid), len(split.test)) == (2, 1)
    assert len({pair[side] for pair in held}) == 3
    for own in (0, 1):
        assert not {pair[own] for pair in split.train} & {pair[own] for pair in held}
    left_out = len(pairs) - len(split.train) - 3
    assert (f"; {left_out} more share" in split.notes[0]) == bool(left_out)
    shares = [pair for pair in pairs if any(pair[own] in {one[own] for one in held} for own in (0, 1))]
    assert len(shares) == left_out + 3


def test_too_few_texts_are_refused_with_both_numbers() -> None:
    message = (
        r"the data has 3 different texts, but validation and test take 1 \+ 2; give more data, or lower"
        r" task\.valid_size and task\.test_size"
    )
    with pytest.raises(DataError, match=message):
        split_pairs(PAIRS[:3] * 2, by_source(PAIRS[:3] * 2), 1, 2, 0)
    with pytest.raises(DataError, match="the data has 0 different texts"):
        split_pairs([], [], 1, 0, 0)


def test_pairs_that_all_share_a_side_are_refused() -> None:
    pairs = [("a", "same"), ("b", "same"), ("c", "same")]
    with pytest.raises(DataError, match="every pair shares a side with validation or test, so none is left"):
        split_pairs(pairs, by_source(pairs), 1, 0, 0)
