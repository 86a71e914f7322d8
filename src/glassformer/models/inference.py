"""Using a model without teaching it anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def inference(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Switch dropout and gradients off, and every module back to its own mode afterwards, also on an error.

    It surrounds forward passes, never a `yield` to a caller: who takes tokens one by one has their own gradient mode
    and their own model, in its own mode, in between and after giving up half way.

    Args:
        modules: `model.modules()`, as a list where it is needed often: collecting them takes a while.
    """
    learning = [module for module in modules if module.training]
    try:
        for module in learning:
            module.training = False
        with torch.no_grad():
            yield
    finally:
        for module in learning:
            module.training = True
