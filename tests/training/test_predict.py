"""Labels for new texts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from glassformer.checkpoint.loading import Loaded, load
from glassformer.core.errors import DataError, UnsupportedError
from glassformer.tasks.classification import ClassificationTask
from glassformer.tasks.task import Task
from glassformer.training.predict import Prediction, predict, texts_of
from glassformer.training.run import read_recipe, train

from .tiny import classification, sequences, without_report

KINDS = ("encoder", "decoder", "encoder_decoder")
TEXTS = [("Hund rot",), ("rot",), ("Katze und Hund und blau und rot 4 5 6",), ("was ist das",), ("",)]


@pytest.fixture(scope="module", params=[*KINDS, "matching", "learned positions"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Loaded, Task]:
    """A run of each kind, and one that labels two texts."""
    root = tmp_path_factory.mktemp("labels")
    task = {"name": "matching"} if request.param == "matching" else {}
    model = {"kind": request.param} if request.param in KINDS else {}
    model = {"positions": "learned"} if request.param.startswith("learned") else model
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("glassformer.training.run.write_run_report", without_report)
        train(classification(root / "data", task=task, model=model, max_steps=6), root / "run")
    return load(root / "run"), read_recipe(root / "run").task


def texts_for(task: Task) -> list[tuple[str, ...]]:
    two = isinstance(task, ClassificationTask) and task.second_text is not None
    return [(text, "rot") for (text,) in TEXTS] if two else list(TEXTS)


def test_probabilities_are_shares_of_one_and_the_label_is_the_largest(trained):
    loaded, task = trained
    for found in predict(loaded, task, texts_for(task)):
        assert list(found.probabilities) == ["animal", "colour", "deed"] == list(loaded.model.config.head.classes)
        assert sum(found.probabilities.values()) == pytest.approx(1, abs=1e-6)
        assert found.probabilities[found.label] == max(found.probabilities.values())
        assert found.line == f"{found.label}\t{found.probabilities[found.label]:.4f}"


def test_batch_mates_and_their_order_do_not_matter(trained, monkeypatch):
    loaded, task = trained
    texts = texts_for(task)
    together = predict(loaded, task, texts)
    backwards = predict(loaded, task, texts[::-1])[::-1]
    alone = [predict(loaded, task, [each])[0] for each in texts]
    monkeypatch.setattr("glassformer.training.predict.BATCH_TOKENS", 1)
    small = predict(loaded, task, texts)
    for found in (backwards, alone, small):
        for one, other in zip(together, found, strict=True):
            assert one.label == other.label
            assert one.probabilities == pytest.approx(other.probabilities, abs=1e-6)
            assert (one.unknown, one.cut) == (other.unknown, other.cut)
    assert len({each.probabilities["deed"] for each in together}) > 1


def test_unknown_and_unread_tokens_are_counted(trained):
    loaded, task = trained
    texts = texts_for(task)
    long = (" ".join(["Hund"] * 400), *texts[0][1:])
    known, _, _, strange, _, cut = predict(loaded, task, [*texts, long])
    assert (known.unknown, known.cut) == (0, 0)
    assert strange.unknown == 3
    assert isinstance(task, ClassificationTask)
    reads = loaded.model.max_positions
    assert 400 - cut.cut <= (task.longest if reads is None else reads - 2)
    assert cut.cut >= 400 - task.longest
    again = predict(loaded, task.model_copy(update={"longest": 5}), [long])[0]
    assert again.cut > cut.cut or reads is not None


def test_progress_is_told_to_the_end(trained):
    loaded, task = trained
    told: list[tuple[int, int]] = []
    predict(loaded, task, texts_for(task), advanced=lambda done, of: told.append((done, of)))
    assert told[-1] == (5, 5)
    assert predict(loaded, task, []) == []


def test_model_is_left_as_it_was(trained):
    loaded, task = trained
    before = torch.get_rng_state()
    loaded.model.train()
    one, other = (predict(loaded, task, texts_for(task)) for _ in range(2))
    assert one == other
    assert loaded.model.training
    assert torch.equal(torch.get_rng_state(), before)
    loaded.model.eval()


def test_texts_too_many_or_too_few_are_refused(trained):
    loaded, task = trained
    wrong = [("a", "b")] if len(texts_for(task)[0]) == 1 else [("a",)]
    with pytest.raises(DataError, match="given, but this task labels"):
        predict(loaded, task, wrong)


def test_lines_are_one_text_or_two():
    one, two = ClassificationTask(), ClassificationTask(second_text="other")
    assert texts_of(["a\tb", "", "c"], one) == [("a\tb",), ("",), ("c",)]
    assert texts_of(["a\tb", "", "\t", "c\t"], two) == [("a", "b"), ("",), ("", ""), ("c", "")]
    with pytest.raises(DataError, match="line 2 holds one text; give two in each line, with a tab between them"):
        texts_of(["a\tb", "c"], two)
    with pytest.raises(DataError, match="line 1 holds 3 texts"):
        texts_of(["a\tb\tc"], two)


@pytest.mark.usefixtures("no_report")
def test_model_that_labels_nothing_is_refused(tmp_path: Path, trained):
    train(sequences(max_steps=1, warmup=0), tmp_path / "run")
    task = read_recipe(tmp_path / "run").task
    with pytest.raises(UnsupportedError, match="this model labels no texts; train one with the recipe classification"):
        predict(load(tmp_path / "run"), task, [("314",)])
    with pytest.raises(UnsupportedError, match="labels no texts"):
        predict(load(tmp_path / "run"), trained[1], [("314",)])


def test_classes_without_a_name_are_numbered(trained):
    loaded, task = trained
    config = loaded.model.config
    head = config.head.model_copy(update={"classes": ()})
    loaded.model.config = config.model_copy(update={"head": head})
    try:
        [found] = predict(replace(loaded, source="x"), task, texts_for(task)[:1])
        assert isinstance(found, Prediction)
        assert list(found.probabilities) == ["0", "1", "2"]
    finally:
        loaded.model.config = config


def test_a_label_of_several_lines_is_said_on_one():
    assert Prediction("a\nb", {"a\nb": 0.5}).line == "a b\t0.5000"
