"""Matrices in 8 bits: whole numbers, and one step size for each row of outputs."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.parts.embedding import Embedding

MOST = 127
"""The largest level; -128 is left out, so that a matrix and its negative are rounded alike."""

WHOLE = ("cpu",)
"""Kinds of device whose product of whole numbers takes all shapes."""


def quantise(x: Float[Tensor, "*row column"]) -> tuple[Int8[Tensor, "*row column"], Float[Tensor, "*row 1"]]:
    """Round each row to whole multiples of a step of its own.

    step = max |x| / 127;  level = round(x (1 / step));  |x - step level| <= step / 2, to rounding.

    A row of zeros has the step 0.

    Args:
        x: Rows; all numbers finite. *Shape:* (..., I).

    Returns:
        Levels, in 8 bits, and steps, in the type of x, never rounded down: so no level is beyond 127.
        *Shapes:* (..., I), (..., 1).
    """
    exact = torch.promote_types(x.dtype, torch.float32)
    wanted = x.abs().amax(-1, keepdim=True).to(exact) / MOST
    step = wanted.to(x.dtype)
    if x.dtype != exact:
        step = torch.where(step.to(exact) < wanted, torch.nextafter(step, torch.full_like(step, torch.inf)), step)
    return (x.to(exact) * (1 / step.to(exact).clamp(min=torch.finfo(exact).tiny))).round().to(torch.int8), step


def quantised_linear(
    x: Float[Tensor, "*batch column"],
    levels: Int8[Tensor, "row column"],
    steps: Float[Tensor, "row 1"],
    bias: Float[Tensor, " row"] | None = None,
) -> Float[Tensor, "*batch row"]:
    """Return W x + b, where W is in 8 bits and x is rounded to 8 bits, each row of it by itself.

    W x is about  step_x steps (levels level_x), with whole numbers in the brackets.

    A row's result is the same whatever rows stand beside it. The product of whole numbers is exact; on a processor it
    reads a quarter of what float32 reads, which is what writing token by token waits for.

    Args:
        x: *Shape:* (..., I).
        levels: Of W. *Shape:* (O, I).
        steps: Of W. *Shape:* (O, 1).
        bias: b. *Shape:* (O,).

    Source: Dettmers et al. 2022, arXiv:2208.07339, section 2.1 (vector-wise), without its outliers.
    """
    exact = torch.promote_types(x.dtype, torch.float32)
    rows, step = quantise(x.to(exact).flatten(0, -2))
    if x.device.type in WHOLE:
        product = torch._int_mm(rows, levels.t()).to(exact)
    else:  # float32 holds these sums to within rounding; float16, which autocast would choose, ends at 65,504
        with torch.autocast(x.device.type, enabled=False):
            product = F.linear(rows.to(exact), levels.to(exact))
    product = (product * step * steps.to(exact).squeeze(-1)).unflatten(0, x.shape[:-1])
    result: Tensor = (product if bias is None else product + bias).to(x.dtype)
    return result


class QuantisedLinear(nn.Linear):
    """A projection whose matrix is in 8 bits.

    Args:
        linear: What it stands for; its offset is shared.
    """

    def __init__(self, linear: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        levels, step = quantise(linear.weight.detach())
        self.weight, self.step = frozen(levels), frozen(step)
        self.bias = linear.bias

    def forward(self, input: Float[Tensor, "*batch column"]) -> Float[Tensor, "*batch row"]:
        """Return W x + b. *Shape:* (..., O)."""
        return quantised_linear(input, self.weight, self.step, self.bias)


class QuantisedEmbedding(Embedding):
    """A table whose vectors are in 8 bits.

    Args:
        embedding: What it stands for.
    """

    def __init__(self, embedding: Embedding) -> None:
        nn.Module.__init__(self)
        self.site = embedding.site
        levels, step = quantise(embedding.weight.detach())
        self.weight, self.step = frozen(levels), frozen(step)

    def forward(self, tokens: Tensor) -> Float[Tensor, "batch length d_model"]:
        """Return the vectors of token ids. *Shape:* (B, T, D)."""
        return F.embedding(tokens, self.weight) * F.embedding(tokens, self.step)


def frozen(values: Tensor) -> nn.Parameter:
    """Return values as a parameter that is stored and moved, and never learned."""
    return nn.Parameter(values, requires_grad=False)
