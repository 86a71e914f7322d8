from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.dates import spellings, split_dates
from glassformer.tasks import matching
from glassformer.tasks.matching import MatchingTask
from glassformer.tasks.task import Kind, Task
from glassformer.text.build import character_tokenizer

from .reading import pairs_of, write

ROWS = [("a", "ab", "same"), ("b", "a", "different")]


def table(folder: Path, rows: list[tuple[str, ...]], head: str = "text_a\ttext_b\tlabel") -> str:
    return str(write(folder / "pairs.tsv", [head, *("\t".join(row) for row in rows)]))


@pytest.fixture(scope="module")
def few() -> tuple[dict[str, set[date]], MatchingTask]:
    """Two years only, in which every spelling can be looked up; and the dates of each part."""
    parts = split_dates(2001, 2002, 200, 200, 0)
    return dict(zip(("train", "valid", "test"), map(set, parts), strict=True)), MatchingTask(made_size=300)


@pytest.fixture(autouse=True)
def _two_years(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "FIRST_YEAR", 2001)
    monkeypatch.setattr(matching, "LAST_YEAR", 2002)
    monkeypatch.setattr(matching, "N_DATES", 200)
    monkeypatch.setattr(matching, "N_MEASURED", 100)


def test_without_a_table_data_is_made_up_half_of_it_the_same(few: tuple[dict[str, set[date]], MatchingTask]) -> None:
    dates, task = few
    assert isinstance(task, Task)
    meant: dict[str, set[date]] = {}
    for day in set().union(*dates.values()):
        for spelling in spellings(day):
            meant.setdefault(spelling.text, set()).add(day)
    for part, rows in zip(("train", "valid", "test"), task.parts(), strict=True):
        assert rows is not None
        assert len(rows.texts) == (300 if part == "train" else 100)
        assert rows.labels.count("same") == rows.labels.count("different") == len(rows.texts) / 2
        for (first, second), label in zip(rows.texts, rows.labels, strict=True):
            assert first != second
            assert meant[first] & dates[part]  # no date of another part
            assert meant[second] & dates[part]
            if label == "same":
                assert meant[first] & meant[second]


def test_made_up_data_depends_on_the_seed_alone(few: tuple[dict[str, set[date]], MatchingTask]) -> None:
    (train, valid, test), again, other = (
        few[1].parts(),
        MatchingTask(made_size=300).parts(),
        MatchingTask(made_size=300, seed=1).parts(),
    )
    assert [part.texts for part in again if part] == [part.texts for part in (train, valid, test) if part]
    assert other[0].texts[:300] != train.texts
    assert MatchingTask(made_size=400).parts()[0].texts[:300] == train.texts


def test_made_up_data_is_learned_by_every_kind_of_model(few: tuple[dict[str, set[date]], MatchingTask]) -> None:
    task = few[1]
    assert (task.kinds, task.files) == (("encoder", "decoder", "encoder_decoder"), ("train",))
    data = task.build()
    assert data.classes == ("different", "same")
    assert (len(data.train), len(data.valid.pairs), len(pairs_of(data.test))) == (300, 100, 100)
    assert data.notes[0] == "300 texts to learn from"
    assert data.notes[-1] == "2 labels: different, same"
    first = task.parts()[0].texts[0]
    batch = data.train.batch([0], 0)
    row = batch.inputs[0].tolist()
    tokenizer = data.tokenizer
    middle = 1 + len(first[0])
    assert (row[0], row[middle], row[-1]) == (tokenizer.bos_id, tokenizer.eos_id, tokenizer.eos_id)
    assert (tokenizer.decode(row[:middle]), tokenizer.decode(row[middle:])) == first
    assert batch.labels.tolist() == [1]
    assert pairs_of(data.test)[0] == (" | ".join(task.parts()[2].texts[0]), "same")


@pytest.mark.parametrize("kind", ["encoder", "decoder", "encoder_decoder"])
def test_two_texts_are_one_row_with_a_separator(tmp_path: Path, kind: Kind) -> None:
    path = table(tmp_path, ROWS)
    tokenizer = character_tokenizer(["ab"], ("<pad>", "<bos>", "<eos>", "<unk>"))
    a, b = tokenizer.encode("ab")
    data = MatchingTask(train=path, valid=path).build(kind, tokenizer)
    batch = data.train.batch([0, 1], 0)
    rows = batch.source if kind == "encoder_decoder" else batch.inputs
    assert rows is not None
    assert rows.tolist() == [[1, a, 2, a, b, 2], [1, b, 2, a, 2, 0]]
    assert batch.labels.tolist() == [1, 0]
    assert data.valid.pairs == (("a | ab", "same"), ("b | a", "different"))


def test_columns_have_names_of_their_own(tmp_path: Path) -> None:
    path = table(tmp_path, [("x", "same", "a", "ab"), ("y", "different", "b", "a")], "id\tgold\tfirst\tsecond")
    settings = {"train": path, "valid": path, "text": "first", "second_text": "second", "label": "gold"}
    assert MatchingTask(**settings).build().valid.pairs == (("a | ab", "same"), ("b | a", "different"))
    with pytest.raises(DataError, match="has no column 'text_a'"):
        MatchingTask(train=path, label="gold").build()
    by_number = {"text": "2", "second_text": "3", "label": "1", "header": "yes", "train": path, "valid": path}
    assert MatchingTask.parse({"name": "matching", **by_number}, "task").build().valid.pairs[0] == ("a | ab", "same")


def test_too_long_pairs_keep_something_of_both_texts(tmp_path: Path) -> None:
    path = table(tmp_path, [("a" * 9, "b" * 9, "same"), ("a", "b" * 9, "different"), ("a", "b", "same")])
    task = MatchingTask(train=path, valid=path, longest=6)
    data = task.build()
    rows = data.train.batch([0, 1, 2], 0).inputs.tolist()
    tokenizer = data.tokenizer
    assert [tokenizer.decode(row) for row in rows] == ["aaabb", "abbbb", "ab"]
    assert data.notes[0] == "3 texts to learn from; 2 of 3 rows cut to 6 tokens, lines 2, 3"
    assert task.encode(("a" * 9, "b" * 9), tokenizer) == rows[0][1:-1]
    with pytest.raises(DataError, match="one text is given, but this task labels 2 at a time; give 2"):
        task.encode(("a",), tokenizer)


def test_tables_to_measure_by_need_one_to_learn_from(tmp_path: Path) -> None:
    for part in ("valid", "test"):
        with pytest.raises(ConfigError, match=r"need a table to learn from as well: task\.train=FILE"):
            MatchingTask(**{part: table(tmp_path, ROWS)}).build()


def test_all_rows_are_one_split_for_a_model_that_exists(tmp_path: Path) -> None:
    tokenizer = character_tokenizer(["ab"], ("<pad>", "<bos>", "<eos>", "<unk>"))
    whole = MatchingTask(train=table(tmp_path, ROWS), test="gone").whole("encoder", tokenizer, ("different", "same"))
    assert whole.source.batch([0, 1], 0).labels.tolist() == [1, 0]


def test_too_little_to_make_up_is_refused() -> None:
    with pytest.raises(ConfigError, match="greater than or equal to 10"):
        MatchingTask(made_size=9)
