"""One update: averaged over tokens, and stopped where a number is not finite."""

from __future__ import annotations

import json
import math
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.checkpoint.loading import load
from glassformer.checkpoint.tensors import read_tensors
from glassformer.cli.main import main
from glassformer.core.errors import ConfigError, DivergenceError
from glassformer.core.places import IGNORED
from glassformer.data.batch import Batch
from glassformer.data.pairs import pair_batch
from glassformer.models.output import Loss
from glassformer.models.transformer import Transformer
from glassformer.training.run import resume, train
from glassformer.training.trainer import Trainer

from .tiny import (
    At,
    Witness,
    classification,
    interrupt_after,
    make_trainer,
    sequences,
    state,
    text_model,
    translation,
    witnessed,
)

EXACT = {"model": {"dropout": 0.0}, "optimizer": "sgd", "lr": 1.0, "schedule": "constant", "warmup": 0, "clip": None}


def gradients(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in trainer.model.named_parameters() if p.grad is not None}


def one_and_three() -> tuple[Batch, Batch, Batch]:
    """Two rows with 1 and 3 target tokens, together and alone; each ends with the end token."""
    pairs = [([3], []), ([4, 5, 6], [6, 5])]
    together = pair_batch(pairs, [0, 1], bos=1, eos=2, pad=0)
    alone = [pair_batch([pair], [item], bos=1, eos=2, pad=0) for item, pair in enumerate(pairs)]
    assert [int((batch.labels != IGNORED).sum()) for batch in (together, *alone)] == [4, 1, 3]
    return together, alone[0], alone[1]


def test_o08_accumulated_gradient_is_that_of_the_single_batch():
    """{4 tokens} against {1} + {3}: the mean of the two batches' means would weigh the one token as much as three."""
    together, one, three = one_and_three()
    whole = make_trainer(sequences(**EXACT))
    split = make_trainer(sequences(**EXACT))
    single, parts = whole.update([together]), split.update([one, three])
    assert parts.tokens == single.tokens == 4
    assert parts.loss == pytest.approx(single.loss, rel=1e-6)
    assert parts.grad_norm == pytest.approx(single.grad_norm, rel=1e-6)
    expected = gradients(whole)
    for name, gradient in gradients(split).items():
        torch.testing.assert_close(gradient, expected[name], atol=1e-6, rtol=0)
    assert any(float(gradient.abs().max()) > 0.01 for gradient in expected.values())
    means = [make_trainer(sequences(**EXACT)).update([batch]).loss for batch in (one, three)]
    assert abs(sum(means) / 2 - single.loss) > 1e-3  # the wrong answer is another one


def test_o08_step_loss_of_hand_made_losses(monkeypatch):
    """{4} and {2, 2, 2}: 2.5, not 3."""
    losses = {1: 4.0, 3: 6.0}

    def objective(model: Transformer, batch: Batch, **settings: Any) -> Loss:
        count = (batch.labels != IGNORED).sum()
        return Loss(losses[int(count)] * model.head.weight[0, 0] / model.head.weight[0, 0].detach(), count)

    monkeypatch.setattr("glassformer.training.compiling.objective", objective)
    _, one, three = one_and_three()
    trainer = make_trainer(sequences(**EXACT))
    update = trainer.update([one, three])
    assert update.loss == pytest.approx(2.5, rel=1e-6)
    assert (trainer.progress.logged_loss, trainer.progress.logged_tokens) == (pytest.approx(10.0), 4)
    gradient = trainer.model.head.weight.grad
    assert float(gradient[0, 0] * trainer.model.head.weight.detach()[0, 0]) != 0
    assert update.grad_norm == pytest.approx(float(gradient.norm()))


def test_o08_last_window_of_an_epoch_is_applied_with_its_own_count():
    """13 items in batches of 2 are 7 batches; accumulated by 3 they are windows of 3, 3 and 1, in every epoch."""
    recipe = sequences(task={"epoch_size": 13}, accumulate=3, **EXACT)
    trainer = make_trainer(recipe)
    windows = trainer.windows()
    for epoch in range(2):
        sizes, items = [], []
        for number in range(3):
            window = next(windows)
            assert (trainer.progress.epoch, trainer.progress.batch) == (epoch, 3 * number)
            trainer.update(window)
            sizes.append(len(window))
            items += [item for batch in window for item in batch.items]
        assert sizes == [3, 3, 1]
        assert sorted(items) == list(range(13))
        assert (trainer.progress.epoch, trainer.progress.batch) == (epoch + 1, 0)
    assert trainer.progress.step == 6

    alone, third = make_trainer(recipe), make_trainer(recipe)
    found = list(zip(range(3), alone.windows(), strict=False))
    [last] = found[2][1]
    update = alone.update([last])
    loss = third._loss(last)
    assert update.tokens == int(loss.count)
    (loss.sum / loss.count).backward()
    for name, gradient in gradients(alone).items():
        torch.testing.assert_close(gradient, third.model.get_parameter(name).grad, atol=1e-6, rtol=0)


