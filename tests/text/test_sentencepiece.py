import io
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import CheckpointError, UnsupportedError
from glassformer.text.foreign import load_tokenizer
from glassformer.text.sentencepiece import CONTROL, NORMAL, UNKNOWN, Piece, read_sentencepiece, sentencepiece_backend

from .folders import UNUSED, USER_DEFINED, bpe_pieces, message, sentencepiece, unigram_pieces

SENTENCES = ["the cat sat on the mat", "a cat and the hat", "that the cats sat", "0x41 <s> are signs </s>"] * 9
ALPHABET = st.one_of(
    st.sampled_from([*"thecats  \t<>/_0x41", "</s>", "<s>", "<0x41>", "<unk>", "<sep>", "闫", "é", "▁", "Ａ", "\n"]),
    st.characters(codec="utf-8"),
)


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "some.model"
    path.write_bytes(data)
    return path


def test_read_gives_what_the_file_says(tmp_path: Path) -> None:
    pieces: list[tuple[str, float, int]] = [("?", 0.0, UNKNOWN), ("<b>", 0.0, CONTROL), ("é", -1.5, NORMAL)]
    data = sentencepiece(pieces, [(3, 2), (35, 1), (45, b"?"), (46, b"<b>")], [(2, b""), (3, 0), (4, 0)])
    model = read_sentencepiece(written(tmp_path, data))
    assert (model.kind, model.byte_fallback, model.prefix, model.squeeze) == ("bpe", True, False, False)
    assert model.pieces == [Piece("?", 0.0, UNKNOWN), Piece("<b>", 0.0, CONTROL), Piece("é", -1.5)]
    assert model.roles == {"unk": "?", "bos": "<b>"}


def test_read_has_the_defaults_of_the_format(tmp_path: Path) -> None:
    model = read_sentencepiece(written(tmp_path, sentencepiece(unigram_pieces())))
    assert (model.kind, model.byte_fallback, model.prefix, model.squeeze) == ("unigram", False, True, True)
    assert model.roles == {"pad": "<pad>", "eos": "</s>", "unk": "<unk>"}


WHOLE = sentencepiece(unigram_pieces(), [(3, 1)], [(3, 1)])


@pytest.mark.parametrize(
    "data",
    [
        b"", b"no model at all", WHOLE[:-3], WHOLE[: len(WHOLE) // 2], WHOLE + b"\x80",
        message((2, b""), (3, b"")), message((1, 7), (2, b""), (3, b"")), sentencepiece([("a", 0.0, NORMAL)]),
        message((1, message((1, b"\xff"))), (2, b""), (3, b"")),
        sentencepiece([("a", 0.0, UNKNOWN), ("a", 0.0, NORMAL)]),
    ],
)  # fmt: skip
def test_read_refuses_a_damaged_file(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"some\.model .* copy or download it again"):
        read_sentencepiece(written(tmp_path, data))


@pytest.mark.parametrize(
    ("trainer", "normaliser", "problem"),
    [([(3, 4)], [], "of type 4"), ([(24, 1)], [], "behind a word"), ([], [(5, 0)], "'▁'")],
)
def test_read_refuses_another_kind(trainer: Any, normaliser: Any, problem: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=rf"some\.model: .*{problem}"):
        read_sentencepiece(written(tmp_path, sentencepiece(unigram_pieces(), trainer, normaliser)))


@pytest.mark.parametrize(("kind", "name"), [(USER_DEFINED, "user-defined"), (UNUSED, "unused")])
def test_backend_refuses_what_a_bpe_of_the_library_cannot_do(kind: int, name: str, tmp_path: Path) -> None:
    path = written(tmp_path, sentencepiece([*bpe_pieces(), ("<x>", 0.0, kind)], [(3, 2)]))
    with pytest.raises(UnsupportedError, match=rf"BPE with {name} pieces \('<x>'\).*tokenizer\.json"):
        sentencepiece_backend(read_sentencepiece(path), path)


def test_backend_refuses_a_damaged_table_of_the_normaliser(tmp_path: Path) -> None:
    path = written(tmp_path, sentencepiece(unigram_pieces(), normaliser=[(2, b"\xff\xff\xff\xff")]))
    with pytest.raises(CheckpointError, match=r"normaliser in .*some\.model is damaged"):
        sentencepiece_backend(read_sentencepiece(path), path)


KINDS: dict[str, dict[str, Any]] = {
    "unigram": {},
    "unigram with bytes": {"byte_fallback": True, "user_defined_symbols": ["<sep>"], "vocab_size": 360},
    "unigram as it is": {
        "normalization_rule_name": "identity", "remove_extra_whitespaces": False, "add_dummy_prefix": False,
    },
    "bpe": {"model_type": "bpe"},
    "bpe over spaces": {"model_type": "bpe", "split_by_whitespace": False, "normalization_rule_name": "nfkc"},
    "bpe with bytes": {
        "model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False, "vocab_size": 330,
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_text_are_those_of_the_reference_library(kind: str, tmp_path: Path) -> None:
    reference = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    settings = {"vocab_size": 60, "minloglevel": 2, "hard_vocab_limit": False, **KINDS[kind]}
    reference.SentencePieceTrainer.train(sentence_iterator=iter(SENTENCES), model_writer=model, **settings)
    (tmp_path / "tokenizer.model").write_bytes(model.getvalue())
    tokenizer = load_tokenizer(tmp_path)
    processor = reference.SentencePieceProcessor(model_proto=model.getvalue())
    keeps_all = settings.get("normalization_rule_name") == "identity" and "byte_fallback" in settings
    begins = settings.get("add_dummy_prefix", True)

    # The library looks up a letter with its marks at once (see `sentencepiece_backend`): no marks here.
    @given(st.lists(ALPHABET.filter(lambda text: len(text) > 1 or not _joins(text)), max_size=12))
    def same(parts: list[str]) -> None:
        text = "".join(parts)
        ids = tokenizer.encode(text)
        assert ids == processor.encode(text)
        assert not {tokenizer.bos_id, tokenizer.eos_id} & set(ids)
        if tokenizer.unk_id not in ids and not text.startswith("▁"):
            assert begins is False or tokenizer.decode(ids) == processor.decode(ids)
        if keeps_all:
            assert tokenizer.decode(ids) == text.replace("▁", " ")

    same()


def _joins(character: str) -> bool:
    code = ord(character)
    hangul = 0x1100 <= code < 0x1200 or 0xA960 <= code < 0xA980 or 0xAC00 <= code < 0xD800
    return unicodedata.category(character)[0] in "MC" or code in (0xFF9E, 0xFF9F) or hangul or 0x1F1E6 <= code < 0x1F400
