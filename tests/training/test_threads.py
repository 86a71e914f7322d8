from __future__ import annotations

import pytest
import torch

from glassformer.core.errors import ConfigError
from glassformer.training import threads
from glassformer.training.config import TrainingConfig
from glassformer.training.threads import fastest_threads

from .tiny import make_trainer, sequences


@pytest.fixture
def two():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("many", "chosen"), [(0.5, 2), (0.95, 1), (2.0, 1)])
def test_more_threads_are_taken_where_they_are_a_tenth_faster(two, monkeypatch, many, chosen):
    """By a clock on which a pass of one thread takes a second."""
    now = [0.0]
    trainer = make_trainer(sequences())
    plain = trainer.plain_loss

    def passing(batch):
        now[0] += 1.0 if torch.get_num_threads() == 1 else many
        return plain(batch)

    monkeypatch.setattr(trainer, "plain_loss", passing)
    monkeypatch.setattr(threads.time, "perf_counter", lambda: now[0])
    assert fastest_threads(trainer) == chosen


def test_measuring_threads_changes_nothing(two):
    trainer = make_trainer(sequences())
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    state = torch.get_rng_state()
    fastest_threads(trainer)
    assert torch.get_num_threads() == 2
    assert torch.equal(torch.get_rng_state(), state)
    assert trainer.progress.step == 0
    assert all(torch.equal(value, before[name]) for name, value in trainer.model.state_dict().items())
    assert all(parameter.grad is None for parameter in trainer.model.parameters())


def test_threads_are_a_number_or_auto():
    assert TrainingConfig.parse({"threads": "auto"}).threads == "auto"
    assert TrainingConfig.parse({"threads": "2"}).threads == 2
    assert TrainingConfig.parse({"threads": "null"}).threads is None
    for wrong in ("many", "0", "2000"):
        with pytest.raises(ConfigError, match="threads"):
            TrainingConfig.parse({"threads": wrong})
