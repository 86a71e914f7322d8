"""The mean of the weights: worked out by hand, put in place and taken away, saved, judged and kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from glassformer.checkpoint.loading import load
from glassformer.checkpoint.tensors import read_tensors
from glassformer.training.average import Average
from glassformer.training.callback import Callback
from glassformer.training.config import TrainingConfig
from glassformer.training.evaluate import evaluate, greedy
from glassformer.training.run import evaluate_run, train
from glassformer.training.trainer import Trainer, Update

from .tiny import interrupt_after, metrics, needs_posix, sequences, translation


class Tied(nn.Module):
    """Two names for one matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Linear(2, 2, bias=False)
        self.head = nn.Linear(2, 2, bias=True)
        self.head.weight = self.embedding.weight


def set_to(model: nn.Module, value: float) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(value)


def test_mean_is_that_of_all_that_was_taken():
    model = nn.Linear(2, 1)
    average = Average(model)
    for value in (1.0, 2.0, 6.0):
        set_to(model, value)
        average.take()
    assert average.count == 3
    assert average.means["weight"].tolist() == [[3.0, 3.0]]
    assert average.means["bias"].tolist() == [3.0]
    assert model.weight.tolist() == [[6.0, 6.0]], "the model itself goes on from where it is"
    assert not average.means["weight"].requires_grad


def test_means_are_applied_and_taken_away_also_after_an_error():
    model = Tied()
    average = Average(model)
    assert average.means.keys() == set()
    with average.applied():
        set_to(model, 2.0)
    assert model.head.bias.tolist() == [2.0, 2.0], "before the first, nothing is in the place of the weights"
    average.take()
    set_to(model, 4.0)
    average.take()
    parameter = model.head.weight

    def fail() -> None:
        with average.applied():
            assert model.head.weight.tolist() == [[3.0, 3.0]] * 2
            assert model.head.bias.tolist() == [3.0, 3.0]
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert model.head.weight is parameter
    assert all(bool((each == 4).all()) for each in model.parameters())
    assert all(bool((mean == 3).all()) for mean in average.means.values())


def test_tied_weights_have_one_mean_and_stay_tied():
    model = Tied()
    average = Average(model)
    average.take()
    assert average.means.keys() == {"embedding.weight", "head.bias"}
    with average.applied():
        assert model.head.weight is model.embedding.weight
        assert model.head.weight.data_ptr() == average.means["embedding.weight"].data_ptr()


def test_restored_mean_goes_on_as_if_it_had_never_stopped():
    model = nn.Linear(3, 3)
    whole, first = Average(model), Average(model)
    generator = torch.Generator().manual_seed(0)
    second = None
    for step in range(6):
        with torch.no_grad():
            model.weight.normal_(generator=generator)
        whole.take()
        (second or first).take()
        if step == 2:
            second = Average(model)
            second.restore({name: mean.clone() for name, mean in first.means.items()}, first.count)
    assert second is not None
    assert second.count == whole.count == 6
    assert all(torch.equal(mean, whole.means[name]) for name, mean in second.means.items())


@pytest.mark.parametrize(
    ("share", "steps", "first"),
    [(0.0, 10, 11), (1.0, 10, 1), (0.25, 10, 9), (0.3, 10, 8), (0.01, 10, 10), (0.5, 1, 1), (0.25, 6000, 4501)],
)
def test_average_begins_where_its_share_of_the_updates_does(share, steps, first):
    config = TrainingConfig(average=share, max_steps=steps, warmup=0, lr=1.0)
    assert config.average_from == first


class Weights(Callback):
    """Remembers one matrix after every update."""

    def __init__(self) -> None:
        self.seen: dict[int, Tensor] = {}

    def updated(self, trainer: Trainer, update: Update) -> None:
        self.seen[update.step] = trainer.model.head.weight.detach().clone()


def kept(folder: Path) -> Tensor:
    return load(folder).model.head.weight.detach()


@pytest.mark.usefixtures("no_report")
def test_what_is_judged_and_kept_is_the_mean(tmp_path):
    weights = Weights()
    judged = []

    class Judge(Callback):
        def evaluated(self, trainer: Trainer, split: str, metrics: object, better: bool) -> None:
            judged.append(trainer.model.head.weight.detach().clone())

    recipe = sequences(max_steps=8, average=0.5, eval_every=4, lr=0.01, select_by="last")
    run = train(recipe, tmp_path / "run", [weights, Judge()])
    mean = torch.stack([weights.seen[step] for step in range(5, 9)]).mean(0)
    assert torch.equal(judged[0], weights.seen[4]), "before the average begins the model itself is judged"
    torch.testing.assert_close(judged[1], mean, rtol=0, atol=1e-6)
    assert torch.equal(kept(tmp_path / "run"), judged[1])
    assert not torch.allclose(mean, weights.seen[8], rtol=0, atol=1e-4)
    loaded = load(tmp_path / "run")
    data = recipe.task.build()
    assert run.result["valid"] == pytest.approx(evaluate(loaded, data.valid, greedy(data.judging)), rel=1e-6)
    assert run.result["selected"] == "last, weights averaged over updates 5 to 8"
    assert evaluate_run(tmp_path / "run")[1] == pytest.approx(run.result["test"], rel=1e-6)
    tensors, metadata = read_tensors(tmp_path / "run" / "trainer" / "last.safetensors")
    assert json.loads(metadata["averaged"]) == 4
    name = next(name for name, weight in loaded.model.named_parameters() if weight is loaded.model.head.weight)
    assert torch.equal(tensors[f"model.{name}"], weights.seen[8])
    assert torch.equal(tensors[f"average.{name}"], judged[1])


@pytest.mark.usefixtures("no_report")
def test_model_that_is_kept_from_before_the_average_is_called_what_it_is(tmp_path):
    train_it = sequences(max_steps=4, average=0.25, eval_every=1, lr=1.0, schedule="constant", warmup=0)
    run = train(train_it, tmp_path / "run")
    assert run.result["best_step"] < 4
    assert run.result["selected"] == "best loss"


@pytest.mark.usefixtures("no_report")
def test_average_changes_nothing_of_what_is_learned(tmp_path):
    rows = []
    for share in (0.0, 0.5):
        train(sequences(average=share, eval_every=5), tmp_path / str(share))
        rows.append([row for row in metrics(tmp_path / str(share)) if row["split"] != "valid"])
    assert rows[0] == rows[1]


@needs_posix
@pytest.mark.usefixtures("no_report")
def test_stopped_before_it_is_judged_the_mean_is_kept(tmp_path):
    weights = Weights()
    train(sequences(max_steps=8, average=0.75), tmp_path / "run", [weights, interrupt_after(5)])
    mean = torch.stack([weights.seen[step] for step in range(3, 6)]).mean(0)
    torch.testing.assert_close(kept(tmp_path / "run"), mean, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("no_report")
def test_average_of_a_translation_is_measured_at_the_end(tmp_path):
    run = train(translation(tmp_path / "data", average=1.0, max_steps=3, warmup=0, select_by="bleu"), tmp_path / "run")
    assert run.result["selected"] == "best bleu, weights averaged over updates 1 to 3"
