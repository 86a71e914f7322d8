"""Whose Python code is run when a folder is opened: what was trained here, and what the user says is to be trusted."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from glassformer.core.errors import CheckpointError

CONSENT = "GLASSFORMER_TRUST_CODE"
"""Environment variable; 1 = run the code of any folder that is opened."""


def remember_code(folder: Path) -> None:
    """Note that the Python files of a folder were trained here, by this user: opening it later asks nothing."""
    known = _list()
    known.parent.mkdir(parents=True, exist_ok=True)
    with known.open("a", encoding="utf-8") as file:
        file.write(_digest(folder) + "\n")


def ensure_trusted(folder: Path) -> None:
    """Make sure that the Python files of a folder may be run.

    A run folder may come from anybody, and code can do anything: so it is run only if the same files were trained here,
    or the user says so.

    Args:
        folder: Of the files.

    Raises:
        CheckpointError: They may not.
    """
    known = _list()
    if os.environ.get(CONSENT) == "1" or (known.is_file() and _digest(folder) in known.read_text("utf-8").split()):
        return
    raise CheckpointError(
        f"the model in {folder.parent} is Python code that was not trained here, and opening it would run it; read "
        f"{folder}, and if you trust it set the environment variable {CONSENT}=1"
    )


def _list() -> Path:
    """One digest a line."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "glassformer" / "trained-code"


def _digest(folder: Path) -> str:
    found = hashlib.sha256()
    for file in sorted(folder.glob("*.py")):
        content = file.read_bytes()
        found.update(f"{file.name}\0{len(content)}\0".encode() + content)
    return found.hexdigest()
