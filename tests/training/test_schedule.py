from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError
from glassformer.training.config import TrainingConfig
from glassformer.training.schedule import decayed, learning_rate, paper


def rates(config: TrainingConfig, d_model: int = 512) -> list[float]:
    return [learning_rate(step, config, d_model) for step in range(1, config.max_steps + 1)]


@pytest.mark.parametrize(
    ("step", "expected"), [(1, 1.746928e-07), (2, 3.493856e-07), (4000, 6.987712e-04), (8000, 4.941059e-04)]
)
def test_o24_paper_has_the_published_rates(step, expected):
    assert paper(step, 512, 4000) == pytest.approx(expected, rel=1e-6)
    config = TrainingConfig(schedule="paper", lr=None, warmup=4000, max_steps=100_000)
    assert learning_rate(step, config, 512) == paper(step, 512, 4000)


def test_o24_paper_without_warmup_begins_at_its_peak():
    assert paper(1, 512, 0) == 512**-0.5 == pytest.approx(0.0441942, rel=1e-6)
    assert paper(4, 512, 0) == pytest.approx(512**-0.5 / 2)


def test_o24_paper_with_a_peak_of_its_own_keeps_its_shape():
    for warmup in (0, 1, 400):
        config = TrainingConfig(schedule="paper", lr=1e-3, warmup=warmup, max_steps=2000)
        found = rates(config)
        assert max(found) == found[max(1, warmup) - 1] == pytest.approx(1e-3)
        shape = rates(TrainingConfig(schedule="paper", lr=None, warmup=warmup, max_steps=2000))
        assert found == pytest.approx([rate * 1e-3 / max(shape) for rate in shape])


@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant"])
def test_o24_warmup_as_long_as_training_ends_at_the_peak(schedule):
    found = rates(TrainingConfig(schedule=schedule, warmup=100, max_steps=100, lr=1e-3))
    assert found == pytest.approx([1e-3 * step / 100 for step in range(1, 101)])
    assert found[-1] == 1e-3


def test_o24_warmup_longer_than_training_is_refused():
    with pytest.raises(ConfigError, match="warmup takes 101 updates, but max_steps is only 100"):
        TrainingConfig(warmup=101, max_steps=100)
    TrainingConfig(schedule="paper", warmup=4000, max_steps=100)  # its formula means it


@pytest.mark.parametrize(("warmup", "steps"), [(0.0, 0), (0.05, 50), (0.9999, 1000), (1.0, 1), (2, 2), (1000.0, 1000)])
def test_warmup_is_a_share_below_one_and_a_number_from_one(warmup, steps):
    assert TrainingConfig(warmup=warmup, max_steps=1000).warmup_steps == steps


def test_warmup_of_one_and_a_half_updates_is_refused():
    with pytest.raises(ConfigError, match="give whole updates from 1, or a share of max_steps below 1"):
        TrainingConfig(warmup=1.5)


def test_linear_goes_down_in_equal_steps():
    found = rates(TrainingConfig(schedule="linear", warmup=2, max_steps=6, lr=1.0, final_lr=0.5))
    assert found == pytest.approx([0.5, 1.0, 0.9, 0.8, 0.7, 0.6])
    found = rates(TrainingConfig(schedule="linear", warmup=0, max_steps=4, lr=1.0))
    assert found == pytest.approx([1.0, 0.75, 0.5, 0.25])


def test_cosine_is_halfway_down_in_the_middle():
    found = rates(TrainingConfig(schedule="cosine", warmup=0, max_steps=4, lr=1.0, final_lr=0.2))
    assert found[0] == 1.0
    assert found[2] == pytest.approx(0.6)
    assert decayed("cosine", 1.0, 0.2) == pytest.approx(0.2)


CONFIGS = st.builds(
    lambda schedule, max_steps, share, final, lr: TrainingConfig(
        schedule=schedule,
        max_steps=max_steps,
        warmup=float(round(share * max_steps)),
        final_lr=final,
        lr=lr,
    ),
    st.sampled_from(["paper", "cosine", "linear", "constant"]),
    st.integers(1, 300),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(1e-8, 10),
)


@given(CONFIGS)
def test_o24_rates_are_positive_rise_to_the_peak_and_never_rise_after_it(config):
    """No update is made with a rate of 0, the peak is `lr` and comes at the end of the warm-up."""
    found = rates(config)
    peak = max(1, config.warmup_steps)
    assert all(rate > 0 and math.isfinite(rate) for rate in found)
    assert found[peak - 1] == pytest.approx(config.lr, rel=1e-12)
    assert all(later > earlier for earlier, later in pairwise(found[:peak]))
    slack = 1 + 1e-12
    assert all(later <= earlier * slack for earlier, later in pairwise(found[peak - 1 :]))
    assert max(found) <= config.lr * slack
    if config.schedule in ("cosine", "linear"):
        assert min(found[peak - 1 :]) >= config.lr * config.final_lr * (1 - 1e-12)


@given(st.integers(1, 10_000), st.integers(1, 4096), st.integers(0, 10_000))
def test_o24_paper_is_defined_everywhere(step, d_model, warmup):
    rate = paper(step, d_model, warmup)
    assert 0 < rate <= d_model**-0.5 * (1 + 1e-12)
    if warmup:
        assert rate == pytest.approx(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))