def test_clipping_shortens_the_gradient_and_reports_the_norm_before_it():
    together, _, _ = one_and_three()
    free = make_trainer(sequences(**EXACT))
    clipped = make_trainer(sequences(**EXACT | {"clip": 0.1}))
    norm = free.update([together]).grad_norm
    assert norm > 0.2
    assert clipped.update([together]).grad_norm == pytest.approx(norm)
    whole = torch.cat([gradient.flatten() for gradient in gradients(clipped).values()])
    assert float(whole.norm()) == pytest.approx(0.1, rel=1e-4)
    expected = torch.cat([gradient.flatten() for gradient in gradients(free).values()]) * 0.1 / norm
    torch.testing.assert_close(whole, expected, atol=1e-6, rtol=0)


@pytest.mark.usefixtures("no_report")
def test_o24_logged_rate_is_the_used_one(tmp_path):
    train(sequences(max_steps=4, warmup=2, schedule="linear", lr=1e-2), tmp_path / "run", [Witness(tmp_path / "w")])
    rows = witnessed(tmp_path / "w")
    logged = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    rates = {row["step"]: row["lr"] for row in logged if row["split"] == "train"}
    assert rates == {step: row[2] for step, row in rows.items()}
    assert all(row[4] == [row[2]] for row in rows.values())  # of every group of the optimizer
    assert rates == pytest.approx({1: 5e-3, 2: 1e-2, 3: 2e-2 / 3, 4: 1e-2 / 3})


# O14: what is not finite


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*.safetensors")}


def keep(copies: dict[str, bytes], folder: Path) -> Any:
    return lambda trainer: copies.update(contents(folder))


def set_rate(lr: float) -> Any:
    def change(trainer: Trainer) -> None:
        trainer.config = trainer.config.model_copy(update={"lr": lr})

    return change


def assert_good(folder: Path, step: int) -> None:
    """The last good state and model are there, finite and usable."""
    tensors, progress, _ = state(folder)
    assert progress.step == step
    assert not progress.finished
    kept = read_tensors(folder / "model.safetensors")[0]
    assert all(bool(tensor.isfinite().all()) for tensor in (*tensors.values(), *kept.values()))
    assert not (folder / "result.json").exists()


def test_o14_huge_rate_in_float32_stops_the_run_and_keeps_the_good_files(text, tmp_path):
    out = tmp_path / "run"
    good: dict[str, bytes] = {}
    recipe = text_model(text, save_every=2, eval_every=2, schedule="constant")
    with pytest.raises(DivergenceError) as caught:
        train(recipe, out, [At(4, set_rate(1e38)), At(5, keep(good, out))])
    message = str(caught.value)
    assert message.startswith("the loss of update 6 is not finite (items ")
    assert re.search(r"\(items \d+, \d+ of epoch 0\)", message)
    assert re.search(r"output of decoder\.\S+ .*not finite: (nan|inf|-inf) .*float32", message)
    assert re.search(r"input is finite, at most \d", message)
    assert re.search(r"is up to \S+ in size; update 5 moved it by up to \S+$", message)
    assert contents(out) == good
    assert_good(out, 4)
    load(out)


