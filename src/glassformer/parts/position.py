"""Positions that are added to the embedding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.core.places import Places
from glassformer.core.position_config import PositionConfig
from glassformer.parts.part import Matrix, Part


def frequencies(
    d: int, theta: float, device: torch.device | str | None = None, *, dtype: torch.dtype = torch.float32
) -> Float[Tensor, " pairs"]:
    """Return how fast each pair of numbers turns: theta^(-2i/d) radians a position, i = 0 .. ceil(d/2) - 1.

    Args:
        d: Number of numbers, which go in pairs.
        theta: Base of the series; the slowest pair needs about 2 pi theta positions for a turn.
        device: Where the tensor lives.
        dtype: Its type, float32 or float64.
    """
    return theta ** (-torch.arange(0, d, 2, device=device, dtype=dtype) / d)


def sinusoid(
    positions: Int[Tensor, "batch length"],
    d_model: int,
    theta: float = 10_000.0,
    *,
    layout: Literal["interleaved", "halves"] = "interleaved",
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "batch length d_model"]:
    """Return the paper's positions: sines and cosines of geometrically growing wave length.

    PE(p, 2i) = sin(p theta^(-2i/D)),  PE(p, 2i+1) = cos(p theta^(-2i/D)).

    The sine and cosine of a pair share their frequency, so a shift by k is one rotation of every pair: a
    linear map that does not depend on p. An odd D ends with a sine of its own.

    Args:
        positions: *Shape:* (B, T).
        d_model: Width of the residual stream, D.
        theta: Base of the wave lengths.
        layout: Sine and cosine of a pair side by side, or "halves": all sines, then all cosines (Marian).
        dtype: Type of the angles, float32 or float64.

    Returns:
        *Shape:* (B, T, D), of that type.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5.
    """
    turns = frequencies(d_model, theta, positions.device, dtype=dtype)
    angle = positions.unsqueeze(-1).to(dtype) * turns  # (B, T, ceil(D/2))
    if layout == "halves":
        return torch.cat((angle.sin(), angle.cos()[..., : d_model // 2]), dim=-1)
    pairs = torch.stack((angle.sin(), angle.cos()), dim=-1)  # (B, T, ceil(D/2), 2)
    return pairs.flatten(-2)[..., :d_model]


class Sinusoidal(Part):
    """The paper's positions as a part; nothing is learned and no length is too long."""

    def __init__(self, d_model: int, layout: Literal["interleaved", "halves"] = "interleaved") -> None:
        super().__init__()
        self.d_model, self.layout = d_model, layout

    def forward(self, places: Places, dtype: torch.dtype = torch.float32) -> Float[Tensor, "#batch length d_model"]:
        """Return what is added at each place, in the type of the stream. *Shape:* (B, T, D)."""
        exact = torch.promote_types(dtype, torch.float32)
        return sinusoid(places.position, self.d_model, layout=self.layout, dtype=exact).to(dtype)


class Learned(Part):
    """A table with one learned vector for every position, after `offset` rows that are never read.

    Source: Gehring et al. 2017, arXiv:1705.03122, section 3.1.
    """

    def __init__(self, max_positions: int, d_model: int, offset: int = 0) -> None:
        super().__init__()
        self.offset = offset
        self.weight = nn.Parameter(torch.empty(offset + max_positions, d_model))

    def matrices(self) -> Iterator[Matrix]:
        """Yield the table."""
        yield Matrix("weight", self.weight, "embedding")

    def forward(self, places: Places, dtype: torch.dtype = torch.float32) -> Float[Tensor, "#batch length d_model"]:
        """Return what is added at each place, in the type of the stream. *Shape:* (B, T, D)."""
        return nn.functional.embedding(places.position + self.offset, self.weight).to(dtype)


def build_positions(config: PositionConfig, d_model: int) -> Sinusoidal | Learned | None:
    """Return the positions that a config describes; None for none."""
    if config.kind == "none":
        return None
    if config.kind == "sinusoidal":
        return Sinusoidal(d_model, config.layout)
    assert config.max_positions is not None, "checked when the config was made"
    return Learned(config.max_positions, d_model, config.offset)
