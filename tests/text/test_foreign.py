import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import CheckpointError, ConfigError, UnsupportedError
from glassformer.text.foreign import load_tokenizer
from glassformer.text.framing import Framed
from glassformer.text.tokenizer import TextTokenizer

from .folders import (
    BYTE,
    DATA,
    USER_DEFINED,
    WORDS,
    bert,
    gpt2,
    llama,
    needs_data,
    sentencepiece,
    t5,
    unigram_pieces,
    write,
)

NAMED: dict[str, dict[str, Any]] = {
    "bert": {},
    "gpt2": {"special_tokens_map.json": {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}},
    "roberta": {
        "special_tokens_map.json": {
            "bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>",
            "mask_token": {"content": "<mask>", "lstrip": True},
        }
    },
    "t5": {"tokenizer_config.json": {"extra_ids": 3}},
    "llama": {},
}  # fmt: skip
MAKERS: dict[str, Callable[..., Path]] = {"bert": bert, "gpt2": gpt2, "roberta": gpt2, "t5": t5, "llama": llama}
TYPED = "[CLS] <s> </s> <|endoftext|> <extra_id_0> the [MASK]<unk></s>"


def tokenizer_of(kind: str, folder: Path) -> TextTokenizer:
    return load_tokenizer(MAKERS[kind](folder, **NAMED[kind]))


@pytest.fixture(params=list(MAKERS))
def tokenizer(request: pytest.FixtureRequest, tmp_path: Path) -> TextTokenizer:
    return tokenizer_of(request.param, tmp_path / "folder")


# What comes out of the truth


@needs_data
@pytest.mark.parametrize(
    "kind", ["gpt2", "bert-base-uncased", "bert-base-chinese", "t5", "albert", "sentencepiece_test"]
)
def test_ids_are_the_expected_ones(kind: str, tmp_path: Path) -> None:
    folder = Path(str(DATA)) / "vocab" / kind
    if kind == "sentencepiece_test":
        folder = write(tmp_path, {"spiece.model": (folder / "test_model.model").read_bytes()})
    expected = json.loads((Path(str(DATA)) / "vocab" / "expected_ids.json").read_text())
    tokenizer = load_tokenizer(folder, extra_ids=100 if kind == "t5" else 0)
    encode = (lambda text: tokenizer.framed(text).ids) if kind.startswith("bert") else tokenizer.encode
    for text, ids in zip(expected["texts"], expected["ids"][kind], strict=True):
        if kind.startswith("bert") and "[MASK]" in text:  # a mask token there, the text '[MASK]' here
            text, ids = text.replace("[MASK]", ""), [token for token in ids if token != tokenizer.mask_id]
        assert encode(text) == ids
    if kind == "t5":
        assert tokenizer.vocab_size == 32_100
        assert (tokenizer.label(32_099), tokenizer.label(32_000)) == ("<extra_id_0>", "<extra_id_99>")


@needs_data
def test_ids_of_a_byte_fallback_are_the_expected_ones() -> None:
    folder = Path(str(DATA)) / "stories260K"
    tokenizer = load_tokenizer(folder / "hf")
    for case in json.loads((folder / "tokenizer_cases.json").read_text()):
        assert tokenizer.framed(case["text"]).ids == case["ids"]
        assert tokenizer.decode(case["ids"]) == case["text"]
    assert (tokenizer.prefix, tokenizer.eos_id, tokenizer.unk_id, tokenizer.pad_id) == ((1,), 2, 0, None)

    @given(st.text(max_size=20))
    def comes_back(text: str) -> None:
        assert tokenizer.decode(tokenizer.encode(text)) == text.replace("▁", " ")

    comes_back()


