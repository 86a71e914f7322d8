"""Stop + resume = never stopped, bit for bit."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from glassformer.checkpoint.tensors import read_tensors, save_tensors
from glassformer.cli.main import main
from glassformer.core import files
from glassformer.core.errors import CheckpointError
from glassformer.training.callback import Callback
from glassformer.training.recipe import Recipe
from glassformer.training.run import is_finished, resume, train
from glassformer.training.trainer import Trainer

from .tiny import (
    DECODER,
    PYTHON,
    At,
    Witness,
    assert_same_end,
    classification,
    environment,
    in_child,
    interrupt_after,
    needs_posix,
    sequences,
    state,
    text_model,
    translation,
    without_report,
    witnessed,
    write_text_file,
)

pytestmark = [
    needs_posix,
    # Two workers on a machine of one core, and forks beside threads of torch, are meant here.
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]

OFTEN = {"log_every": 4, "eval_every": 5, "norms_every": 3}
"""No two of these fall on the steps where the runs are stopped, so that half-finished intervals are tested too."""

CASES: dict[str, tuple[Callable[[Path], Recipe], tuple[int, int]]] = {
    "encoder-decoder": (lambda text: sequences(**OFTEN), (6, 10)),
    "decoder": (lambda text: text_model(text, **OFTEN), (6, 10)),
    "accumulate 3: epochs end at 4, 8, 12": (lambda text: sequences(accumulate=3, **OFTEN), (6, 8)),
    "decoder, 2 workers": (lambda text: text_model(text, workers=2, **OFTEN), (6, 10)),
    "2 workers, accumulate 3, sgd": (
        lambda text: sequences(workers=2, accumulate=3, optimizer="sgd", lr=0.1, **OFTEN),
        (7, 12),
    ),
    "decoder, adam, paper, fp16": (
        lambda text: text_model(text, optimizer="adam", schedule="paper", precision="fp16", **OFTEN),
        (6, 10),
    ),
    "sgd without momentum, bf16, last, learned positions, untied": (
        lambda text: sequences(
            model={"positions": "learned", "norm_place": "pre", "tied": False},
            optimizer="sgd",
            momentum=0.0,
            schedule="linear",
            precision="bf16",
            select_by="last",
            **OFTEN,
        ),
        (6, 10),
    ),
    "translation in batches of tokens, averaged": (
        lambda text: translation(
            text.parent / "pairs", batch_tokens=10, average=0.75, label_smoothing=0.1, select_by="bleu", **OFTEN
        ),
        (10, 7),
    ),
    "classification in batches of tokens, averaged, 2 workers": (
        lambda text: classification(
            text.parent / "table",
            task={"hide": 0.2},
            batch_tokens=10,
            average=1.0,
            workers=2,
            select_by="accuracy",
            **OFTEN,
        ),
        (6, 11),
    ),
}

RESUME = """
import sys
from pathlib import Path
from training.tiny import Witness, without_report
from glassformer.training import run
run.write_run_report = without_report
for name in sys.argv[1:]:
    folder = Path(name)
    finished = run.resume(folder, [Witness(folder.with_suffix(".jsonl"))])
    assert finished.result and finished.exit_code == 0, folder
