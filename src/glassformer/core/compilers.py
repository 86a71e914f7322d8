"""Whether this machine can turn a graph into machine code."""

from __future__ import annotations

import shutil


def no_compiler() -> str | None:
    """Return that `torch.compile` has no C++ compiler to work with; None if it has."""
    there = any(shutil.which(name) for name in ("g++", "clang++", "cl"))
    return None if there else "torch.compile needs a C++ compiler (g++ or clang++), and there is none"
