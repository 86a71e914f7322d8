from __future__ import annotations

import pytest
import torch

from glassformer.kernels.draws import STEPS
from glassformer.parts.dropout import dropout


def test_dropout_does_nothing_outside_of_training_or_at_zero():
    x = torch.randn(3, 5)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x


@pytest.mark.parametrize("p", [0.1, 0.3, 0.9])
def test_dropout_drops_its_share_and_keeps_the_expectation(p):
    """Of 10^6 numbers the share differs from p by less than 5 standard deviations, sqrt(p (1 - p) / 10^6) each."""
    out = dropout(torch.ones(1_000_003), p, training=True)
    dropped = out == 0
    spread = 5 * (p * (1 - p) / 1e6) ** 0.5
    assert abs(float(dropped.float().mean()) - p) < spread + 1 / STEPS
    kept = out[~dropped].unique()
    assert kept.numel() == 1
    assert float(kept) == pytest.approx(1 / (1 - p), rel=1e-3)
    assert abs(float(out.mean()) - 1) < spread / (1 - p)


def test_dropout_draws_each_number_by_itself():
    """The four numbers of one draw are independent: of p = 0.5 each pair of them agrees half of the time."""
    kept = (dropout(torch.ones(400_000), 0.5, training=True) > 0).view(-1, 4)
    for i in range(4):
        for j in range(i):
            assert abs(float((kept[:, i] == kept[:, j]).float().mean()) - 0.5) < 0.01


def test_dropout_sends_gradients_through_what_was_kept():
    x = torch.randn(4, 7, requires_grad=True)
    out = dropout(x, 0.4, training=True)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(gradient * x, out)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 3, 5)])
def test_dropout_keeps_type_and_shape(dtype, shape):
    out = dropout(torch.ones(shape, dtype=dtype), 0.3, training=True)
    assert (out.dtype, tuple(out.shape)) == (dtype, shape)


def test_dropout_follows_torchs_random_state():
    x, state = torch.ones(100), torch.get_rng_state()
    first = dropout(x, 0.5, training=True)
    other = dropout(x, 0.5, training=True)
    torch.set_rng_state(state)
    assert torch.equal(dropout(x, 0.5, training=True), first)
    assert not torch.equal(first, other)


def test_dropout_of_a_view_is_that_of_its_values():
    x = torch.arange(1.0, 13.0).view(3, 4).t()
    out = dropout(x, 0.5, training=True)
    assert torch.equal(out[out != 0], (2 * x)[out != 0])


def test_dropout_draws_where_its_numbers_are_whatever_the_default_device():
    x = torch.ones(40)
    with torch.device("meta"):
        out = dropout(x, 0.5, training=True)
    assert set(out.tolist()) == {0.0, 2.0}
