"""Rung 2."""

from __future__ import annotations

import torch
from torch import Tensor


def causal_mask(n: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool).tril()


def padding_mask(tokens: Tensor, pad: int) -> Tensor:
    return (tokens != pad)[:, None, None, :]
