"""A norm as data."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from glassformer.core.settings import Config


class NormConfig(Config):
    """Normalisation of a vector: layer norm, root-mean-square norm, or none at all.

    Attributes:
        kind: "layer", "rms" or "none".
        eps: Added to the variance, so that a constant vector does not divide by zero.
        bias: Whether layer norm adds a learned offset.
    """

    kind: Literal["layer", "rms", "none"] = "layer"
    eps: float = Field(1e-5, gt=0)
    bias: bool = True
