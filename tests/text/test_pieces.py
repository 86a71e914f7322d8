import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from glassformer.core.errors import CheckpointError, UnsupportedError
from glassformer.text.build import byte_tokenizer, character_tokenizer
from glassformer.text.pieces import alphabet, byte_symbols, symbols_stand_alone, token_pieces


def characters(vocabulary: dict[str, int], merges: list[tuple[str, str]] | None = None) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.BPE(vocabulary, merges or []))
    backend.decoder = decoders.Fuse()
    return backend


def test_byte_symbols_are_those_of_the_library() -> None:
    symbols = byte_symbols()
    assert set(symbols) == set(pre_tokenizers.ByteLevel.alphabet())
    assert symbols[ord(" ")] == "Ġ"
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    text = "aé\n闫🎉\x00\x7f\xad"
    assert splitter.pre_tokenize_str(text)[0][0] == "".join(symbols[byte] for byte in text.encode())


def test_token_pieces_are_bytes_in_both_spellings() -> None:
    assert token_pieces(byte_tokenizer(["<eos>"])._backend) == (b"", *(bytes([byte]) for byte in range(256)))
    assert token_pieces(character_tokenizer(["é闫"], ["<eos>"])._backend) == (
        b"",
        "é".encode(),
        "闫".encode(),
    )


def test_token_pieces_leave_unused_ids_empty() -> None:
    assert token_pieces(characters({"a": 0, "b": 3})) == (b"a", b"", b"", b"b")


def test_token_pieces_refuse_another_model() -> None:
    with pytest.raises(UnsupportedError, match="WordLevel"):
        token_pieces(tokenizers.Tokenizer(models.WordLevel({"a": 0}, unk_token="a")))


def test_token_pieces_refuse_another_decoder() -> None:
    backend = characters({"a": 0})
    backend.decoder = decoders.WordPiece()
    with pytest.raises(UnsupportedError, match="decoder WordPiece"):
        token_pieces(backend)


def test_token_pieces_refuse_a_byte_level_vocabulary_with_a_gap() -> None:
    backend = tokenizers.Tokenizer(models.BPE({symbol: i for i, symbol in enumerate(byte_symbols()[:0xE9])}, []))
    backend.decoder = decoders.ByteLevel()
    with pytest.raises(CheckpointError, match=r"lacks the byte 0xE9 \(written 'é'\)"):
        token_pieces(backend)


def test_alphabet_is_bounded_only_without_unk_and_bytes() -> None:
    assert alphabet(character_tokenizer(["ab"], ["<eos>"])._backend) == frozenset("ab")
    assert alphabet(character_tokenizer(["ab"], ["<unk>"])._backend) is None
    assert alphabet(byte_tokenizer()._backend) is None


def test_symbols_stand_alone_without_merges_normaliser_and_prefix() -> None:
    assert symbols_stand_alone(byte_tokenizer(["<eos>"])._backend)
    assert symbols_stand_alone(character_tokenizer(["ab"])._backend)
    assert not symbols_stand_alone(characters({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    normalised = characters({"a": 0})
    normalised.normalizer = normalizers.NFC()
    assert not symbols_stand_alone(normalised)
    prefixed = byte_tokenizer()._backend
    prefixed.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    assert not symbols_stand_alone(prefixed)
    split = characters({"a": 0})
    split.pre_tokenizer = pre_tokenizers.Whitespace()
    assert not symbols_stand_alone(split)
