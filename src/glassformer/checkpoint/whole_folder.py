"""A folder of a model, written whole or not at all."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from glassformer.checkpoint.foreign_config import CONFIG_FILE
from glassformer.core.errors import CheckpointError
from glassformer.core.files import PARTIAL
from glassformer.text.foreign import TOKENIZER_FILES

UNFINISHED = f"folder{PARTIAL}"
"""The folder in the target where everything is written first."""

FORMER = "folder.before"
"""The folder in the target where what it held stands until the new model does."""

WEIGHTS = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors(\.index\.json)?")
"""The files of weights that a save replaces, whichever way the one before was cut."""

GENERATION_FILE, VERIFICATION_FILE = "generation_config.json", "verification.json"

RECIPE_FILE = "config.yaml"
"""What a run learned and how. Its name tells a run folder, and whoever labels, translates or measures reads it."""

WATCH_FILE = "watch.json"
"""What `watch` found in a training loop of the user's own; it tells the folder of one."""

METRICS_FILE, RESULT_FILE, REPORT_FILE, PROFILE_FILE = "metrics.jsonl", "result.json", "report.html", "profile.json"

STATE_FOLDER = "trainer"
"""Where a run keeps what an exact resume needs."""


def write_whole(folder: Path, write: Callable[[Path], None], last: str, *, overwrite: bool = False) -> None:
    """Write a folder of a model.

    Everything is written and flushed beside its place first and moved last: no file is ever torn, a disk that is full
    leaves the folder as it was, and a folder without its last file is an unfinished one. What was there is moved aside
    and goes only when the new model stands.

    Args:
        folder: It and its parents are made where they are missing.
        write: Writes all files into the folder it is given.
        last: The file without which nobody takes the folder for a model; moved at the very end.
        overwrite: Whether the folder may hold something: a model that is there goes, with its tokenizer and all that a
            run wrote of it; other files stay.

    Raises:
        CheckpointError: The folder is not empty and `overwrite` is not set, it cannot be written, or the disk is full.
    """
    unfinished = folder / UNFINISHED
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = sorted(entry.name for entry in folder.iterdir() if entry.name != UNFINISHED)
        if held and not overwrite:
            raise CheckpointError(
                f"{folder} is not empty (it holds {held[0]}{' and more' if len(held) > 1 else ''}); "
                "choose another folder, or ask for overwriting (--overwrite)"
            )
        shutil.rmtree(unfinished, ignore_errors=True)  # left over from a process that was killed
        unfinished.mkdir()
        write(unfinished)
        _move_in(unfinished, folder, last)
    except OSError as error:
        problem = f"cannot write in {folder}: {error.strerror}; choose another folder{former(folder)}"
        raise CheckpointError(problem) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _move_in(unfinished: Path, folder: Path, last: str) -> None:
    """Put finished files in their place; until the last one follows, the folder is no whole one."""
    aside = folder / FORMER
    if (folder / last).exists():
        shutil.rmtree(aside, ignore_errors=True)  # it was left after the model that stands here
    for file in sorted(_old(folder), key=lambda file: file.name != last):  # without its last file it is no whole one
        place = aside / file.relative_to(folder)
        if file.exists() and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            file.replace(place)
        else:
            file.unlink(missing_ok=True)
    states = folder / STATE_FOLDER
    if states.is_dir() and not any(states.iterdir()):
        states.rmdir()
    for file in sorted(unfinished.iterdir(), key=lambda file: file.name == last):
        file.replace(folder / file.name)
    shutil.rmtree(aside, ignore_errors=True)


def former(folder: Path) -> str:
    """Return the end of a message about a folder in which a process was killed while it wrote over a model; else ""."""
    return f"; the model that was there before is in {folder / FORMER}" if (folder / FORMER).is_dir() else ""


def _old(folder: Path) -> Iterator[Path]:
    """The files of the model that a folder holds, first those without which nobody takes it for one.

    What has the same name in a folder without a model is not ours.
    """
    weights = [entry for entry in folder.iterdir() if WEIGHTS.fullmatch(entry.name)]
    known = (folder / WATCH_FILE).is_file() or (folder / METRICS_FILE).is_file()  # a config.yaml may be anybody's
    is_run = known or bool(weights and (folder / RECIPE_FILE).is_file())
    if not (weights or is_run or (folder / CONFIG_FILE).is_file()):
        return
    yield folder / CONFIG_FILE
    yield from weights
    yield from (folder / name for name in (*TOKENIZER_FILES, GENERATION_FILE, VERIFICATION_FILE))
    if is_run:
        yield from (folder / STATE_FOLDER).glob("*.safetensors")
        told = (METRICS_FILE, RESULT_FILE, REPORT_FILE, PROFILE_FILE, WATCH_FILE, RECIPE_FILE)
        yield from (folder / name for name in told)
