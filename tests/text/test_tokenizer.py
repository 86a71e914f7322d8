import copy
import json
import pickle
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models

from glassformer.core.errors import CheckpointError, ConfigError, DataError, UnsupportedError
from glassformer.core.protocols import Tokenizer
from glassformer.text import tokenizer as module
from glassformer.text.build import byte_tokenizer, character_tokenizer
from glassformer.text.framing import Framed
from glassformer.text.tokenizer import SPECIALS, TextTokenizer

AWKWARD = "a\r\nb\x00 \t闫🎉 e\u0301é \u2028\ufeff\ufffd <eos> </s> 👩‍👩‍👧"


def both() -> list[TextTokenizer]:
    return [character_tokenizer([AWKWARD], SPECIALS), byte_tokenizer(SPECIALS)]


def test_tokenizer_keeps_the_protocol() -> None:
    tokenizer: Tokenizer = byte_tokenizer(["<eos>"])
    assert (tokenizer.vocab_size, tokenizer.eos_id) == (257, 0)
    assert (tokenizer.pad_id, tokenizer.bos_id, tokenizer.unk_id, tokenizer.mask_id) == (None,) * 4
    assert byte_tokenizer(SPECIALS).mask_id == 4


@pytest.mark.parametrize("tokenizer", both())
def test_encode_then_decode_gives_the_text_back(tokenizer: TextTokenizer) -> None:
    assert tokenizer.decode(tokenizer.encode(AWKWARD)) == AWKWARD
    assert tokenizer.encode("") == []
    assert tokenizer.decode([]) == ""


@given(st.text(max_size=30))
@settings(max_examples=100, deadline=None)
def test_encode_then_decode_gives_any_text_back(text: str) -> None:
    for tokenizer in (byte_tokenizer(SPECIALS), character_tokenizer([text, "a"], SPECIALS)):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert not set(range(len(SPECIALS))) & set(ids)


@pytest.mark.parametrize("tokenizer", both())
def test_o35_no_special_id_comes_out_of_user_text(tokenizer: TextTokenizer, tmp_path: Path) -> None:
    text = "<eos> <pad>" if tokenizer.vocab_size == 261 else "<eos> a<eos>"
    tokenizer.save(tmp_path / "tokenizer.json")
    again = TextTokenizer.load(tmp_path / "tokenizer.json")
    for each in (tokenizer, again, copy.deepcopy(tokenizer), pickle.loads(pickle.dumps(again))):
        ids = each.encode(text)
        assert len(ids) == len(text)
        assert min(ids) >= len(SPECIALS)
        assert each.decode(ids) == text


def test_o35_a_foreign_control_token_stays_text() -> None:
    tokenizer = byte_tokenizer(SPECIALS)
    text = "hi <|endoftext|> x"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_encode_in_parts_equals_encode_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for tokenizer in both():
        whole = tokenizer.encode(AWKWARD)
        assert whole == tokenizer._backend.encode(AWKWARD, add_special_tokens=False).ids
        for step in (1, 2, 7):
            monkeypatch.setattr(module, "ENCODED_AT_ONCE", step)
            assert TextTokenizer(tokenizer._backend).encode(AWKWARD) == whole


def test_encode_leaves_merged_tokens_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENCODED_AT_ONCE", 1)
    backend = tokenizers.Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    backend.decoder = decoders.Fuse()
    tokenizer = TextTokenizer(backend)
    assert tokenizer.encode("abba") == [2, 1, 0]
    assert tokenizer.decode([2, 1, 0]) == "abba"


def test_encode_ignores_truncation_and_padding_of_a_file() -> None:
    backend = byte_tokenizer(["<pad>"])._backend
    backend.enable_truncation(2)
    backend.enable_padding(length=8)
    assert TextTokenizer(backend).encode("abc") == [98, 99, 100]


def test_encode_all_gives_the_ids_of_each_text() -> None:
    assert character_tokenizer(["ab"]).encode_all(["ab", "", "b"]) == [[0, 1], [], [1]]


