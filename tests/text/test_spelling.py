from typing import Any

import pytest
import tokenizers
from tokenizers import decoders, models

from glassformer.core.errors import CheckpointError, UnsupportedError
from glassformer.text.pieces import token_pieces
from glassformer.text.spelling import BYTE_NAMES, Spelling, spelling_of, unknown_token


def backend(model: models.Model, decoder: decoders.Decoder) -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(model)
    made.decoder = decoder
    return made


def bpe(*tokens: str, **settings: Any) -> models.BPE:
    return models.BPE({token: index for index, token in enumerate(tokens)}, [], **settings)


LLAMA = (decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse())


@pytest.mark.parametrize(
    ("decoder", "lead"),
    [
        (decoders.Sequence([*LLAMA, decoders.Strip(" ", 1, 0)]), b" "),
        (decoders.Sequence([decoders.Sequence(list(LLAMA)), decoders.Strip(" ", 0, 0)]), b""),
    ],
)
def test_spelling_of_a_bpe_with_byte_fallback(decoder: decoders.Decoder, lead: bytes) -> None:
    model = bpe("<unk>", "▁a", *BYTE_NAMES, unk_token="<unk>", byte_fallback=True)
    made = backend(model, decoder)
    assert spelling_of(made) == Spelling("characters", "▁", lead, names_bytes=True)
    assert token_pieces(made)[1:4] == (b" a", b"\x00", b"\x01")
    assert unknown_token(made) == "<unk>"


@pytest.mark.parametrize(("scheme", "lead"), [("always", b" "), ("first", b" "), ("never", b"")])
def test_spelling_of_a_unigram(scheme: Any, lead: bytes) -> None:
    made = backend(models.Unigram([("?", 0.0), ("▁a", -1.0)], 0), decoders.Metaspace("▁", scheme))
    assert spelling_of(made) == Spelling("characters", "▁", lead)
    assert (token_pieces(made), unknown_token(made)) == ((b"?", b" a"), "?")


def test_spelling_of_a_unigram_with_byte_fallback() -> None:
    vocabulary = [("a", -1.0), ("?", 0.0), *((name, 0.0) for name in BYTE_NAMES)]
    made = backend(models.Unigram(vocabulary, 1, True), decoders.Sequence(list(LLAMA)))
    assert spelling_of(made) == Spelling("characters", "▁", b"", names_bytes=True, unwritten=1)


def test_spelling_of_a_wordpiece() -> None:
    made = backend(models.WordPiece({"[UNK]": 0, "a": 1, "##b": 2}, unk_token="[UNK]"), decoders.WordPiece())
    made.add_special_tokens(["[UNK]"])
    made.add_tokens(["c"])
    assert spelling_of(made) == Spelling("words", "##", b" ")
    assert token_pieces(made) == (b"", b" a", b"b", b" c")


@pytest.mark.parametrize(
    ("model", "decoder", "name"),
    [
        (models.WordPiece({"a": 0}, unk_token="a"), decoders.WordPiece(prefix="@@"), "WordPiece"),
        (models.Unigram([("a", 0.0)], 0), decoders.Fuse(), "Fuse"),
        (bpe("a"), decoders.Sequence(list(LLAMA)), r"Replace \+ ByteFallback \+ Fuse"),
        (bpe("a", unk_token="a"), decoders.Sequence([*LLAMA, decoders.Strip(" ", 2, 0)]), r"Fuse \+ Strip"),
        (bpe("a", unk_token="a"), decoders.BPEDecoder(), "BPEDecoder"),
    ],
)
def test_spelling_refuses_what_is_no_concatenation(model: models.Model, decoder: decoders.Decoder, name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"with decoder {name} cannot be used" if "+" not in name else name):
        spelling_of(backend(model, decoder))


@pytest.mark.parametrize(
    "made",
    [
        backend(models.WordPiece({"a": 0}, unk_token="[UNK]"), decoders.WordPiece()),
        backend(models.Unigram([("a", 0.0)], None), decoders.Metaspace()),
    ],
)
def test_spelling_refuses_a_vocabulary_without_its_unknown_token(made: tokenizers.Tokenizer) -> None:
    with pytest.raises(CheckpointError, match=r"lacks the token .* for what is unknown"):
        spelling_of(made)
