"""A crash, a full disk or a damaged file costs no checkpoint."""

from __future__ import annotations

import errno
import os
import resource
import tempfile
from pathlib import Path

import pytest

from glassformer.checkpoint.loading import load
from glassformer.checkpoint.tensors import read_tensors, save_tensors
from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.training.run import resume, train
from glassformer.training.state import restore_state, save_state, saved_threads

from .tiny import (
    At,
    Witness,
    assert_same_end,
    in_child,
    interrupt_after,
    make_trainer,
    needs_posix,
    text_model,
    witnessed,
)

pytestmark = [
    needs_posix,
    pytest.mark.usefixtures("no_report"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]

LAST, PREVIOUS, NEW = "last.safetensors", "previous.safetensors", "new-last.safetensors"


def step_of(file: Path) -> str:
    return read_tensors(file)[1]["progress"]


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-8])


@pytest.fixture
def two_states(text, tmp_path) -> Path:
    """A run that was stopped after update 5: last is that, previous is update 4."""
    out = tmp_path / "run"
    train(text_model(text, max_steps=8, save_every=2), out, [Witness(tmp_path / "w"), interrupt_after(5)])
    assert '"step": 5,' in step_of(out / "trainer" / LAST)
    assert '"step": 4,' in step_of(out / "trainer" / PREVIOUS)
    return out


@pytest.fixture
def whole(text, tmp_path) -> Path:
    out = tmp_path / "whole"
    train(text_model(text, max_steps=8, save_every=2), out)
    return out


def test_o25_damaged_last_state_falls_back_to_the_one_before_with_a_warning(two_states, whole, tmp_path):
    cut(two_states / "trainer" / LAST)
    message = r"damaged checkpoint .*last\.safetensors: .*; going on from previous\.safetensors, the state before it"
    with pytest.warns(UserWarning, match=message):
        resume(two_states, [Witness(tmp_path / "again")])
    assert min(witnessed(tmp_path / "again")) == 5
    assert_same_end(two_states, whole)


def test_o25_two_damaged_states_are_a_clear_error_and_nothing_is_touched(two_states):
    for name in (LAST, PREVIOUS):
        cut(two_states / "trainer" / name)
    before = {file.name: file.read_bytes() for file in (two_states / "trainer").iterdir()}
    with pytest.raises(CheckpointError, match=r"damaged checkpoint .*last\.safetensors"):
        resume(two_states)
    assert {file.name: file.read_bytes() for file in (two_states / "trainer").iterdir()} == before


def test_o25_damaged_only_state_is_a_clear_error(two_states):
    (two_states / "trainer" / PREVIOUS).unlink()
    cut(two_states / "trainer" / LAST)
    with pytest.raises(CheckpointError, match=r"damaged checkpoint .*last\.safetensors"):
        resume(two_states)


def test_o25_missing_last_state_falls_back_to_the_one_before(two_states, whole):
    (two_states / "trainer" / LAST).unlink()
    resume(two_states)
    assert_same_end(two_states, whole)


@pytest.mark.parametrize("also_last", [True, False], ids=["before the renames", "between the renames"])
def test_o25_state_that_was_written_but_not_renamed_is_the_newest(two_states, whole, tmp_path, also_last):
    folder = two_states / "trainer"
    content = (folder / LAST).read_bytes()
    if also_last:
        (folder / LAST).write_bytes((folder / PREVIOUS).read_bytes())
    else:
        (folder / LAST).unlink()
    (folder / NEW).write_bytes(content)
    assert saved_threads(folder) == 1
    resume(two_states, [Witness(tmp_path / "again")])
    assert min(witnessed(tmp_path / "again")) == 6
    assert_same_end(two_states, whole)
    assert sorted(file.name for file in folder.iterdir()) == [LAST, PREVIOUS]


def test_o25_damaged_model_file_is_named(two_states):
    cut(two_states / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"damaged checkpoint .*model\.safetensors"):
        load(two_states)


def test_o25_state_of_another_format_is_refused(two_states):
    for name in (LAST, PREVIOUS):
        tensors, metadata = read_tensors(two_states / "trainer" / name)
        save_tensors(two_states / "trainer" / name, tensors, metadata | {"format": "glassformer training state 99"})
    with pytest.raises(CheckpointError, match="is no training state of this version"):
        resume(two_states)


def test_state_with_other_counters_is_refused(two_states):
    for name in (LAST, PREVIOUS):
        tensors, metadata = read_tensors(two_states / "trainer" / name)
        save_tensors(two_states / "trainer" / name, tensors, metadata | {"progress": '{"step": 3}'})
    with pytest.raises(CheckpointError, match="the saved progress has other counters than this version"):
        resume(two_states)


def full_from(moment: int, patch: pytest.MonkeyPatch) -> None:
    """From the n-th flush on, the disk is full."""
    calls = iter(range(1, 10_000))
    flush = os.fsync

    def fsync(number: int) -> None:
        if next(calls) >= moment:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(number)

    patch.setattr("glassformer.core.files.os.fsync", fsync)


