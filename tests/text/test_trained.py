import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import glassformer
from glassformer.core.errors import ConfigError, DataError
from glassformer.text import tokenizer as module
from glassformer.text.tokenizer import SPECIALS, TextTokenizer
from glassformer.text.trained import bpe_tokenizer, byte_bpe_tokenizer, word_tokenizer

TEXT = (
    "  the cat sat on the mat,\r\n\tthe cat's hat.\n\n闫🎉 你好，你好。 e\u0301é 👩‍👩‍👧 1234 \u2028\ufeff\ufffd  "
    "<mask> <eos><|endoftext|> "
)
SPECIAL_TEXT = "<mask> the<eos>\n<|endoftext|> <pad><unk> <bos>"
SOURCE = str(Path(glassformer.__file__).parents[1])

Make = Callable[[Sequence[str]], TextTokenizer]
MAKERS: dict[str, Make] = {
    "word": lambda texts: word_tokenizer(texts, SPECIALS),
    "bpe": lambda texts: bpe_tokenizer(texts, 120, SPECIALS),
    "byte_bpe": lambda texts: byte_bpe_tokenizer(texts, 300, SPECIALS),
}
each_kind = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def pieces(tokenizer: TextTokenizer, text: str) -> list[str]:
    return [tokenizer.label(token) for token in tokenizer.encode(text)]


