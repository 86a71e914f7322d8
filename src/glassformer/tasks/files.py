"""Where the files of a task are."""

from __future__ import annotations

import os
from pathlib import Path


def located(name: str, folder: str | None) -> Path:
    """Return the path of a file: within the folder, if there is one, and compressed, if only that is there.

    Args:
        name: As the settings say it; absolute or relative.
        folder: What a relative name is relative to; None = the working folder.
    """
    path = os.path.join(os.path.expanduser(folder or ""), os.path.expanduser(name))
    packed = path + ".gz"
    return Path(packed if not os.path.exists(path) and os.path.exists(packed) else path)
