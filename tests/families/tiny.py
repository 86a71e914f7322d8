"""Tiny models of every family, with weights that all count."""

from __future__ import annotations

import torch

from glassformer.core.config import TransformerConfig
from glassformer.models.transformer import Transformer

VOCAB_SIZE = 32


def drawn(config: TransformerConfig, *, std: float = 0.3) -> Transformer:
    """A model in eval mode; every parameter is drawn, gains around 1."""
    model = Transformer(config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            middle = 1.0 if parameter.ndim == 1 and name.endswith("norm.weight") else 0.0
            parameter.normal_(middle, std, generator=generator)
    return model.eval()
