from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.labelled import LabelledSource
from glassformer.data.order import TokenOrder
from glassformer.data.source import Source, loader
from glassformer.models.arguments import ModelArguments
from glassformer.models.transformer import Transformer
from glassformer.tasks.classification import ClassificationTask, _within
from glassformer.tasks.task import Kind, Split, Task, TaskData
from glassformer.text.build import byte_tokenizer, character_tokenizer
from glassformer.text.tokenizer import TextTokenizer
from glassformer.training.evaluate import source_metrics
from glassformer.training.objective import logits_of, objective

from .reading import write

DATA = os.environ.get("GLASSFORMER_TEST_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="GLASSFORMER_TEST_DATA names no folder of data")

ROWS = [("good film", "pos"), ("bad film", "neg"), ("fine", "pos"), ("awful", "neg"), ("so so", "mixed")] * 2
"""Five texts, each twice."""


def table(folder: Path, rows: Sequence[Sequence[str]], name: str = "train.tsv", head: str = "text\tlabel") -> str:
    write(folder / name, ([head] if head else []) + ["\t".join(row) for row in rows])
    return str(folder / name)


def different(n: int, *labels: str) -> list[tuple[str, str]]:
    return [(f"text {i}", labels[i % len(labels)]) for i in range(n)]


def read_back(tokenizer: TextTokenizer, source: Source, classes: Sequence[str]) -> list[tuple[str, str]]:
    """Each text with the name of its class."""
    batch = source.batch(range(len(source)), 0)
    rows = batch.inputs if batch.source is None else batch.source
    return [
        (tokenizer.decode(row[: batch.lengths[i] if batch.source is None else batch.source_lengths[i]].tolist()), name)
        for i, (row, name) in enumerate(zip(rows, [classes[label] for label in batch.labels.tolist()], strict=True))
    ]


def learned(data: TaskData) -> list[tuple[str, str]]:
    assert data.classes is not None
    return read_back(data.tokenizer, data.train, data.classes)


def pairs_of(split: Split | None) -> list[tuple[str, str]]:
    assert split is not None
    return list(split.pairs)


def task(train: str, **settings: Any) -> ClassificationTask:
    return ClassificationTask(**{"tokenizer": "character", "train": train, **settings})


# Tables


def test_a_table_by_name_becomes_texts_with_labels(tmp_path: Path) -> None:
    valid, test = (table(tmp_path, different(n, "pos", "neg"), name) for n, name in ((3, "v.tsv"), (4, "t.tsv")))
    asked = task(table(tmp_path, ROWS), valid=valid, test=test)
    data = asked.build()
    assert isinstance(asked, Task)
    assert learned(data) == ROWS
    assert (pairs_of(data.valid), pairs_of(data.test)) == (different(3, "pos", "neg"), different(4, "pos", "neg"))
    for split in (data.valid, data.test):
        assert split is not None
        assert [label for _, label in read_back(data.tokenizer, split.source, data.classes or ())] == [
            label for _, label in split.pairs
        ]
    assert data.classes == ("mixed", "neg", "pos")
    assert data.judging == asked.judging
    assert (data.judging.metrics, data.kind) == (("loss", "accuracy", "f1_macro"), "encoder")
    assert (asked.files, asked.kinds) == (("train",), ("encoder", "decoder", "encoder_decoder"))
    assert data.notes[0] == "10 texts to learn from"
    assert data.notes[1].startswith("3 texts to validate, ")
    assert data.notes[2].startswith("4 texts to test, ")
    assert data.notes[3] == "3 labels: mixed, neg, pos"


@pytest.mark.parametrize(
    ("head", "columns"),
    [
        ("", {"text": 0, "label": 1}),
        ("", {"text": "0", "label": "1"}),
        ("x\ty", {"text": 0, "label": 1, "header": True}),
        ("x\ty", {"text": "x", "label": "y"}),
        ("x\ty", {"text": "x", "label": 1}),
    ],
)
def test_columns_are_found_by_number_and_by_name(tmp_path: Path, head: str, columns: dict[str, Any]) -> None:
    path = table(tmp_path, ROWS, head=head)
    assert learned(task(path, valid=path, **columns).build()) == ROWS


def test_without_a_header_no_column_has_a_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no column 'label'.* without a header that names them"):
        task(table(tmp_path, ROWS), header=False).build()
    with pytest.raises(DataError, match="has no column 'label'; did you mean 'lable'"):
        task(table(tmp_path, ROWS, head="text\tlable")).build()


def test_lines_of_a_label_and_a_text_in_another_encoding_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "TREC.train", ["0 What is a café ?", "1 Who  was \t it ?"], encoding="latin-1")
    settings = {"text": "1", "label": "0", "separator": "space", "encoding": "latin-1"}
    data = task(str(path), valid=str(path), **settings).build()
    assert learned(data) == [("What is a café ?", "0"), ("Who  was \t it ?", "1")]


