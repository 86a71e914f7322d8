"""Direction, module, row and token of a number that is not finite, with faults that are planted in one place."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.core.errors import DivergenceError
from glassformer.data.batch import Batch
from glassformer.models.transformer import Transformer
from glassformer.training import run, trainer
from glassformer.training.precision import Precision
from glassformer.training.recipe import Recipe
from glassformer.training.run import train
from glassformer.training.trainer import Trainer

from .tiny import At, classification, sequences, text_model, translation

SOUND = {"schedule": "constant", "warmup": 0, "batch_size": 4}


def made(recipe: Recipe, precision: str = "float32") -> Trainer:
    data = recipe.task.build(run.kind_for(recipe))
    model = Transformer(run.resolve(recipe.model, data), generator=torch.Generator().manual_seed(0))
    return Trainer(model, data, recipe.training, Precision(precision, "as asked", "cpu"))


def message(trainer: Trainer, window: list[Batch]) -> str:
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    with pytest.raises(DivergenceError) as caught:
        trainer.update(window)
    after = trainer.model.named_parameters()
    assert all(torch.equal(p.nan_to_num(), before[name].nan_to_num()) for name, p in after)
    said = str(caught.value)
    assert len(said.splitlines()) <= 7  # with the one of the command line, all that it shows
    return said


class Spoilt(torch.autograd.Function):
    """The same number, but its gradient is infinite at one place."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, at: tuple[int, ...]) -> Tensor:
        ctx.at = at
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        spoilt = gradient.clone()
        spoilt[ctx.at] = math.inf
        return spoilt, None


def plant(trainer: Trainer, path: str, change: Callable[[Tensor], Tensor], only: int | None = None) -> None:
    """What a module hands out is changed, at its call number `only` or at every one."""
    module = trainer.model.get_submodule(path)
    forward, calls = module.forward, iter(range(100_000))

    def changed(*arguments: Any, **named: Any) -> Any:
        out = forward(*arguments, **named)
        return change(out) if only is None or next(calls) % 3 == only else out

    module.forward = changed  # type: ignore[method-assign]


def overflow_at(trainer: Trainer, row: int, slot: int) -> None:
    """In one row and column one inner unit of layer 1 is 1.1041, and its weight 60,000: 66,246. Elsewhere it is 0."""
    feed_forward = trainer.model.output_stack.blocks[1].feed_forward
    with torch.no_grad():
        feed_forward.output.weight[0] = 0.0
        feed_forward.output.weight[0, 0] = 60_000.0
    bend = feed_forward.activation

    def bent(x: Tensor) -> Tensor:
        y = bend(x).clone()
        y[..., 0] = 0.0
        y[row, slot, 0] = 1.1041
        return y

    feed_forward.activation = bent


def token(trainer: Trainer, ids: Tensor, row: int, slot: int) -> str:
    return repr(trainer.tokenizer.label(int(ids[row, slot])))


# --- forward


def test_o14_overflow_of_float16_names_module_row_item_and_token(text):
    """Only the third of four rows is bad, and only its sixth token."""
    one = made(text_model(text, model={"dropout": 0.0, "attention": {"dropout": 0.0}}, **SOUND), "fp16")
    window = next(one.windows())
    overflow_at(one, 2, 5)
    said = message(one, window)
    item = window[0].items[2]
    assert said.startswith("the loss of update 1 is not finite (items ")
    assert "\nForward pass. The output of decoder.blocks.1.feed_forward.output is the first that is not finite" in said
    assert "inf in float16 (which ends at 65504) at [2, 5, 0] of shape [4, 8, 16]" in said
    assert f"First at row 2 (of 0 to 3; item {item}), token {token(one, window[0].inputs, 2, 5)} at position 5" in said
    assert "bad are" not in said
    assert "Its weight is up to 60000 in size" in said


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_o14_what_overflows_in_float16_is_nothing_special_elsewhere(text, precision):
    one = made(text_model(text, model={"dropout": 0.0}, **SOUND), precision)
    overflow_at(one, 2, 5)
    assert math.isfinite(one.update(next(one.windows())).loss)


