from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from conftest import tiny_arguments
from glassformer.core.places import Places
from glassformer.core.tape import Patch, Tape
from glassformer.inspection.bad_gradient import BadGradient, first_bad_gradient
from glassformer.inspection.spot import Rows, find_spot
from glassformer.models.transformer import Transformer

TOKENS = torch.arange(20).view(4, 5)


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


def spoilt_at(*at: int) -> Any:
    return lambda x: Spoilt.apply(x, at)


def hooks(model: nn.Module) -> int:
    tensors = sum(len(p._backward_hooks or ()) for p in model.parameters())
    return tensors + sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


def tiny(**changes: Any) -> Transformer:
    return Transformer(tiny_arguments(**changes).resolve(32), generator=torch.Generator().manual_seed(0))


def found_with(model: Transformer, site: str, *at: int, **call: Any) -> BadGradient:
    tape = Tape(model, patches=[Patch(site, spoilt_at(*at))])
    found = first_bad_gradient(model, lambda: model(TOKENS, tape=tape, **call).sum().backward())
    assert found is not None
    assert hooks(model) == 0
    return found


def test_o14_patch_with_an_infinite_gradient_is_named_with_row_and_token():
    """Only row 2, the third of four, and slot 3 of it."""
    model = tiny(activation="gelu")
    found = found_with(model, "decoder.blocks.1.feed_forward.inner", 2, 3, 7)
    assert (found.site, found.of) == (
        "decoder.blocks.1.feed_forward",
        "the output of decoder.blocks.1.feed_forward.inner",
    )
    assert (found.parameter, abs(found.value), found.dtype) == (None, math.inf, torch.float32)
    assert (found.shape, found.index) == ((4, 5, 24), (2, 3, 7))
    assert found.largest_given is not None
    assert 0 < found.largest_given < 100
    assert found.bad is not None
    spot = find_spot(found.site, found.bad, [Rows("", TOKENS, Places.full(5))])
    assert spot is not None
    assert (spot.row, spot.slot, spot.position, spot.token, spot.n_rows, spot.n_slots) == (2, 3, 3, 13, 1, 1)
    assert "made in decoder.blocks.1.feed_forward, and is that of" in found.describe()


@pytest.mark.parametrize(("side", "position", "slot"), [("left", 1, 3), ("right", 3, 3)])
def test_o14_row_and_position_are_right_under_padding(side, position, slot):
    """Rows of 5, 4, 3 and 2 tokens: slot 3 of row 2 is the second of its three tokens, or padding behind them."""
    model = tiny()
    places = Places.from_lengths([5, 4, 3, 2], side=side)
    row = 2 if side == "left" else 1
    found = found_with(model, "decoder.blocks.0.residual", row, slot, 0, places=places)
    assert found.bad is not None
    spot = find_spot(found.site, found.bad, [Rows("", TOKENS, places)])
    assert spot is not None
    assert (spot.row, spot.slot, spot.position, spot.token) == (row, slot, position, int(TOKENS[row, slot]))


def test_o14_sum_of_residuals_is_put_down_to_the_block():
    found = found_with(tiny(), "decoder.blocks.0.residual", 1, 2, 3)
    assert found.site == "decoder.blocks.0"
    assert found.of == "the output of decoder.blocks.0.feed_forward_norm"


class RootBetween(nn.Module):
    """The root of 0 has an infinite slope; times 0 it is NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        return self.third((self.second(self.first(x)) * keep).square().sqrt())


def test_o14_root_of_zero_is_named_by_what_stands_before_it():
    model = RootBetween()
    keep = torch.ones(4, 5, 3)
    keep[2, 4] = 0.0
    found = first_bad_gradient(model, lambda: model(torch.ones(4, 5, 3), keep).sum().backward())
    assert found is not None
    assert all(bool(parameter.grad.isnan().all()) for parameter in model.first.parameters())
    assert (found.site, found.of) == ("model", "the output of second")
    assert math.isnan(found.value)
    assert found.index == (2, 4, 0)


class Root(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x * 0.0).sqrt()


class Branches(nn.Module):
    """One tensor is read by three; only what the second sends back is bad."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.good, self.root, self.idle = nn.Linear(3, 3), nn.Linear(3, 3), Root(), nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        h = self.idle(self.before(x))
        return self.good(h) + self.root(h) + self.idle(h)


