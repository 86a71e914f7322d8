from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.places import IGNORED
from glassformer.data.source import Source
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
    assert (data.kind, data.metrics, data.context) == ("decoder", ("loss",), 4)
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
    after = LanguageModelTask(text=write(tmp_path, "abz" * 100), context=4, tokenizer="byte").build(before.tokenizer)
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
