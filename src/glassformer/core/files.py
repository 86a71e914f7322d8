"""Files that are either whole or not there."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from glassformer.core.errors import CheckpointError

PARTIAL = ".partial"
"""Ending of a file that is being written; one that is left over belongs to a process that was killed."""


def write_atomically(path: Path, write: Callable[[Path], None], needed_bytes: int | None = None) -> None:
    """Write a file beside its place, flush it to the disk, and rename it: a crash never leaves a torn file.

    Args:
        path: Where the file belongs.
        write: Writes the content to the path it is given.
        needed_bytes: About how large it will be, for the error message.

    Raises:
        CheckpointError: The disk is full or the folder cannot be written; what was there before is untouched.
    """
    path = path.resolve()  # a link stays one, and what it leads to is replaced
    if path.exists() and not path.is_file():
        raise CheckpointError(f"{path} is no file and cannot be replaced by one; choose another name")
    partial = path.with_name(path.name + PARTIAL)
    try:
        partial.touch()
        mode = partial.stat().st_mode
        write(partial)
        partial.chmod(mode)  # safetensors makes files that only their owner can read
        with partial.open("rb") as handle:
            os.fsync(handle.fileno())
        partial.replace(path)
    except Exception as error:
        partial.unlink(missing_ok=True)
        if not _is_disk_error(error):
            raise
        raise CheckpointError(_disk_problem(path, error, needed_bytes)) from error


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file atomically."""
    write_atomically(path, lambda partial: _write_utf8(partial, text), len(text.encode()))


def append_text(path: Path, text: str) -> None:
    """Write on at the end of a UTF-8 file.

    Raises:
        CheckpointError: The disk is full or the file cannot be written.
    """
    try:
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise CheckpointError(f"could not write {path}: {error.strerror}") from error


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file atomically, readable by people."""
    write_text(path, to_json(content, indent=2) + "\n")


def to_json(content: Mapping[str, Any], indent: int | None = None) -> str:
    """Return standard JSON, which has neither infinity nor NaN.

    Infinity becomes 1e999, too large for a number and read as infinity everywhere; NaN becomes null.
    """
    text = json.dumps(content, indent=indent, ensure_ascii=False)
    return re.sub(r'("(?:[^"\\]|\\.)*")|Infinity|NaN', _standard, text)  # strings stay as they are


def _standard(found: re.Match[str]) -> str:
    return found[1] or ("1e999" if found[0] == "Infinity" else "null")


def remove_leftovers(folder: Path) -> None:
    """Delete what a killed process left half written."""
    for ending in (f"*{PARTIAL}", ".tmp??????"):  # the second kind is how safetensors calls what it is writing
        for leftover in folder.glob(ending):
            if leftover.is_dir():
                shutil.rmtree(leftover)
            else:
                leftover.unlink(missing_ok=True)


def ensure_writable(folder: Path, option: str = "--out") -> None:
    """Create the folder and prove that files can be written in it.

    Args:
        folder: It and its parents are made where they are missing.
        option: What names it on the command line, for the message.

    Raises:
        CheckpointError: They cannot; said before any work is done.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f"probe{PARTIAL}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise CheckpointError(
            f"cannot write in {folder}: {error.strerror}; choose another folder with {option}"
        ) from error


def _write_utf8(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def _is_disk_error(error: Exception) -> bool:
    # safetensors wraps the operating system's error in its own kind, with the number in its text only
    return isinstance(error, OSError) or "(os error " in str(error)


def _disk_problem(path: Path, error: Exception, needed_bytes: int | None) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    text = f"could not write {path}: {reason}; the file that was there before is untouched"
    try:
        free = shutil.disk_usage(path.parent).free
    except OSError:
        return text
    needed = "" if needed_bytes is None else f"it needs about {_mib(needed_bytes)}, "
    return f"{text} ({needed}{_mib(free)} are free)"


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