@pytest.mark.parametrize("path", ["encoder.blocks.1.feed_forward", "decoder.blocks.0.cross_attention.kv"])
def test_o14_token_of_the_source_is_named_for_what_reads_the_source(tmp_path, path):
    one = made(translation(tmp_path / "data", **SOUND), "bf16")
    [batch] = next(one.windows())
    assert batch.source is not None
    row = 1
    slot = batch.source_lengths[row] - 1
    plant(one, path, lambda out: out.index_put((torch.tensor(row), torch.tensor(slot)), out.new_tensor(math.nan)))
    said = message(one, [batch])
    assert f"The output of {path} is the first" in said
    assert "nan in bfloat16 (which ends at 3.3895e+38)" in said
    told = f"token {token(one, batch.source, row, slot)} of the source at position {slot}"
    assert f"First at row 1 (of 0 to 3; item {batch.items[1]}), {told}" in said


def test_o14_row_of_a_padded_batch_is_named_and_padding_is_not(tmp_path):
    """All of one column is bad; the first row that has a token there is named, not the shorter ones before it."""
    one = made(translation(tmp_path / "data", **SOUND))
    [batch] = next(window for window in one.windows() if window[0].source_lengths[0] < max(window[0].source_lengths))
    assert batch.source is not None
    last = max(batch.source_lengths) - 1
    row = batch.source_lengths.index(last + 1)
    assert row > 0
    column = torch.tensor(last)
    plant(one, "encoder.blocks.0", lambda out: out.index_fill(1, column, math.inf))
    said = message(one, [batch])
    assert f"First at row {row} (of 0 to 3; item {batch.items[row]}), token" in said
    assert f"at position {last}" in said


def test_o14_of_added_batches_the_bad_one_is_named(text):
    one = made(text_model(text, accumulate=3, **SOUND))
    window = next(one.windows())
    at = (torch.tensor(0), torch.tensor(2))
    plant(one, "decoder.blocks.0.attention", lambda out: out.index_put(at, out.new_tensor(math.inf)), only=1)
    said = message(one, window)
    items = ", ".join(map(str, window[1].items))
    assert said.startswith(f"the loss of update 1 is not finite (batch 2 of 3: items {items} of epoch 0)")
    assert f"item {window[1].items[0]}), token {token(one, window[1].inputs, 0, 2)} at position 2" in said


def test_o14_overflow_in_the_head_is_traced_to_its_target(text, monkeypatch):
    """The scores of a large vocabulary are never there at once, and no module makes them."""
    monkeypatch.setattr("glassformer.models.loss.PLAIN_LIMIT", 0)
    one = made(text_model(text, model={"dropout": 0.0, "attention": {"dropout": 0.0}}, **SOUND))
    window = next(one.windows())
    states = torch.zeros(4, 8, 16)
    states[2, 6] = 1e30
    with torch.no_grad():
        one.model.head.weight.fill_(1e30)
    plant(one, "decoder.final_norm", lambda out: states + 0 * out)
    said = message(one, window)
    assert "Every module's output is" in said
    assert f"First at row 2 (of 0 to 3; item {window[0].items[2]}), token" in said
    assert "at position 6" in said


def test_o14_row_is_named_where_whole_texts_are_labelled(tmp_path):
    one = made(classification(tmp_path / "data", **SOUND))
    [batch] = next(one.windows())
    plant(one, "head", lambda out: out.index_put((torch.tensor(2),), out.new_tensor(math.nan)))
    said = message(one, [batch])
    assert "The output of head is the first that is not finite" in said
    assert said.splitlines()[2] == f"First at row 2 (of 0 to 3; item {batch.items[2]})"


def test_o14_dropout_is_repeated(text):
    """What dropout leaves over is bad; the search sees the very numbers of the accident."""
    one = made(text_model(text, model={"dropout": 0.5}, **SOUND))
    seen = []

    def spoil(out: Tensor) -> Tensor:
        seen.append(out.detach().clone())
        return out.masked_fill(out == out.max(), math.inf)

    plant(one, "decoder.input", spoil)
    said = message(one, next(one.windows()))
    assert len(seen) > 1
    assert all(torch.equal(seen[0], again) for again in seen)
    assert "could not be repeated" not in said


