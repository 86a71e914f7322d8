from __future__ import annotations

import pytest
import torch

from glassformer.bench import gains_training
from glassformer.bench.gains_training import gains


@pytest.fixture(scope="module")
def plain_gains():
    """Without the compiled one, which tests/training holds against the plain updates."""
    torch.manual_seed(0)
    before, gains_training.no_compiler = gains_training.no_compiler, lambda: "not here"
    try:
        yield gains()
    finally:
        gains_training.no_compiler = before


def test_every_gain_gives_what_the_slow_way_gives(plain_gains):
    """float32 sums in another order: 1e-5 of the largest number; dropout keeps exactly what it drew."""
    apart = {gain.name: gain.differ() for gain in plain_gains}
    assert len(apart) == len(plain_gains)
    assert apart.pop("dropout") == 0.0
    assert all(differs < 1e-5 for differs in apart.values()), apart


def test_both_ways_of_every_gain_can_be_timed(plain_gains):
    for gain in plain_gains:
        gain.slow()
        gain.fast()
