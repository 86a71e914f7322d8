"""Python code of a user's own, named as FILE.py:NAME."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from glassformer.core.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class UserCode:
    """Something that a user wrote.

    Attributes:
        value: A class, a function or an object.
        file: Where it is written.
        name: What it is called there.
        neighbours: Files of the same folder that it imports.
    """

    value: Any
    file: Path
    name: str
    neighbours: tuple[Path, ...] = ()


def is_user_code(text: str) -> bool:
    """Return whether a text names something in a Python file: FILE.py:NAME."""
    file, colon, _ = text.rpartition(":")
    return bool(colon) and file.endswith(".py")


def load_user_code(text: str) -> UserCode:
    """Import a file and return what is named in it.

    The file's folder can be imported from while it runs, as when Python runs the file itself.

    Args:
        text: FILE.py:NAME.

    Raises:
        ConfigError: It names no file or nothing in it, or the file cannot be imported.
    """
    path, colon, name = text.rpartition(":")
    if not colon or not path.endswith(".py") or not name:
        raise ConfigError(f"{text!r} names nothing in a Python file; write it as FILE.py:NAME")
    file = Path(path)
    if not file.is_file():
        raise ConfigError(f"there is no file {file}")
    module, neighbours = _imported(file)
    content = vars(module)
    if name not in content:
        own = [key for key, value in content.items() if not key.startswith("_") and _is_own(value)]
        raise ConfigError(f"{file} has no {name!r}{did_you_mean(name, own)}")
    return UserCode(content[name], file, name, neighbours)


OWN = "glassformer_user_code"
"""What the imported module is called: never a name that the user's file has, such as attention.py beside torch's."""


def _is_own(value: Any) -> bool:
    return getattr(value, "__module__", None) == OWN


def _imported(file: Path) -> tuple[ModuleType, tuple[Path, ...]]:
    spec = importlib.util.spec_from_file_location(OWN, file)
    assert spec is not None, "a path of a .py file gives one"
    assert spec.loader is not None, "so does its loader"
    module = importlib.util.module_from_spec(spec)
    folder = str(file.resolve().parent)
    before, neighbours = set(sys.modules), list[Path]()
    sys.modules[OWN] = module  # dataclasses look their module up while they are made
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ConfigError(f"{file} cannot be imported: {said_with_line(error, file)}") from error
    finally:
        sys.path.remove(folder)
        for name in set(sys.modules) - before - {OWN}:
            if Path(str(vars(sys.modules[name]).get("__file__", ""))).parent == file.resolve().parent:
                neighbours.append(Path(str(sys.modules[name].__file__)))
                del sys.modules[name]  # another folder may have a file of that name
    return module, tuple(sorted(neighbours))


def said_with_line(error: BaseException, file: Path) -> str:
    """Return the kind of an error, its message, and the line of the user's file that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == file.resolve()]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    at = f" (line {line})" if line else ""
    return f"{type(error).__name__}: {message}{at}"