def test_quoted_fields_of_a_csv_hold_commas_and_line_breaks(tmp_path: Path) -> None:
    path = write(tmp_path / "train.csv.gz", ["label,text", 'a,"well, ""really""', 'two lines"', "b,plain"])
    data = task("train.csv", data=str(tmp_path), valid="train.csv").build()
    assert str(path).endswith(".gz")
    assert learned(data) == [('well, "really"\ntwo lines', "a"), ("plain", "b")]


def test_labels_that_are_numbers_keep_their_order(tmp_path: Path) -> None:
    path = table(tmp_path, different(22, *map(str, range(11))))
    assert task(path, valid=path).build().classes == tuple(map(str, range(11)))


def test_many_labels_are_not_all_said(tmp_path: Path) -> None:
    path = table(tmp_path, different(30, *map(str, range(30))))
    assert task(path, valid=path).build().notes[-1].endswith(", 18, 19 and 10 more")


def test_blanks_around_a_label_do_not_make_another(tmp_path: Path) -> None:
    path = table(tmp_path, [("a", "pos"), ("b", "pos "), ("c", " neg")])
    assert task(path, valid=path).build().classes == ("neg", "pos")


def test_lines_that_are_left_out_are_said_of_every_table(tmp_path: Path) -> None:
    paths = [table(tmp_path, [*ROWS[:4], ("",), *ROWS[4:]], name) for name in ("a.tsv", "b.tsv", "c.tsv")]
    data = task(paths[0], valid=paths[1], test=paths[2]).build()
    assert data.notes[:3] == tuple(f"{path}: blank lines left out: 1 (line 6)" for path in paths)
    assert (len(pairs_of(data.valid)), len(pairs_of(data.test))) == (10, 10)


# What goes wrong


def test_a_label_that_training_has_not_seen_is_refused_with_its_line(tmp_path: Path) -> None:
    path, test = table(tmp_path, ROWS), table(tmp_path, [("a", "pos"), ("b", "negg")], "t.tsv")
    message = r"t\.tsv, line 3: the label 'negg' does not occur in what is learned from; did you mean 'neg'"
    with pytest.raises(DataError, match=message):
        task(path, test=test).build()
    tokenizer = byte_tokenizer(("<bos>", "<eos>"))
    with pytest.raises(DataError, match=r"t\.tsv, line 2: the label 'pos' does not occur .* known: a, b"):
        task(test).whole("encoder", tokenizer, ("a", "b"))


def test_one_label_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has only the label 'x'; there must be at least 2 to tell apart"):
        task(table(tmp_path, different(5, "x"))).build()


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_label_is_refused_with_its_line(tmp_path: Path, blank: str) -> None:
    with pytest.raises(DataError, match=r"train\.tsv, line 4: the label is blank; give the text one"):
        task(table(tmp_path, [("a", "x"), ("b", "y"), ("c", blank)])).build()


def test_a_text_of_nothing_is_a_text(tmp_path: Path) -> None:
    path = table(tmp_path, [("a", "x"), ("", "y")])
    assert learned(task(path, valid=path).build()) == [("a", "x"), ("", "y")]