"""


@dataclass
class Stopped:
    """A run that went through, and two that were stopped."""

    whole: Path
    parts: dict[int, Path]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Stopped]:
    """Every case: begun here, and finished by one new process."""
    root = tmp_path_factory.mktemp("resume")
    text = write_text_file(root)
    made: dict[str, Stopped] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("glassformer.training.run.write_run_report", without_report)
        for number, (name, (recipe, stops)) in enumerate(CASES.items()):
            whole = root / f"{number}-whole"
            torch.manual_seed(number)  # whatever the global generator has been used for must not matter
            train(recipe(text), whole, [Witness(whole.with_suffix(".jsonl"))])
            parts = {}
            for stop in stops:
                part = parts[stop] = root / f"{number}-{stop}"
                begun = train(recipe(text), part, [Witness(part.with_suffix(".jsonl")), interrupt_after(stop)])
                assert (begun.result, begun.exit_code) == ({}, 130)
                assert state(part)[1].step == stop
            made[name] = Stopped(whole, parts)
    folders = [str(part) for stopped in made.values() for part in stopped.parts.values()]
    tests = Path(__file__).parents[1]
    env = environment()
    env["PYTHONPATH"] += os.pathsep + str(tests)
    subprocess.run([*PYTHON, "-c", RESUME, *folders], env=env, check=True, cwd=root)
    return made


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("which", [0, 1], ids=["within an epoch", "at the end of an epoch"])
def test_o09_resume_in_a_new_process_equals_never_stopping(runs: dict[str, Stopped], name: str, which: int):
    stopped = runs[name]
    part = list(stopped.parts.values())[which]
    whole = witnessed(stopped.whole.with_suffix(".jsonl"))
    assert sorted(whole) == list(range(1, 15))
    assert witnessed(part.with_suffix(".jsonl")) == whole  # items, losses, learning rates, gradient norms
    assert_same_end(part, stopped.whole)


def test_o09_the_runs_that_are_compared_are_no_trivial_ones(runs: dict[str, Stopped]):
    whole = witnessed(runs["encoder-decoder"].whole.with_suffix(".jsonl"))
    items = [item for step in range(1, 11) for batch in whole[step][0] for item in batch]
    assert sorted(items) == list(range(20))
    assert items != list(range(20))
    again = [item for step in range(11, 15) for batch in whole[step][0] for item in batch]
    assert again != items[:8]  # the second epoch has an order of its own
    rates = [whole[step][2] for step in range(1, 15)]
    assert rates[0] == pytest.approx(1e-3 / 4)
    assert max(rates) == rates[3]
    tensors, _, _ = state(runs["encoder-decoder"].whole)
    assert any(name.startswith("optimizer.") and name.endswith("exp_avg_sq") for name in tensors)
    assert not torch.equal(tensors["random.cpu"], torch.Generator().manual_seed(0).get_state())  # dropout drew from it
    assert len(witnessed(runs["accumulate 3: epochs end at 4, 8, 12"].whole.with_suffix(".jsonl"))[4][0]) == 1


def test_o09_workers_change_nothing(runs: dict[str, Stopped]):
    one, other = (runs[name].whole for name in ("decoder", "decoder, 2 workers"))
    assert witnessed(one.with_suffix(".jsonl")) == witnessed(other.with_suffix(".jsonl"))
    assert_same_end(one, other)


KILLED = {"max_steps": 6, "save_every": 2, "eval_every": 3, "log_every": 2, "norms_every": 2}


class Moments:
    """Counts the moments in which a crash could hurt: before and after every flush, rename and line of metrics.

    Args:
        patch: How they are watched.
        last: The moment in which the process is killed; None = never.
    """

    def __init__(self, patch: pytest.MonkeyPatch, last: int | None = None) -> None:
        self.passed, self.last = 0, last
        for owner, name in ((files.os, "fsync"), (Path, "replace"), (Path, "chmod")):
            patch.setattr(owner, name, self._around(getattr(owner, name)))
        patch.setattr("glassformer.training.record.append_text", self._around(files.append_text))

    def _around(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any) -> Any:
            self._pass()
            result = act(*arguments)
            self._pass()
            return result

        return watched

    def _pass(self) -> None:
        self.passed += 1
        if self.passed == self.last:
            os.kill(os.getpid(), signal.SIGKILL)


def count_moments(recipe: Recipe, out: Path) -> int:
    with pytest.MonkeyPatch.context() as patch:
        moments = Moments(patch)
        train(recipe, out)
    return moments.passed


def killed_at(moment: int, recipe: Recipe, out: Path) -> None:
    def work() -> None:
        Moments(pytest.MonkeyPatch(), moment)
        train(recipe, out)

    assert in_child(work) == -signal.SIGKILL


def kill_and_resume(text: Path, root: Path, chosen: Callable[[int], range]) -> None:
    recipe = text_model(text, **KILLED)
    whole = root / "whole"
    total = count_moments(recipe, whole)
    assert total > 60
    tried = 0
    for moment in chosen(total):
        out = root / f"killed-{moment}"
        killed_at(moment, recipe, out)
        if not (out / "config.yaml").exists():
            continue  # nothing had begun
        resume(out)
        assert_same_end(out, whole)
        leftovers = [file for file in out.rglob("*") if file.name.endswith(".partial") or file.name.startswith(".")]
        assert not leftovers, moment
        tried += 1
    assert tried


@pytest.mark.usefixtures("no_report")
def test_o09_run_killed_while_writing_goes_on_to_the_same_end(text, tmp_path):
    kill_and_resume(text, tmp_path, lambda total: range(9, total, total // 9))


@pytest.mark.slow
@pytest.mark.usefixtures("no_report")
def test_o09_run_killed_in_any_moment_of_writing_goes_on_to_the_same_end(text, tmp_path):
    kill_and_resume(text, tmp_path, lambda total: range(1, total + 1))


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("step", [1, 5, 6])
def test_o09_run_killed_after_an_update_goes_on_to_the_same_end(text, tmp_path, step):
    recipe = text_model(text, **KILLED | {"save_every": 5, "eval_every": None})
    train(recipe, tmp_path / "whole")
    kill = At(step, lambda trainer: os.kill(os.getpid(), signal.SIGKILL))
    assert in_child(lambda: train(recipe, tmp_path / "killed", [kill])) == -signal.SIGKILL
    has_state = (tmp_path / "killed" / "trainer").exists()
    assert has_state == (step > 5)  # the kill comes before anything is saved of its own step
    resume(tmp_path / "killed")
    assert_same_end(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.usefixtures("no_report")
def test_o09_run_killed_during_its_last_evaluation_is_judged_after_all(text, tmp_path, monkeypatch):
    recipe = text_model(text, max_steps=4, save_every=2)
    train(recipe, tmp_path / "whole")

    def work() -> None:
        monkeypatch.setattr(
            "glassformer.training.loop.evaluate", lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
        )
        train(recipe, tmp_path / "killed")

    assert in_child(work) == -signal.SIGKILL
    run = resume(tmp_path / "killed")
    assert run.result["best_step"] == 4
    assert_same_end(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.usefixtures("no_report")
def test_o09_run_can_be_stopped_at_every_single_update(text, tmp_path):
    recipe = text_model(text, max_steps=5, log_every=2, eval_every=2, save_every=1)
    train(recipe, tmp_path / "whole")
    out = tmp_path / "often"
    assert train(recipe, out, [interrupt_after(1)]).exit_code == 130
    for step in range(2, 5):
        assert resume(out, [interrupt_after(step)]).exit_code == 130
        assert state(out)[1].step == step
    assert resume(out).result
    assert_same_end(out, tmp_path / "whole")


@pytest.mark.usefixtures("no_report")
def test_o09_run_can_be_stopped_before_its_first_update(text, tmp_path):
    class Hasty(Callback):
        def started(self, trainer: Trainer) -> None:
            signal.raise_signal(signal.SIGTERM)

    recipe = text_model(text, max_steps=4)
    train(recipe, tmp_path / "whole")
    assert train(recipe, tmp_path / "hasty", [Hasty()]).exit_code == 143
    assert state(tmp_path / "hasty")[1].step == 0
    resume(tmp_path / "hasty")
    assert_same_end(tmp_path / "hasty", tmp_path / "whole")


@pytest.mark.usefixtures("no_report")
def test_o09_finished_run_is_only_read(text, tmp_path):
    run = train(text_model(text), tmp_path / "run")
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("*")}
    assert is_finished(tmp_path / "run")
    again = resume(tmp_path / "run")
    assert again.result == run.result
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("*")} == before


@pytest.mark.usefixtures("no_report")
def test_o09_command_line_says_that_a_run_is_finished(text, tmp_path, monkeypatch, capsys):
    out = tmp_path / "run"
    train(text_model(text, max_steps=1, warmup=0), out)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # the program shows warnings in its own way
    monkeypatch.setattr(sys, "argv", ["glassformer", "train", "--resume", str(out)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert capsys.readouterr().out == f"{out} is finished; nothing to resume\n"


@pytest.mark.usefixtures("no_report")
def test_o09_run_killed_before_its_result_is_written_is_finished_by_resume(text, tmp_path, monkeypatch):
    recipe = text_model(text)
    train(recipe, tmp_path / "whole")

    def work() -> None:
        monkeypatch.setattr(
            "glassformer.training.run.write_run_report", lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
        )
        train(recipe, tmp_path / "killed")

    assert in_child(work) == -signal.SIGKILL
    assert not is_finished(tmp_path / "killed")
    resume(tmp_path / "killed")
    assert_same_end(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.usefixtures("no_report")
def test_resume_survives_the_loss_of_the_metrics(text, tmp_path):
    train(text_model(text, eval_every=4), tmp_path / "run", [interrupt_after(6)])
    (tmp_path / "run" / "metrics.jsonl").unlink()
    result = resume(tmp_path / "run").result
    assert result["valid"].keys() == {"loss", "perplexity", "tokens"}


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize(
    ("setting", "value", "named"),
    [("threads", 2, "threads 1 and goes on with 2"), ("precision", "bf16", "precision float32 and goes on with bf16")],
)
def test_o09_another_setting_is_named(text, tmp_path, setting, value, named):
    out = tmp_path / "run"
    train(text_model(text, max_steps=4), out, [interrupt_after(3)])
    content = yaml.safe_load((out / "config.yaml").read_text())
    content["training"][setting] = value
    (out / "config.yaml").write_text(yaml.safe_dump(content))
    with pytest.warns(UserWarning, match=named):
        resume(out)
    assert torch.get_num_threads() == 1  # put back


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize(("name", "value"), [("torch", "2.0.1"), ("device", "cuda")])
def test_o09_another_torch_or_device_is_named(text, tmp_path, name, value):
    out = tmp_path / "run"
    train(text_model(text), out, [interrupt_after(6)])
    file = out / "trainer" / "last.safetensors"
    tensors, metadata = read_tensors(file)
    save_tensors(file, tensors, metadata | {name: value})
    with pytest.warns(UserWarning, match=re.escape(f"with {name} {value} and goes on with {metadata[name]};")):
        resume(out)


@pytest.mark.usefixtures("no_report")
def test_o09_resume_takes_the_threads_that_the_run_began_with(text, tmp_path):
    out = tmp_path / "run"
    seen = []
    torch.set_num_threads(2)
    try:
        train(text_model(text, max_steps=4), out, [interrupt_after(3)])
    finally:
        torch.set_num_threads(1)
    result = resume(out, [At(4, lambda trainer: seen.append(torch.get_num_threads()))]).result
    assert seen == [2]
    assert result["threads"] == 2
    assert torch.get_num_threads() == 1


@pytest.mark.usefixtures("no_report")
def test_training_leaves_the_global_generator_alone(text, tmp_path):
    before = torch.get_rng_state()
    train(text_model(text), tmp_path / "run", [interrupt_after(6)])
    resume(tmp_path / "run")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.usefixtures("no_report")
def test_looking_and_judging_more_often_changes_no_weight(text, tmp_path):
    """Neither an evaluation nor a look at the norms may draw from the generator that dropout draws from."""
    seldom = {"eval_every": None, "norms_every": None, "save_every": None, "select_by": "last"}
    for name, settings in (("seldom", seldom), ("often", {"eval_every": 1, "norms_every": 1, "save_every": 1})):
        train(text_model(text, **seldom | settings), tmp_path / name)
        train(sequences(**seldom | settings), tmp_path / f"{name}-pairs")
    for kind in ("", "-pairs"):
        one, other = (state(tmp_path / f"{name}{kind}")[0] for name in ("seldom", "often"))
        assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_resume_of_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"no run folder: it holds no config\.yaml"):
        resume(tmp_path)


@pytest.mark.usefixtures("no_report")
def test_resume_keeps_the_vocabulary_and_warns_when_the_text_has_changed(text, tmp_path):
    out = tmp_path / "run"
    train(text_model(text), out, [interrupt_after(6)])
    before = (out / "tokenizer.json").read_bytes()
    text.write_text(text.read_text().replace("fox", "FOX"))
    with pytest.warns(UserWarning, match=r"saved with data .* goes on with .* not be bit for bit"):
        resume(out)
    assert (out / "tokenizer.json").read_bytes() == before


@pytest.mark.usefixtures("no_report")
def test_resume_of_a_state_of_another_model_changes_nothing(text, tmp_path):
    out = tmp_path / "run"
    train(text_model(text), out, [interrupt_after(6)])
    file, whole = out / "trainer" / "last.safetensors", (out / "config.yaml").read_text()
    before = file.read_bytes()
    tensors, metadata = read_tensors(file)

    def refused(settings: dict[str, Any], message: str) -> None:
        content = yaml.safe_load(whole)
        content["model"] |= settings
        (out / "config.yaml").write_text(yaml.safe_dump(content))
        with pytest.raises(CheckpointError, match=message):
            resume(out)

    refused({"d_model": 32}, r"another model than .* config\.yaml.*\n  decoder\.input\.d_model is 32, and was 16\n")
    refused({"positions": "alibi"}, r"  decoder\.position_bias is alibi, and was none\nput those settings back")
    refused({"attention": {"window": 2}}, r"  decoder\.blocks\.\*\.attention\.window is 2, and was none\n")
    assert file.read_bytes() == before
    del metadata["config"]  # as an earlier release saved it
    save_tensors(file, tensors, metadata)
    refused({"d_model": 32}, r"has shape \(\d+, 16\), the model needs \(\d+, 32\)")


def test_a_state_is_read_without_running_anything(text, tmp_path, monkeypatch):
    monkeypatch.setattr("glassformer.training.run.write_run_report", without_report)
    train(text_model(text, model=DECODER), tmp_path / "run")
    tensors, progress, metadata = state(tmp_path / "run")
    assert {name.partition(".")[0] for name in tensors} == {"model", "optimizer", "random"}
    assert all(isinstance(json.loads(metadata[name]), dict) for name in ("progress", "optimizer", "scaler"))
    assert progress.finished
    assert sorted(file.name for file in (tmp_path / "run" / "trainer").iterdir()) == [
        "last.safetensors",
        "previous.safetensors",
    ]
