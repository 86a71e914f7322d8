"""Where the files of a task are."""

from __future__ import annotations

from pathlib import Path


def located(name: str, folder: str | None) -> Path:
    """Return the path of a file: within the folder, if there is one, and compressed, if only that is there.

    Args:
        name: As the settings say it; absolute or relative.
        folder: What a relative name is relative to; None = the working folder.
    """
    path = (Path(folder).expanduser() if folder is not None else Path()) / Path(name).expanduser()
    packed = path.with_name(path.name + ".gz")
    return packed if not path.exists() and packed.exists() else path
