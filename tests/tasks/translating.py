"""What the tests of translation share: files of pairs, and a task that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glassformer.tasks.translation import TranslationTask

from .reading import write


def two_files(folder: Path, pairs: Sequence[tuple[str, str]], part: str = "train") -> dict[str, str]:
    """The settings that name two files with these pairs."""
    files = {"source": f"{part}.src", "target": f"{part}.tgt"}
    for side, name in enumerate(files.values()):
        write(folder / name, (pair[side] for pair in pairs))
    prefix = "" if part == "train" else f"{part}_"
    return {"data": str(folder)} | {prefix + name: file for name, file in files.items()}


def task(files: dict[str, str], **settings: Any) -> TranslationTask:
    """With a character tokenizer that knows every character, and small parts."""
    small = {"tokenizer": "character", "min_count": 1, "valid_size": 2, "test_size": 3}
    return TranslationTask(**{**small, **files, **settings})
