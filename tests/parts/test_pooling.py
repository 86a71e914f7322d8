"""One vector for each row: what a slot without a token holds never counts."""

from __future__ import annotations

import math

import pytest
import torch

from glassformer.core.places import Places
from glassformer.parts.pooling import first_token, last_token, mean_token, pool

X = torch.tensor([[1.0, 2.0, 4.0, 8.0], [16.0, 32.0, 64.0, 128.0]]).unsqueeze(-1)
GAPS = torch.tensor([[False, True, False, True], [True, False, True, False]])


@pytest.mark.parametrize(
    ("places", "mean", "first", "last"),
    [
        (Places.full(4), [3.75, 60.0], [1.0, 16.0], [8.0, 128.0]),
        (Places.from_lengths([2, 4], 4), [1.5, 60.0], [1.0, 16.0], [2.0, 128.0]),
        (Places.from_lengths([2, 1], 4, side="left"), [6.0, 128.0], [4.0, 128.0], [8.0, 128.0]),
        (Places.from_lengths([1, 1], 4), [1.0, 16.0], [1.0, 16.0], [1.0, 16.0]),
        (Places.from_lengths([0, 3], 4), [0.0, 112 / 3], [0.0, 16.0], [0.0, 64.0]),
        (Places.from_keep(GAPS), [5.0, 40.0], [2.0, 16.0], [8.0, 64.0]),
        (Places.from_keep(GAPS[:1]), [5.0, 80.0], [2.0, 32.0], [8.0, 128.0]),
    ],
    ids=["plain", "right", "left", "one token", "empty row", "gaps", "one row of places for all"],
)
def test_pooled_states_are_those_of_the_tokens(places, mean, first, last):
    for how, expected in (("mean", mean), ("first", first), ("last", last)):
        torch.testing.assert_close(pool(X, places, how), torch.tensor(expected).unsqueeze(-1))


@pytest.mark.parametrize("how", [mean_token, first_token, last_token])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("rubbish", [7.0, math.nan, math.inf])
def test_what_stands_in_padding_counts_neither_forward_nor_backward(how, side, rubbish):
    places = Places.from_lengths([0, 2, 3], 3, side=side)
    x = torch.randn(3, 3, 5, dtype=torch.float64)
    x[~places.is_token] = rubbish
    x.requires_grad_()
    pooled = how(x, places)
    assert pooled.shape == (3, 5)
    assert pooled[0].eq(0).all()
    alone = how(x[1:2][:, places.is_token[1]], Places.full(2))
    torch.testing.assert_close(pooled[1:2], alone)
    (gradient,) = torch.autograd.grad(pooled.sum(), x)
    assert gradient[~places.is_token].eq(0).all()
    torch.testing.assert_close(gradient.sum(1), torch.tensor([[0.0], [1.0], [1.0]]).double().expand(3, 5))


def test_mean_of_half_precision_is_added_up_in_float32():
    """4 times 30,000 is more than float16 can hold; the mean is not."""
    x = torch.full((1, 4, 1), 30_000.0, dtype=torch.float16)
    pooled = mean_token(x, Places.full(4))
    assert (pooled.dtype, pooled.item()) == (torch.float16, 30_000.0)
