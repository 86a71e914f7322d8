"""Which model is kept, when training ends, and in which order things happen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.checkpoint.tensors import read_tensors
from glassformer.core.errors import ConfigError
from glassformer.training.callback import Callback, Interval
from glassformer.training.config import TrainingConfig
from glassformer.training.run import resume, train
from glassformer.training.trainer import Trainer, Update

from .tiny import At, classification, interrupt_after, metrics, needs_posix, sequences, state, text_model, translation

pytestmark = [pytest.mark.usefixtures("no_report"), needs_posix]


def scripted(monkeypatch: pytest.MonkeyPatch, *values: Mapping[str, float]) -> None:
    """Evaluations during training give these metrics, one after the other."""
    results: Iterator[Mapping[str, float]] = iter(values)
    monkeypatch.setattr("glassformer.training.loop.evaluate", lambda *arguments: dict(next(results)))


def remember(weights: dict[int, torch.Tensor]) -> At:
    def note(trainer: Trainer) -> None:
        weights[trainer.progress.step] = trainer.model.head.weight.detach().clone()

    return At(range(1, 100), note)


def kept(folder: Path) -> torch.Tensor:
    tensors, _ = read_tensors(folder / "model.safetensors")
    return next(tensor for name, tensor in tensors.items() if name.endswith("input.embedding.weight"))


def test_model_with_the_lowest_loss_is_kept(text, tmp_path, monkeypatch):
    scripted(monkeypatch, *({"loss": loss} for loss in (3.0, 1.5, 2.0, 1.5)))
    weights: dict[int, torch.Tensor] = {}
    run = train(text_model(text, max_steps=8, eval_every=2), tmp_path / "run", [remember(weights)])
    assert (run.result["selected"], run.result["best_step"], run.result["steps"]) == ("best loss", 4, 8)
    assert run.result["valid"] == {"loss": 1.5}
    assert torch.equal(kept(tmp_path / "run"), weights[4])
    assert not torch.equal(weights[4], weights[8])
    assert [row["loss"] for row in metrics(tmp_path / "run") if row["split"] == "valid"] == [3.0, 1.5, 2.0, 1.5]


def test_model_with_the_highest_exact_match_is_kept_and_of_equal_ones_the_newer(tmp_path, monkeypatch):
    scripted(monkeypatch, *({"loss": 1.0 - share, "exact_match": share} for share in (0.0, 0.5, 0.5, 0.25)))
    weights: dict[int, torch.Tensor] = {}
    recipe = sequences(max_steps=4, eval_every=1, select_by="exact_match", task={"test_size": 1})
    run = train(recipe, tmp_path / "run", [remember(weights)])
    assert (run.result["selected"], run.result["best_step"]) == ("best exact_match", 3)
    assert torch.equal(kept(tmp_path / "run"), weights[3])


@pytest.mark.parametrize(
    ("make", "metric", "values", "best"),
    [
        (translation, "bleu", (1.0, 30.0, 20.0), 2),
        (translation, "chrf", (10.0, 5.0, 2.0), 1),
        (translation, "loss", (3.0, 1.0, 2.0), 2),
        (classification, "accuracy", (0.5, 0.25, 0.75), 3),
        (classification, "f1_macro", (0.5, 0.5, 0.25), 2),
    ],
)
def test_any_metric_selects_in_its_own_direction(tmp_path, monkeypatch, make, metric, values, best):
    scripted(monkeypatch, *({"loss": 1.0} | {metric: value} for value in values))
    run = train(make(tmp_path / "data", max_steps=3, warmup=0, eval_every=1, select_by=metric), tmp_path / "run")
    assert (run.result["selected"], run.result["best_step"]) == (f"best {metric}", best)


def test_metric_that_is_none_or_chooses_nothing_is_refused():
    with pytest.raises(ConfigError, match="there is no metric 'blue'; did you mean 'bleu'"):
        TrainingConfig(select_by="blue")
    for name in ("tokens", "bleu_signature"):
        with pytest.raises(ConfigError, match=f"{name} does not say which of two models is better"):
            TrainingConfig(select_by=name)


def test_metric_of_another_task_is_refused_with_those_of_this_one(tmp_path):
    message = "select_by is bleu, but this task has only loss, accuracy, f1_macro, last to choose from"
    with pytest.raises(ConfigError, match=message):
        train(classification(tmp_path / "data", select_by="bleu"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_last_model_is_kept_when_that_is_asked_for(text, tmp_path, monkeypatch):
    scripted(monkeypatch, *({"loss": loss} for loss in (1.0, 2.0, 3.0)))
    weights: dict[int, torch.Tensor] = {}
    recipe = text_model(text, max_steps=5, eval_every=2, select_by="last")
    run = train(recipe, tmp_path / "run", [remember(weights)])
    assert (run.result["selected"], run.result["best_step"]) == ("last", 5)
    assert run.result["valid"] == {"loss": 3.0}
    assert torch.equal(kept(tmp_path / "run"), weights[5])


def test_exact_match_of_a_task_without_right_answers_is_refused_before_anything_is_made(text, tmp_path):
    with pytest.raises(ConfigError, match="select_by is exact_match, but this task has only loss, last to choose from"):
        train(text_model(text, select_by="exact_match"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_training_ends_when_patience_does(text, tmp_path, monkeypatch):
    scripted(monkeypatch, *({"loss": loss} for loss in (3.0, 2.0, 2.5, 2.0, 9.0, 9.0)))
    run = train(text_model(text, eval_every=2, patience=2), tmp_path / "run")
    assert (run.result["steps"], run.result["best_step"]) == (8, 4)
    assert state(tmp_path / "run")[1].finished
    assert state(tmp_path / "run")[1].stale == 2


def test_patience_counts_over_a_resume(text, tmp_path, monkeypatch):
    scripted(monkeypatch, *({"loss": loss} for loss in (3.0, 2.0, 2.5, 2.0, 9.0, 9.0)))
    recipe = text_model(text, eval_every=2, patience=2)
    assert train(recipe, tmp_path / "run", [interrupt_after(7)]).exit_code == 130
    assert state(tmp_path / "run")[1].stale == 1
    assert resume(tmp_path / "run").result["steps"] == 8


def test_a_better_model_gives_new_patience(text, tmp_path, monkeypatch):
    scripted(monkeypatch, *({"loss": loss} for loss in (3.0, 3.0, 2.0, 2.0, 1.0, 5.0, 5.0)))
    assert train(text_model(text, eval_every=2, patience=2), tmp_path / "run").result["steps"] == 14


def test_patience_without_evaluations_is_refused():
    with pytest.raises(ConfigError, match="patience counts evaluations; set eval_every as well"):
        TrainingConfig(patience=2)


@pytest.mark.parametrize(
    ("eval_every", "steps"), [(None, [5]), (2, [2, 4, 5]), (5, [5]), (9, [5]), (1, [1, 2, 3, 4, 5])]
)
def test_model_is_judged_at_the_end_and_never_twice(text, tmp_path, eval_every, steps):
    train(text_model(text, max_steps=5, eval_every=eval_every), tmp_path / "run")
    assert [row["step"] for row in metrics(tmp_path / "run") if row["split"] == "valid"] == steps


@pytest.mark.parametrize(("log_every", "steps"), [(1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (9, [5])])
def test_intervals_add_up_to_all_updates(text, tmp_path, log_every, steps):
    """The logged loss is that of all tokens since the line before."""
    losses: dict[int, tuple[float, int]] = {}

    class Sums(Callback):
        def updated(self, trainer: Trainer, update: Update) -> None:
            losses[update.step] = (update.loss * update.tokens, update.tokens)

    train(text_model(text, max_steps=5, log_every=log_every), tmp_path / "run", [Sums()])
    rows = [row for row in metrics(tmp_path / "run") if row["split"] == "train"]
    assert [row["step"] for row in rows] == steps
    for before, row in zip([0, *steps], rows, strict=False):
        part = [losses[step] for step in range(before + 1, row["step"] + 1)]
        assert row["loss"] == pytest.approx(sum(loss for loss, _ in part) / sum(tokens for _, tokens in part))


class Diary(Callback):
    """Writes down what happens."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    def started(self, trainer: Trainer) -> None:
        self.entries.append("started")

    def updated(self, trainer: Trainer, update: Update) -> None:
        self.entries.append(("updated", update.step))

    def logged(self, trainer: Trainer, interval: Interval) -> None:
        self.entries.append(("logged", interval.step))

    def norms(self, trainer: Trainer, step: int, norms: Mapping[str, float]) -> None:
        self.entries.append(("norms", step, *norms))

    def evaluated(self, trainer: Trainer, split: str, metrics: Mapping[str, float], better: bool) -> None:
        self.entries.append(("evaluated", trainer.progress.step, split, better))

    def ended(self, trainer: Trainer) -> None:
        self.entries.append("ended")