@pytest.mark.parametrize("always", [True, False])
def test_o14_randomness_that_cannot_be_repeated_is_admitted(text, always):
    """Numbers of Python's own generator before the fault; or a fault that comes once."""
    one = made(text_model(text, **SOUND))
    once = iter([math.inf])
    plant(one, "decoder.input", lambda out: out * random.random())
    plant(one, "decoder.blocks.0.attention", lambda out: out + (math.inf if always else next(once, 0.0)))
    said = message(one, next(one.windows()))
    assert "What the model draws at random (dropout) could not be repeated" in said
    assert ("The output of decoder.blocks.0.attention is the first" in said) == always
    assert ("Repeated with the same batch, it is finite" in said) != always


# --- backward


def test_o14_gradient_names_module_row_token_and_parameters(text):
    one = made(text_model(text, **SOUND))
    window = next(one.windows())
    plant(one, "decoder.blocks.1.feed_forward", lambda out: Spoilt.apply(out, (2, 5, 3)))
    said = message(one, window)
    assert said.startswith("the gradient of update 1 is not finite (items ")
    assert "\nBackward pass. Going back from the loss, the first gradient that is not finite is made in " in said
    # Going back, the gradient becomes bad as it leaves what the fault stands behind: the last module of the network.
    assert "decoder.blocks.1.feed_forward, and is that of the output of decoder.blocks.1.feed_forward.output" in said
    assert "at [2, 5, 3] of shape [4, 8, 16]" in said
    assert "Not finite are the gradients of 21 of 22 parameters: decoder.blocks.1.feed_forward.output.bias, " in said
    assert f"row 2 (of 0 to 3; item {window[0].items[2]}), token {token(one, window[0].inputs, 2, 5)} at pos" in said
    assert "could not be repeated" not in said


def test_o14_root_of_zero_is_a_fault_of_the_backward_pass_only(text):
    """Its value is 0; its slope there is infinite."""
    one = made(text_model(text, **SOUND), "bf16")
    window = next(one.windows())
    feed_forward = one.model.output_stack.blocks[0].feed_forward
    bend, keep = feed_forward.activation, torch.ones(4, 8, 1)
    keep[2, 4] = 0.0
    feed_forward.activation = lambda x: bend(x) + (x.float().abs() * keep).sqrt() * 1e-3
    said = message(one, window)
    assert "made in decoder.blocks.0.feed_forward, and is that of the output of decoder.blocks.0.feed_forward.i" in said
    assert f"row 2 (of 0 to 3; item {window[0].items[2]}), token {token(one, window[0].inputs, 2, 4)} at pos" in said


def test_o14_of_added_batches_the_one_with_the_bad_gradient_is_named(tmp_path):
    one = made(sequences(accumulate=3, **SOUND))
    window = next(one.windows())
    plant(one, "encoder.blocks.0", lambda out: Spoilt.apply(out, (1, 0, 0)), only=2)
    said = message(one, window)
    items = ", ".join(map(str, window[2].items))
    assert f"(batch 3 of 3: items {items} of epoch 0)" in said
    assert f"item {window[2].items[1]}), token {token(one, window[2].source, 1, 0)} of the source at position 0" in said
    assert "could not be repeated" not in said


def test_o14_sum_of_finite_gradients_over_batches(text):
    """2e38 from each of two batches."""
    one = made(text_model(text, accumulate=2, **SOUND))
    bias = one.model.get_parameter("decoder.final_norm.weight")
    bias.register_hook(lambda gradient: torch.full_like(gradient, 2e38))
    said = message(one, next(one.windows()))
    assert "The gradients of each batch are finite, their sum is not" in said
    assert "Not finite are the gradients of 1 of 22 parameters: decoder.final_norm.weight" in said