def test_missing_tables_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no data: name a table of texts and labels, task\.train=FILE"):
        ClassificationTask().build()
    path = table(tmp_path, ROWS)
    with pytest.raises(DataError, match=r"there is no file .*trian\.tsv; did you mean 'train\.tsv'"):
        task("trian.tsv", data=str(tmp_path)).build()
    with pytest.raises(DataError, match=r"there is no file .*test\.csv"):
        task(path, test=str(tmp_path / "test.csv")).build()
    with pytest.raises(DataError, match="is a folder; name a file in it"):
        task(".", data=str(tmp_path)).build()
    with pytest.raises(DataError, match="has 0 rows below its header"):
        task(table(tmp_path, [])).build()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"valid_share": 0.0}, "greater than 0"),
        ({"valid_share": 1.0}, "less than 1"),
        ({"longest": 0}, "greater than or equal to 1"),
        ({"over_long": "drop"}, "over_long"),
        ({"hide": 1.0}, "less than 1"),
        ({"texts": "a"}, "texts is not a setting; did you mean 'text'"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ClassificationTask(**settings)


def test_a_tokenizer_without_begin_or_end_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path, [(*row, "other") for row in ROWS], head="text\tlabel\tsecond")
    for second_text in (None, "second"):
        with pytest.raises(DataError, match="the tokenizer lacks '<bos>' or '<eos>', between which a text is read"):
            task(path, valid=path, second_text=second_text).build(tokenizer=byte_tokenizer())


# Splitting off


def test_a_tenth_is_split_off_to_validate(tmp_path: Path) -> None:
    rows = different(50, "x", "y")
    path = table(tmp_path, rows)
    data = task(path).build()
    assert (len(learned(data)), len(pairs_of(data.valid)), data.test) == (45, 5, None)
    assert sorted(learned(data) + pairs_of(data.valid)) == sorted(rows)
    assert learned(data) == [row for row in rows if row in set(learned(data))]  # in the order of the table
    assert pairs_of(task(path).build().valid) == pairs_of(data.valid) == pairs_of(task(path, hide=0.5).build().valid)
    assert pairs_of(task(path, seed=1).build().valid) != pairs_of(data.valid)
    assert len(pairs_of(task(path, valid_share=0.5).build().valid)) == 25
    assert len(pairs_of(task(path, valid_share=0.001).build().valid)) == 1


def test_no_text_that_was_split_off_is_learned_from(tmp_path: Path) -> None:
    """Each text stands there twice, so that half of the duplicates would leak."""
    for seed in range(5):
        data = task(table(tmp_path, ROWS), valid_share=0.2, seed=seed).build()
        valid = pairs_of(data.valid)
        assert len(valid) == 2
        assert not {text for text, _ in learned(data)} & {text for text, _ in valid}
        left_out = 10 - 2 - len(learned(data))
        said = f"{left_out} rows have the text of one to validate and are left out"
        assert (data.notes[0] == said) == bool(left_out)
        assert all("also learned from" not in note for note in data.notes)


def test_too_few_rows_to_split_are_refused(tmp_path: Path) -> None:
    message = r"has 2 rows, too few different ones to learn from some and validate by 1; give more, or a table to valid"
    with pytest.raises(DataError, match=message):
        task(table(tmp_path, [("a", "x"), ("a", "y")])).build()
    with pytest.raises(DataError, match="has 2 rows, too few different ones to learn from some and validate by 2"):
        task(table(tmp_path, [("a", "x"), ("b", "y")]), valid_share=0.9).build()


def test_texts_to_measure_by_that_are_learned_from_are_said(tmp_path: Path) -> None:
    path = table(tmp_path, ROWS)
    test = table(tmp_path, [("fine", "neg"), ("fine film", "pos"), ("awful", "neg")], "t.tsv")
    notes = task(path, valid=path, test=test).build().notes
    assert notes[1:3] == ("10 texts to validate; 10 of them are also learned from", notes[2])
    assert notes[2] == "3 texts to test; 2 of them are also learned from"


def test_the_vocabulary_comes_from_training_alone(tmp_path: Path) -> None:
    test = table(tmp_path, [("good ξ", "pos")], "t.tsv")
    data = task(table(tmp_path, ROWS), test=test, tokenizer="word").build()
    assert "ξ" not in data.tokenizer.decode(range(data.tokenizer.vocab_size))
    assert "1 texts to test, 1 of their tokens unknown" in data.notes[-2]


