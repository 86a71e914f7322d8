"""A training that is stopped, fails or goes on: what is said, and what stays."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from glassformer.core.errors import DivergenceError
from glassformer.training.trainer import Trainer

from .calling import SEQUENCES, TEXT, call, refused, sets


def interrupt_after(monkeypatch: pytest.MonkeyPatch, step: int, times: int = 1) -> None:
    """Press Ctrl-C while an update is made."""
    update = Trainer.update

    def pressed(self: Trainer, *arguments: Any) -> Any:
        done = update(self, *arguments)
        if done.step == step:
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
        return done

    monkeypatch.setattr(Trainer, "update", pressed)


def test_ctrl_c_stops_after_the_update_and_resume_gives_the_same_model(
    reverse_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path("我的 run's")
    with monkeypatch.context() as patch:
        interrupt_after(patch, 2)
        stopped = call("train", "reverse", "--out", folder, *sets(*SEQUENCES))
    assert stopped.exit_code == 130
    assert stopped.stderr == ""
    way_on = stopped.stdout.splitlines()[-1]
    assert way_on.startswith("go on with: glassformer train --resume ")
    resumed = call(*shlex.split(way_on)[4:])
    assert resumed.exit_code == 0
    assert "resumed  after update 2" in resumed.stdout
    assert "expect " not in resumed.stdout
    one, other = (load_file(run / "model.safetensors") for run in (folder, reverse_run))
    assert all(torch.equal(one[name], other[name]) for name in one), "bit for bit the uninterrupted run"


def test_second_ctrl_c_stops_at_once_and_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        interrupt_after(patch, 2, times=2)
        stopped = call("train", "reverse", "--out", "run", *sets(*SEQUENCES))
    assert stopped.exit_code == 130
    assert stopped.stderr == "stopped; go on with: glassformer train --resume run\n"
    assert call("train", "--resume", "run").exit_code == 0, "also before anything was saved"


def test_ctrl_c_while_the_data_is_prepared_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(*arguments: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("glassformer.tasks.sequences.draw_held_out", draw)
    refused(call("train", "reverse", *sets(*SEQUENCES)), "stopped", code=130)
    assert list(Path("runs").iterdir()) == []


def test_ctrl_c_twice_ends_an_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(*arguments: Any) -> None:
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr("glassformer.training.loop.judge", judge)
        stopped = call("train", "reverse", "--out", "run", *sets(*SEQUENCES))
    assert (stopped.exit_code, stopped.stderr) == (130, "stopped; go on with: glassformer train --resume run\n")
    assert call("train", "--resume", "run").exit_code == 0


def test_divergence_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def diverge(self: Trainer, *arguments: Any) -> None:
        raise DivergenceError("the loss of update 1 is not finite")

    monkeypatch.setattr(Trainer, "update", diverge)
    result = call("train", "reverse", "--out", "run", *sets(*SEQUENCES))
    assert result.exit_code == 1
    assert "the loss of update 1 is not finite" in result.stderr
    assert "Lower training.lr" in result.stderr
    assert "run" in result.stderr.splitlines()[-1]


def test_huge_learning_rate_is_an_error_and_no_traceback() -> None:
    result = call("train", "reverse", "--out", "run", *sets(*SEQUENCES, "training.lr=1e30"))
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) <= 6  # one screen: what, where and how to go on


def test_resume_of_a_finished_run_says_so(reverse_run: Path) -> None:
    result = call("train", "--resume", reverse_run)
    assert result.exit_code == 0
    assert result.stdout == f"{reverse_run} is finished; nothing to resume\n"


def test_resume_without_a_run_is_refused() -> None:
    refused(call("train", "--resume", "missing"), "missing is no run folder")
    Path("empty").mkdir()
    refused(call("train", "--resume", "empty"), "empty is no run folder: it holds no config.yaml")
    Path("file").touch()
    refused(call("train", "--resume", "file"), "file is no run folder")


@pytest.mark.parametrize(
    "more", [["reverse"], ["--set", "training.seed=1"], ["--out", "x"], ["--precision", "bf16", "--threads", "1"]]
)
def test_resume_takes_nothing_but_a_device_and_threads(more: list[str], reverse_run: Path) -> None:
    refused(call("train", *more, "--resume", reverse_run), "nothing with it but --device and --threads", code=2)


def test_resume_on_another_device_or_with_other_threads(reverse_run: Path, copied: Callable[[Path], Path]) -> None:
    run = copied(reverse_run)
    (run / "result.json").unlink()
    refused(call("train", "--resume", run, "--device", "gpu"), "device is 'gpu'; choose auto, cpu, cuda or mps")
    saved = json.loads((reverse_run / "result.json").read_text("utf-8"))["threads"]
    with pytest.warns(UserWarning, match=f"saved with threads {saved} and goes on with {saved + 1}"):
        result = call("train", "--resume", run, "--device", "cpu", "--threads", str(saved + 1))
    assert result.exit_code == 0, result.output
    assert json.loads((run / "result.json").read_text("utf-8"))["threads"] == saved + 1


def test_a_text_that_nobody_named_is_said_to_be_a_stand_in(text_run: Path, book: Path) -> None:
    few = sets(*TEXT, "training.max_steps=1", "training.warmup=0")
    said = call("train", "language_model", "--out", "run", *few).stdout
    assert "data     no text was named, and these stand in for it: --set task.text=FILE\n" in said
    assert "stand in" not in call("train", "language_model", "--out", "own", *few, "--set", f"task.text={book}").stdout


def test_resume_of_a_run_with_a_damaged_config_names_the_file(
    reverse_run: Path, copied: Callable[[Path], Path]
) -> None:
    config = copied(reverse_run) / "config.yaml"
    (config.parent / "result.json").unlink()
    good = config.read_bytes()
    for bad, words in (
        (b"task: [", "config.yaml is not readable YAML"),
        (b"\xff\xfe\x00", "config.yaml is not UTF-8"),
        (good.replace(b"max_steps", b"max_stepz"), "config.yaml: training.max_stepz is not a setting; did you mean"),
    ):
        config.write_bytes(bad)
        refused(call("train", "--resume", config.parent), words)


@pytest.mark.parametrize("damage", [b"", b"not a state at all", 4000 * b"\x7f"])
def test_resume_with_a_damaged_state_goes_on_from_the_one_before_or_refuses(
    damage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        interrupt_after(patch, 3)
        call("train", "reverse", "--out", "run", *sets(*SEQUENCES, "training.save_every=1"))
    last, previous = Path("run/trainer/last.safetensors"), Path("run/trainer/previous.safetensors")
    assert last.exists()
    assert previous.exists()
    shutil.copytree("run", "other")
    last.write_bytes(damage)
    with pytest.warns(UserWarning, match="going on from previous.safetensors"):
        result = call("train", "--resume", "run")
    assert result.exit_code == 0
    for name in ("last", "previous"):
        Path(f"other/trainer/{name}.safetensors").write_bytes(damage)
    said = refused(call("train", "--resume", "other"), "damaged checkpoint other/trainer/last.safetensors")
    assert "Traceback" not in said


@pytest.mark.skipif(os.name == "nt", reason="needs a limit on the size of files")
def test_full_disk_is_told_and_what_was_saved_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    with monkeypatch.context() as patch:
        interrupt_after(patch, 2)
        call("train", "reverse", "--out", "run", *sets(*SEQUENCES, "training.save_every=1"))
    state = Path("run/trainer/last.safetensors")
    before = state.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        result = call("train", "--resume", "run")
        first = call("train", "reverse", "--out", "new", *sets(*SEQUENCES))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    for failed in (result, first):
        assert failed.exit_code == 1
        assert failed.stderr.startswith("error: could not write ")
        assert "File too large" in failed.stderr
        assert "MiB are free" in failed.stderr
    assert state.read_bytes() == before
    assert not list(Path().rglob("*.partial"))
    assert call("train", "--resume", "run").exit_code == 0
    assert call("train", "--resume", "new").exit_code == 0
