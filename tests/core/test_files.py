from __future__ import annotations

import errno
import json
import math
import os
import resource
import signal
from pathlib import Path

import pytest

from glassformer.core.errors import CheckpointError
from glassformer.core.files import (
    append_text,
    ensure_writable,
    remove_leftovers,
    to_json,
    write_atomically,
    write_json,
    write_text,
)

forks = [
    pytest.mark.skipif(os.name != "posix", reason="forks as on POSIX systems"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def torn(path: Path) -> None:
    path.write_bytes(b"x" * 1024)
    raise OSError(errno.ENOSPC, "No space left on device")


def test_text_is_written_as_utf8_with_unix_line_ends(tmp_path):
    write_text(tmp_path / "a.txt", "闫🎉\nb\n")
    assert (tmp_path / "a.txt").read_bytes() == "闫🎉\nb\n".encode()
    assert names(tmp_path) == ["a.txt"]


def test_o25_full_disk_leaves_the_old_file_and_says_how_much_was_needed(tmp_path):
    file = tmp_path / "last"
    write_text(file, "good")
    with pytest.raises(CheckpointError) as caught:
        write_atomically(file, torn, 3 * 2**20)
    assert "No space left on device" in str(caught.value)
    assert "the file that was there before is untouched (it needs about 3.0 MiB," in str(caught.value)
    assert str(caught.value).endswith("MiB are free)")
    assert file.read_text() == "good"
    assert names(tmp_path) == ["last"]


def test_o25_an_error_that_is_not_the_disks_stays_what_it_is(tmp_path):
    def broken(path: Path) -> None:
        path.write_text("half")
        raise RuntimeError("a bug")

    write_text(tmp_path / "last", "good")
    with pytest.raises(RuntimeError, match="a bug"):
        write_atomically(tmp_path / "last", broken)
    assert (tmp_path / "last").read_text() == "good"
    assert names(tmp_path) == ["last"]


@pytest.mark.parametrize("stage", ["before", "after"])
def test_o25_kill_leaves_the_old_file_or_the_new_one(tmp_path, stage):
    """SIGKILL within the write, or after it and before the rename: the old file is whole, and beside it a leftover."""
    file = tmp_path / "last"
    write_text(file, "good")
    pid = os.fork()
    if pid == 0:

        def write(path: Path) -> None:
            path.write_text("half" if stage == "before" else "whole")
            if stage == "before":
                os.kill(os.getpid(), signal.SIGKILL)

        os.fsync = lambda number: os.kill(os.getpid(), signal.SIGKILL)
        write_atomically(file, write)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert file.read_text() == "good"
    assert names(tmp_path) == ["last", "last.partial"]
    remove_leftovers(tmp_path)
    assert names(tmp_path) == ["last"]
    write_text(file, "newer")
    assert file.read_text() == "newer"


test_o25_kill_leaves_the_old_file_or_the_new_one.pytestmark.extend(forks)  # type: ignore[attr-defined]


def test_o25_a_leftover_is_no_hindrance(tmp_path):
    (tmp_path / "last.partial").write_text("of a process that was killed")
    write_text(tmp_path / "last", "good")
    assert names(tmp_path) == ["last"]


def test_o25_remove_leftovers_takes_nothing_else(tmp_path):
    for name in ("last.partial", ".tmpa1B2c3", "last", ".hidden", ".tmp", "partial", "tmpa1B2c3"):
        (tmp_path / name).write_text("")
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [".hidden", ".tmp", "last", "partial", "tmpa1B2c3"]
    remove_leftovers(tmp_path / "not there")


def test_o25_a_real_limit_of_the_system_is_a_clear_error(tmp_path):
    """A file may not grow beyond 1 KiB in this child: Python's own writing, and the appending."""
    write_text(tmp_path / "last", "good")
    pid = os.fork()
    if pid == 0:
        code = 0
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
        for write in (write_text, append_text):
            try:
                write(tmp_path / "last", "x" * 5000)
                code = 1
            except CheckpointError as error:
                code |= 0 if "File too large" in str(error) else 2
            except BaseException:
                code |= 4
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert (tmp_path / "last").read_text().startswith("good")
    assert names(tmp_path) == ["last"]


test_o25_a_real_limit_of_the_system_is_a_clear_error.pytestmark = forks  # type: ignore[attr-defined]


def test_append_goes_on_at_the_end_and_refuses_clearly(tmp_path):
    append_text(tmp_path / "a", "1\n")
    append_text(tmp_path / "a", "二\n")
    assert (tmp_path / "a").read_bytes() == "1\n二\n".encode()
    with pytest.raises(CheckpointError, match=r"could not write .*no such folder.*No such file"):
        append_text(tmp_path / "no such folder" / "a", "1")


def test_a_new_file_has_the_rights_that_the_user_wants_for_new_files(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a", "1")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_o25_folder_that_cannot_be_written_is_refused_before_any_work(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"cannot write in .*choose another folder with --out"):
        ensure_writable(tmp_path / "file" / "run")
    with pytest.raises(CheckpointError, match=r"choose another folder with --png"):
        ensure_writable(tmp_path / "file" / "run", "--png")
    ensure_writable(tmp_path / "new" / "run")
    assert names(tmp_path / "new" / "run") == []


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_o25_read_only_folder_is_refused_before_any_work(tmp_path):
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(CheckpointError, match=r"Permission denied; choose another folder"):
            ensure_writable(tmp_path)
    finally:
        tmp_path.chmod(0o755)


def test_json_is_standard_and_keeps_infinities(tmp_path):
    content = {"a": math.inf, "b": -math.inf, "c": 1.5, "d": "Infinity: Infinity, no", "e": {"f": math.inf}}
    write_json(tmp_path / "a.json", content)

    def refuse(word: str) -> float:
        raise AssertionError(f"{word} is no JSON")

    for text in ((tmp_path / "a.json").read_text(), to_json(content)):
        assert json.loads(text, parse_constant=refuse) == content


def test_o25_a_folder_that_was_left_is_no_hindrance_either(tmp_path):
    """A conversion that was killed leaves a folder where a run may go on."""
    (tmp_path / "folder.partial").mkdir()
    (tmp_path / "folder.partial" / "model.safetensors").write_text("half")
    (tmp_path / "last").write_text("good")
    remove_leftovers(tmp_path)
    assert names(tmp_path) == ["last"]