@pytest.mark.parametrize("tokenizer", ["word", "character", "byte", "bpe", "byte_bpe"])
def test_o35_special_tokens_in_user_text_are_text(tmp_path: Path, tokenizer: str) -> None:
    rows = [("<eos> hi <pad>", "x"), ("<|endoftext|><bos> <unk>", "y")]
    path = table(tmp_path, rows)
    size = 400 if "bpe" in tokenizer else None
    data = task(path, valid=path, tokenizer=tokenizer, vocab_size=size).build()
    assert learned(data) == rows
    special = {data.tokenizer.bos_id, data.tokenizer.eos_id, data.tokenizer.pad_id, data.tokenizer.unk_id}
    for item in (0, 1):
        assert not special & set(data.train.batch([item], 0).inputs[0, 1:-1].tolist())


# Batches


@pytest.mark.parametrize("kind", ["encoder", "decoder", "encoder_decoder"])
def test_batches_are_right_for_every_kind_of_model(tmp_path: Path, kind: Kind) -> None:
    path = table(tmp_path, [("ab", "y"), ("b", "x")])
    tokenizer = character_tokenizer(["ab"], ("<pad>", "<bos>", "<eos>", "<unk>"))
    a, b = tokenizer.encode("ab")
    data = task(path, valid=path).build(kind, tokenizer)
    assert (data.kind, data.tokenizer) == (kind, tokenizer)
    batch = data.train.batch([0, 1], 0)
    rows, lengths = [[1, a, b, 2], [1, b, 2, 0]], (4, 3)
    assert batch.labels.tolist() == [1, 0]
    if kind == "encoder_decoder":
        assert batch.source is not None
        assert (batch.source.tolist(), batch.source_lengths) == (rows, lengths)
        assert (batch.inputs.tolist(), batch.lengths) == ([[1], [1]], (1, 1))
    else:
        assert batch.source is None
        assert (batch.inputs.tolist(), batch.lengths) == (rows, lengths)
    arguments = ModelArguments(kind=kind, d_model=16, n_layers=1, n_heads=2, d_ff=16, dropout=0.0)
    model = Transformer(arguments.resolve(tokenizer.vocab_size, classes=data.classes)).eval()
    assert logits_of(model, batch).shape == (2, 2)
    assert len(data.valid.source) == 2


def test_o08_metrics_of_a_split_do_not_depend_on_the_batches(tmp_path: Path) -> None:
    path = table(tmp_path, [("ab" * (i % 5 + 1), "xy"[i % 3 % 2]) for i in range(20)])
    data = task(path, valid=path).build()
    arguments = ModelArguments(kind="encoder", d_model=16, n_layers=1, n_heads=2, d_ff=16, dropout=0.0)
    model = Transformer(arguments.resolve(data.tokenizer.vocab_size, classes=data.classes)).eval()
    with torch.no_grad():
        alone = [float(objective(model, data.valid.source.batch([item], 0)).sum) for item in range(20)]
    for batch_tokens in (1, 30, 10_000):
        found = source_metrics(model, data.valid.source, data.judging, batch_tokens)
        assert found["texts"] == 20
        assert found["loss"] == pytest.approx(sum(alone) / 20, abs=1e-5)
        assert found["accuracy"] == source_metrics(model, data.valid.source, data.judging, 7)["accuracy"]


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_o27_workers_hide_the_same_tokens_and_epochs_others(tmp_path: Path) -> None:
    path = table(tmp_path, [("a" * 30, "x"), ("b" * 30, "y")] * 10)

    def epoch(number: int, workers: int, seed: int = 1) -> dict[int, list[int]]:
        data = task(path, valid=path, hide=0.5, seed=seed).build()
        assert isinstance(data.train, LabelledSource)
        order = TokenOrder(data.train.lengths, 130, seed=1, shuffle=True)
        batches = loader(data.train, order, number, workers=workers)
        return {item: row for batch in batches for item, row in zip(batch.items, batch.inputs.tolist(), strict=True)}

    first = epoch(0, 0)
    assert sorted(first) == list(range(20))
    assert first == epoch(0, 2)
    assert len({tuple(row) for row in first.values()}) == 20  # no two rows are hidden alike
    assert not set(map(tuple, first.values())) & set(map(tuple, epoch(1, 2).values()))
    assert not set(map(tuple, first.values())) & set(map(tuple, epoch(0, 0, seed=2).values()))


