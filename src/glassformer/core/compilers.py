"""Whether this machine can turn a graph into machine code."""

from __future__ import annotations

import os
import shutil


def no_compiler() -> str | None:
    """Return that `torch.compile` has no C++ compiler to work with; None if it has."""
    names = (os.environ.get("CXX", "g++"), "clang++", "cl")
    there = any(shutil.which(name) for name in names)
    return None if there else "torch.compile needs a C++ compiler (g++ or clang++), and there is none"
