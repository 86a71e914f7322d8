from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from glassformer.core.errors import ConfigError, DataError
from glassformer.tasks.task import Task
from glassformer.tasks.translation import TranslationTask
from glassformer.text.build import byte_tokenizer

from .reading import all_pairs, numbered, pairs_of, write
from .translating import task, two_files

# Where pairs come from


def test_two_files_are_read_line_by_line(tmp_path: Path) -> None:
    pairs = numbered(20)
    data = task(two_files(tmp_path, pairs)).build()
    assert isinstance(TranslationTask(), Task)
    assert (data.kind, data.classes, data.context) == ("encoder_decoder", None, None)
    found = all_pairs(data.tokenizer, data.train) + pairs_of(data.valid) + pairs_of(data.test)
    assert sorted(found) == sorted(pairs)
    for split in (data.valid, data.test):
        assert split is not None
        assert all_pairs(data.tokenizer, split.source) == list(split.pairs)
    assert data.notes == (
        "split by 20 different texts: 2 to validate, 3 to test",
        "15 pairs to learn from",
        "2 pairs to validate",
        "3 pairs to test",
    )


def test_settings_tell_how_answers_are_judged(tmp_path: Path) -> None:
    settings = {"beam": 3, "length_penalty": 0.5, "bleu_tokenizer": "zh", "example": "Hallo!"}
    asked = task(two_files(tmp_path, numbered(20)), **settings)
    data = asked.build()
    assert data.judging == asked.judging
    assert data.judging.metrics == ("loss", "bleu", "chrf", "exact_match")
    assert (data.judging.beam, data.judging.length_penalty, data.judging.bleu_tokenizer) == (3, 0.5, "zh")
    assert (data.example, asked.kinds, asked.files) == ("Hallo!", ("encoder_decoder",), ("source", "target"))
    assert TranslationTask(data="pairs.tsv").files == ("data",)


def test_languages_stand_in_the_names_of_files_that_may_be_packed(tmp_path: Path) -> None:
    for part, pairs in {"train": numbered(9), "val": numbered(2, of="vw"), "test": numbered(3, of="tu")}.items():
        for side, language in enumerate(("de", "en")):
            write(tmp_path / language / f"{part}.{language}.gz", (pair[side] for pair in pairs))
    names = {
        f"{prefix}{side}": f"{{{side}}}/{part}.{{{side}}}"
        for prefix, part in {"": "train", "valid_": "val", "test_": "test"}.items()
        for side in ("source", "target")
    }
    data = task({"data": str(tmp_path), **names}, languages="de-en").build()
    assert all_pairs(data.tokenizer, data.train) == numbered(9)
    assert (pairs_of(data.valid), pairs_of(data.test)) == (numbered(2, of="vw"), numbered(3, of="tu"))
    other_way = task({"data": str(tmp_path), **names}, languages="en-de").build()
    assert all_pairs(other_way.tokenizer, other_way.train) == [(target, source) for source, target in numbered(9)]
    with pytest.raises(ConfigError, match=r"stands for files of some languages; say which: task\.languages=de-en"):
        task({"data": str(tmp_path), **names}).build()


@pytest.mark.parametrize(
    ("columns", "header", "head"),
    [
        (("1", "2"), None, []),
        (("en", "zh"), None, ["n\ten\tzh"]),
        (("1", "2"), True, ["n\ten\tzh"]),
        (("zh", "en"), None, ["n\tzh\ten"]),
    ],
)
def test_a_table_is_read_by_number_and_by_name(
    tmp_path: Path, columns: tuple[str, str], header: bool | None, head: list[str]
) -> None:
    table = write(tmp_path / "pairs.tsv", head + [f"{i}\t{a}\t{b}" for i, (a, b) in enumerate(numbered(9))])
    settings = {"source_column": columns[0], "target_column": columns[1], "header": header}
    data = task({"data": str(table)}, **settings).build()
    assert sorted(all_pairs(data.tokenizer, data.train) + pairs_of(data.valid) + pairs_of(data.test)) == numbered(9)


def test_columns_of_a_recipe_may_be_numbers(tmp_path: Path) -> None:
    table = write(tmp_path / "pairs.csv", [f'"{b}, ja",{a}' for a, b in numbered(9)])
    settings = {"name": "translation", "data": str(table), "source_column": 1, "target_column": 0, "tokenizer": "byte"}
    parsed = TranslationTask.parse(settings | {"valid_size": "1", "test_size": "1", "vocab_size": "none"}, "task")
    assert set(pairs_of(parsed.build().test)) < {(a, f"{b}, ja") for a, b in numbered(9)}
    assert (parsed.source_column, TranslationTask(source_column="0").source_column) == (1, "0")


