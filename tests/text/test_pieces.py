import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from glassformer.core.errors import CheckpointError, UnsupportedError
from glassformer.text.build import byte_tokenizer, character_tokenizer
from glassformer.text.pieces import alphabet, byte_symbols, symbols_stand_alone, token_pieces, words_stand_alone
from glassformer.text.tokenizer import TextTokenizer
from glassformer.text.trained import bpe_tokenizer, byte_bpe_tokenizer, word_tokenizer
from glassformer.text.words import word_splitter


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


def test_token_pieces_of_trained_kinds_are_the_bytes_they_stand_for() -> None:
    text = ["é é"]
    assert token_pieces(word_tokenizer(text, ["<unk>"])._backend) == (b"", " é".encode(), "é".encode())
    assert token_pieces(bpe_tokenizer(text, 4, ["<unk>"], min_count=1)._backend) == (
        b"", b" ", "é".encode(), " é".encode(),
    )  # fmt: skip
    merged = token_pieces(byte_bpe_tokenizer(text, 259, ["<unk>"])._backend)
    assert merged == (b"", *(bytes([byte]) for byte in range(256)), "é".encode())


@pytest.mark.parametrize("splitter", [None, pre_tokenizers.Whitespace(), pre_tokenizers.Metaspace()])
def test_token_pieces_refuse_words_that_are_not_split_as_here(splitter: pre_tokenizers.PreTokenizer | None) -> None:
    backend = tokenizers.Tokenizer(models.WordLevel({"<unk>": 0, "a": 1}, unk_token="<unk>"))
    backend.add_special_tokens(["<unk>"])
    backend.decoder = decoders.Fuse()
    if splitter is not None:
        backend.pre_tokenizer = splitter
    with pytest.raises(UnsupportedError, match=r"WordLevel that drops spaces .* word_tokenizer"):
        token_pieces(backend)
    backend.pre_tokenizer = word_splitter()
    assert token_pieces(backend) == (b"", b"a")


def test_token_pieces_refuse_words_without_an_unknown_one() -> None:
    backend = tokenizers.Tokenizer(models.WordLevel({"a": 0}, unk_token="<unk>"))
    backend.pre_tokenizer, backend.decoder = word_splitter(), decoders.Fuse()
    with pytest.raises(UnsupportedError, match="has no unknown word"):
        token_pieces(backend)


@pytest.mark.parametrize(
    ("model", "name"),
    [(models.WordPiece({"a": 0}, unk_token="a"), "WordPiece"), (models.Unigram([("a", 0.0)], unk_id=0), "Unigram")],
)
def test_token_pieces_refuse_models_whose_text_is_no_concatenation(model: models.Model, name: str) -> None:
    with pytest.raises(UnsupportedError, match=name):
        token_pieces(tokenizers.Tokenizer(model))


def test_token_pieces_refuse_metaspace() -> None:
    backend = characters({"a": 0})
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    with pytest.raises(UnsupportedError, match="decoder Metaspace"):
        token_pieces(backend)


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


def test_words_stand_alone_in_trained_kinds_only() -> None:
    trained = [
        word_tokenizer(["a b"], ["<unk>"]),
        bpe_tokenizer(["a b"], 9),
        byte_bpe_tokenizer(["a b"], 300, ["<eos>"]),
    ]
    for tokenizer in trained:
        assert words_stand_alone(tokenizer._backend)
        assert not symbols_stand_alone(tokenizer._backend)
    for tokenizer in (byte_tokenizer(), character_tokenizer(["a"]), TextTokenizer(characters({"a": 0}))):
        assert not words_stand_alone(tokenizer._backend)


def test_words_do_not_stand_alone_where_something_reaches_over_them() -> None:
    normalised = bpe_tokenizer(["a b"], 9)._backend
    normalised.normalizer = normalizers.NFC()
    assert not words_stand_alone(normalised)
    added = bpe_tokenizer(["a b"], 9)._backend
    added.add_tokens(["a b"])
    assert not words_stand_alone(added)


def test_alphabet_of_trained_kinds_is_that_of_their_symbols() -> None:
    assert alphabet(bpe_tokenizer(["ab ab"], 9)._backend) == frozenset("ab ")
    assert alphabet(bpe_tokenizer(["ab ab"], 9, ["<unk>"])._backend) is None
    assert alphabet(word_tokenizer(["ab"], ["<unk>"])._backend) is None
    assert alphabet(byte_bpe_tokenizer(["ab"], 300)._backend) is None
