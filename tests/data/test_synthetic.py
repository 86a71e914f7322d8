from collections import Counter

import pytest

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.places import IGNORED
from glassformer.data.synthetic import DIGITS, SyntheticPairs, draw_held_out, transformed
from glassformer.text.build import byte_tokenizer, character_tokenizer

TOKENIZER = character_tokenizer([DIGITS], ["<pad>", "<bos>", "<eos>"])


def pairs(
    name: str = "reverse", lengths: tuple[int, int] = (1, 4), held_out: frozenset[str] = frozenset()
) -> SyntheticPairs:
    return SyntheticPairs(name, TOKENIZER, lengths, n_items=500, seed=3, held_out=held_out)


@pytest.mark.parametrize(("name", "answer"), [("copy", "3120"), ("reverse", "0213"), ("sort", "0123")])
def test_transformed_gives_the_right_answer(name: str, answer: str) -> None:
    assert transformed(name, "3120") == answer
    source = pairs(name)
    batch = source.batch(range(50), epoch=1)
    assert batch.source is not None
    for row, text in enumerate(source.texts(range(50), epoch=1)):
        target = TOKENIZER.encode(transformed(name, text))
        n = len(text)
        assert batch.source[row, : n + 1].tolist() == [*TOKENIZER.encode(text), 2]
        assert batch.inputs[row, : n + 1].tolist() == [1, *target]
        assert batch.labels[row, : n + 1].tolist() == [*target, 2]
        assert (batch.labels[row, n + 1 :] == IGNORED).all()


def test_transformed_refuses_an_unknown_name() -> None:
    with pytest.raises(ConfigError, match="'revers'; did you mean 'reverse'"):
        transformed("revers", "12")
    with pytest.raises(ConfigError, match="'shift'"):
        pairs("shift")


def test_synthetic_items_depend_on_seed_epoch_and_item_only() -> None:
    source = pairs(lengths=(6, 20))
    texts = source.texts(range(500), epoch=0)
    assert source.texts([7, 499, 0], epoch=0) == [texts[7], texts[499], texts[0]]
    assert texts == pairs(lengths=(6, 20)).texts(range(500), epoch=0)
    assert len({*texts, *source.texts(range(500), epoch=1)}) > 990


def test_synthetic_lengths_and_symbols_are_uniform() -> None:
    source = SyntheticPairs("copy", TOKENIZER, (3, 6), n_items=4000, seed=0)
    texts = source.texts(range(4000), epoch=0)
    lengths = Counter(map(len, texts))
    assert set(lengths) == {3, 4, 5, 6}
    assert all(850 < count < 1150 for count in lengths.values())  # 5 standard deviations are 137
    symbols = Counter("".join(texts))
    assert set(symbols) == set(DIGITS)
    assert all(0.09 < count / symbols.total() < 0.11 for count in symbols.values())


def test_synthetic_never_draws_what_is_held_out() -> None:
    held_out = frozenset(draw_held_out(105, (1, 2), DIGITS, seed=9))
    source = pairs(lengths=(1, 2), held_out=held_out)
    texts = source.texts(range(500), epoch=0)
    assert not set(texts) & held_out
    assert len(set(texts)) == 5
    assert source.texts([5, 3], epoch=0) == [texts[5], texts[3]]


def test_synthetic_longest_bounds_every_row() -> None:
    assert pairs().longest == (5, 5)
    wide = SyntheticPairs("copy", byte_tokenizer(["<bos>", "<eos>"]), (1, 3), 50, seed=0, alphabet="é闫")
    batch = wide.batch(range(50), epoch=0)
    assert batch.source is not None
    assert wide.longest == (10, 10)
    assert max(batch.lengths) <= 10
    assert len(wide) == 50


def test_synthetic_refuses_what_is_not_possible() -> None:
    with pytest.raises(ConfigError, match="lengths are 0 to 4"):
        pairs(lengths=(0, 4))
    with pytest.raises(ConfigError, match="lengths are 5 to 4"):
        pairs(lengths=(5, 4))
    with pytest.raises(ConfigError, match="n_items is 0"):
        SyntheticPairs("copy", TOKENIZER, (1, 2), 0, seed=0)
    with pytest.raises(ConfigError, match="seed is -1"):
        SyntheticPairs("copy", TOKENIZER, (1, 2), 5, seed=-1)
    with pytest.raises(ConfigError, match="lacks '<bos>' or '<eos>'"):
        SyntheticPairs("copy", byte_tokenizer(["<eos>"]), (1, 2), 5, seed=0)
    with pytest.raises(ConfigError, match="alphabet is 'aa'"):
        SyntheticPairs("copy", TOKENIZER, (1, 2), 5, seed=0, alphabet="aa")
    with pytest.raises(DataError, match="'x'"):
        SyntheticPairs("copy", TOKENIZER, (1, 2), 5, seed=0, alphabet="1x")
    with pytest.raises(DataError, match="all sequences of 1 to 1 symbols are held out"):
        pairs(lengths=(1, 1), held_out=frozenset(DIGITS))


def test_draw_held_out_gives_different_sequences() -> None:
    drawn = draw_held_out(300, (3, 5), DIGITS, seed=1)
    assert len(set(drawn)) == 300
    assert {len(text) for text in drawn} == {3, 4, 5}
    assert drawn[:20] == draw_held_out(20, (3, 5), DIGITS, seed=1)
    other = draw_held_out(300, (3, 5), DIGITS, seed=1, exclude=frozenset(drawn))
    assert not set(drawn) & set(other)
    assert draw_held_out(0, (3, 5), DIGITS, seed=1) == []


def test_draw_held_out_can_take_all_there_are() -> None:
    assert sorted(draw_held_out(9, (1, 1), DIGITS, seed=0, exclude=frozenset({"4", "44"}))) == list("012356789")
    with pytest.raises(DataError, match="10 different sequences of 1 to 1 symbols: only 9 are left"):
        draw_held_out(10, (1, 1), DIGITS, seed=0, exclude=frozenset({"4", "44"}))
