from __future__ import annotations

import pytest

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.places import IGNORED
from glassformer.data.batch import Batch
from glassformer.tasks.sequences import SequenceTask
from glassformer.tasks.task import TaskData

ANSWERS = {"reverse": lambda text: text[::-1], "copy": lambda text: text, "sort": lambda text: "".join(sorted(text))}


def texts(data: TaskData, batch: Batch) -> list[tuple[str, str]]:
    """Sources and targets as text."""
    assert batch.source is not None
    decode = data.tokenizer.decode
    sources = [decode(row[:length].tolist()) for row, length in zip(batch.source, batch.source_lengths, strict=True)]
    labels = [decode([token for token in row.tolist() if token != IGNORED]) for row in batch.labels]
    return list(zip(sources, labels, strict=True))


def epoch(data: TaskData, number: int) -> list[tuple[str, str]]:
    return texts(data, data.train.batch(range(len(data.train)), number))


@pytest.mark.parametrize("name", ANSWERS)
def test_targets_are_the_right_answers(name):
    data = SequenceTask(name=name, epoch_size=300, valid_size=20, test_size=50, alphabet="badc闫").build()
    for source, target in epoch(data, 0):
        assert target == ANSWERS[name](source)
        assert 3 <= len(source) <= 20
    for split in (data.valid, data.test):
        assert split is not None
        assert all(target == ANSWERS[name](source) for source, target in split.pairs)
        assert texts(data, split.source.batch(range(len(split.source)), 0)) == list(split.pairs)
    assert (data.kind, data.judging.metrics) == ("encoder_decoder", ("loss", "exact_match"))


def test_a_sorted_row_is_as_expected():
    assert ANSWERS["sort"]("3120") == "0123"
    data = SequenceTask(name="sort", epoch_size=50, valid_size=5, test_size=5).build()
    assert any(source != target for source, target in epoch(data, 0))


def test_batch_has_its_begin_and_end_tokens():
    data = SequenceTask(name="reverse", epoch_size=10, valid_size=5, test_size=5, min_length=4, max_length=4).build()
    batch = data.train.batch([0, 1, 2], 0)
    tokenizer = data.tokenizer
    assert batch.inputs[:, 0].tolist() == [tokenizer.bos_id] * 3
    assert batch.labels[:, -1].tolist() == batch.source[:, -1].tolist() == [tokenizer.eos_id] * 3
    assert batch.labels[:, :-1].equal(batch.inputs[:, 1:])
    assert batch.source[:, :-1].flip(1).equal(batch.labels[:, :-1])


@pytest.mark.parametrize("seed", [0, 7])
def test_test_and_validation_are_distinct_and_never_trained_on(seed):
    """Short sequences over few symbols, so that training would meet them at once if they were not kept out."""
    task = SequenceTask(
        name="reverse",
        alphabet="abc",
        min_length=2,
        max_length=5,
        epoch_size=500,
        valid_size=40,
        test_size=60,
        seed=seed,
    )
    data = task.build()
    assert data.test is not None
    test, valid = ([source for source, _ in split.pairs] for split in (data.test, data.valid))
    assert len(set(test)) == 60
    assert len(set(valid)) == 40
    assert not set(test) & set(valid)
    epochs = [[source for source, _ in epoch(data, number)] for number in range(5)]
    for sources in epochs:
        assert not set(sources) & (set(test) | set(valid))
    assert len({tuple(sources) for sources in epochs}) == 5  # each epoch is fresh
    left = 3**2 + 3**3 + 3**4 + 3**5 - 100
    assert 0.9 * left < len(set().union(*epochs)) <= left  # whatever else there is, training meets


def test_test_set_depends_on_the_tasks_seed_alone():
    def test_set(**settings: object) -> tuple[tuple[str, str], ...]:
        test = SequenceTask(name="reverse", epoch_size=10, test_size=20, **settings).build().test
        assert test is not None
        return test.pairs

    assert test_set(valid_size=5) == test_set(valid_size=50)
    assert test_set() != test_set(seed=1)
    longer = SequenceTask(name="reverse", epoch_size=10, test_size=30, valid_size=5).build().test
    assert longer is not None
    assert longer.pairs[:20] == test_set()


def test_same_items_are_the_same_in_any_batch():
    data = SequenceTask(name="copy", epoch_size=50, valid_size=5, test_size=5).build()
    whole = epoch(data, 3)
    assert texts(data, data.train.batch([7, 3, 49], 3)) == [whole[7], whole[3], whole[49]]


def test_more_test_sequences_than_there_are_is_refused():
    with pytest.raises(DataError, match=r"cannot hold out 1000 different sequences of 1 to 2 .* only 110 are left"):
        SequenceTask(name="copy", min_length=1, max_length=2).build()
    with pytest.raises(DataError, match="all sequences of 1 to 1 symbols are held out"):
        SequenceTask(name="copy", min_length=1, max_length=1, test_size=6, valid_size=4).build()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_length": 5, "max_length": 4}, "min_length 5 is above max_length 4"),
        ({"alphabet": "abca"}, "alphabet 'abca' holds a symbol twice"),
        ({"alphabet": "a"}, "at least 2 characters"),
        ({"epoch_size": 0}, "greater than or equal to 1"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        SequenceTask(name="copy", **settings)


def test_alphabet_that_the_models_vocabulary_lacks_is_refused():
    digits = SequenceTask(name="copy", epoch_size=5, valid_size=5, test_size=5).build().tokenizer
    with pytest.raises(DataError, match=r"'x'.* has no id in this vocabulary"):
        SequenceTask(name="copy", alphabet="xy", epoch_size=5, valid_size=5, test_size=5).build(tokenizer=digits)


def test_whole_is_the_test_set():
    task = SequenceTask(name="copy", epoch_size=5, valid_size=5, test_size=5)
    data = task.build()
    assert data.test is not None
    assert task.whole("encoder_decoder", data.tokenizer).pairs == data.test.pairs