def test_o14_norm_that_overflows_names_the_largest_gradient(text):
    """The square of 1e30 is too much for float32."""
    one = made(text_model(text, **SOUND))
    weight = one.model.get_parameter("decoder.final_norm.weight")
    weight.register_hook(lambda gradient: torch.full_like(gradient, 1e30))
    said = message(one, next(one.windows()))
    assert "Every gradient is finite, but their norm is not; the largest is 1e+30, of decoder.final_norm.weight" in said


def test_o14_what_the_forward_pass_hid_is_told_with_the_bad_gradient(tmp_path):
    """A NaN at padding never reaches the loss, but 0 * NaN spoils the gradient of the norm behind it."""
    one = made(translation(tmp_path / "data", **SOUND))
    [batch] = next(one.windows())
    row = batch.lengths.index(min(batch.lengths))
    column = batch.inputs.shape[1] - 1
    assert batch.lengths[row] <= column
    at = (torch.tensor(row), torch.tensor(column))
    plant(one, "decoder.blocks.1.feed_forward", lambda out: out.index_put(at, out.new_tensor(math.nan)))
    said = message(one, [batch])
    assert said.startswith("the gradient of update 1 is not finite")
    assert "made in decoder.blocks.1.feed_forward_norm, and is that of decoder.blocks.1.feed_forward_norm." in said
    assert f"row {row} (of 0 to 3; item {batch.items[row]}), padding of the target in column {column}" in said
    assert said.endswith("The output of decoder.blocks.1.feed_forward holds nan already in the forward pass")


# --- update


def after_one_update(recipe: Recipe) -> tuple[Trainer, list[Batch], list[Batch]]:
    one = made(recipe)
    windows = one.windows()
    first = next(windows)
    one.update(first)
    return one, first, next(windows)


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "muon"])
def test_o14_rate_beyond_all_measure_is_a_fault_of_the_update(text, optimizer):
    """adam divides the rate by 1 - 0.9: 1e38 is a number of float32, 1e39 is none."""
    one, first, window = after_one_update(text_model(text, lr=1e38, optimizer=optimizer, **SOUND))
    said = message(one, window)
    assert "\nUpdate. decoder.input.embedding.weight is not finite after update 1: " in said
    assert "of shape [29, 16], the vector of the token '<unk>'. So are " in said
    assert "Update 1 learned from items " + ", ".join(map(str, first[0].items)) + " of epoch 0" in said
    assert "Its gradients were finite (norm " in said
    assert "learning rate 1e+38; exp_avg " in said
    assert "moved it by up to 1e+38; the rate over 1 - beta1^1 is 1e+39, above 3.403e+38" in said


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_o14_step_of_sgd_beyond_float32_is_named(text, momentum):
    recipe = text_model(text, lr=1e38, optimizer="sgd", momentum=momentum, clip=None, **SOUND)
    one = made(recipe)
    windows = one.windows()
    hook = one.model.get_parameter("decoder.final_norm.weight").register_hook(
        lambda gradient: torch.full_like(gradient, 5.0)
    )
    one.update(next(windows))
    hook.remove()
    said = message(one, next(windows))
    assert "Update. decoder.final_norm.weight is not finite after update 1: -inf in float32" in said
    assert "SGD, learning rate 1e+38; " in said
    expected = "momentum_buffer 5 at that place; it moved it by up to 5e+38, above 3.403e+38"
    assert expected in said if momentum else re_bound(said) > 5e38


def re_bound(said: str) -> float:
    assert "no state; it moved it by up to " in said
    return float(said.rpartition("up to ")[2].partition(",")[0])


def test_o14_eps_that_vanishes_is_named(text):
    """An inner unit that never fires has no gradient: 0 / (sqrt(0) + 0)."""
    one = made(text_model(text, eps=1e-50, model={"activation": "relu", "bias": True}, **SOUND))
    with torch.no_grad():
        one.model.get_parameter("decoder.blocks.0.feed_forward.inner.bias")[3] = -1e3
    windows = one.windows()
    one.update(next(windows))
    said = message(one, next(windows))
    assert "Update. decoder.blocks.0.feed_forward.inner.weight is not finite after update 1: nan in float32" in said
    assert "at [3, 0] of shape [24, 16]" in said
    assert "exp_avg 0, exp_avg_sq 0 at that place" in said
    assert "raise training.eps, for 1e-50 is 0 in these numbers" in said


