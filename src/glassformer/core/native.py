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

import torch

FLAGS = (
    *("-std=c++20", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"),
    *("-fno-math-errno", "-fno-trapping-math"),
)
TORCH = Path(torch.__file__).parent
OF_TORCH = f"-I{TORCH / 'include'}", f"-L{TORCH / 'lib'}", "-ltorch_cpu"
SECONDS = 120
"""After which a compiler is given up; it takes three."""


@cache
def load_library(source: Path) -> ctypes.CDLL | None:
    """Return a C++ file as a library of its `extern "C"` functions.

    It is compiled once a processor, compiler and torch, in three seconds, and kept in the user's cache folder. Its
    threads are those of torch, which brings the same OpenMP.

    Args:
        source: The file.

    Returns:
        None where it cannot be compiled: no g++ (or what the environment variable CXX names), or another system. So
        each function has a readable form that is used then.
    """
    compiler = shlex.split(os.environ.get("CXX") or "g++")
    try:
        made_of = " ".join([*FLAGS, torch.__version__]).encode() + _target(tuple(compiler)) + _contents(source)
        library = _folder() / f"{source.stem}-{hashlib.sha256(made_of).hexdigest()[:16]}.so"
        with suppress(OSError):  # it is not there, or damaged
            return ctypes.CDLL(str(library))
        with suppress(OSError):  # there is no folder to keep it in
            library.parent.mkdir(parents=True, exist_ok=True)
            return _compiled(compiler, source, library.parent, library)
        return _compiled(compiler, source, None, None)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


@cache
def _target(compiler: tuple[str, ...]) -> bytes:
    """What the compiler makes of this processor: its own version and all instructions that it will use."""
    return _run([*compiler, *FLAGS, "-dM", "-E", "-x", "c++", os.devnull])


def _contents(source: Path) -> bytes:
    """Of the file and of all that it may include."""
    return b"".join(file.read_bytes() for file in [source, *sorted(source.parent.glob("*.h"))])


def _folder() -> Path:
    kept = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(kept) / "glassformer"


def _compiled(compiler: list[str], source: Path, folder: Path | None, library: Path | None) -> ctypes.CDLL:
    """Compile in a folder, None = one for what is not kept, and put what was made in its place, whole or not at all."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        made = Path(place) / f"{source.stem}.so"
        _run([*compiler, *FLAGS, str(source), "-o", str(made), *OF_TORCH])
        if library is not None:
            with made.open("rb") as file:
                os.fsync(file.fileno())
            made = made.replace(library)
        return ctypes.CDLL(str(made))  # it stays loaded when its file is gone


def _run(command: list[str]) -> bytes:
    return subprocess.run(command, check=True, capture_output=True, timeout=SECONDS).stdout