def test_encode_refuses_an_unknown_character() -> None:
    tokenizer = character_tokenizer(["ab"])
    with pytest.raises(DataError, match=r"'é' \(U\+00E9\) at offset 2 has no id .* of 2, which knows 'ab'; .*'<unk>'"):
        tokenizer.encode("abéa")


def test_encode_gives_unknown_characters_the_unk_id() -> None:
    tokenizer = character_tokenizer(["ab"], ["<pad>", "<unk>"])
    assert tokenizer.encode("aéøb") == [2, 1, 1, 3]
    assert tokenizer.decode([2, 1, 3]) == "ab"


@pytest.mark.parametrize("tokenizer", [*both(), character_tokenizer(["ab"])])
def test_encode_refuses_half_a_surrogate_pair(tokenizer: TextTokenizer) -> None:
    with pytest.raises(DataError, match=r"U\+D800\) at offset 1 is half of a surrogate pair"):
        tokenizer.encode("a\ud800")


@pytest.mark.parametrize("token", [32, -1])
def test_o06_decode_and_label_refuse_ids_outside_the_vocabulary(token: int) -> None:
    tokenizer = character_tokenizer(["".join(chr(0x61 + i) for i in range(27))], SPECIALS)
    assert tokenizer.vocab_size == 32
    tokenizer.decode([1, 31])
    with pytest.raises(DataError, match=rf"token id {token} is outside 0..31 \(vocab size 32\)"):
        tokenizer.decode([1, token])
    with pytest.raises(DataError, match=rf"token id {token} "):
        tokenizer.label(token)


def test_decode_leaves_specials_out() -> None:
    tokenizer = character_tokenizer(["ab"], SPECIALS)
    assert tokenizer.decode([1, 5, 0, 4, 6, 2]) == "ab"


def test_label_shows_what_a_person_cannot_see() -> None:
    characters = character_tokenizer(["a\n \x00\u200d闫\\"], ["<bos>"])
    shown = {characters.label(token) for token in range(characters.vocab_size)}
    assert shown == {"<bos>", "a", "\\n", "␣", "\\x00", "\\u200d", "闫", "\\"}
    plain = byte_tokenizer(["<eos>"])
    assert [plain.label(token) for token in (0, 0x61 + 1, 0x0A + 1, 0x20 + 1, 0xE9 + 1)] == [
        "<eos>", "a", "\\n", "␣", "<0xE9>",
    ]  # fmt: skip


def test_label_groups_show_characters_that_tokens_share() -> None:
    tokenizer = byte_tokenizer(["<bos>"])
    ids = [0, *tokenizer.encode("a é\n闫"), 0xE9 + 1]
    assert tokenizer.label_groups(ids) == [
        (range(1), "<bos>"), (range(1, 2), "a"), (range(2, 3), "␣"), (range(3, 5), "é"), (range(5, 6), "\\n"),
        (range(6, 9), "闫"), (range(9, 10), "<0xE9>"),
    ]  # fmt: skip


def test_label_groups_say_what_label_says_of_tokens_that_are_characters() -> None:
    tokenizer = character_tokenizer([AWKWARD], SPECIALS)
    ids = list(range(tokenizer.vocab_size))
    assert tokenizer.label_groups(ids) == [(range(i, i + 1), tokenizer.label(i)) for i in ids]
    assert tokenizer.label_groups([]) == []


def test_o06_label_groups_refuse_ids_outside_the_vocabulary() -> None:
    with pytest.raises(DataError, match=r"token id 256 is outside 0..255 \(vocab size 256\)"):
        byte_tokenizer().label_groups([0, 256])


def test_label_names_an_unused_id() -> None:
    backend = tokenizers.Tokenizer(models.BPE({"a": 0, "b": 2}, []))
    backend.decoder = decoders.Fuse()
    assert TextTokenizer(backend).label(1) == "<unused 1>"