def run(script: str, **environment: str) -> str:
    """Run a script in a process of its own; what it writes to stderr at the level of the system must be nothing."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        env=os.environ | {"PYTHONPATH": SOURCE} | environment,
        capture_output=True,
        text=True,
        timeout=120,  # a dead-lock
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_word_tokenizer_numbers_specials_then_words_by_how_often_they_occur() -> None:
    tokenizer = word_tokenizer(["b a a c\n", "b"], ["<pad>", "<unk>"])
    assert [tokenizer.label(i) for i in range(6)] == ["<pad>", "<unk>", "␣a", "b", "\\n", "␣c"]
    assert tokenizer.encode("b a  d") == [3, 2, 1, 1]
    assert tokenizer.decode([3, 2, 1, 5]) == "b a c"


def test_word_tokenizer_leaves_rare_words_out() -> None:
    texts = ["b a a c d"]
    assert pieces(word_tokenizer(texts, ["<unk>"], vocab_size=3), " a c d") == ["␣a", "␣c", "<unk>"]
    assert pieces(word_tokenizer(texts, ["<unk>"], min_count=2), " a c d") == ["␣a", "<unk>", "<unk>"]


def test_word_tokenizer_needs_a_place_for_unknown_words() -> None:
    with pytest.raises(ConfigError, match=r"add '<unk>' to specials \('<pad>',\)"):
        word_tokenizer(["a"], ["<pad>"])


def test_word_tokenizer_refuses_numbers_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="vocab_size is 1, but 1 specials and 1 words need 2; set vocab_size to 2"):
        word_tokenizer(["a b"], ["<unk>"], vocab_size=1)
    with pytest.raises(ConfigError, match="min_count is 0"):
        word_tokenizer(["a b"], ["<unk>"], min_count=0)
    with pytest.raises(DataError, match="none of 2 different words occurs min_count = 2 times"):
        word_tokenizer(["a b"], ["<unk>"], min_count=2)
    with pytest.raises(DataError, match="none of 0 different words"):
        word_tokenizer([], ["<unk>"])


def test_bpe_tokenizer_numbers_specials_then_characters_then_merges() -> None:
    tokenizer = bpe_tokenizer(["low low lower"], 11, ["<eos>"])
    labels = [tokenizer.label(i) for i in range(tokenizer.vocab_size)]
    assert labels == ["<eos>", "␣", "e", "l", "o", "r", "w", "lo", "low", "␣low"]
    assert pieces(tokenizer, "low lower") == ["low", "␣low", "e", "r"]


def test_bpe_tokenizer_merges_pairs_that_occur_often_enough() -> None:
    assert bpe_tokenizer(["ab ab"], 50, min_count=3).vocab_size == 3
    assert bpe_tokenizer(["ab ab"], 50).vocab_size == 4
    assert bpe_tokenizer(["ab ab"], 50, min_count=1).vocab_size == 5


def test_bpe_tokenizer_refuses_or_marks_a_character_it_has_not_seen() -> None:
    with pytest.raises(DataError, match=r"'é' \(U\+00E9\) at offset 2 has no id .* knows ' ab'"):
        bpe_tokenizer(["ab ab"], 9).encode("abé")
    assert pieces(bpe_tokenizer(["ab ab"], 9, ["<unk>"]), "abéé ab") == ["ab", "<unk>", "<unk>", "␣", "ab"]


def test_bpe_tokenizer_refuses_what_it_cannot_learn_from() -> None:
    with pytest.raises(
        ConfigError, match=r"vocab_size is 3, but 1 specials and 3 characters need 4; set .* to 4 or more"
    ):
        bpe_tokenizer(["abc"], 3, ["<pad>"])
    with pytest.raises(ConfigError, match="min_count is 0"):
        bpe_tokenizer(["abc"], 9, min_count=0)
    with pytest.raises(DataError, match="hold no character"):
        bpe_tokenizer(["", ""], 9)


def test_byte_bpe_tokenizer_numbers_specials_then_bytes_then_merges() -> None:
    tokenizer = byte_bpe_tokenizer(["éa éa"], 260, ["<eos>"])
    assert tokenizer._pieces == (b"", *(bytes([i]) for i in range(256)), b"\xa9a", "éa".encode())
    assert tokenizer.encode("éa é") == [258, 0x20 + 1, 0xC3 + 1, 0xA9 + 1]


def test_byte_bpe_tokenizer_always_has_all_bytes() -> None:
    assert byte_bpe_tokenizer([], 300).vocab_size == 256
    with pytest.raises(ConfigError, match=r"vocab_size is 256, but 1 specials and 256 bytes need 257; set .* to 257"):
        byte_bpe_tokenizer(["abc"], 256, ["<pad>"])


@each_kind
def test_training_refuses_half_a_surrogate_pair(make: Make) -> None:
    with pytest.raises(DataError, match=r"'\\ud800', half of a surrogate pair"):
        make(["a\ud800"])


@pytest.mark.parametrize(
    "make",
    [
        lambda specials: word_tokenizer(["a"], ["<unk>", *specials]),
        lambda specials: bpe_tokenizer(["a"], 9, specials),
        lambda specials: byte_bpe_tokenizer(["a"], 300, specials),
    ],
)
def test_training_refuses_unknown_specials(make: Make) -> None:
    with pytest.raises(ConfigError, match="'<masc>'; did you mean '<mask>'"):
        make(["<masc>"])
    with pytest.raises(ConfigError, match="'<pad>' is listed twice"):
        make(["<pad>", "<pad>"])


@each_kind
def test_encode_then_decode_gives_the_text_back(make: Make) -> None:
    tokenizer = make([TEXT])
    assert tokenizer.decode(tokenizer.encode(TEXT)) == TEXT
    assert len(tokenizer.encode(TEXT)) < len(TEXT)
    assert tokenizer.encode("") == []


@given(st.one_of(st.text(max_size=30), st.text("ab1é闫🎉.\u0301\ufe0f \n\r\t\u3000", max_size=30)))
def test_encode_then_decode_gives_any_text_back(text: str) -> None:
    for tokenizer in (
        word_tokenizer([text, "a"], SPECIALS),
        bpe_tokenizer([text, "a"], 10_000, SPECIALS, min_count=1),
        byte_bpe_tokenizer(["the é 闫🎉 闫🎉"], 300, SPECIALS, min_count=1),
    ):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert not set(range(len(SPECIALS))) & set(ids)


@each_kind
def test_o35_no_special_id_comes_out_of_user_text(make: Make, tmp_path: Path) -> None:
    tokenizer = make([SPECIAL_TEXT] * 5)  # learned from until it would be one token, if it could
    tokenizer.save(tmp_path / "tokenizer.json")
    again = TextTokenizer.load(tmp_path / "tokenizer.json")
    for each in (tokenizer, again, copy.deepcopy(tokenizer), pickle.loads(pickle.dumps(again))):
        ids = each.encode(SPECIAL_TEXT)
        assert min(ids) >= len(SPECIALS)
        assert each.decode(ids) == SPECIAL_TEXT


@each_kind
def test_save_and_load_change_nothing(make: Make, tmp_path: Path) -> None:
    tokenizer, path = make([TEXT]), tmp_path / "tokenizer.json"
    tokenizer.save(path)
    again = TextTokenizer.load(path)
    again.save(tmp_path / "again.json")
    assert path.read_bytes() == (tmp_path / "again.json").read_bytes()
    assert again.encode(TEXT) == tokenizer.encode(TEXT)
    everything = range(tokenizer.vocab_size)
    assert [again.label(i) for i in everything] == [tokenizer.label(i) for i in everything]
    assert (again.unk_id, again.mask_id) == (3, 4)


@each_kind
def test_o06_decode_refuses_ids_outside_the_vocabulary(make: Make) -> None:
    tokenizer = make([TEXT])
    for token in (tokenizer.vocab_size, -1):
        with pytest.raises(DataError, match=rf"token id {token} is outside 0..{tokenizer.vocab_size - 1} "):
            tokenizer.decode([0, token])


@each_kind
def test_encode_in_parts_equals_encode_at_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = make([TEXT])
    longer = (TEXT + "unspaced闫。你好，🎉！1234" + "x" * 40) * 3
    for text in (TEXT, longer):
        whole = tokenizer._backend.encode(text, add_special_tokens=False).ids
        for step in (1, 2, 7, 30):
            monkeypatch.setattr(module, "ENCODED_AT_ONCE", step)
            assert len(list(tokenizer._parts(text))) > 1
            assert tokenizer.encode(text) == whole


@each_kind
def test_encode_gives_the_library_no_more_than_it_may_hold(make: Make) -> None:
    tokenizer = make([TEXT])
    for text in ("the cat sat\n" * 9_000, "你好，" * 36_000):  # with and without white space
        assert max(len(part) for part in tokenizer._parts(text)) <= module.ENCODED_AT_ONCE


def test_label_groups_put_the_bytes_of_a_byte_level_bpe_together() -> None:
    tokenizer = byte_bpe_tokenizer(["闪闭问间", "the the"], 260, ["<eos>"])
    ids = [*tokenizer.encode("闫 the"), 0]
    assert [tokenizer.label(token) for token in ids] == ["<0xE9><0x97>", "<0xAB>", "␣", "the", "<eos>"]
    assert tokenizer.label_groups(ids) == [
        (range(2), "闫"), (range(2, 3), "␣"), (range(3, 4), "the"), (range(4, 5), "<eos>"),
    ]  # fmt: skip


TRAIN = """
import random
from hashlib import sha256
from glassformer.text.build import build_tokenizer
chance = random.Random(0)  # 400 words of which most pairs are equally frequent
texts = [" ".join("".join(chance.choices("abcdeé闫", k=4)) for _ in range(10)) for _ in range(40)]
for kind, size in (("word", 200), ("bpe", 150), ("byte_bpe", 400)):
    backend = build_tokenizer(kind, texts, ["<unk>", "<mask>"], vocab_size=size)._backend
    print(kind, sha256(backend.to_str().encode()).hexdigest())
