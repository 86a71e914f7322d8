"""Rotary positions: queries and keys turned by an angle that grows with their position."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.core.position_config import LinearScaling, Llama3Scaling, RotaryConfig, YarnScaling
from glassformer.kernels import vectors
from glassformer.parts.position import frequencies

Angles = tuple[Float[Tensor, "batch 1 length pairs"], Float[Tensor, "batch 1 length pairs"]]
"""Cosine and sine of every pair's angle, times the attention factor where a scaling has one."""


def rotary_angles(
    positions: Int[Tensor, "batch length"],
    d_head: int,
    config: RotaryConfig,
    *,
    dtype: torch.dtype = torch.float32,
) -> Angles:
    """Return cosine and sine of every pair's angle: position times the speed of the pair.

    Args:
        positions: *Shape:* (B, T).
        d_head: Width of a head, E.
        config: Base of the angles, share of the head, scaling.
        dtype: Type of the angles, float32 or float64.

    Returns:
        Cosines and sines. *Shape:* (B, 1, T, P), P half of the numbers that turn, of that type.
    """
    speed = speeds(config, d_head, positions.device, dtype=dtype)
    angle = positions[:, None, :, None].to(dtype) * speed
    factor = attention_factor(config)
    return angle.cos() * factor, angle.sin() * factor


def speeds(
    config: RotaryConfig, d_head: int, device: torch.device | None = None, *, dtype: torch.dtype = torch.float32
) -> Float[Tensor, " pairs"]:
    """Return how fast each pair turns, in radians a position: theta^(-2i/d), d the numbers that turn, then scaled.

    linear: w / f.  llama3: w / f where a pair turns less than `low` times in the first length, w where more than
    `high` times, between them (1 - s) w / f + s w with s = (turns - low) / (high - low).  yarn: the same blend,
    linear in the index of the pair, between the pairs that turn `fast` and `slow` times.

    Args:
        config: Base, share, scaling.
        d_head: Width of a head, E.
        device: Where the tensor lives.
        dtype: Its type, float32 or float64.

    Source: Su et al. 2021, arXiv:2104.09864, section 3.2.2; of the scalings: see their configs.
    """
    turned, scaling = config.turned(d_head), config.scaling
    plain = frequencies(turned, config.theta, device, dtype=dtype)
    if scaling is None:
        return plain
    slowed = plain / scaling.factor
    if isinstance(scaling, LinearScaling):
        return slowed
    if isinstance(scaling, Llama3Scaling):
        turns = plain * (scaling.original_positions / (2 * math.pi))
        kept = ((turns - scaling.low) / (scaling.high - scaling.low)).clamp(0, 1)
    else:
        kept = _yarn_kept(scaling, turned, config.theta, plain)
    return (1 - kept) * slowed + kept * plain


def _yarn_kept(scaling: YarnScaling, turned: int, theta: float, plain: Tensor) -> Tensor:
    """How much of its speed each pair keeps: 1 for the fast ones, 0 for the slow ones, a ramp between."""

    def index_of(turns: float) -> float:
        return turned * math.log(scaling.original_positions / (turns * 2 * math.pi)) / (2 * math.log(theta))

    begin, end = index_of(scaling.fast), index_of(scaling.slow)
    if scaling.truncate:
        begin, end = math.floor(begin), math.ceil(end)
    begin, end = max(begin, 0), min(end, turned - 1)
    width = end - begin if end != begin else 0.001  # a ramp of no width would divide by zero
    index = torch.arange(len(plain), device=plain.device, dtype=plain.dtype)
    return 1 - ((index - begin) / width).clamp(0, 1)


def attention_factor(config: RotaryConfig) -> float:
    """Return the factor of q and of k: YaRN's 0.1 ln(factor) + 1 or what its config says; 1 without YaRN."""
    scaling = config.scaling
    if not isinstance(scaling, YarnScaling):
        return 1.0
    if scaling.attention_factor is not None:
        return scaling.attention_factor

    def grown(mscale: float) -> float:
        return 1.0 if scaling.factor <= 1 else 0.1 * mscale * math.log(scaling.factor) + 1.0

    if scaling.mscale and scaling.mscale_all:
        return grown(scaling.mscale) / grown(scaling.mscale_all)
    return grown(1.0)


def rotate(
    x: Float[Tensor, "batch head length d_head"], angles: tuple[Tensor, Tensor], config: RotaryConfig
) -> Float[Tensor, "batch head length d_head"]:
    """Turn each pair of numbers of a query or key by its position's angle.

    (a, b) -> (a cos - b sin, a sin + b cos). The dot product of a turned query and a turned key depends on
    the difference of their positions only. What the angles do not reach stays as it is.

    Args:
        x: Queries or keys. *Shape:* (B, H, T, E).
        angles: From `rotary_angles`.
        config: Which numbers form a pair. Weights made for one pairing are wrong for the other from position
            1 on.

    Source: Su et al. 2021, arXiv:2104.09864, equation 34 (interleaved); "halves" is the pairing of LLaMA
    checkpoints in the reference library's format.
    """
    cos, sin = (angle.to(x.dtype) for angle in angles)
    turned, rest = 2 * cos.shape[-1], None
    if turned < x.shape[-1]:
        x, rest = x.split([turned, x.shape[-1] - turned], dim=-1)
    if config.pairing == "halves":
        a, b = x.chunk(2, dim=-1)
        out = torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)
    else:
        a, b = x[..., 0::2], x[..., 1::2]
        out = torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)
    return out if rest is None else torch.cat((out, rest), dim=-1)


def quick_rotate(x: Tensor, angles: Angles, config: RotaryConfig) -> Tensor:
    """Return the same in float32 by glassformer::rotate, which has no gradient; a compiled graph makes its own.

    Args:
        x: As for `rotate`, on a processor.
        angles: As for `rotate`.
        config: As for `rotate`.
    """
    if any(numbers.dtype != torch.float32 for numbers in (x, *angles)) or torch.compiler.is_compiling():
        return rotate(x, angles, config)
    return vectors.rotate(x, *angles, config.pairing == "halves")
