"""Rung 2: masks; True = may be seen."""

from __future__ import annotations

from torch import Tensor


def causal_mask(n: int) -> Tensor:
    """Return which key each query may see when nobody looks ahead: itself and what stands before it. (n, n), bool

    Rows are queries, columns are keys. Hint: torch.tril.
    """
    raise NotImplementedError


def padding_mask(tokens: Tensor, pad: int) -> Tensor:
    """Return which keys are no padding: tokens (B, S) -> (B, 1, 1, S), bool

    The two dimensions of 1 spread over heads and queries. Hint: tokens != pad.
    """
    raise NotImplementedError