"""


def test_training_is_the_same_in_every_process() -> None:
    hashes = {
        run(TRAIN, PYTHONHASHSEED=seed, RAYON_NUM_THREADS=threads, TOKENIZERS_PARALLELISM=parallel)
        for seed, threads, parallel in (("0", "1", "false"), ("1", "4", "true"), ("2", "2", "true"))
    }
    assert len(hashes) == 1
    assert len(hashes.pop().split()) == 6


@each_kind
def test_training_does_not_depend_on_the_order_of_texts(make: Make) -> None:
    texts = TEXT.splitlines(keepends=True)
    files = {sha256(make(each)._backend.to_str().encode()).digest() for each in (texts, texts[::-1])}
    assert len(files) == 1


FORK = """
from torch.utils.data import DataLoader
from glassformer.text.build import build_tokenizer

lines = [f"the cat number {i} 闫🎉" for i in range(40)]
trained = [
    build_tokenizer(kind, lines, ["<unk>"], vocab_size=size)
    for kind, size in (("bpe", 60), ("byte_bpe", 300), ("word", 30))
]
before = [tokenizer.encode_all(lines) for tokenizer in trained]

class Encoded:
    def __len__(self):
        return len(lines)
    def __getitem__(self, place):
        return [tokenizer.encode(lines[place]) for tokenizer in trained]

loader = DataLoader(Encoded(), batch_size=None, num_workers=2, multiprocessing_context="fork")
assert list(loader) == [list(ids) for ids in zip(*before)]
assert [tokenizer.encode_all(lines) for tokenizer in trained] == before
print("same")
"""


def test_workers_forked_after_training_encode_without_a_warning() -> None:
    assert run(FORK, RAYON_NUM_THREADS="2", OMP_NUM_THREADS="1") == "same"
