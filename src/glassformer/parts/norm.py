"""Normalisation of the residual stream."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.norm_config import NormConfig
from glassformer.kernels.vectors import rms_norm
from glassformer.parts.part import Matrix, Part


class LayerNorm(Part):
    """Centre a vector, divide by its standard deviation, then scale and shift.

    y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias, over the last dimension, var without Bessel's
    correction.

    Args:
        d_model: Width of the vectors, D.
        eps: Added to the variance.
        bias: Whether there is an offset.

    Source: Ba, Kiros and Hinton 2016, arXiv:1607.06450, equation 4.
    """

    notes = {"output": "B T D"}  # noqa: RUF012 - whoever applies a norm shows what it hands out

    def __init__(self, d_model: int, eps: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        self.d_model, self.eps = d_model, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model)) if bias else None

    def matrices(self) -> Iterator[Matrix]:
        """Yield the gain and the offset."""
        yield Matrix("weight", self.weight, "gain")
        if self.bias is not None:
            yield Matrix("bias", self.bias, "offset")

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Return the normalised vectors, same shape."""
        return F.layer_norm(x, (self.d_model,), self.weight, self.bias, self.eps)


class RMSNorm(Part):
    """Divide a vector by its root mean square, then scale; nothing is centred.

    y = x / sqrt(mean(x^2) + eps) * weight, over the last dimension.

    Args:
        d_model: Width of the vectors, D.
        eps: Added to the mean square.

    Source: Zhang and Sennrich 2019, arXiv:1910.07467, equation 4; eps as T5 and LLaMA place it.
    """

    notes = {"output": "B T D"}  # noqa: RUF012

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.d_model, self.eps = d_model, eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def matrices(self) -> Iterator[Matrix]:
        """Yield the gain."""
        yield Matrix("weight", self.weight, "gain")

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Return the normalised vectors, same shape."""
        return F.rms_norm(x, (self.d_model,), self.weight, self.eps)


class QuickRMSNorm(RMSNorm):
    """The same in float32 by glassformer::rms_norm, which has no gradient; a compiled graph makes its own.

    It is made of one that is there: `quick_copy` gives its contents another class.
    """

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Return the normalised vectors, same shape."""
        if x.dtype != torch.float32 or self.weight.dtype != torch.float32 or torch.compiler.is_compiling():
            return super().forward(x)
        return rms_norm(x, self.weight, self.eps)


class NoNorm(Part):
    """y = x: what is left when normalisation is taken away, to see what it was for."""

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Return x itself."""
        return x


def build_norm(config: NormConfig, d_model: int, shape: str | None = "B T D") -> Part:
    """Return the norm that a config describes.

    Args:
        config: Which norm.
        d_model: Width of the vectors, D.
        shape: That of what it hands out, by name, for the tape; None = it is not shown.
    """
    if config.kind == "none":
        return NoNorm()
    rms = config.kind == "rms"
    norm: Part = RMSNorm(d_model, config.eps) if rms else LayerNorm(d_model, config.eps, config.bias)
    norm.notes = {"output": shape} if shape else {}
    return norm
