"""Models that say something of a text as a whole."""

from __future__ import annotations

import torch

from conftest import tiny_arguments
from glassformer.models.transformer import Transformer


def classifier() -> Transformer:
    """An encoder that labels texts "good" or "bad"."""
    config = tiny_arguments(kind="encoder").resolve(32, classes=("good", "bad"))
    return Transformer(config, generator=torch.Generator().manual_seed(1)).eval()


def encoder_of_vectors() -> Transformer:
    """An encoder without a head."""
    config = tiny_arguments(kind="encoder").resolve(32).model_copy(update={"head": None})
    return Transformer(config, generator=torch.Generator().manual_seed(1)).eval()