def test_what_is_due_after_an_update_is_done_before_it_counts_as_made(text, tmp_path):
    """What is saved at "updated" has the log, the norms and the evaluation behind it."""
    diary = Diary()
    recipe = text_model(text, max_steps=3, warmup=0, log_every=2, eval_every=2, norms_every=2, save_every=1)
    train(recipe, tmp_path / "run", [diary])
    layers = ("decoder.blocks.0", "decoder.blocks.1")
    assert diary.entries[:10] == [
        "started",
        ("norms", 1, *layers),
        ("updated", 1),
        ("logged", 2),
        ("norms", 2, *layers),
        ("evaluated", 2, "valid", True),
        ("updated", 2),
        ("logged", 3),
        ("norms", 3, *layers),
        ("evaluated", 3, "valid", diary.entries[9][3]),
    ]
    assert diary.entries[10:] == [("updated", 3), "ended"]


def test_model_of_a_run_that_was_not_judged_yet_is_the_newest(text, tmp_path):
    weights: dict[int, torch.Tensor] = {}
    recipe = text_model(text, save_every=2)
    train(recipe, tmp_path / "run", [remember(weights), interrupt_after(5)])
    assert torch.equal(kept(tmp_path / "run"), weights[5])
    train(text_model(text, save_every=2, eval_every=3), tmp_path / "judged", [remember(weights), interrupt_after(5)])
    assert torch.equal(kept(tmp_path / "judged"), weights[3])


@pytest.mark.parametrize("occasion", ["started", "updated", "logged", "norms", "evaluated", "ended"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_callback_that_raises_ends_training_with_its_own_error_and_loses_no_state(text, tmp_path, occasion, workers):
    class Broken(Callback):
        pass

    def broken(self: Broken, *arguments: Any) -> None:
        if occasion in ("started", "ended") or next(calls) == 1:
            raise KeyError("a bug of a user's")

    calls = count()
    setattr(Broken, occasion, broken)
    recipe = text_model(text, max_steps=6, log_every=2, eval_every=2, norms_every=2, save_every=2, workers=workers)
    with pytest.raises(KeyError, match="a bug of a user's"):
        train(recipe, tmp_path / "run", [Broken()])
    train(recipe, tmp_path / "whole")
    finished = resume(tmp_path / "run")
    assert finished.result["steps"] == 6
    assert torch.equal(kept(tmp_path / "run"), kept(tmp_path / "whole"))
