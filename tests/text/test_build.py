import pytest

from glassformer.core.errors import ConfigError, DataError
from glassformer.text.build import TokenizerKind, build_tokenizer, byte_tokenizer, character_tokenizer
from glassformer.text.tokenizer import SPECIALS
from glassformer.text.trained import bpe_tokenizer, byte_bpe_tokenizer, word_tokenizer


def test_character_tokenizer_numbers_specials_then_sorted_characters() -> None:
    tokenizer = character_tokenizer(["ca", "bé"], ["<eos>", "<pad>"])
    assert [tokenizer.label(token) for token in range(6)] == ["<eos>", "<pad>", "a", "b", "c", "é"]
    assert (tokenizer.eos_id, tokenizer.pad_id, tokenizer.bos_id) == (0, 1, None)


def test_character_tokenizer_does_not_depend_on_the_order_of_texts() -> None:
    one, other = character_tokenizer(["ab", "c"]), character_tokenizer(["c", "ba"])
    assert one.encode("abc") == other.encode("abc")


def test_character_tokenizer_sends_rare_characters_to_unk() -> None:
    tokenizer = character_tokenizer(["aab", "ab", "c"], ["<unk>"], min_count=2)
    assert tokenizer.vocab_size == 3
    assert tokenizer.encode("abc") == [1, 2, 0]


def test_character_tokenizer_needs_unk_to_drop_characters() -> None:
    with pytest.raises(ConfigError, match=r"min_count is 2, .* '<unk>'"):
        character_tokenizer(["aab"], min_count=2)


def test_character_tokenizer_refuses_a_count_below_one() -> None:
    with pytest.raises(ConfigError, match="min_count is 0"):
        character_tokenizer(["a"], min_count=0)


@pytest.mark.parametrize(("texts", "number"), [([], 0), (["", ""], 0), (["ab"], 2)])
def test_character_tokenizer_refuses_an_empty_vocabulary(texts: list[str], number: int) -> None:
    with pytest.raises(DataError, match=f"none of {number} different characters occurs min_count = 2"):
        character_tokenizer(texts, ["<unk>"], min_count=2)


def test_character_tokenizer_refuses_half_a_surrogate_pair() -> None:
    with pytest.raises(DataError, match=r"'\\ud800'"):
        character_tokenizer(["a\ud800"])


def test_character_tokenizer_keeps_the_most_frequent_that_fit() -> None:
    texts = ["eeee dd bb ccc a"]  # four spaces and four e, then c; b and d tie
    tokenizer = character_tokenizer(texts, ["<unk>"], vocab_size=5)
    assert [tokenizer.label(token) for token in range(5)] == ["<unk>", "␣", "b", "c", "e"]
    assert character_tokenizer(texts, ["<unk>"], vocab_size=100).vocab_size == 7


def test_character_tokenizer_says_the_smallest_vocabulary() -> None:
    with pytest.raises(ConfigError, match=r"vocab_size is 3, but 1 specials and 3 characters need 4; .* add '<unk>'"):
        character_tokenizer(["abc"], ["<pad>"], vocab_size=3)
    with pytest.raises(ConfigError, match=r"vocab_size is 1, but 1 specials and 1 characters need 2; .* or more$"):
        character_tokenizer(["abc"], ["<unk>"], vocab_size=1)


def test_byte_tokenizer_numbers_bytes_in_order() -> None:
    assert byte_tokenizer().vocab_size == 256
    assert byte_tokenizer().encode("a\x00é") == [0x61, 0x00, 0xC3, 0xA9]
    assert byte_tokenizer(SPECIALS).encode("a\x00é") == [0x66, 0x05, 0xC8, 0xAE]
    assert byte_tokenizer(SPECIALS).vocab_size == 261


def test_specials_must_be_known_and_different() -> None:
    with pytest.raises(ConfigError, match="'<x>'; known: <bos>, <eos>, <mask>, <pad>, <unk>"):
        byte_tokenizer(["<x>"])
    with pytest.raises(ConfigError, match="'<esos>'; did you mean '<eos>'"):
        character_tokenizer(["a"], ["<esos>"])
    with pytest.raises(ConfigError, match="'<pad>' is listed twice"):
        byte_tokenizer(["<pad>", "<eos>", "<pad>"])


@pytest.mark.parametrize("kind", ["character", "byte", "word", "bpe", "byte_bpe"])
def test_build_tokenizer_makes_each_kind(kind: TokenizerKind) -> None:
    texts, specials = ["the cat", "the hat"], ["<pad>", "<unk>"]
    size = {"bpe": 12, "byte_bpe": 261}.get(kind)
    expected = {
        "character": character_tokenizer(texts, specials),
        "byte": byte_tokenizer(specials),
        "word": word_tokenizer(texts, specials),
        "bpe": bpe_tokenizer(texts, 12, specials, min_count=1),
        "byte_bpe": byte_bpe_tokenizer(texts, 261, specials, min_count=1),
    }
    tokenizer = build_tokenizer(kind, texts, specials, vocab_size=size)
    assert tokenizer._backend.to_str() == expected[kind]._backend.to_str()


def test_build_tokenizer_passes_the_numbers_on() -> None:
    assert build_tokenizer("word", ["a b b"], ["<unk>"], min_count=2).vocab_size == 2
    assert build_tokenizer("character", ["abb"], ["<unk>"], vocab_size=2).encode("ab") == [0, 1]
    assert build_tokenizer("bpe", ["ab ab"], [], vocab_size=50, min_count=3).vocab_size == 3


def test_build_tokenizer_suggests_a_missing_vocab_size() -> None:
    with pytest.raises(
        ConfigError, match=r"a bpe tokenizer .* set it to 4 or more .*1 specials and 3 .* instance 5000"
    ):
        build_tokenizer("bpe", ["abc"], ["<pad>"])
    with pytest.raises(ConfigError, match=r"a byte_bpe tokenizer .* set it to 257 or more .* for instance 5000"):
        build_tokenizer("byte_bpe", ["abc"], ["<pad>"])


def test_build_tokenizer_refuses_what_has_no_effect_on_bytes() -> None:
    with pytest.raises(ConfigError, match=r"vocab_size 300 .* no effect on a byte tokenizer, which has 257 ids"):
        build_tokenizer("byte", ["a"], ["<pad>"], vocab_size=300)
    with pytest.raises(ConfigError, match=r"min_count 2 have no effect"):
        build_tokenizer("byte", ["a"], ["<pad>"], min_count=2)


def test_build_tokenizer_refuses_an_unknown_kind() -> None:
    with pytest.raises(ConfigError, match="unknown tokenizer 'bytes'; did you mean 'byte'"):
        build_tokenizer("bytes", ["a"], [])  # type: ignore[arg-type]