def test_only_training_texts_are_hidden(tmp_path: Path) -> None:
    path = table(tmp_path, [("a" * 200, "x"), ("b" * 200, "y")])
    data = task(path, valid=path, test=path, hide=0.5).build()
    batch = data.train.batch([0, 1], 0)
    assert 100 < int((batch.inputs == data.tokenizer.unk_id).sum()) < 300
    assert batch.inputs[:, 0].eq(data.tokenizer.bos_id).all()
    assert batch.inputs[:, -1].eq(data.tokenizer.eos_id).all()
    assert data.test is not None
    for split in (data.valid, data.test):
        assert not split.source.batch([0, 1], 0).inputs.eq(data.tokenizer.unk_id).any()


# O07: length limits

LONG = [("abc", "x"), ("abcdef", "y"), ("abcd", "x"), ("a", "y")]


def test_o07_over_long_texts_are_cut_with_a_count(tmp_path: Path) -> None:
    path = table(tmp_path, LONG)
    data = task(path, valid=path, test=path, longest=3).build()
    cut = [("abc", "x"), ("abc", "y"), ("abc", "x"), ("a", "y")]
    assert learned(data) == cut
    assert data.notes[0] == "4 texts to learn from; 2 of 4 rows cut to 3 tokens, lines 3, 4"
    assert data.notes[2].endswith("; 2 of 4 rows cut to 3 tokens, lines 3, 4")
    assert data.test is not None
    assert (read_back(data.tokenizer, data.test.source, "xy"), pairs_of(data.test)) == (cut, LONG)
    assert data.train.longest == (0, 5)


def test_o07_over_long_texts_are_skipped_in_training_only(tmp_path: Path) -> None:
    path = table(tmp_path, LONG)
    data = task(path, valid=path, longest=3, over_long="skip").build()
    assert learned(data) == [LONG[0], LONG[3]]
    assert data.notes[0] == "2 texts to learn from; 2 of 4 rows skipped, over 3 tokens, lines 3, 4"
    assert (len(data.valid.source), len(data.valid.pairs)) == (4, 4)


def test_o07_over_long_texts_are_refused_with_their_line(tmp_path: Path) -> None:
    path, test = table(tmp_path, LONG[:1] + LONG[3:]), table(tmp_path, LONG, "t.tsv")
    with pytest.raises(DataError, match=r"line 3: 6 tokens, more than the limit of 3; .* 2 of 4 are too long"):
        task(test, valid=path, longest=3, over_long="error").build()
    with pytest.raises(DataError, match="line 3: 6 tokens, more than the limit of 3"):
        task(path, valid=path, test=test, longest=3, over_long="error").build()


def test_unknown_tokens_are_counted_of_what_is_kept(tmp_path: Path) -> None:
    path, test = table(tmp_path, LONG), table(tmp_path, [("aξbξξξ", "x")], "t.tsv")
    assert "1 texts to test, 1 of their tokens unknown; 1 of 1 rows cut to 3 tokens, line 2" in (
        task(path, valid=path, test=test, longest=3).build().notes
    )


@pytest.mark.parametrize("longest", range(1, 12))
def test_of_two_texts_the_longer_one_is_cut_first(longest: int) -> None:
    for sizes in [(0, 0), (4, 4), (3, 9), (9, 3), (0, 9), (5, 4)]:
        first, second = _within([list(range(sizes[0])), list(range(sizes[1]))], longest)
        assert (first, second) == (list(range(len(first))), list(range(len(second))))
        assert len(first) + 1 + len(second) == min(longest, sum(sizes) + 1)
        cut = [size for size, kept in zip(sizes, (first, second), strict=True) if len(kept) < size]
        if len(cut) == 2:
            assert abs(len(first) - len(second)) <= 1
        elif cut:  # what is left of the longer one is not shorter than the other, but for an odd token
            longer, shorter = (first, second) if len(first) < sizes[0] else (second, first)
            assert len(longer) >= len(shorter) - 1