@pytest.mark.parametrize("tokenizer", [*both(), character_tokenizer(["ab"])])
def test_save_and_load_change_nothing(tokenizer: TextTokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    again = TextTokenizer.load(path)
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]
    assert again.vocab_size == tokenizer.vocab_size
    for name in ("pad_id", "bos_id", "eos_id", "unk_id", "mask_id"):
        assert getattr(again, name) == getattr(tokenizer, name)
    text = AWKWARD if tokenizer.vocab_size > 2 else "abba"
    assert again.encode(text) == tokenizer.encode(text)
    everything = range(tokenizer.vocab_size)
    assert again.decode(everything) == tokenizer.decode(everything)
    assert [again.label(i) for i in everything] == [tokenizer.label(i) for i in everything]
    assert tokenizers.Tokenizer.from_file(str(path)).get_vocab_size() == tokenizer.vocab_size


def test_save_writes_roles_only_where_they_are_not_its_own(tmp_path: Path) -> None:
    backend = byte_tokenizer(["<bos>", "<eos>"])._backend
    path = tmp_path / "tokenizer.json"
    TextTokenizer(backend, {"eos": "<eos>", "pad": "<eos>"}).save(path)
    roles = tmp_path / "tokenizer_config.json"
    assert json.loads(roles.read_text()) == {"pad_token": "<eos>", "eos_token": "<eos>"}
    again = TextTokenizer.load(path)
    assert (again.pad_id, again.bos_id, again.eos_id, again.prefix) == (1, None, 1, ())
    TextTokenizer(backend, {"eos": "<eos>", "bos": "<bos>"}).save(path)  # its own: those before are gone
    assert not roles.exists()
    assert (TextTokenizer.load(path).bos_id, TextTokenizer.load(path).pad_id) == (0, None)
    roles.write_text("{}")
    assert TextTokenizer.load(path).bos_id is None
    roles.write_text("{")
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json is not whole JSON"):
        TextTokenizer.load(path)


def test_roles_need_a_token() -> None:
    backend = byte_tokenizer(["<eos>"])._backend
    with pytest.raises(ConfigError, match="unknown role 'end' of token '<eos>'; known: bos, cls"):
        TextTokenizer(backend, {"end": "<eos>"})
    with pytest.raises(ConfigError, match="has no token '<s>' to play 'bos'"):
        TextTokenizer(backend, {"bos": "<s>"})


def test_prefix_is_the_begin_token_of_a_tokenizer_built_here() -> None:
    assert byte_tokenizer(["<eos>", "<bos>"]).prefix == (1,)
    assert byte_tokenizer(["<eos>"]).prefix == ()
    renamed = TextTokenizer(byte_tokenizer(["<bos>"])._backend, {"eos": "<bos>", "bos": "<bos>"})
    assert renamed.prefix == ()


def test_framed_adds_nothing_to_a_text_of_a_tokenizer_built_here() -> None:
    tokenizer = character_tokenizer(["ab"], SPECIALS)
    assert tokenizer.framed("ab") == Framed([5, 6], [0, 0])
    assert tokenizer.framed("ab", "b") == Framed([5, 6, 6], [0, 0, 0])


def test_load_refuses_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"none\.json \(No such file"):
        TextTokenizer.load(tmp_path / "none.json")
    with pytest.raises(CheckpointError, match=r"directory\); name a tokenizer\.json"):
        TextTokenizer.load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b'{"version": "1.0", "model": {"type": "BPE"'])
def test_load_refuses_a_damaged_file(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"broken\.json is not a whole tokenizer\.json"):
        TextTokenizer.load(path)


def test_load_names_the_file_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "words.json"
    tokenizers.Tokenizer(models.WordLevel({"a": 0}, unk_token="a")).save(str(path))
    with pytest.raises(UnsupportedError, match=r"words\.json: a tokenizer of model WordLevel"):
        TextTokenizer.load(path)