def test_a_table_goes_with_named_files_to_measure_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are not looked for within the table, as if it were a folder."""
    table = write(tmp_path / "pairs.tsv", ("\t".join(pair) for pair in numbered(9)))
    valid = two_files(tmp_path, numbered(2, of="vw"), "valid")
    monkeypatch.chdir(tmp_path)
    data = task({**valid, "data": str(table)}).build()
    assert all_pairs(data.tokenizer, data.train) == numbered(9)
    assert (pairs_of(data.valid), data.test) == (numbered(2, of="vw"), None)


def test_named_files_to_validate_leave_nothing_to_split(tmp_path: Path) -> None:
    train, valid = two_files(tmp_path, numbered(9)), two_files(tmp_path, numbered(2, of="vw"), "valid")
    data = task(train | valid, test_size=5).build()
    assert (len(data.train), len(pairs_of(data.valid)), data.test) == (9, 2, None)


def test_named_files_to_test_leave_validation_to_be_split(tmp_path: Path) -> None:
    train, test = two_files(tmp_path, numbered(9)), two_files(tmp_path, numbered(4, of="tu"), "test")
    data = task(train | test, test_size=5).build()
    assert (len(data.train), len(pairs_of(data.valid)), pairs_of(data.test)) == (7, 2, numbered(4, of="tu"))
    assert data.notes[0] == "split by 9 different texts: 2 to validate, 0 to test"


def test_what_named_files_have_in_common_with_training_is_said(tmp_path: Path) -> None:
    train, test = two_files(tmp_path, numbered(9)), two_files(tmp_path, [*numbered(2), ("neu", "new")], "test")
    notes = task(train | test, valid_size=1).build().notes
    assert re.fullmatch(r"3 pairs to test, \d of their tokens unknown; [12] of them are also learned from", notes[-1])
    assert notes[-2].startswith("1 pairs to validate")
    assert "also learned from" not in notes[-2]


def test_a_test_of_nothing_is_no_test(tmp_path: Path) -> None:
    data = task(two_files(tmp_path, numbered(9)), test_size=0).build()
    assert (len(data.train), data.test) == (7, None)


def test_other_encodings_are_read(tmp_path: Path) -> None:
    for side, name in enumerate(("a", "b")):
        write(tmp_path / name, [f"größe {side} {i}" for i in range(9)], encoding="latin-1")
    files = {"source": str(tmp_path / "a"), "target": str(tmp_path / "b")}
    assert pairs_of(task(files, encoding="latin-1").build().test)[0][0].startswith("größe 0")
    with pytest.raises(DataError, match="a is not UTF-8: byte 0xF6 in line 1"):
        task(files).build()


def test_all_pairs_are_one_split_for_a_model_that_exists(tmp_path: Path) -> None:
    files = two_files(tmp_path, numbered(9))
    tokenizer = byte_tokenizer(("<bos>", "<eos>"))
    whole = task(files, longest=1, over_long="error").whole("encoder_decoder", tokenizer)
    assert list(whole.pairs) == all_pairs(tokenizer, whole.source) == numbered(9)
    again = task(files).build(tokenizer=tokenizer)
    assert again.tokenizer is tokenizer


# What goes wrong


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"source": "a"}, "target is missing: every text needs its translation; name both files"),
        ({"target": "a"}, "source is missing"),
        ({"valid_source": "a"}, "valid_target is missing"),
        ({"test_target": "a"}, "test_source is missing"),
        ({"source": "a", "target": "a"}, "source and target are both a; name the file of each side"),
        ({"test_source": "a", "test_target": "a"}, "test_source and test_target are both a"),
        ({"languages": "de"}, "languages"),
        ({"valid_size": 0}, "greater than or equal to 1"),
        ({"distinct": "both"}, "distinct"),
        ({"length_penalty": -1.0}, "greater than or equal to 0"),
        ({"vocab": 3}, "vocab is not a setting; did you mean 'vocab_size'"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TranslationTask(**settings)


def test_missing_files_are_named(tmp_path: Path) -> None:
    files = two_files(tmp_path, numbered(9))
    with pytest.raises(ConfigError, match=r"no data: name two files .* task\.source=FILE and task\.target=FILE, or a"):
        TranslationTask().build()
    with pytest.raises(ConfigError, match=rf"task\.data is the folder {tmp_path}; name the files in it as task"):
        task({"data": str(tmp_path)}).build()
    with pytest.raises(DataError, match=r"there is no file .*train\.scr; did you mean 'train\.src'"):
        task({**files, "source": "train.scr"}).build()
    with pytest.raises(DataError, match=r"there is no file .*valid\.tgt"):
        task({**files, "valid_source": "train.src", "valid_target": "valid.tgt"}).build()
    with pytest.raises(DataError, match=r"there is no file .*, nor the folder"):
        task({**files, "data": str(tmp_path / "nowhere")}).build()
    with pytest.raises(DataError, match="is a folder; name a file in it"):
        task({**files, "source": "."}).build()
    with pytest.raises(DataError, match="has no column '3'"):
        task({"data": str(tmp_path / "train.src")}, target_column="3").build()


def test_too_few_pairs_to_split_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has 4 different texts, but validation and test take 2 \+ 3; give more data"):
        task(two_files(tmp_path, numbered(4))).build()


def test_a_tokenizer_without_begin_or_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the tokenizer lacks '<bos>' or '<eos>', without which nothing can"):
        task(two_files(tmp_path, numbered(9))).build(tokenizer=byte_tokenizer(("<eos>",)))


# O21: line counts and empty lines


def raw_files(folder: Path, source: str, target: str) -> dict[str, str]:
    (folder / "a").write_text(source, encoding="utf-8")
    (folder / "b").write_text(target, encoding="utf-8")
    return {"data": str(folder), "source": "a", "target": "b"}


def test_o21_sides_of_unequal_length_are_refused_with_names_and_counts(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a has 3 lines and .*b has 2; line n of one belongs to line n of the other"):
        task(raw_files(tmp_path, "a\nb\nc\n", "x\ny\n")).build()
    with pytest.raises(DataError, match=r"a has 1 lines and .*b has 0;"):
        task(raw_files(tmp_path, "a\n", "")).build()


def test_o21_pairs_are_dropped_as_pairs_and_reported(tmp_path: Path) -> None:
    valid = two_files(tmp_path, numbered(1), "valid")
    data = task({**valid, **raw_files(tmp_path, "a\n\nc\n", "x\ny\n\n")}).build()
    assert all_pairs(data.tokenizer, data.train) == [("a", "x")]
    assert data.notes[0].endswith("b: 2 of 3 pairs dropped (empty side), lines 2, 3")


def test_o21_blank_pairs_to_measure_by_are_reported_too(tmp_path: Path) -> None:
    train = two_files(tmp_path, numbered(9))
    test = raw_files(tmp_path, "a\n \nc\n", "x\ny\nz\n")
    data = task({**train, "test_source": test["source"], "test_target": test["target"]}).build()
    assert pairs_of(data.test) == [("a", "x"), ("c", "z")]
    assert data.notes[0].endswith("b: 1 of 3 pairs dropped (empty side), line 2")


@pytest.mark.parametrize("ends", [("", "\n"), ("\n", ""), ("", "")])
def test_o21_a_final_newline_makes_no_difference(tmp_path: Path, ends: tuple[str, str]) -> None:
    sources, targets = zip(*numbered(9), strict=True)
    files = raw_files(tmp_path, "\n".join(sources) + ends[0], "\n".join(targets) + ends[1])
    assert len(task(files).build().train) == 4


def test_o21_two_blank_sides_are_one_dropped_pair(tmp_path: Path) -> None:
    valid = two_files(tmp_path, numbered(1), "valid")
    data = task({**valid, **raw_files(tmp_path, "a\n\nc\n", "x\n \ny\n")}).build()
    assert all_pairs(data.tokenizer, data.train) == [("a", "x"), ("c", "y")]
    assert data.notes[0].endswith("1 of 3 pairs dropped (empty side), line 2")


@pytest.mark.parametrize("text", ["", "\n\n", " \n"])
def test_o21_nothing_usable_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"0 usable pairs in .*a and .*b"):
        task(raw_files(tmp_path, text, text)).build()


def test_a_column_cannot_be_both_sides() -> None:
    with pytest.raises(ConfigError, match="source_column and target_column are both 1; name the column of each side"):
        TranslationTask.parse({"name": "translation", "data": "pairs.tsv", "source_column": "1"})
