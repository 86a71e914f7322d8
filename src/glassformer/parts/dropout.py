"""Dropout."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from glassformer.kernels.draws import keep_some


def dropout(x: Float[Tensor, "*shape"], p: float, training: bool) -> Float[Tensor, "*shape"]:
    """Set a share of the numbers to zero, and enlarge the others so that the expectation stays what it was.

    y_i = x_i k_i / (1 - p), with k_i = 0 with probability p, else 1, each drawn by itself; outside of training y = x.

    On a processor four numbers share one draw of torch's generator: its own dropout draws for each, and the draw is
    the dearest part of it; a compiled graph draws the same numbers. Elsewhere it is torch's.

    Args:
        x: Any shape.
        p: Share that becomes zero, from 0 to below 1.
        training: Whether anything happens at all.

    Source: Srivastava et al. 2014, JMLR 15, equation in section 4, with the scaling moved to training.
    """
    if not training or p == 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    if torch.compiler.is_compiling():
        keep, scale = keep_some(x, p)
        return x * scale * keep
    dropped: Tensor = _Dropout.apply(x, p)  # type: ignore[no-untyped-call]
    return dropped


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        keep, ctx.scale = keep_some(x, p)
        ctx.save_for_backward(keep)
        scaled: Tensor = x * ctx.scale
        return scaled.mul_(keep)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return (gradient * ctx.scale).mul_(keep), None
