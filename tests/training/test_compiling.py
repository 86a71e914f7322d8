from __future__ import annotations

import logging
import signal
from functools import partial
from itertools import islice

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters

from glassformer.core.errors import DivergenceError
from glassformer.training import compiling
from glassformer.training.compiling import MEASURED, WARM
from glassformer.training.interrupt import StopNow
from glassformer.training.loop import fit
from glassformer.training.objective import objective
from glassformer.training.run import resume, train

from .tiny import (
    At,
    Witness,
    assert_same_end,
    interrupt_after,
    make_trainer,
    sequences,
    state,
    text_model,
    translation,
    without_report,
    witnessed,
    write_text_file,
)

OPTIONS = compiling.OPTIONS

ONE_LAYER = {"n_layers": 1}
"""Tracing takes a second or two a layer."""


def text(folder, **training):
    return text_model(write_text_file(folder, 20), model=ONE_LAYER, **training)


@pytest.fixture(autouse=True)
def traced_only(monkeypatch):
    """A graph is made as always, but run by torch's own operators: the C++ compiler takes half a minute a model."""
    torch._dynamo.reset()
    counters.clear()
    monkeypatch.setattr(compiling, "BACKEND", "aot_eager")
    monkeypatch.setattr(compiling, "OPTIONS", None)
    logging.getLogger("torch.__trace").addFilter(nothing)  # else pytest catches a line for each step of tracing
    monkeypatch.setattr("glassformer.training.run.write_run_report", without_report)
    yield
    torch._dynamo.reset()
    logging.getLogger("torch.__trace").removeFilter(nothing)


def nothing(record):
    return False


def losses(tmp_path, recipe):
    trainer = make_trainer(recipe)
    torch.manual_seed(0)
    fit(trainer, [Witness(tmp_path / f"{recipe.training.compile}.jsonl")])
    return trainer, witnessed(tmp_path / f"{recipe.training.compile}.jsonl")


@pytest.mark.parametrize("kind", ["rows", "buckets"])
def test_one_graph_makes_the_updates_of_the_plain_run(tmp_path, monkeypatch, kind):
    """With dropout, of weights too, whose draws are the same, and an uneven last batch; with padding, batches of many
    shapes, and the loss of a large vocabulary as one operator."""

    def recipe(compile: str):
        if kind == "rows":
            model = ONE_LAYER | {"attention": {"dropout": 0.2}}
            return text_model(write_text_file(tmp_path, 20), model=model, compile=compile)
        return translation(tmp_path / "pairs", model=ONE_LAYER, compile=compile, batch_tokens=24, accumulate=2)

    if kind == "buckets":
        monkeypatch.setattr("glassformer.models.loss.PLAIN_LIMIT", 1)
    _, plain = losses(tmp_path, recipe("off"))
    trainer, compiled = losses(tmp_path, recipe("on"))
    assert trainer.compiling.compiles
    assert plain.keys() == compiled.keys()
    for step, (items, loss, *_) in plain.items():
        assert compiled[step][0] == items
        assert compiled[step][1] == pytest.approx(loss, rel=1e-4)
    assert not counters["graph_break"]
    assert counters["stats"]["unique_graphs"] == 1


def test_o09_a_compiled_run_that_was_stopped_ends_as_one_that_was_not(tmp_path):
    train(text(tmp_path, compile="on"), tmp_path / "whole")
    train(text(tmp_path, compile="on"), tmp_path / "stopped", [interrupt_after(5)])
    resume(tmp_path / "stopped")
    assert_same_end(tmp_path / "whole", tmp_path / "stopped")


def test_what_a_measurement_chose_is_kept_by_a_resumed_run(tmp_path, monkeypatch):
    monkeypatch.setattr(
        compiling, "compiled_objective", lambda model, smoothing, *, variable: partial(objective, model)
    )
    choose = At(3, lambda trainer: trainer.compiling.go_on("on"))
    assert train(sequences(compile="auto"), tmp_path / "run", [choose, interrupt_after(5)]).exit_code
    seen = []
    resume(tmp_path / "run", [At(6, lambda trainer: seen.append((trainer.compiling.state, trainer.compiling.plan)))])
    assert seen == [("on", "yes, as was decided before")]


class Ear(At):
    """Hears what is told."""

    def __init__(self, act=lambda text: None):
        self.heard, self.act = [], act

    def told(self, trainer, step, text):
        self.heard.append((step, text))
        self.act(text)

    def updated(self, trainer, update):
        pass