# Using it


def test_a_text_is_encoded_as_in_training(tmp_path: Path) -> None:
    path = table(tmp_path, LONG)
    asked = task(path, valid=path, longest=3)
    data = asked.build()
    assert asked.encode(("abcdef",), data.tokenizer) == data.train.batch([1], 0).inputs[0, 1:-1].tolist()
    with pytest.raises(DataError, match="2 texts are given, but this task labels 1 at a time; give 1"):
        asked.encode(("a", "b"), data.tokenizer)


def test_all_rows_are_one_split_for_a_model_that_exists(tmp_path: Path) -> None:
    """The other tables may be those of the model's own data, and gone: nothing is read of them."""
    data = task(table(tmp_path, ROWS), valid=table(tmp_path, ROWS)).build("decoder")
    asked = task(table(tmp_path, [("fine", "pos"), ("new", "neg")], "new.tsv"), valid="gone", test="gone", longest=2)
    whole = asked.whole("decoder", data.tokenizer, data.classes or ())
    assert list(whole.pairs) == [("fine", "pos"), ("new", "neg")]
    assert whole.source.batch([0, 1], 0).labels.tolist() == [2, 1]
    assert whole.source.longest == (0, 4)


# Real data


@needs_data
def test_trec_has_its_official_parts() -> None:
    settings = {
        "name": "classification",
        "data": str(Path(str(DATA)) / "cls_en"),
        "train": "TREC.train.all",
        "test": "TREC.test.all",
        "separator": "space",
        "encoding": "latin-1",
        "label": "0",
        "text": "1",
    }
    data = ClassificationTask.parse(settings, "task").build()
    assert data.classes == tuple("012345")
    assert pairs_of(data.test)[0] == ("How far is it from Denver to Aspen ?", "5")
    assert (len(data.valid.pairs), len(pairs_of(data.test))) == (545, 500)
    assert 5452 - 545 - len(data.train) == int(data.notes[0].split()[0])  # duplicates of what is validated by
    assert not {text for text, _ in learned(data)} & {text for text, _ in data.valid.pairs}
    assert any(note.endswith("of them are also learned from") for note in data.notes)  # so it comes


@needs_data
def test_chnsenticorp_has_its_official_parts() -> None:
    folder = str(Path(str(DATA)) / "cls_zh" / "chnsenticorp")
    names = {"train": "train.tsv", "valid": "dev.tsv", "test": "test.tsv"}
    data = ClassificationTask(data=folder, text="text_a", tokenizer="character", **names).build()
    assert (len(data.train), len(data.valid.pairs), len(pairs_of(data.test))) == (9_600, 1_200, 1_200)
    assert data.classes == ("0", "1")
    assert "331 of them are also learned from" in data.notes[2]  # so it comes


def test_blank_texts_are_told_with_their_lines(tmp_path: Path) -> None:
    rows = [("good", "pos"), ("  ", "neg"), ("bad", "neg"), ("fine", "pos")] * 3
    path = table(tmp_path, rows)
    assert f"{path}: blank texts, which are kept: 3 (lines 3, 7, 11)" in task(path).build().notes


def test_a_row_that_is_too_long_is_named_with_its_file(tmp_path: Path) -> None:
    train = table(tmp_path, [("ab", "pos"), ("c", "neg")])
    valid = table(tmp_path, [("abcdefg", "pos")], "valid.tsv")
    with pytest.raises(DataError, match=r"valid\.tsv, line 2: 7 tokens, more than .*task\.longest.*over_long=cut"):
        task(train, valid=valid, longest=3, over_long="error").build()


@pytest.mark.parametrize("same", [{"text": "label"}, {"second_text": "text"}, {"label": 1, "text": "1"}])
def test_a_column_cannot_be_two_things(same: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"are both column \w+; name another one for each"):
        ClassificationTask.parse({"name": "classification", **same})