@pytest.mark.parametrize("moment", [3, 4, 5, 7, 9, 10])
def test_o25_full_disk_stops_the_run_with_the_last_good_files(text, tmp_path, whole, moment):
    """Flushes 1 and 2 are config.yaml and the empty metrics; then a model and a state every second update."""
    out = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        full_from(moment, patch)
        with pytest.raises(
            CheckpointError, match=r"No space left on device; the file that was there before .* \(it need"
        ):
            train(text_model(text, max_steps=8, save_every=2), out)
    assert not list(out.rglob("*.partial"))
    if (out / "trainer" / LAST).exists():
        assert read_tensors(out / "trainer" / LAST)
        load(out)
    resume(out)  # there is space again
    assert_same_end(out, whole)


@pytest.mark.parametrize("limit_bytes", [600, 5_000, 20_000])
def test_o25_real_limit_of_the_system_is_an_error_and_the_run_goes_on_later(text, tmp_path, whole, limit_bytes):
    """No file may grow beyond the limit: it hits the config, the model and the state, in that order."""
    out = tmp_path / "run"

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
        with pytest.raises(CheckpointError, match="File too large"):
            train(text_model(text, max_steps=8, save_every=2), out)

    assert in_child(work) == 0
    assert not [file for file in out.rglob("*") if file.name.endswith(".partial") or file.name.startswith(".")]
    if (out / "config.yaml").exists():
        resume(out)
    else:
        train(text_model(text, max_steps=8, save_every=2), out)
    assert_same_end(out, whole)


def test_o25_full_disk_while_metrics_are_written_is_a_clear_error(text, tmp_path, monkeypatch):
    def full(path: Path, text: str) -> None:
        raise CheckpointError(f"could not write {path}: No space left on device")

    monkeypatch.setattr("glassformer.training.record.append_text", full)
    with pytest.raises(CheckpointError, match=r"could not write .*metrics\.jsonl: No space left"):
        train(text_model(text), tmp_path / "run")


def test_o25_leftovers_of_a_killed_process_are_removed(two_states):
    leftovers = [
        two_states / "model.safetensors.partial",
        two_states / ".tmpAbCdEf",
        two_states / "trainer" / "last.safetensors.partial",
        two_states / "trainer" / ".tmp012345",
    ]
    for leftover in leftovers:
        leftover.write_bytes(b"half")
    resume(two_states)
    assert not any(leftover.exists() for leftover in leftovers)


def test_o25_folder_that_is_a_file_is_refused_before_the_first_update(text, tmp_path):
    with pytest.raises(ConfigError, match=r"text\.txt is a file, and a run is a folder; choose another --out"):
        train(text_model(text), text)
    with pytest.raises(CheckpointError, match=r"cannot write in .*Not a directory; choose another folder with --out"):
        train(text_model(text), text / "run", [At(1, lambda trainer: pytest.fail("too late"))])


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="users as on POSIX systems")
def test_o25_read_only_folder_is_refused_before_the_first_update(text):
    """As the superuser may write anywhere, a child of theirs becomes somebody else first."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        (root / "text.txt").write_bytes(text.read_bytes())
        (root / "locked").mkdir()
        (root / "locked").chmod(0o555)

        def work() -> None:
            if os.geteuid() == 0:
                os.setuid(65534)
            too_late = At(1, lambda trainer: pytest.fail("too late"))
            for out in (root / "locked", root / "locked" / "run"):
                with pytest.raises(CheckpointError, match=r"Permission denied; choose another folder with --out"):
                    train(text_model(root / "text.txt"), out, [too_late])

        assert in_child(work) == 0


@pytest.mark.parametrize("with_config", [True, False])
def test_folder_that_is_not_empty_is_refused(text, tmp_path, with_config):
    out = tmp_path / "run"
    out.mkdir()
    (out / ("config.yaml" if with_config else "notes.txt")).write_text("task: {name: copy}")
    way = rf", or go on with it: glassformer train --resume {out}" if with_config else ""
    with pytest.raises(ConfigError) as caught:
        train(text_model(text), out)
    assert str(caught.value) == f"{out} is not empty; choose another --out{way}"
    assert [file.name for file in out.iterdir()] == ["config.yaml" if with_config else "notes.txt"]


def test_empty_folder_is_taken(text, tmp_path):
    (tmp_path / "run").mkdir()
    assert train(text_model(text, max_steps=1, warmup=0), tmp_path / "run").result["steps"] == 1


def test_restore_without_any_state_says_so(text, tmp_path):
    trainer = make_trainer(text_model(text))
    assert not restore_state(trainer, tmp_path / "nowhere")
    assert saved_threads(tmp_path / "nowhere") is None
    trainer.update(next(trainer.windows()))
    file = save_state(trainer, tmp_path / "trainer")
    assert file == tmp_path / "trainer" / LAST
    other = make_trainer(text_model(text))
    assert restore_state(other, tmp_path / "trainer")
    assert other.progress == trainer.progress
    assert other.progress.step == 1