def test_o14_bad_state_of_the_optimizer_is_named(text):
    one, _, window = after_one_update(text_model(text, **SOUND))
    name = "decoder.blocks.1.attention.qkv.weight"
    one.optimizer.state[one.model.get_parameter(name)]["exp_avg"][4, 2] = math.nan
    one.update(window)
    said = message(one, next(one.windows()))
    assert f"Update. {name} is not finite after update 2: nan in float32" in said
    assert "at [4, 2] of shape [48, 16]" in said
    assert "exp_avg nan, exp_avg_sq " in said
    assert said.endswith("; not finite in its state: exp_avg")


def test_o14_parameter_that_someone_else_spoilt_is_not_put_down_to_the_optimizer(text):
    one, _, window = after_one_update(text_model(text, **SOUND))
    with torch.no_grad():
        one.model.get_parameter("decoder.blocks.0.attention.output.weight")[1, 2] = math.inf
    said = message(one, window)
    assert "decoder.blocks.0.attention.output.weight is not finite after update 1: inf" in said
    assert "so it was not the optimizer; something else wrote to the parameter" in said


def test_o14_weights_that_were_bad_from_the_start_are_said_to_be(text):
    one = made(text_model(text, **SOUND))
    with torch.no_grad():
        one.model.get_parameter("head.weight")[1, 2] = math.nan
    said = message(one, next(one.windows()))
    assert "decoder.input.embedding.weight is not finite before the first update: nan" in said
    assert "Training began with it" in said


def test_o14_weight_that_the_update_before_blew_up_is_named_with_the_forward_pass(text):
    """Finite themselves: 1e25 squared is not."""
    one, _, window = after_one_update(text_model(text, lr=1e25, **SOUND))
    said = message(one, window)
    assert "\nForward pass. The output of decoder.blocks.0.attention is the first" in said
    assert "is up to 1e+25 in size; update 1 moved it by up to 1e+25" in said


def test_o14_row_of_the_validation_split_is_named(text, tmp_path):
    def spoil(trainer: Trainer) -> None:
        at = (torch.tensor(1), torch.tensor(2))
        plant(trainer, "decoder.blocks.1", lambda out: out.index_put(at, out.new_tensor(math.nan)))

    recipe = text_model(text, **SOUND | {"eval_every": 2, "batch_size": 2})
    with pytest.raises(DivergenceError) as caught:
        train(recipe, tmp_path / "run", [EvenBefore(spoil)])
    said = str(caught.value)
    assert said.startswith("the validation loss after update 2 is nan; the last good state is kept\nForward pass. The ")
    assert "output of decoder.blocks.1 is the first that is not finite" in said
    assert re_row(said) == "row 1 (of 0 to 1; item 1)"


def re_row(said: str) -> str:
    return said.partition("First at ")[2].partition(", token")[0]


class EvenBefore(At):
    """Does something when the first update was logged, before the evaluation after the second."""

    def __init__(self, action: Callable[[Trainer], object]) -> None:
        super().__init__((), action)

    def logged(self, trainer: Trainer, interval: object) -> None:
        if trainer.progress.step == 2:
            self.action(trainer)


# --- while all is finite


def test_nothing_is_watched_while_all_is_finite(text, monkeypatch):
    """No hook, no search, no look at the parameters."""

    def never(*arguments: Any, **named: Any) -> None:
        raise AssertionError("looked for a fault in a sound update")

    monkeypatch.setattr(trainer, "Failure", never)
    monkeypatch.setattr(trainer, "describe_bad_parameters", never)
    monkeypatch.setattr(nn.Module, "register_forward_hook", never)
    monkeypatch.setattr(nn.Module, "register_forward_pre_hook", never)
    monkeypatch.setattr(Tensor, "register_hook", never)
    one = made(text_model(text, **SOUND))
    windows = one.windows()
    assert [math.isfinite(one.update(next(windows)).loss) for _ in range(3)] == [True] * 3