def test_o14_rate_that_is_huge_from_the_start_is_stopped_at_once(text, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(DivergenceError, match=r"of update 2 is not finite(.|\n)*after update 1"):
        train(text_model(text, lr=1e38, schedule="constant", warmup=0), out)
    assert not contents(out)
    assert not (out / "result.json").exists()


def test_o14_validation_loss_that_is_not_finite_stops_the_run(text, tmp_path):
    """It would be the "best" for ever: no later loss is below NaN."""
    out = tmp_path / "run"
    good: dict[str, bytes] = {}
    recipe = text_model(text, save_every=2, eval_every=5, schedule="constant")
    with pytest.raises(
        DivergenceError,
        match=r"the validation loss after update 5 is (nan|inf); the last good state(.|\n)*\nFirst at row 0",
    ):
        train(recipe, out, [At(4, set_rate(1e38)), At(4, keep(good, out))])
    assert_good(out, 4)


def test_o14_parameter_that_is_not_finite_is_never_saved(text, tmp_path):
    out = tmp_path / "run"
    good: dict[str, bytes] = {}

    def spoil(trainer: Trainer) -> None:
        good.update(contents(out))
        with torch.no_grad():
            trainer.model.get_parameter("decoder.blocks.0.feed_forward.inner.bias")[3] = torch.nan

    with pytest.raises(DivergenceError, match=r"decoder\.blocks\.0\.feed_forward\.inner\.bias is not finite after upd"):
        train(text_model(text, save_every=2), out, [At(4, spoil)])
    assert contents(out) == good
    assert_good(out, 2)


def test_o14_gradient_that_is_not_finite_names_the_parameter_and_the_items(text, tmp_path):
    def spoil(trainer: Trainer) -> None:
        parameter = trainer.model.get_parameter("decoder.blocks.1.feed_forward.inner.weight")
        parameter.register_hook(lambda gradient: gradient * torch.inf)

    with pytest.raises(DivergenceError) as caught:
        train(text_model(text, save_every=2), tmp_path / "run", [At(2, spoil)])
    message = str(caught.value)
    assert re.match(r"the gradient of update 3 is not finite \(items \d+, \d+ of epoch 0\)", message)
    assert "made in decoder.blocks.1.feed_forward.inner, and is that of" in message
    assert "Not finite are the gradients of 1 of 22 parameters: decoder.blocks.1.feed_forward.inner.weight" in message
    assert "no single row or token is to blame" in message
    assert_good(tmp_path / "run", 2)


def overflow(trainer: Trainer) -> None:
    """One inner unit of layer 1 is 1.1041 always, and its weight 60,000: together 66,246, above float16's 65,504."""
    feed_forward = trainer.model.decoder.blocks[1].feed_forward
    with torch.no_grad():
        feed_forward.inner.weight[0] = 0.0
        feed_forward.inner.bias[0] = 1.1041
        feed_forward.output.weight[0] = 0.0
        feed_forward.output.weight[0, 0] = 60_000.0


OVERFLOW = (
    r"the loss of update 3 is not finite \(items \d+, \d+ of epoch 0\)\nForward pass\. The output of "
    r"decoder\.blocks\.1\.feed_forward\.output .*inf .*float16.* 65504.* at most (\d+\.\d+) in size"
)
"""Step, items, first bad module, its type and its largest finite input."""


def test_o14_overflow_of_float16_is_traced_to_its_module(text, tmp_path):
    assert pytest.approx(66_246) == 60_000 * 1.1041
    out = tmp_path / "run"
    good: dict[str, bytes] = {}
    recipe = text_model(text, precision="fp16", save_every=2, model={"dropout": 0.0})
    with pytest.raises(DivergenceError) as caught:
        train(recipe, out, [At(1, lambda trainer: None), At(2, overflow), At(2, keep(good, out))])
    found = re.match(OVERFLOW, str(caught.value))
    assert found, str(caught.value)
    assert 1.1 <= float(found[1]) < 10
    assert_good(out, 2)
    load(out)


def test_o14_same_weights_are_no_problem_in_float32(text, tmp_path):
    interrupted = train(text_model(text), tmp_path / "run", [At(2, overflow), interrupt_after(4)])
    assert interrupted.exit_code == 130


def test_o14_command_line_ends_with_an_error_and_not_with_a_traceback(text, tmp_path, monkeypatch, capsys):
    make = Trainer.update

    def update(self: Trainer, window: list[Batch]) -> object:
        if self.progress.step == 2:
            overflow(self)
        return make(self, window)

    monkeypatch.setattr(Trainer, "update", update)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # the program shows warnings in its own way
    settings = ["training.precision=fp16", "training.batch_size=2", "task.context=8", f"task.text={text}"]
    settings += ["training.save_every=2", "model.n_layers=2", "model.d_model=16", "model.activation=relu"]
    settings += ["model.bias=true", "model.d_ff=24", "model.n_heads=2"]
    edits = [part for setting in settings for part in ("--set", setting)]
    out = tmp_path / "run"
    monkeypatch.setattr(sys, "argv", ["glassformer", "train", "language_model", *edits, "--out", str(out)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    error = capsys.readouterr().err
    assert re.search("error: " + OVERFLOW, error), error
    assert "Traceback" not in error
    assert_good(out, 2)


def hooked(action: Any) -> tuple[At, At]:
    """For update 3 alone, the gradient of one parameter is changed."""
    handles = []

    def on(trainer: Trainer) -> None:
        parameter = trainer.model.get_parameter("decoder.blocks.0.attention.qkv.weight")
        handles.append(parameter.register_hook(action))

    return At(2, on), At(3, lambda trainer: handles.pop().remove())


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_o14_isolated_overflow_of_scaled_gradients_skips_one_update(text, tmp_path, optimizer):
    seen: dict[int, dict[str, torch.Tensor]] = {}

    def look(trainer: Trainer) -> None:
        seen[trainer.progress.step] = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}

    recipe = text_model(text, precision="fp16", optimizer=optimizer, max_steps=6)
    begin, end = hooked(lambda gradient: gradient * torch.inf)
    scales = []
    watch = At(range(1, 7), lambda trainer: scales.append(trainer.scaler.get_scale()))
    run = train(recipe, tmp_path / "run", [begin, end, At(range(1, 7), look), watch])
    _, progress, _ = state(tmp_path / "run")
    assert progress.skipped == 1
    assert progress.step == run.result["steps"] == 6
    for name, tensor in seen[2].items():
        assert torch.equal(tensor, seen[3][name])
    assert any(not torch.equal(tensor, seen[4][name]) for name, tensor in seen[3].items())
    assert scales[:2] == [65536.0] * 2
    assert scales[2:] == [32768.0] * 4
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert all("Infinity" not in line and "NaN" not in line for line in lines)  # neither is JSON
    rows = {row["step"]: row for row in map(json.loads, lines) if row["split"] == "train"}
    assert rows[3]["grad_norm"] == math.inf
    assert math.isfinite(rows[4]["grad_norm"])


def test_o14_gradient_that_overflows_at_every_scale_stops_the_run(text, tmp_path):
    """65,536 halved 16 times is 1: what is not finite then is not so because of the scale."""
    recipe = text_model(text, precision="fp16", max_steps=40)
    begin, _ = hooked(lambda gradient: gradient * torch.inf)
    with pytest.raises(DivergenceError, match=r"gradient of update 19 .*") as caught:
        train(recipe, tmp_path / "run", [begin])
    assert "16 updates before it were left out" in str(caught.value)
    assert "decoder.blocks.0.attention.qkv.weight" in str(caught.value)


@pytest.mark.usefixtures("no_report")
def test_o14_skipped_updates_are_counted_over_a_resume(text, tmp_path):
    recipe = text_model(text, precision="fp16", max_steps=6)
    train(recipe, tmp_path / "run", [*hooked(lambda gradient: gradient * torch.inf), interrupt_after(4)])
    assert state(tmp_path / "run")[1].skipped == 1
    resume(tmp_path / "run")
    assert state(tmp_path / "run")[1].skipped == 1
    assert json.loads(state(tmp_path / "run")[2]["scaler"])["scale"] == 32768.0


# --- batches that are counted in tokens


@pytest.mark.parametrize(("make", "task"), [(translation, {}), (classification, {"tokenizer": "character"})])
def test_batches_keep_to_their_number_of_tokens(tmp_path, make, task):
    limit = 64 if task else 13
    trainer = make_trainer(make(tmp_path / "data", task=task, batch_tokens=limit, accumulate=2))
    source = trainer.data.train
    seen = []
    windows = trainer.windows()
    for _ in range(-(-len(trainer.order) // 2)):
        for batch in next(windows):
            sides = [batch.inputs] if batch.source is None else [batch.inputs, batch.source]
            assert max(side.numel() for side in sides) <= limit
            seen += batch.items
    assert sorted(seen) == list(range(len(source)))
    sizes = {len(batch) for batch in trainer.order.batches(0)}
    assert len(sizes) > 1, "short rows come more at a time"


def test_fresh_items_cannot_be_batched_by_tokens(tmp_path):
    with pytest.raises(ConfigError, match=r"training\.batch_tokens is 100, but .*; use training\.batch_size"):
        train(sequences(batch_tokens=100), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_row_that_is_larger_than_a_batch_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="batch_tokens 4; set batch_tokens to 5 or more, or cut or leave out long"):
        make_trainer(translation(tmp_path / "data", batch_tokens=4))


def test_tokens_and_texts_are_counted_as_what_they_are(tmp_path):
    pairs, table = make_trainer(translation(tmp_path / "data")), make_trainer(classification(tmp_path / "data"))
    assert (pairs.unit, table.unit) == ("tokens", "texts")
    [batch] = next(table.windows())
    assert table.update([batch]).tokens == len(batch) == 2
