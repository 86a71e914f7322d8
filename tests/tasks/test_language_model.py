from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.places import IGNORED
from glassformer.data.order import BatchOrder
from glassformer.data.source import Source, loader
from glassformer.tasks.language_model import LanguageModelTask


def write(folder: Path, text: str) -> str:
    file = folder / "text.txt"
    file.write_text(text, encoding="utf-8")
    return str(file)


def targets(source: Source) -> list[int]:
    """Every token that is predicted, in order."""
    labels = [source.batch([item], 0).labels[0] for item in range(len(source))]
    return [int(label) for row in labels for label in row if label != IGNORED]


def test_text_is_cut_in_order_into_three_parts(tmp_path):
    text = "a" * 80 + "b" * 10 + "c" * 10
    data = LanguageModelTask(text=write(tmp_path, text), context=4, valid=0.1, test=0.1).build()
    assert data.tokenizer.vocab_size == 2  # the unknown one and a: the later parts are not looked at
    assert targets(data.valid.source) == [data.tokenizer.unk_id] * 10
    assert targets(data.test.source) == [data.tokenizer.unk_id] * 10
    assert (data.kind, data.judging.metrics, data.context) == ("decoder", ("loss",), 4)
    assert data.notes == (
        f"{tmp_path / 'text.txt'}: 80 tokens to train on, 10 to validate, 10 to test; unknown in them: 0, 10, 10",
    )


def test_first_token_of_a_part_is_predicted_from_the_last_of_the_one_before(tmp_path):
    text = "abcdefghij" * 10
    data = LanguageModelTask(text=write(tmp_path, text), context=4, valid=0.1, test=0.1).build()
    ids = data.tokenizer.encode(text)
    first = data.valid.source.batch([0], 0)
    assert first.inputs[0].tolist() == ids[79:83]
    assert first.labels[0].tolist() == ids[80:84]
    assert data.test is not None
    assert data.test.source.batch([0], 0).inputs[0].tolist() == ids[89:93]


def test_characters_that_occur_only_later_are_the_unknown_one(tmp_path):
    text = "abcab " * 95 + "闫" * 30
    data = LanguageModelTask(text=write(tmp_path, text), context=4, test=0.05).build()
    assert "闫" not in data.tokenizer.decode(range(data.tokenizer.vocab_size))
    assert data.test is not None
    assert targets(data.test.source) == [data.tokenizer.unk_id] * 30
    assert data.notes[0].endswith("unknown in them: 0, 0, 30")


@pytest.mark.parametrize("tokenizer", ["character", "byte"])
def test_chinese_is_text_like_any_other(tmp_path, tokenizer):
    text = "天地玄黃，宇宙洪荒。日月盈昃，辰宿列張。\n" * 40
    data = LanguageModelTask(text=write(tmp_path, text), tokenizer=tokenizer, context=8).build()
    kept = data.tokenizer.decode(targets(data.valid.source)) + data.tokenizer.decode(targets(data.test.source))
    assert text.endswith(kept)
    assert len(kept) == pytest.approx(len(text) * 0.1, abs=1)
    assert data.tokenizer.vocab_size == (256 if tokenizer == "byte" else len(set(text)) + 1)


@given(st.text("ab闫🎉\n", min_size=60, max_size=200), st.sampled_from(["character", "byte"]), st.integers(1, 9))
def test_every_token_of_the_later_parts_is_scored_exactly_once(tmp_path_factory, text, tokenizer, context):
    path = write(tmp_path_factory.getbasetemp(), text)
    data = LanguageModelTask(text=path, tokenizer=tokenizer, context=context, valid=0.2, test=0.3).build()
    assert data.test is not None
    later = [*targets(data.valid.source), *targets(data.test.source)]
    whole = data.tokenizer.encode(text)
    assert later == whole[-len(later) :]
    first = data.train.batch([0], 0)
    assert len(later) + sum(1 for _ in data.tokenizer.encode(text[: int(len(text) * 0.5)])) == len(whole)
    assert first.lengths == (context,)


def test_vocabulary_of_a_model_is_taken_as_it_is(tmp_path):
    before = LanguageModelTask(text=write(tmp_path, "abc" * 100), context=4).build()
    after = LanguageModelTask(text=write(tmp_path, "abz" * 100), context=4, tokenizer="byte").build(
        tokenizer=before.tokenizer
    )
    assert after.tokenizer is before.tokenizer
    assert before.tokenizer.unk_id in targets(after.valid.source)


def test_rare_characters_are_unknown_in_training_too(tmp_path):
    text = "ab" * 100 + "z" + "ab" * 100
    data = LanguageModelTask(text=write(tmp_path, text), context=4, min_count=2).build()
    assert data.tokenizer.vocab_size == 3
    assert "unknown in them: 1, 0, 0" in data.notes[0]


def test_compressed_text_is_read(tmp_path):
    file = tmp_path / "text.txt.gz"
    file.write_bytes(gzip.compress(("abc闫" * 100).encode()))
    data = LanguageModelTask(text=str(file), context=4).build()
    assert data.tokenizer.vocab_size == 5


