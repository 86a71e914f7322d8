"""What another library's folder says about its model, word for word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from glassformer.core.errors import CheckpointError

CONFIG_FILE = "config.json"


def read_config(folder: Path) -> dict[str, Any]:
    """Return the settings in a folder's config.json as they stand there.

    Raises:
        CheckpointError: There is none, it is no JSON object, or it does not say by "model_type" or "architectures"
            whose model it is.
    """
    file = folder / CONFIG_FILE
    if not file.is_file():
        raise CheckpointError(
            f"there is no {file}: a Hugging Face folder says there what model it holds; give the folder that has it"
        )
    config = read_json_object(file)
    if "model_type" not in config and "architectures" not in config:
        raise CheckpointError(
            f'{file} says neither "model_type" nor "architectures", so it is unknown what model the weights belong to; '
            'add what they are, for example "model_type": "llama"'
        )
    kind, names = config.get("model_type"), config.get("architectures")
    if not isinstance(kind, str | None):
        raise CheckpointError(f"{file}: model_type is {kind!r}; it must be a name")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise CheckpointError(f"{file}: architectures is {names!r}; it must be a list of names")
    return config


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises:
        CheckpointError: It cannot be read, is damaged, or holds a list or a single value.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # broken UTF-8 is a ValueError too
        raise CheckpointError(f"{path} is damaged, fetch it again: it is no JSON ({error})") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} must hold a JSON object {{...}}, it holds a {type(content).__name__}")
    return content
