from __future__ import annotations

import math

import pytest
import torch

from glassformer.core.call import Call
from glassformer.core.config import FeedForwardConfig
from glassformer.core.places import Places
from glassformer.parts.feed_forward import FeedForward

CALL = Call(Places.full(1))


def filled(gated: bool, **settings: object) -> FeedForward:
    part = FeedForward(FeedForwardConfig(d_ff=2, gated=gated, **settings), 2)
    with torch.no_grad():
        part.inner.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, -4.0]]))
        part.inner.bias.copy_(torch.tensor([0.5, 0.0]))
        part.output.weight.copy_(torch.tensor([[1.0, 1.0], [2.0, 0.0]]))
        part.output.bias.copy_(torch.tensor([0.0, -1.0]))
        if part.gate is not None:
            part.gate.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
            part.gate.bias.zero_()
    return part


def test_plain_network_by_hand():
    """x = [1, 1]: inner = relu([3.5, -1]) = [3.5, 0]; output = [3.5, 7 - 1]."""
    x = torch.ones(1, 1, 2)
    assert filled(gated=False)(x, CALL).flatten().tolist() == [3.5, 6.0]


def test_gated_network_by_hand():
    """x = [1, -1]: gate = silu([1, -1]), inner = [-0.5, 7]; their product, summed and doubled."""
    x = torch.tensor([[[1.0, -1.0]]])
    silu = [1 / (1 + math.exp(-1)), -1 / (1 + math.exp(1))]
    inner = [silu[0] * -0.5, silu[1] * 7]
    out = filled(gated=True, activation="silu")(x, CALL)
    assert out.flatten().tolist() == pytest.approx([inner[0] + inner[1], 2 * inner[0] - 1])


def test_no_position_sees_another():
    part = FeedForward(FeedForwardConfig(d_ff=8, gated=True), 4)
    x = torch.randn(1, 3, 4)
    moved = x.clone()
    moved[:, 1] += 1.0
    before, after = part(x, CALL), part(moved, CALL)
    assert torch.equal(before[:, [0, 2]], after[:, [0, 2]])
    assert not torch.equal(before[:, 1], after[:, 1])


def test_network_without_offsets_maps_zero_to_zero():
    part = FeedForward(FeedForwardConfig(d_ff=8, bias=False), 4)
    assert part(torch.zeros(1, 1, 4), CALL).eq(0).all()
    assert {name for name, _ in part.named_parameters()} == {"inner.weight", "output.weight"}


def test_inner_dropout_is_on_in_training_only():
    part = FeedForward(FeedForwardConfig(d_ff=64, dropout=0.5), 4)
    x = torch.randn(1, 1, 4)
    assert not torch.equal(part(x, CALL), part(x, CALL))
    part.eval()
    assert torch.equal(part(x, CALL), part(x, CALL))
