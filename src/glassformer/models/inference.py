"""Using a model without teaching it anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def inference(model: nn.Module) -> Iterator[None]:
    """Switch dropout and gradients off, and every module back to its own mode afterwards, also on an error.

    Args:
        model: Any module; one that is partly frozen in eval mode stays so.
    """
    learning = [module for module in model.modules() if module.training]
    for module in learning:
        module.training = False
    try:
        with torch.no_grad():
            yield
    finally:
        for module in learning:
            module.training = True
