from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from glassformer.core.position_config import RotaryConfig
from glassformer.kernels.operators import has_operators
from glassformer.kernels.vectors import rms_norm, rotate
from glassformer.parts.rotary import quick_rotate, rotary_angles
from glassformer.parts.rotary import rotate as readable

pytestmark = pytest.mark.skipif(not has_operators(), reason="there is no C++ compiler")


@pytest.mark.parametrize("shape", [(1, 1, 768), (3, 5, 20), (2, 16), (7,), (0, 4)])
def test_norm_is_that_of_torch(shape):
    x, weight = 3 * torch.randn(shape), torch.randn(shape[-1])
    exact = F.rms_norm(x.double(), (shape[-1],), weight.double(), 1e-5)
    torch.testing.assert_close(rms_norm(x, weight, 1e-5).double(), exact, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        rms_norm(x[..., ::2], weight[::2], 0.3), F.rms_norm(x[..., ::2], weight[::2].shape, weight[::2], 0.3)
    )


def test_norm_of_nothing_and_of_numbers_that_are_none():
    x = torch.zeros(3, 20)
    x[1, 18], x[2, 0] = torch.nan, torch.inf
    out = rms_norm(x, torch.ones(20), 1e-5)
    assert torch.equal(out[0], torch.zeros(20))
    assert not out[1:].isfinite().all(-1).any()


@pytest.mark.parametrize("pairing", ["halves", "interleaved"])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_rotation_is_the_readable_one(pairing, share):
    config = RotaryConfig(pairing=pairing, share=share)
    for positions in (torch.tensor([[3, 4, 5]]), torch.tensor([[0, 1, 2], [900, 901, 902]])):
        angles = rotary_angles(positions, 24, config)
        x = torch.randn(2, 3, 4, 24).transpose(1, 2)  # (B, H, T, E), heads behind positions
        torch.testing.assert_close(quick_rotate(x, angles, config), readable(x, angles, config), atol=1e-6, rtol=1e-6)
        assert quick_rotate(x.double(), angles, config).dtype == torch.float64


def test_vectors_are_operators_and_refuse_what_does_not_fit():
    x, angle = torch.randn(2, 3, 4, 8), torch.randn(2, 1, 4, 4)
    tests = ("test_schema", "test_faketensor")
    torch.library.opcheck(torch.ops.glassformer.rms_norm.default, (x, torch.ones(8), 1e-5), test_utils=tests)
    torch.library.opcheck(torch.ops.glassformer.rotate.default, (x, angle, angle, True), test_utils=tests)
    for wrong in (torch.randn(2, 1, 3, 4), torch.randn(3, 1, 4, 4), torch.randn(2, 1, 4, 5), torch.randn(4, 4)):
        with pytest.raises(RuntimeError, match="not fit"):
            rotate(x, wrong, wrong, True)
    for sin in (torch.randn(1, 1, 1, 1), torch.randn(1, 1, 4, 4)):
        with pytest.raises(RuntimeError, match="not fit"):
            rotate(x, angle, sin, True)
    with pytest.raises(RuntimeError, match="not fit"):
        rotate(x[0, 0], angle, angle, True)
    with pytest.raises(RuntimeError, match="not fit"):
        rms_norm(x, torch.ones(7), 1e-5)
    with pytest.raises(RuntimeError, match="another type"):
        rms_norm(x.double(), torch.ones(8), 1e-5)