def test_o14_of_several_readers_the_one_that_sends_back_is_named():
    model = Branches()
    found = first_bad_gradient(model, lambda: model(torch.ones(2, 3)).sum().backward())
    assert found is not None
    assert (found.site, found.of, found.largest_given) == ("root", "the input of root", 1.0)


def test_o14_gradient_of_a_parameter_that_overflows_alone_has_no_row():
    """2e38 + 2e38 is too much for float32, but each token alone is not."""
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Identity())
    x = torch.full((2, 1), 2e38, requires_grad=True)
    with torch.no_grad():
        model[0].weight.fill_(0.5)
    found = first_bad_gradient(model, lambda: (model(x) * 1.0).sum().backward())
    assert found is not None
    assert (found.site, found.parameter, found.value, found.bad) == ("0", "0.weight", math.inf, None)
    assert "no single row or token" in found.describe()


def test_o14_gradient_that_spoils_parameter_and_input_has_a_row():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True), nn.Linear(2, 2))
    with torch.no_grad():
        model[2].weight.fill_(2e38)
    x = torch.zeros(3, 2)
    factor = torch.tensor([1.0, 1.0, 2.0])[:, None]
    found = first_bad_gradient(model, lambda: (model(x) * factor).sum().backward())
    assert found is not None
    assert found.site == "2"
    assert found.bad is not None
    assert found.bad.any(1).tolist() == [True, True, True]  # 2e38 + 2e38 already at a factor of 1
    with torch.no_grad():
        model[2].weight.fill_(1e38)
    found = first_bad_gradient(model, lambda: (model(x) * factor).sum().backward())
    assert found is not None
    assert found.bad is not None
    assert found.bad.any(1).tolist() == [False, False, True]


def test_o14_overflow_under_autocast_is_named_with_its_type():
    """Going back, 300 * 300 is more than float16 holds; forward, 0 * 300 * 300 is 0."""
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    with torch.no_grad():
        model[0].weight.fill_(300.0)
        model[1].weight.fill_(300.0)
    x = torch.zeros(4, 1)

    def run() -> None:
        with torch.autocast("cpu", torch.float16):
            y = model(x).float()
        (y * torch.tensor([1.0, 1.0, 300.0, 1.0])[:, None]).sum().backward()

    found = first_bad_gradient(model, run)
    assert found is not None
    assert (found.site, found.dtype, found.value) == ("1", torch.float16, math.inf)
    assert found.largest_given == 300.0
    assert found.bad is not None
    assert found.bad.flatten().tolist() == [False, False, True, False]


def test_watching_changes_no_gradient_and_finds_nothing_in_a_sound_model():
    model = tiny(kind="encoder_decoder")

    def run() -> None:
        memory = model.encode(TOKENS)
        model(TOKENS, memory=memory, labels=TOKENS).sum.backward()

    run()
    expected = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    assert first_bad_gradient(model, run) is None
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter.grad, expected[name]), name
    assert hooks(model) == 0


def test_hooks_are_removed_when_the_run_fails():
    model = tiny()

    def run() -> None:
        model(TOKENS)
        raise RuntimeError("broken batch")

    with pytest.raises(RuntimeError, match="broken batch"):
        first_bad_gradient(model, run)
    assert hooks(model) == 0


def test_o14_fault_in_the_encoder_is_found_through_the_decoder():
    """Both layers of the decoder read what the encoder made; none of them is to blame."""
    model = tiny(kind="encoder_decoder")
    site = "encoder.blocks.1.attention.heads"
    tape = Tape(model, patches=[Patch(site, spoilt_at(2, 1, 4, 0))])

    def run() -> None:
        memory = model.encode(TOKENS, tape=tape)
        model(TOKENS[:, :3], memory=memory, labels=TOKENS[:, :3]).sum.backward()

    found = first_bad_gradient(model, run)
    assert found is not None
    assert found.site == "encoder.blocks.1.attention"
    assert found.bad is not None
    rows = [Rows("encoder", TOKENS, Places.full(5)), Rows("decoder", TOKENS[:, :3], Places.full(3))]
    spot = find_spot(found.site, found.bad, rows)
    assert spot is not None
    assert (spot.row, spot.stack, spot.n_rows) == (2, "encoder", 1)
