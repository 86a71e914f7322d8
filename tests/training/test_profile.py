from __future__ import annotations

import json

import pytest

from glassformer.checkpoint.whole_folder import PROFILE_FILE
from glassformer.cli.show import profile_lines
from glassformer.training.profile import TIMED, TRACED, WARM, Profile, summary
from glassformer.training.run import train

from .tiny import assert_same_end, sequences, without_report


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("glassformer.training.run.write_run_report", without_report)


def test_a_summary_adds_up():
    """Two updates of 10 ms: 2 forward, of which 0.5 attention, 4 backward, 3 for two laps of the optimizer, 1 data."""
    laps = {
        "data": [0.001, 0.001],
        "forward": [0.002, 0.002],
        "Attention": [0.0005, 0.0005],
        "backward": [0.004, 0.004],
        "optimizer": [0.001, 0.002] * 2,
    }
    found = summary(laps, [0.01, 0.01], [("mm", 0.6, 5), ("add", 0.1, 9)])
    assert found["phases"] == pytest.approx({"data": 1, "forward": 2, "backward": 4, "optimizer": 3, "rest": 1})
    assert found["forward"] == pytest.approx({"Attention": 0.5, "loss and rest": 1.5})
    assert found["overhead"] == pytest.approx(3)
    assert found["operators"][0] == {"name": "mm", "milliseconds": pytest.approx(6), "calls": 5}
    lines = profile_lines(found).splitlines()
    assert lines[0] == "where the time went, mean of 2 updates"
    assert [line.split() for line in lines if line.startswith("  backward")] == [["backward", "4.00", "ms", "36%"]]


def test_a_profiled_run_learns_the_same_and_writes_where_its_time_went(tmp_path):
    steps = {"max_steps": WARM + TIMED + TRACED + 2}
    shown = []
    train(sequences(**steps), tmp_path / "plain")
    (tmp_path / "run").mkdir()
    train(sequences(**steps), tmp_path / "run", [Profile(tmp_path / "run", shown.append)])
    assert_same_end(tmp_path / "plain", tmp_path / "run")
    found = json.loads((tmp_path / "run" / PROFILE_FILE).read_text())
    assert shown == [found]
    assert found["updates"] == TIMED
    assert set(found["forward"]) == {"Input", "Attention", "FeedForward", "LayerNorm", "Head", "loss and rest"}
    assert all(spent >= 0 for spent in [*found["phases"].values(), *found["forward"].values()])
    assert any(row["name"] in ("mm", "addmm") for row in found["operators"])


@pytest.mark.parametrize("timed", [3, TIMED])
def test_a_run_that_ends_early_is_profiled_as_far_as_it_went(tmp_path, timed):
    train(sequences(max_steps=WARM + timed), tmp_path / "run", [Profile(tmp_path, lambda found: None)])
    found = json.loads((tmp_path / PROFILE_FILE).read_text())
    assert (found["updates"], found["operators"]) == (timed, [])