def reference(kind: str, folder: Path) -> Any:
    library = pytest.importorskip("transformers")
    if kind == "bert":
        return library.BertTokenizerFast(vocab=str(folder / "vocab.txt"))
    if kind == "t5":
        vocabulary = [(name, score) for name, score, _ in unigram_pieces()]
        return library.T5TokenizerFast(vocab=vocabulary, extra_ids=3)
    make = library.GPT2TokenizerFast if kind == "gpt2" else library.RobertaTokenizerFast
    return make(vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt"))


@pytest.mark.parametrize("kind", ["bert", "gpt2", "roberta", "t5"])
def test_frames_are_those_of_the_reference_library(kind: str, tmp_path: Path) -> None:
    folder = MAKERS[kind](tmp_path / kind, **NAMED[kind])
    theirs = reference(kind, folder)
    theirs.save_pretrained(tmp_path / "saved")
    assert (tmp_path / "saved" / "tokenizer.json").exists()
    for ours in (load_tokenizer(folder), load_tokenizer(tmp_path / "saved")):
        for text in ("the cat sat", "cats  the", "", "a闫t"):
            for pair in (None, "the cats"):
                expected = theirs(text, pair, return_token_type_ids=True)
                assert ours.framed(text, pair) == Framed(expected["input_ids"], expected["token_type_ids"])


# Roles and frames


def test_bert_is_framed_by_its_own_tokens(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(bert(tmp_path))
    assert tokenizer.framed("The cats", "sat") == Framed([2, 5, 6, 7, 3, 8, 3], [0, 0, 0, 0, 0, 1, 1])
    assert tokenizer.prefix == (2,)
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.mask_id, tokenizer.bos_id) == (0, 1, 4, None)
    assert tokenizer.decode(tokenizer.framed("The  cats sat.").ids) == "the cats sat ."
    assert tokenizer.n_unknown(tokenizer.encode("dogs sat")) == 1


def test_bert_keeps_case_where_the_settings_say_so(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(bert(tmp_path, **{"tokenizer_config.json": {"do_lower_case": False}}))
    assert tokenizer.encode("Cat cat") == [13, 6]
    files = {"tokenizer_config.json": {"tokenize_chinese_chars": False, "unk_token": {"content": "[PAD]"}}}
    tokenizer = load_tokenizer(bert(tmp_path, **files))
    assert (tokenizer.encode("你 你你"), tokenizer.unk_id) == ([12, 0], 0)


def test_gpt2_has_a_begin_token_and_puts_none(tmp_path: Path) -> None:
    tokenizer = tokenizer_of("gpt2", tmp_path)
    assert tokenizer.framed("the the", "th") == Framed([257, 258, 256], [0, 0, 1])
    assert (tokenizer.prefix, tokenizer.bos_id, tokenizer.eos_id) == ((), 259, 259)
    asked = {"tokenizer_config.json": {"add_bos_token": True, "bos_token": "<s>", "add_prefix_space": True}}
    tokenizer = load_tokenizer(gpt2(tmp_path, **asked))
    assert tokenizer.framed("the", "the").ids == [260, 258, 260, 258]
    assert tokenizer.prefix == (260,)


def test_roberta_is_framed_by_its_own_tokens(tmp_path: Path) -> None:
    tokenizer = tokenizer_of("roberta", tmp_path)
    assert tokenizer.framed("the", "th") == Framed([260, 257, 261, 261, 256, 261], [0] * 6)
    assert (tokenizer.prefix, tokenizer.mask_id) == ((260,), 262)


def test_t5_ends_a_text_and_has_sentinels(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(t5(tmp_path), {"bos": 0}, extra_ids=2)
    assert tokenizer.framed("the cat", "s") == Framed([4, 5, 1, 3, 6, 1], [0] * 6)
    assert (tokenizer.prefix, tokenizer.bos_id, tokenizer.pad_id, tokenizer.eos_id) == ((), 0, 0, 1)
    assert [tokenizer.label(token) for token in (12, 13)] == ["<extra_id_1>", "<extra_id_0>"]
    assert tokenizer.decode([0, 4, 13, 5, 6, 1]) == "the cats"
    named = t5(tmp_path, **{"special_tokens_map.json": {"cls_token": "<pad>", "sep_token": "</s>"}})
    assert load_tokenizer(named).framed("the", "the") == Framed([0, 4, 1, 4, 1], [0, 0, 0, 1, 1])


def test_llama_begins_a_text(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(llama(tmp_path))
    the = tokenizer.encode("the")
    assert [tokenizer.label(token) for token in the] == ["␣the"]
    assert tokenizer.framed("the", "the").ids == [1, *the, 1, *the]
    assert tokenizer.prefix == (1,)
    ends = {"tokenizer_config.json": {"add_bos_token": False, "add_eos_token": True}}
    tokenizer = load_tokenizer(llama(tmp_path, **ends))
    assert (tokenizer.framed("the").ids, tokenizer.prefix) == ([*the, 2], ())


def test_roles_of_the_caller_win(tmp_path: Path) -> None:
    folder = gpt2(tmp_path, **NAMED["roberta"])
    tokenizer = load_tokenizer(folder, {"bos": 259, "eos": [261, 259], "pad": "<|endoftext|>", "unk": -1, "sep": None})
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id, tokenizer.unk_id) == (259, 261, 259, None)
    assert tokenizer.framed("the").ids == [260, 257, 261]
    with pytest.raises(CheckpointError, match="'pad' is the token 263, which the vocabulary of 263 lacks"):
        load_tokenizer(folder, {"pad": 263})
    with pytest.raises(CheckpointError, match="'pad' is the token '<none>', which"):
        load_tokenizer(folder, {"pad": "<none>"})
    with pytest.raises(ConfigError, match="unknown role 'padd'; did you mean 'pad'"):
        load_tokenizer(folder, {"padd": 1})


def test_a_token_that_text_leads_to_stays_text_in_its_role(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(gpt2(tmp_path), {"eos": "Ċ", "bos": "<|endoftext|>"})
    (line,) = tokenizer.encode("\n")
    assert (tokenizer.eos_id, tokenizer.decode([line, 259])) == (line, "\n")


def test_settings_may_name_a_token_without_an_id(tmp_path: Path) -> None:
    named = {"tokenizer_config.json": {"pad_token": "<none>", "bos_token": "<s>", "eos_token": None}}
    tokenizer = load_tokenizer(gpt2(tmp_path, **named))
    assert (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id) == (None, 260, None)


def test_tokens_beside_the_vocabulary_get_their_ids(tmp_path: Path) -> None:
    decoder = {"263": {"content": "<x>", "special": True}, "259": {"content": "<|endoftext|>", "special": True}}
    files = {"added_tokens.json": {"<y>": 264}, "tokenizer_config.json": {"added_tokens_decoder": decoder}}
    tokenizer = load_tokenizer(gpt2(tmp_path, **files))
    assert tokenizer.vocab_size == 265
    assert tokenizer.decode([257, 263, 264]) == "the<y>"
    assert 263 not in tokenizer.encode("<x>")
    with pytest.raises(CheckpointError, match=r"gives '<y>' the id 270, but after its vocabulary it has 264"):
        load_tokenizer(gpt2(tmp_path, **{"added_tokens.json": {"<y>": 270}}))


# What is promised of every kind


def test_o35_no_special_id_comes_out_of_user_text(tokenizer: TextTokenizer, tmp_path: Path) -> None:
    special = {id for id in range(tokenizer.vocab_size) if not tokenizer._pieces[id]} - {tokenizer.unk_id}
    assert special
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = TextTokenizer.load(tmp_path / "tokenizer.json")
    for each in (tokenizer, loaded, load_tokenizer(tmp_path), pickle.loads(pickle.dumps(tokenizer))):
        for text in (TYPED, *TYPED.split(), *(tokenizer.label(token) for token in special)):
            assert not special & set(each.encode(text))
            assert not special & set(each.encode(f"the{text}the"))


def test_o35_a_typed_name_of_a_byte_is_no_byte(tmp_path: Path) -> None:
    trainer: list[tuple[int, int | float | bytes]] = [(35, 1)]
    bytes_of_unigram = [(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)]
    model = sentencepiece([*unigram_pieces(), *bytes_of_unigram], trainer)
    for folder in (llama(tmp_path / "bpe"), t5(tmp_path / "unigram", **{"spiece.model": model})):
        tokenizer = load_tokenizer(folder)
        assert tokenizer.decode(tokenizer.encode("the <0x41> 闫 🎉")) == "the <0x41> 闫 🎉"


def test_save_and_load_change_nothing(tokenizer: TextTokenizer, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "again").mkdir()
    tokenizer.save(tmp_path / "first" / "tokenizer.json")
    again = TextTokenizer.load(tmp_path / "first" / "tokenizer.json")
    again.save(tmp_path / "again" / "tokenizer.json")
    names = ("tokenizer.json", "tokenizer_config.json")
    first, second = ([(tmp_path / folder / name).read_bytes() for name in names] for folder in ("first", "again"))
    assert first == second
    for each in (again, load_tokenizer(tmp_path / "first"), pickle.loads(pickle.dumps(tokenizer))):
        for name in ("pad_id", "bos_id", "eos_id", "unk_id", "mask_id", "prefix", "vocab_size"):
            assert getattr(each, name) == getattr(tokenizer, name)
        assert each.framed(TYPED, "the") == tokenizer.framed(TYPED, "the")
        assert each.decode(range(each.vocab_size)) == tokenizer.decode(range(each.vocab_size))


@pytest.mark.parametrize("kind", MAKERS)
def test_stream_equals_decode_at_once(kind: str, tmp_path: Path) -> None:
    tokenizer = tokenizer_of(kind, tmp_path)
    token = st.integers(0, tokenizer.vocab_size - 1)

    @given(st.lists(token, max_size=12), st.lists(token, max_size=3))
    def streamed_is_whole(ids: list[int], after: list[int]) -> None:
        for before in ((), after):
            stream = tokenizer.stream(after=before)
            assert "".join([*map(stream.push, ids), stream.finish()]) == tokenizer.decode(ids, after=before)
        try:
            b"".join(tokenizer._pieces[token] for token in after).decode()
        except UnicodeDecodeError:  # its last character may go on in `ids`
            return
        assert tokenizer.decode(after) + tokenizer.decode(ids, after=after) == tokenizer.decode([*after, *ids])

    streamed_is_whole()


@pytest.mark.parametrize("kind", ["gpt2", "roberta", "llama"])
def test_any_text_comes_back_where_no_byte_is_lost(kind: str, tmp_path: Path) -> None:
    tokenizer = tokenizer_of(kind, tmp_path)

    @given(st.text(max_size=20))
    def comes_back(text: str) -> None:
        assert tokenizer.decode(tokenizer.encode(text)) == (text.replace("▁", " ") if kind == "llama" else text)

    comes_back()


def test_encode_takes_a_long_text_at_once(tokenizer: TextTokenizer) -> None:
    one, many = tokenizer.encode("the "), tokenizer.encode("the " * 50_000)
    assert many[:1] == one[:1]
    assert tokenizer.decode(many).rstrip() == ("the " * 50_000).rstrip()


def test_label_groups_cover_every_token(tokenizer: TextTokenizer) -> None:
    ids = tokenizer.framed("the 闫 cats").ids
    groups = tokenizer.label_groups(ids)
    assert [place for group, _ in groups for place in group] == list(range(len(ids)))


# Folders that cannot be used


def test_a_folder_without_a_tokenizer_says_what_was_looked_for(tmp_path: Path) -> None:
    looked = r"none of tokenizer\.json, vocab\.json with merges\.txt, vocab\.txt, spiece\.model, tokenizer\.model"
    with pytest.raises(CheckpointError, match=rf"{tmp_path.name} holds no tokenizer: there is {looked}; copy"):
        load_tokenizer(tmp_path)
    write(tmp_path, {"merges.txt": ["t h"]})
    with pytest.raises(CheckpointError, match=r"merges\.txt is half of one, and its vocab\.json is missing"):
        load_tokenizer(str(tmp_path))


def test_a_tokenizer_json_is_read_first(tmp_path: Path) -> None:
    load_tokenizer(bert(tmp_path / "bert")).save(tmp_path / "tokenizer.json")
    assert load_tokenizer(gpt2(tmp_path)).vocab_size == len(WORDS)


@pytest.mark.parametrize(
    ("make", "name", "content", "problem"),
    [
        (gpt2, "vocab.json", b'{"a": 0', r"vocab\.json is not whole JSON"),
        (gpt2, "vocab.json", b'{"a": "b"}', r"vocab\.json is no JSON object of tokens and their ids"),
        (gpt2, "vocab.json", b'{"a": 0}', r"line 2 of .*merges\.txt needs the token 't', which vocab\.json lacks"),
        (gpt2, "merges.txt", b"#version\nt h\nth", r"line 3 of .*merges\.txt, 'th', is no pair"),
        (gpt2, "merges.txt", b"\xff", r"merges\.txt is no UTF-8 \(byte 0xFF at 0\)"),
        (bert, "vocab.txt", b"\xe9\x97", r"vocab\.txt is no UTF-8"),
        (bert, "vocab.txt", b"", r"vocab\.txt has 0 tokens but not '\[UNK\]'"),
        (bert, "tokenizer_config.json", b"{", r"tokenizer_config\.json is not whole JSON"),
        (bert, "tokenizer_config.json", b"[]", r"tokenizer_config\.json holds no JSON object but a list"),
        (bert, "tokenizer_config.json", {"unk_token": 7}, r"tokenizer_config\.json names a token by 7"),
        (bert, "tokenizer_config.json", {"do_lower_case": "no"}, r"do_lower_case in tokenizer_config\.json is 'no'"),
        (bert, "tokenizer_config.json", {"added_tokens_decoder": 1}, r"added_tokens_decoder in .*config\.json is no"),
        (bert, "tokenizer_config.json", {"added_tokens_decoder": {"x": "y"}}, r"config\.json has the id 'x'"),
        (bert, "special_tokens_map.json", b"\xff", r"special_tokens_map\.json is not whole JSON"),
        (bert, "tokenizer.json", b"{}", r"tokenizer\.json is not a whole tokenizer\.json"),
        (t5, "spiece.model", b"\x0a\x80", r"spiece\.model is not a whole SentencePiece model"),
        (t5, "tokenizer_config.json", {"extra_ids": "many"}, r"extra_ids in .*config\.json is 'many'"),
    ],
)
def test_a_damaged_file_is_named(make: Any, name: str, content: Any, problem: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=problem) as error:
        load_tokenizer(make(tmp_path, **{name: content}))
    assert str(tmp_path) in str(error.value) or "do_lower_case" in problem


def test_a_vocabulary_without_its_merges_is_half_a_tokenizer(tmp_path: Path) -> None:
    (gpt2(tmp_path) / "merges.txt").unlink()
    with pytest.raises(
        CheckpointError, match=r"merges\.txt is missing, without which vocab\.json cannot be used; copy"
    ):
        load_tokenizer(tmp_path)


def test_a_tokenizer_of_two_languages_is_refused(tmp_path: Path) -> None:
    (gpt2(tmp_path) / "merges.txt").rename(tmp_path / "source.spm")
    with pytest.raises(UnsupportedError, match=r"\(source\.spm, target\.spm\), which are not read; add a token"):
        load_tokenizer(tmp_path)


def test_a_vocabulary_that_is_split_another_way_is_refused(tmp_path: Path) -> None:
    folder = gpt2(tmp_path, **{"tokenizer_config.json": {"tokenizer_class": "Qwen2Tokenizer"}})
    with pytest.raises(UnsupportedError, match=r"of a Qwen2Tokenizer, .*tokenizer\.json"):
        load_tokenizer(folder)


def test_user_defined_pieces_win(tmp_path: Path) -> None:
    model = sentencepiece([*unigram_pieces(), ("es", 0.0, USER_DEFINED), ("cats", -0.5, 1)])
    tokenizer = load_tokenizer(t5(tmp_path, **{"spiece.model": model}))
    assert [tokenizer.label(token) for token in tokenizer.encode("the cates")][-1] == "es"
    assert tokenizer.decode(tokenizer.encode("es")) == "es"
