"""Rung 4."""

from __future__ import annotations

import torch
from torch import Tensor


def positions(n: int, d_model: int) -> Tensor:
    angle = torch.arange(n)[:, None] * 10_000 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)
