"""C++ of our own, turned into machine code on the machine that runs it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

FLAGS = (
    *("-std=c++20", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"),
    *("-fno-math-errno", "-fno-trapping-math"),
)
SECONDS = 120
"""After which a compiler is given up; it takes two."""


@cache
def load_library(source: Path) -> ctypes.CDLL | None:
    """Return a C++ file as a library of its `extern "C"` functions.

    It is compiled once a processor and compiler, in two seconds, and kept in the user's cache folder. Its threads are
    those of torch, which brings the same OpenMP.

    Args:
        source: The file.

    Returns:
        None where it cannot be compiled: no g++ (or what the environment variable CXX names), or another system. So
        each function has a readable form that is used then.
    """
    compiler = shlex.split(os.environ.get("CXX") or "g++")
    try:
        # What the compiler makes of this processor: its own version and all instructions that it will use.
        target = _run([*compiler, *FLAGS, "-dM", "-E", "-x", "c++", os.devnull])
        name = f"{source.stem}-{hashlib.sha256(target + _contents(source)).hexdigest()[:16]}.so"
        library = _folder() / name
        if library.exists():
            with suppress(OSError):  # of a damaged one
                return ctypes.CDLL(str(library))
        return _compiled(compiler, source, library)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _contents(source: Path) -> bytes:
    """Of the file and of all that it may include."""
    return b"".join(file.read_bytes() for file in [source, *sorted(source.parent.glob("*.h"))])


def _folder() -> Path:
    kept = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(kept) / "glassformer"


def _compiled(compiler: list[str], source: Path, library: Path) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / library.name
        _run([*compiler, *FLAGS, str(source), "-o", str(made)])
        loaded = ctypes.CDLL(str(made))  # it stays loaded when its file is gone
        with suppress(OSError):  # without a folder to keep it in, it is made again next time
            library.parent.mkdir(parents=True, exist_ok=True)
            partial = library.with_name(f"{library.name}.{os.getpid()}.partial")
            partial.write_bytes(made.read_bytes())
            partial.replace(library)
        return loaded


def _run(command: list[str]) -> bytes:
    return subprocess.run(command, check=True, capture_output=True, timeout=SECONDS).stdout
