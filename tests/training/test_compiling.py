from __future__ import annotations

import copy

import pytest
import torch
from tests.training import tiny
from tests.training.tiny import (
    At,
    Witness,
    assert_same_end,
    interrupt_after,
    make_trainer,
    text_model,
    translation,
    without_report,
    witnessed,
    write_text_file,
)
from torch._dynamo.utils import counters

from glassformer.core.errors import DivergenceError
from glassformer.training import compiling
from glassformer.training.compiling import MEASURED, WARM, Compiling
from glassformer.training.loop import fit
from glassformer.training.run import resume, train

ONE_LAYER = {"n_layers": 1}
"""Tracing takes a second or two a layer."""


def sequences(**training):
    return tiny.sequences(model=ONE_LAYER, **training)


@pytest.fixture(autouse=True)
def traced_only(monkeypatch):
    """A graph is made as always, but run by torch's own operators: the C++ compiler takes half a minute a model."""
    torch._dynamo.reset()
    counters.clear()
    monkeypatch.setattr(compiling, "BACKEND", "aot_eager")
    monkeypatch.setattr("glassformer.training.run.write_run_report", without_report)
    yield
    torch._dynamo.reset()


def losses(tmp_path, recipe):
    trainer = make_trainer(recipe)
    torch.manual_seed(0)
    fit(trainer, [Witness(tmp_path / f"{recipe.training.compile}.jsonl")])
    return trainer, witnessed(tmp_path / f"{recipe.training.compile}.jsonl")


@pytest.mark.parametrize("kind", ["text", "sequences", "buckets"])
def test_one_graph_makes_the_updates_of_the_plain_run(tmp_path, kind):
    """With dropout, padding, an uneven last batch, and batches of many shapes: the same numbers are drawn."""

    def recipe(compile: str):
        if kind == "text":
            return text_model(write_text_file(tmp_path, 20), model=ONE_LAYER, compile=compile)
        if kind == "sequences":
            return sequences(compile=compile)
        return translation(tmp_path / "pairs", model=ONE_LAYER, compile=compile, batch_tokens=24, accumulate=2)

    _, plain = losses(tmp_path, recipe("off"))
    trainer, compiled = losses(tmp_path, recipe("on"))
    assert trainer.compiling.compiles
    assert plain.keys() == compiled.keys()
    for step, (items, loss, *_) in plain.items():
        assert compiled[step][0] == items
        assert compiled[step][1] == pytest.approx(loss, rel=1e-4)
    assert not counters["graph_break"]
    assert counters["stats"]["unique_graphs"] <= 2


def test_the_loss_of_a_large_vocabulary_is_one_operator_of_the_graph(tmp_path, monkeypatch):
    monkeypatch.setattr("glassformer.models.loss.PLAIN_LIMIT", 1)
    _, plain = losses(tmp_path, sequences(compile="off", max_steps=4, warmup=2))
    _, compiled = losses(tmp_path, sequences(compile="on", max_steps=4, warmup=2))
    assert [row[1] for row in compiled.values()] == pytest.approx([row[1] for row in plain.values()], rel=1e-4)
    assert not counters["graph_break"]


def test_o09_a_compiled_run_that_was_stopped_ends_as_one_that_was_not(tmp_path):
    train(sequences(compile="on"), tmp_path / "whole")
    train(sequences(compile="on"), tmp_path / "stopped", [interrupt_after(5)])
    resume(tmp_path / "stopped")
    assert_same_end(tmp_path / "whole", tmp_path / "stopped")


def test_what_a_measurement_chose_is_kept_by_a_resumed_run(tmp_path):
    stopped = train(
        sequences(compile="auto"), tmp_path / "run", [At(3, lambda t: t.compiling.go_on("on")), interrupt_after(5)]
    )
    assert stopped.exit_code
    seen = []
    resume(tmp_path / "run", [At(6, lambda trainer: seen.append(trainer.compiling.state))])
    assert seen == ["on"]


def auto(left_seconds: float, graph_seconds: float) -> Compiling:
    """One that has measured updates of a second without a graph, and of so many with it."""
    trainer = make_trainer(sequences(compile="auto"))
    found = trainer.compiling
    for _ in range(WARM + MEASURED):
        found.measured(1.0, 10, left=int(left_seconds))
    if found.state == "graph pace":
        for _ in range(WARM + MEASURED):
            found.measured(graph_seconds, 10, left=int(left_seconds))
    return found


def test_auto_keeps_a_graph_that_is_faster():
    found = auto(1000, 0.8)
    assert found.compiles
    assert found.said() == "compiled: an update takes 80% of the time it took before"
    assert found.said() is None


def test_auto_drops_a_graph_that_is_not():
    found = auto(1000, 0.99)
    assert not found.compiles
    assert found.said() == "not compiled: an update would take 99% of the time it takes without"


def test_auto_does_not_try_where_little_is_left():
    found = auto(200, 0.1)
    assert not found.compiles
    assert found.said() == "not compiled: with 200 seconds to come it would not pay"


def test_without_a_compiler_a_run_says_so_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(compiling, "no_compiler", lambda: "there is none")
    told = []

    class Ear(At):
        def told(self, trainer, step, text):
            told.append((step, text))

    trainer = make_trainer(sequences(compile="on", max_steps=2, warmup=1))
    fit(trainer, [Ear(9, lambda trainer: None)])
    assert told == [(1, "not compiled: there is none")]


def test_what_cannot_be_compiled_is_computed_plainly_with_the_same_draws(monkeypatch):
    def broken(graph, inputs):
        raise RuntimeError("no such instruction")

    monkeypatch.setattr(compiling, "BACKEND", broken)
    recipe = sequences(compile="on", max_steps=1, warmup=1)
    trainer = make_trainer(recipe)
    window = next(trainer.windows())
    state = torch.get_rng_state()
    loss = trainer.update(window).loss
    assert "no such instruction" in str(trainer.compiling.said())
    torch.set_rng_state(state)
    assert make_trainer(recipe.model_copy(update={"training": off(recipe)})).update(window).loss == loss


def off(recipe):
    return recipe.training.model_copy(update={"compile": "off"})


def test_a_gradient_that_is_not_finite_is_traced_module_by_module_in_a_compiled_run():
    trainer = make_trainer(sequences(compile="on"))
    windows = trainer.windows()
    trainer.update(next(windows))
    with torch.no_grad():
        trainer.model.encoder.blocks[0].feed_forward.inner.weight[0, 0] = float("inf")
    with pytest.raises(DivergenceError, match=r"encoder\.blocks\.0\.feed_forward"):
        trainer.update(next(windows))


def test_the_c_compiler_makes_the_same_update(monkeypatch):
    """The one case through inductor."""
    monkeypatch.setattr(compiling, "BACKEND", "inductor")
    recipe = sequences(compile="on")
    trainer = make_trainer(recipe)
    plain = make_trainer(recipe.model_copy(update={"training": off(recipe)}))
    plain.model.load_state_dict(copy.deepcopy(trainer.model.state_dict()))
    window = next(trainer.windows())
    state = torch.get_rng_state()
    made = trainer.update(window)
    torch.set_rng_state(state)
    expected = plain.update(window)
    assert trainer.compiling.compiles
    assert made.loss == pytest.approx(expected.loss, rel=1e-5)
    assert made.grad_norm == pytest.approx(expected.grad_norm, rel=1e-4)
