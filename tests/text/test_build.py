import pytest

from glassformer.core.errors import ConfigError, DataError
from glassformer.text.build import byte_tokenizer, character_tokenizer
from glassformer.text.tokenizer import SPECIALS


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


def test_byte_tokenizer_numbers_bytes_in_order() -> None:
    assert byte_tokenizer().vocab_size == 256
    assert byte_tokenizer().encode("a\x00é") == [0x61, 0x00, 0xC3, 0xA9]
    assert byte_tokenizer(SPECIALS).encode("a\x00é") == [0x65, 0x04, 0xC7, 0xAD]
    assert byte_tokenizer(SPECIALS).vocab_size == 260


def test_specials_must_be_known_and_different() -> None:
    with pytest.raises(ConfigError, match="'<x>'; known: <bos>, <eos>, <pad>, <unk>"):
        byte_tokenizer(["<x>"])
    with pytest.raises(ConfigError, match="'<esos>'; did you mean '<eos>'"):
        character_tokenizer(["a"], ["<esos>"])
    with pytest.raises(ConfigError, match="'<pad>' is listed twice"):
        byte_tokenizer(["<pad>", "<eos>", "<pad>"])
