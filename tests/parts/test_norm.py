from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from glassformer.core.norm_config import NormConfig
from glassformer.parts.norm import LayerNorm, NoNorm, RMSNorm, build_norm


def test_layer_norm_by_hand():
    """[1, 2, 3, 6]: mean 3, variance (4 + 1 + 0 + 9) / 4 = 3.5."""
    x = torch.tensor([[[1.0, 2.0, 3.0, 6.0]]], dtype=torch.float64)
    norm = LayerNorm(4, eps=0.5).double()
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        norm.bias.copy_(torch.tensor([0.0, 0.0, 1.0, 1.0]))
    expected = [-2 / 2, -1 / 2 * 2, 0 / 2 * 3 + 1, 3 / 2 * 4 + 1]  # sqrt(3.5 + 0.5) = 2
    assert norm(x).flatten().tolist() == pytest.approx(expected)


def test_rms_norm_by_hand():
    """[1, 1, 3, 5]: mean square 9, nothing is centred."""
    x = torch.tensor([[[1.0, 1.0, 3.0, 5.0]]], dtype=torch.float64)
    norm = RMSNorm(4, eps=7.0).double()
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([4.0, 8.0, 4.0, 4.0]))
    assert norm(x).flatten().tolist() == pytest.approx([1.0, 2.0, 3.0, 5.0])  # sqrt(9 + 7) = 4


@pytest.mark.parametrize("bias", [True, False])
def test_layer_norm_is_torchs(bias):
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    ours, torchs = LayerNorm(8, 1e-6, bias).double(), nn.LayerNorm(8, 1e-6, bias=bias).double()
    torch.testing.assert_close(ours(x), torchs(x))
    assert dict(ours.named_parameters()).keys() == dict(torchs.named_parameters()).keys()


def test_rms_norm_is_torchs():
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    torch.testing.assert_close(RMSNorm(8, 1e-6).double()(x), nn.RMSNorm(8, 1e-6).double()(x))


def test_no_norm_is_the_identity():
    x = torch.randn(2, 3, 8)
    assert NoNorm()(x) is x
    assert not list(NoNorm().parameters())


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_constant_vector_does_not_divide_by_zero(kind):
    norm = build_norm(NormConfig(kind=kind), 4)
    x = torch.zeros(1, 1, 4, requires_grad=True)
    out = norm(x)
    assert out.eq(0).all()
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert gradient.isfinite().all()


def test_norm_is_built_as_the_config_says():
    assert isinstance(build_norm(NormConfig(kind="none"), 4), NoNorm)
    assert build_norm(NormConfig(kind="rms", eps=0.25), 4).eps == 0.25
    assert build_norm(NormConfig(bias=False), 4).bias is None


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_norm_of_bfloat16_is_computed_exactly_enough(kind):
    """A sum of 1,000 squares is not lost in 8 bits: the mean square of the output is 1."""
    x = torch.randn(1, 1, 1000).bfloat16()
    out = build_norm(NormConfig(kind=kind), 1000).bfloat16()(x)
    assert out.dtype == torch.bfloat16
    assert math.isclose(float(out.detach().float().square().mean()), 1.0, abs_tol=1e-2)