def stop_at(word: str) -> Ear:
    return Ear(lambda text: signal.raise_signal(signal.SIGINT) if text.startswith(word) else None)


def test_o09_ctrl_c_while_an_update_is_compiled_ends_it_at_once_and_decides_nothing(tmp_path):
    train(text(tmp_path, compile="on"), tmp_path / "whole")
    assert train(text(tmp_path, compile="on"), tmp_path / "stopped", [stop_at("compiling")]).exit_code == 130
    _, progress, metadata = state(tmp_path / "stopped")
    assert (progress.step, metadata["compiled"]) == (0, "on")
    ear = Ear()
    resume(tmp_path / "stopped", [ear])
    assert [(step, said.split()[0]) for step, said in ear.heard] == [(0, "compiling:"), (0, "compiled")]
    assert_same_end(tmp_path / "whole", tmp_path / "stopped")


def test_an_update_that_is_stopped_draws_nothing(monkeypatch):
    trainer = make_trainer(sequences())
    before = torch.get_rng_state()

    def stopped(*_):
        torch.rand(3)
        raise StopNow

    monkeypatch.setattr(trainer, "_pass", stopped)
    with pytest.raises(StopNow):
        trainer.update(next(trainer.windows()))
    assert torch.equal(torch.get_rng_state(), before)
    assert trainer.progress.step == 0


def test_what_it_takes_to_compile_is_no_part_of_the_pace(monkeypatch):
    trainer = make_trainer(sequences(compile="on"))
    monkeypatch.setattr(trainer.compiling, "_compiled", partial(objective, trainer.model))
    trainer.compiling._begin()
    trainer.compiling._end()
    trainer.compiling._spent += 1000
    made = trainer.update(next(trainer.windows()))
    assert -1000 <= made.seconds < -900
    assert trainer.progress.busy_seconds == made.seconds


@pytest.mark.parametrize(("compile", "served"), [("on", [True, False]), ("off", [False, False])])
def test_a_short_last_batch_is_computed_plainly(tmp_path, compile, served):
    """One graph a run, so that one that was stopped has the same."""
    trainer = make_trainer(text(tmp_path, compile=compile, batch_size=4))
    batches = [window[0] for window in islice(trainer.windows(), len(trainer.order))]
    assert [len(batches[0]), len(batches[-1])] == [4, 1]
    went = []
    trainer.compiling._compiled = lambda batch: went.append(len(batch)) or objective(trainer.model, batch)
    for batch in (batches[0], batches[-1]):
        trainer.compiling.objective(batch)
    assert [len(batch) in went for batch in (batches[0], batches[-1])] == served


LEFT = 1000


def auto(plain=lambda turn: 1.0, compiled=lambda turn: 0.8, left=LEFT):
    """One whose updates take so many seconds in each turn, by whether they are compiled; batches differ in length."""
    trainer = make_trainer(sequences(compile="auto"))
    found, said = trainer.compiling, []
    found.tell = said.append
    batch = next(trainer.windows())[0]
    found._compiled = lambda batch: None
    for turn in range(WARM + 3 * MEASURED):
        tokens = 10 if turn % 3 else 2  # the pace is that of a token, the time to come that of an update
        way = compiled if found.compiles else plain
        found.objective(batch)
        found.measured(way(turn) * tokens / 10, tokens, left=left)
    return found, said


def test_auto_keeps_a_graph_that_is_faster():
    found, said = auto()
    assert found.compiles
    assert said == ["compiled: an update takes 80% of the time it takes without"]


def test_auto_drops_a_graph_that_is_not():
    found, said = auto(compiled=lambda turn: 0.99)
    assert not found.compiles
    assert said == ["not compiled: an update would take 99% of the time it takes without"]