@pytest.mark.parametrize(
    ("text", "context", "message"),
    [
        ("", 4, "is empty; give a file with text in it"),
        ("a", 4, "has 1 characters, too few for a training part; give more text"),
        ("abc", 4, "has 3 characters, too few for a validation part; give more text"),
        (
            "ab" * 15,
            16,
            "the text has 26 tokens, but windows of context 16 need 32; give more text",
        ),
    ],
)
def test_text_that_is_too_short_is_refused_clearly(tmp_path, text, context, message):
    with pytest.raises(DataError, match=message):
        LanguageModelTask(text=write(tmp_path, text), context=context).build()


def test_text_that_is_none_is_refused_clearly(tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        LanguageModelTask(text=str(tmp_path / "nothing.txt")).build()
    with pytest.raises(DataError, match="is a folder; name a file in it"):
        LanguageModelTask(text=str(tmp_path)).build()
    (tmp_path / "latin.txt").write_bytes(b"na\xefve")
    with pytest.raises(DataError, match="is not UTF-8: byte 0xEF in line 1, at byte offset 2"):
        LanguageModelTask(text=str(tmp_path / "latin.txt")).build()


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.9, 0.2)])
def test_shares_must_leave_something_to_train_on(shares):
    with pytest.raises(ConfigError, match=r"leave nothing to train on; their sum must be below 1"):
        LanguageModelTask(valid=shares[0], test=shares[1])


def test_without_a_file_it_reads_what_every_python_has():
    data = LanguageModelTask().build()
    assert data.notes[0].startswith("the help texts of Python: ")
    assert len(targets(data.valid.source)) > 10_000
    again = LanguageModelTask().build()
    assert np.array_equal(data.train.batch([3, 1], 2).inputs, again.train.batch([3, 1], 2).inputs)


TALE = "".join(f"der alte Mann und das große Meer {number}, 老人與海。\n" for number in range(150))


@pytest.mark.parametrize(("tokenizer", "smallest"), [("bpe", 45), ("byte_bpe", 257)])
def test_trained_tokenizers_score_every_token_of_the_later_parts_once(tmp_path, tokenizer, smallest):
    path = write(tmp_path, TALE)
    data = LanguageModelTask(text=path, tokenizer=tokenizer, vocab_size=300, context=8).build()
    assert data.test is not None
    kept = data.tokenizer.decode(targets(data.valid.source)) + data.tokenizer.decode(targets(data.test.source))
    assert TALE.endswith(kept)
    assert len(kept) == pytest.approx(len(TALE) * 0.1, abs=1)
    assert smallest < data.tokenizer.vocab_size <= 300
    assert (data.tokenizer.unk_id is None) == (tokenizer == "byte_bpe")
    assert len(targets(data.valid.source)) < len(kept) / 3  # tokens are longer than characters
    assert data.notes[0].endswith("unknown in them: 0, 0, 0")


@pytest.mark.parametrize("tokenizer", ["bpe", "byte_bpe"])
def test_trained_tokenizers_learn_from_the_training_part_alone(tmp_path, tokenizer):
    text = "abab " * 200 + "xyxy " * 30
    data = LanguageModelTask(
        text=write(tmp_path, text), tokenizer=tokenizer, vocab_size=280, context=4, valid=0.1, test=0.05
    ).build()
    pieces = {data.tokenizer.decode([token]) for token in range(data.tokenizer.vocab_size)}
    assert "abab" in pieces
    assert "xy" not in pieces
    lost = tokenizer == "bpe"  # a character without an id; bytes all have one
    assert (data.tokenizer.unk_id in targets(data.valid.source)) == lost


@pytest.mark.parametrize("tokenizer", ["bpe", "byte_bpe"])
def test_trained_tokenizers_need_a_size(tmp_path, tokenizer):
    with pytest.raises(ConfigError, match=f"a {tokenizer} tokenizer merges until it has vocab_size ids, and none is"):
        LanguageModelTask(text=write(tmp_path, TALE), tokenizer=tokenizer).build()


def test_o35_special_tokens_in_a_text_are_text(tmp_path):
    text = "hi <unk> x <eos>\n" * 40
    for tokenizer, size in {"character": None, "word": None, "bpe": 60, "byte_bpe": 300}.items():
        data = LanguageModelTask(text=write(tmp_path, text), tokenizer=tokenizer, vocab_size=size, context=4).build()
        found = targets(data.valid.source)
        assert data.tokenizer.unk_id not in found
        assert data.tokenizer.decode(found) in text


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_o27_workers_cut_the_same_windows_and_epochs_others(tmp_path):
    data = LanguageModelTask(text=write(tmp_path, TALE), context=16).build()
    order = BatchOrder(len(data.train), 20, seed=1, shuffle=True)
    epochs = []
    for epoch in (0, 1):
        alone, shared = ([batch.inputs for batch in loader(data.train, order, epoch, workers=n)] for n in (0, 2))
        assert all(one.equal(other) for one, other in zip(alone, shared, strict=True))
        epochs.append(shared)
    assert not all(one.equal(other) for one, other in zip(*epochs, strict=True))


def test_whole_text_is_scored_but_for_its_first_token(tmp_path):
    before = LanguageModelTask(text=write(tmp_path, "abc" * 100), context=4).build()
    task = LanguageModelTask(text=write(tmp_path, "cbz" * 5), context=4)
    whole = task.whole("decoder", before.tokenizer)
    assert targets(whole.source) == before.tokenizer.encode("cbz" * 5)[1:]
    assert (whole.pairs, task.kinds, task.files) == ((), ("decoder",), ("text",))
