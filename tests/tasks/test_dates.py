from __future__ import annotations

from datetime import date

import pytest

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.places import IGNORED
from glassformer.data.batch import Batch
from glassformer.data.dates import spellings
from glassformer.tasks.dates import DatesTask
from glassformer.tasks.task import Split, Task, TaskData
from glassformer.text.build import character_tokenizer


def texts(data: TaskData, batch: Batch) -> list[tuple[str, str]]:
    """Sources and targets as text."""
    assert batch.source is not None
    decode = data.tokenizer.decode
    sources = [decode(row[:length].tolist()) for row, length in zip(batch.source, batch.source_lengths, strict=True)]
    labels = [decode([token for token in row.tolist() if token != IGNORED]) for row in batch.labels]
    return list(zip(sources, labels, strict=True))


def epoch(data: TaskData, number: int) -> list[tuple[str, str]]:
    return texts(data, data.train.batch(range(len(data.train)), number))


def pairs(split: Split | None) -> tuple[tuple[str, str], ...]:
    assert split is not None
    return split.pairs


def test_targets_are_the_dates() -> None:
    task = DatesTask(epoch_size=200, valid_size=20, test_size=50)
    assert isinstance(task, Task)
    data = task.build()
    for source, target in epoch(data, 0) + list(pairs(data.valid)) + list(pairs(data.test)):
        assert source in {spelling.text for spelling in spellings(date.fromisoformat(target))}
    for split in (data.valid, data.test):
        assert split is not None
        assert texts(data, split.source.batch(range(len(split.source)), 0)) == list(split.pairs)
    assert (data.kind, task.kinds, task.files) == ("encoder_decoder", ("encoder_decoder",), ())
    assert data.judging.metrics == task.judging.metrics == ("loss", "exact_match")


@pytest.mark.parametrize("seed", [0, 7])
def test_dates_of_test_and_validation_are_never_trained_on(seed: int) -> None:
    """One year only, so that training would meet them at once if they were not kept out."""
    task = DatesTask(first_year=2001, last_year=2001, epoch_size=2000, valid_size=40, test_size=60, seed=seed)
    data = task.build()
    test, valid = ({iso for _, iso in pairs(split)} for split in (data.test, data.valid))
    assert (len(test), len(valid), len(test & valid)) == (60, 40, 0)
    epochs = [epoch(data, number) for number in range(2)]
    assert epochs[0] != epochs[1]
    trained = {iso for seen in epochs for _, iso in seen}
    assert not trained & (test | valid)
    assert len(trained) == 365 - 100  # whatever else there is, training meets


def test_test_set_depends_on_the_tasks_seed_alone() -> None:
    def test_set(**settings: object) -> tuple[tuple[str, str], ...]:
        return pairs(DatesTask(first_year=1990, last_year=1999, epoch_size=10, test_size=20, **settings).build().test)

    assert test_set(valid_size=5) == test_set(valid_size=50)
    assert test_set() != test_set(seed=1)
    assert (
        pairs(DatesTask(first_year=1990, last_year=1999, epoch_size=10, test_size=30).build().test)[:20] == test_set()
    )


def test_whole_is_the_test_set() -> None:
    task = DatesTask(epoch_size=10, valid_size=5, test_size=5)
    data = task.build()
    assert task.whole("encoder_decoder", data.tokenizer).pairs == pairs(data.test)


def test_languages_can_be_chosen() -> None:
    assert DatesTask().languages == ("en", "de", "zh")
    for text, languages in {"zh": ("zh",), "zh, en": ("en", "zh"), "[de,en]": ("en", "de")}.items():
        task = DatesTask.parse({"name": "dates", "languages": text}, "task")
        assert task.languages == languages
    chinese = DatesTask(languages=("zh",), epoch_size=100).build()
    assert all("年" in source for source, _ in epoch(chinese, 0) + list(pairs(chinese.test)))


def test_vocabulary_is_the_same_for_all_languages() -> None:
    one, all_of_them = DatesTask(languages=("zh",)).build().tokenizer, DatesTask().build().tokenizer
    assert one.vocab_size == all_of_them.vocab_size
    again = DatesTask(languages=("en",), epoch_size=5).build(tokenizer=all_of_them)
    assert again.tokenizer is all_of_them


def test_other_years_can_be_chosen() -> None:
    data = DatesTask(first_year=1648, last_year=1649, epoch_size=100, test_size=5).build()
    years = {iso[:4] for _, iso in epoch(data, 0)}
    assert years == {"1648", "1649"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"first_year": 2001, "last_year": 2000}, "first_year 2001 is after last_year 2000"),
        ({"first_year": 1500}, "1583"),
        ({"last_year": 10_000}, "9999"),
        ({"languages": ("fr",)}, "no date is written in language 'fr'"),
        ({"languages": "en,en"}, "languages are en, en; give at least 1, and each only once"),
        ({"languages": ()}, "languages are none"),
        ({"languages": 3}, "languages"),
        ({"epoch_size": 0}, "greater than or equal to 1"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DatesTask(**settings)


def test_more_dates_held_out_than_there_are_is_refused() -> None:
    with pytest.raises(DataError, match="2001 to 2001 has 365 dates, and 1200 of them are held out"):
        DatesTask(first_year=2001, last_year=2001).build()


def test_characters_that_the_models_vocabulary_lacks_are_refused() -> None:
    digits = character_tokenizer(["0123456789-"], ("<pad>", "<bos>", "<eos>"))
    with pytest.raises(DataError, match="has no id in this vocabulary"):
        DatesTask(epoch_size=5).build(tokenizer=digits)