def test_auto_sees_through_a_machine_that_others_use():
    """Half of all updates take up to four times as long, in stretches; the plain ones begin on a free machine."""

    def busy(turn):
        return 1 + 3 * ((turn // 7) % 2) * (turn % 5) / 4

    found, said = auto(plain=busy, compiled=lambda turn: 0.8 * busy(turn))
    assert found.compiles
    assert said == ["compiled: an update takes 80% of the time it takes without"]


def test_auto_reckons_what_is_to_come_with_the_mean_of_what_it_measured():
    """Of the 20 updates 7 take 0.2 seconds and 13 one: 14.4. A graph of 4 layers takes 60 seconds, a tenth of 600."""
    coming = (7 * 0.2 + 13) / MEASURED
    found, said = auto(left=round(590 / coming))
    assert not found.compiles
    assert said == ["not compiled: it takes about 60 seconds, which 590 seconds to come would not make up for"]
    assert auto(left=round(610 / coming))[0].compiles


def test_without_a_compiler_a_run_says_so_and_goes_on(monkeypatch):
    monkeypatch.setattr(compiling, "no_compiler", lambda: "there is none")
    trainer = make_trainer(sequences(compile="on", max_steps=2, warmup=1))
    assert trainer.compiling.plan == "no: there is none"
    fit(trainer, [])
    assert trainer.progress.finished


def fails(*_):
    raise RuntimeError("no such instruction\nin what was made\nand more")


def broken(graph, inputs):
    fails()


def run_as_is(graph, inputs):
    return make_boxed_func(graph.forward)


broken_backward = aot_autograd(fw_compiler=run_as_is, bw_compiler=fails)
"""The graph of the forward pass runs, draws and all; the other one does not come about."""


@pytest.mark.parametrize(
    ("backend", "variable"),
    [
        pytest.param(broken, False, id="forward"),
        pytest.param(broken_backward, False, id="backward"),
        pytest.param(broken_backward, True, id="backward for all shapes"),
    ],
)
def test_what_cannot_be_compiled_is_computed_plainly_with_the_same_draws(tmp_path, monkeypatch, backend, variable):
    """The numbers of a run that never compiled, two batches an update; one line says so, and torch no word."""
    monkeypatch.setattr(compiling, "BACKEND", backend)
    ear, logged, ends = Ear(), [], []
    monkeypatch.setattr(logging.Handler, "handle", lambda handler, record: logged.append(record.getMessage()))

    for compile in ("on", "off"):
        trainer = make_trainer(text(tmp_path, compile=compile, accumulate=2))
        trainer.compiling.variable = variable
        torch.manual_seed(0)
        fit(trainer, [ear, Witness(tmp_path / f"{compile}.jsonl")])
        ends.append((witnessed(tmp_path / f"{compile}.jsonl"), list(trainer.model.parameters())))
        assert not trainer.compiling.compiles
    (rows, parameters), (expected, others) = ends
    assert rows == expected
    assert all(torch.equal(a, b) for a, b in zip(parameters, others, strict=True))
    (begun, _), (_, failed) = ear.heard
    assert begun == 0
    assert "no such instruction" in failed
    assert not [line for line in logged if "failed" in line or "Traceback" in line]


def test_what_went_through_once_and_then_fails_ends_the_run(monkeypatch):
    """No compiler is at fault: to compute it again plainly would hide it."""
    monkeypatch.setattr(
        compiling, "compiled_objective", lambda model, smoothing, *, variable: partial(objective, model)
    )
    trainer = make_trainer(sequences(compile="on"))
    windows = trainer.windows()
    trainer.update(next(windows))
    trainer.model.output_stack.input.embedding.weight.register_hook(fails)
    with pytest.raises(RuntimeError, match="no such instruction"):
        trainer.update(next(windows))
    assert trainer.compiling.compiles


def test_a_number_that_is_not_finite_is_found_module_by_module_in_a_compiled_run(tmp_path):
    trainer = make_trainer(text(tmp_path, compile="on"))
    windows = trainer.windows()
    trainer.update(next(windows))
    with torch.no_grad():
        trainer.model.decoder.blocks[0].feed_forward.inner.weight[0, 0] = float("inf")
    with pytest.raises(DivergenceError, match=r"decoder\.blocks\.0\.feed_forward"):
        trainer.update(next(windows))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's own, when it loads its compiler
def test_the_c_compiler_makes_the_same_update(tmp_path, monkeypatch):
    """The one case through inductor."""
    monkeypatch.setattr(compiling, "BACKEND", "inductor")
    monkeypatch.setattr(compiling, "OPTIONS", OPTIONS)
    trainer, plain = (make_trainer(text(tmp_path, compile=each)) for each in ("on", "off"))
    window = next(trainer.windows())
    state = torch.get_rng_state()
    made = trainer.update(window)
    torch.set_rng_state(state)
    expected = plain.update(window)
    assert trainer.compiling.compiles
    assert made.loss == pytest.approx(expected.loss, rel=1e-5)
    assert made.grad_norm == pytest.approx(expected.grad_norm, rel=1e-4)
