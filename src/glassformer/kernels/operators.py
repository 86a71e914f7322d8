"""The operators of our own, in C++ for processors; a compiled graph can hold them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import torch

from glassformer.core.native import load_library

OPERATORS = torch.library.Library("glassformer", "FRAGMENT")
"""Those that cost little by themselves; they have no gradient."""


@cache
def has_operators() -> bool:
    """Return whether they are there; at the first call they are compiled, in a few seconds, or found compiled.

    Where they are not (no compiler), the readable form beside each does the same.
    """
    sources = [Path(__file__).with_name(f"{name}.cpp") for name in ("products", "softmax", "vectors")]
    with ThreadPoolExecutor() as pool:  # a compiler for each
        libraries = list(pool.map(load_library, sources))
    return all(library is not None and library.register_operators() == 0 for library in libraries)
