"""What dropout keeps."""

from __future__ import annotations

import torch
from jaxtyping import UInt8
from torch import Tensor

STEPS = 1 << 16
"""On a processor a share is rounded to a multiple of 1 / STEPS: a random number for each element has 16 bits."""


def keep_some(x: Tensor, p: float) -> tuple[UInt8[Tensor, " ..."], float]:
    """Return which numbers of a tensor on a processor stay, and what they are multiplied with.

    Four numbers share one draw of torch's generator: its own dropout draws for each, and the draw is the dearest part.

    Args:
        x: Any shape.
        p: Share that becomes zero, from 0 to below 1.

    Returns:
        1 = stays, else 0: to multiply with, bytes are converted in half the time that truth values take.
        *Shape:* that of x. And 1 / (1 - p).
    """
    draw = _drawn if torch.compiler.is_compiling() else _draw  # what an operator costs by itself is more than a draw
    return draw(x, _threshold(p)), enlargement(p)


def enlargement(p: float) -> float:
    """Return what `keep_some` says that the numbers that stay are multiplied with.

    Args:
        p: Share that becomes zero, from 0 to below 1.
    """
    return STEPS / (STEPS - _threshold(p))


def _threshold(p: float) -> int:
    return min(round(p * STEPS), STEPS - 1)  # below 1, so that a scale exists


def _draw(x: Tensor, threshold: int) -> Tensor:
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device).random_(-(2**63), None)
    return (draws.view(torch.int16)[: x.numel()] >= threshold - STEPS // 2).view(torch.uint8).view(x.shape)


_drawn = torch.library.custom_op(
    "glassformer::keep_some",
    _draw,
    mutates_args=(),
    schema="(Tensor x, int threshold) -> Tensor",
    tags=(torch.Tag.nondeterministic_seeded,),
)
"""The same as an operator, so that a compiled graph draws the numbers that the same model draws without."""


@_drawn.register_fake
def _shape(x: Tensor, threshold: int) -> Tensor:
    return x.new_empty(x.shape, dtype=torch.uint8)
