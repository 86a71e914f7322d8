"""Ctrl-C and SIGTERM end a run without losing it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import yaml

from glassformer.training.interrupt import Interrupts, StopNow
from glassformer.training.recipe import make_recipe
from glassformer.training.run import read_recipe, resume, train

from .tiny import COMMAND, DECODER, assert_same_end, environment, interrupt_after, needs_posix, state, write_text_file

pytestmark = [
    needs_posix,
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


@dataclass(frozen=True)
class Case:
    """A run of the command line that is ended from outside.

    Attributes:
        signal: What is sent.
        workers: Processes that prepare batches.
        group: Whether it is sent to all processes, as a terminal does with Ctrl-C and a service manager with SIGTERM.
    """

    signal: signal.Signals
    workers: int
    group: bool


CASES = {
    "SIGINT": Case(signal.SIGINT, 0, False),
    "Ctrl-C with 2 workers": Case(signal.SIGINT, 2, True),
    "SIGTERM": Case(signal.SIGTERM, 0, False),
    "SIGTERM with 2 workers": Case(signal.SIGTERM, 2, True),
}


def recipe_file(folder: Path, text: Path, workers: int) -> Path:
    """1,000 quick updates, a state every 500, within one epoch."""
    content = {
        "task": {"name": "language_model", "text": str(text), "context": 8},
        "model": DECODER | {"n_layers": 1},
        "training": {
            "max_steps": 1000,
            "batch_size": 2,
            "save_every": 500,
            "log_every": 1,
            "precision": "float32",
            "threads": 1,
            "workers": workers,
        },
    }
    file = folder / f"recipe-{workers}.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return file


def steps_logged(out: Path) -> int:
    file = out / "metrics.jsonl"
    return file.read_bytes().count(b'"train"') if file.exists() else 0


def children(pid: int) -> list[int]:
    file = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in file.read_text().split()] if file.exists() else []


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@dataclass
class Ended:
    """What a run that was ended from outside left behind."""

    out: Path
    code: int
    output: str
    error: str
    workers: list[int]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Ended]]:
    """Every case, all at once: begun by the command line and sent its signal during update 37 or soon after."""
    root = tmp_path_factory.mktemp("interrupt")
    text = write_text_file(root, windows=2010)
    started: dict[str, tuple[Path, subprocess.Popen[str]]] = {}
    results: dict[str, Ended] = {}
    try:
        for number, (name, case) in enumerate(CASES.items()):
            out = root / f"run {number}"  # with a space, which the printed command has to quote
            command = [*COMMAND, "train", str(recipe_file(root, text, case.workers)), "--out", str(out)]
            started[name] = (
                out,
                subprocess.Popen(
                    command,
                    env=environment(),
                    cwd=root,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                ),
            )
        waiting = dict(started)
        workers = {}
        give_up = time.monotonic() + 600  # of a machine that is busy with much else
        while waiting and time.monotonic() < give_up:
            for name, (out, process) in list(waiting.items()):
                if process.poll() is None and steps_logged(out) < 36:
                    continue
                workers[name] = children(process.pid)
                send = os.killpg if CASES[name].group else os.kill
                if process.poll() is None:
                    send(process.pid, CASES[name].signal)
                del waiting[name]
            time.sleep(0.005)
        for name, (out, process) in started.items():
            output, error = process.communicate(timeout=300)
            results[name] = Ended(out, process.returncode, output, error, workers.get(name, []))
        yield results
    finally:
        for _, process in started.values():
            if process.poll() is None:
                process.kill()


@pytest.mark.parametrize("name", CASES)
def test_o33_signal_ends_the_run_with_the_code_that_a_shell_expects(ended: dict[str, Ended], name: str):
    end = ended[name]
    assert end.code == {signal.SIGINT: 130, signal.SIGTERM: 143}[CASES[name].signal], end.error
    assert end.error == ""


@pytest.mark.parametrize("name", CASES)
def test_o33_current_update_is_finished_and_saved(ended: dict[str, Ended], name: str):
    end = ended[name]
    _, progress, _ = state(end.out)
    assert 36 <= progress.step < 950
    assert not progress.finished
    assert steps_logged(end.out) == progress.step == progress.batch
    assert (end.out / "model.safetensors").exists()
    assert not (end.out / "result.json").exists()
    assert not list(end.out.rglob("*.partial"))


@pytest.mark.parametrize("name", CASES)
def test_o33_path_and_resume_command_are_printed(ended: dict[str, Ended], name: str):
    end = ended[name]
    assert f"stopped; saved in {end.out / 'trainer'}" in end.output
    found = re.search(r"go on with: glassformer (.*)", end.output)
    assert found
    assert shlex.split(found[1]) == ["train", "--resume", str(end.out)]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found as on Linux")
@pytest.mark.parametrize("name", CASES)
def test_o33_workers_end_with_the_run(ended: dict[str, Ended], name: str):
    end = ended[name]
    assert len(end.workers) >= CASES[name].workers
    assert not [pid for pid in end.workers if is_running(pid)]


def at_step(out: Path, step: int) -> dict[str, torch.Tensor]:
    assert resume(out, [interrupt_after(step)]).exit_code == 130
    tensors, progress, _ = state(out)
    assert progress.step == step
    return tensors


def test_o33_resumed_run_is_what_the_uninterrupted_one_is(ended: dict[str, Ended], tmp_path):
    """Compared 30 updates after the last interruption; to the very end in the slow test."""
    step = max(state(end.out)[1].step for end in ended.values()) + 30
    uninterrupted = tmp_path / "run"
    train(read_recipe(ended["SIGINT"].out), uninterrupted, [interrupt_after(step)])
    expected = state(uninterrupted)[0]
    for name, end in ended.items():
        tensors = at_step(end.out, step)
        assert tensors.keys() == expected.keys()
        different = [key for key, tensor in tensors.items() if not torch.equal(tensor, expected[key])]
        assert not different, name


@pytest.mark.slow
def test_o33_resume_command_that_is_printed_leads_to_the_same_end(ended: dict[str, Ended], tmp_path):
    recipe = read_recipe(ended["SIGINT"].out)
    train(recipe, tmp_path / "run")
    for end in ended.values():
        found = re.search(r"go on with: glassformer (.*)", end.output)
        assert found
        command = [*COMMAND, *shlex.split(found[1])]
        subprocess.run(command, env=environment(), check=True, capture_output=True)
        assert_same_end(end.out, tmp_path / "run")
        again = subprocess.run(command, env=environment(), check=True, capture_output=True, text=True)
        assert again.stdout == f"{end.out} is finished; nothing to resume\n"


def test_second_signal_ends_at_once():
    with Interrupts() as interrupts:
        assert not interrupts()
        assert interrupts.exit_code == 0
        signal.raise_signal(signal.SIGTERM)
        assert interrupts()
        assert interrupts.exit_code == 143
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_signal_is_told_of_beside_what_is_being_printed():
    """By a thread of its own: in the midst of a line the line would be written twice."""
    told: list[tuple[bool, bool]] = []
    here = threading.current_thread()
    with Interrupts(lambda now: told.append((now, threading.current_thread() is here))):
        signal.raise_signal(signal.SIGINT)
    assert told == [(False, False)]


def test_first_signal_ends_an_update_that_is_compiled():
    told: list[bool] = []
    with Interrupts(told.append, lambda: True) as interrupts, pytest.raises(StopNow):
        signal.raise_signal(signal.SIGINT)
    assert told == [True]
    assert interrupts.exit_code == 130


def test_handlers_are_put_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with Interrupts(), pytest.raises(KeyError):  # noqa: PT012
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] != before
        raise KeyError
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_training_works_outside_of_the_main_thread(text, tmp_path, monkeypatch):
    monkeypatch.setattr("glassformer.training.run.write_run_report", lambda *arguments: None)
    settings = {"max_steps": 2, "batch_size": 2, "warmup": 0, "precision": "float32"}
    recipe = make_recipe(
        {"task": {"name": "language_model", "text": str(text), "context": 8}, "model": DECODER, "training": settings}
    )
    results = []
    thread = threading.Thread(target=lambda: results.append(train(recipe, tmp_path / "run").result))
    thread.start()
    thread.join()
    assert results[0]["steps"] == 2
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == results[0]
