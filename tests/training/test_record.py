from __future__ import annotations

import json

import pytest

from glassformer.core.errors import CheckpointError
from glassformer.training.progress import Progress
from glassformer.training.record import MetricsLog, read_metrics
from glassformer.training.run import train

from .tiny import make_trainer, sequences, text_model


@pytest.mark.usefixtures("no_report")
def test_lines_have_the_documented_keys(tmp_path):
    train(sequences(max_steps=4, log_every=2, eval_every=4, norms_every=4), tmp_path / "run")
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl")
    keys = [(row["step"], row["split"], [*row][2:]) for row in rows]
    interval = ["seconds", "loss", "lr", "grad_norm", "tokens_per_second"]
    assert keys == [
        (1, "norms", ["seconds", "norms"]),
        (2, "train", interval),
        (4, "train", interval),
        (4, "norms", ["seconds", "norms"]),
        (4, "valid", ["seconds", "loss", "perplexity", "tokens", "exact_match", "pairs"]),
    ]
    stacks = [f"{stack}.blocks.{layer}" for stack in ("encoder", "decoder") for layer in (0, 1)]
    assert [*rows[0]["norms"]] == stacks
    assert all(value > 0 for value in rows[0]["norms"].values())


def test_resumed_run_drops_the_lines_it_will_write_again(text, tmp_path):
    file = tmp_path / "metrics.jsonl"
    rows = [{"step": step, "split": "train", "loss": float(step)} for step in (2, 4, 6, 8)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 9, "spl')
    trainer = make_trainer(text_model(text))
    trainer.progress.step = 6
    MetricsLog(file).started(trainer)
    assert [row["step"] for row in read_metrics(file)] == [2, 4, 6]
    trainer.progress.step = 0
    MetricsLog(file).started(trainer)
    assert file.read_text() == ""


def test_torn_lines_are_left_out(tmp_path):
    assert read_metrics(tmp_path / "nothing.jsonl") == []
    (tmp_path / "a.jsonl").write_text('{"step": 1}\n\n{"step"\n{"step": 2}\n{"st')
    assert read_metrics(tmp_path / "a.jsonl") == [{"step": 1}, {"step": 2}]


def test_counters_come_back_and_foreign_ones_are_refused():
    progress = Progress(step=3, best=1.5, finished=True)
    assert Progress.from_dict(json.loads(json.dumps(progress.to_dict()))) == progress
    with pytest.raises(CheckpointError, match=r"other counters than this version: \['skipped'\]"):
        Progress.from_dict({name: value for name, value in progress.to_dict().items() if name != "skipped"})
    with pytest.raises(CheckpointError, match=r"\['stepp'\]"):
        Progress.from_dict(progress.to_dict() | {"stepp": 3})
