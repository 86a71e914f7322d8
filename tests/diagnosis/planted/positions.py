"""Position encodings as functions and modules, as people write them, right and wrong."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

# Right ---------------------------------------------------------------------------------------------------------------


def sinusoidal_table(length: int = 64, d_model: int = 32) -> Tensor:
    """(length, d_model), the loop of the paper's formula."""
    pe = torch.zeros(length, d_model)
    for pos in range(length):
        for i in range(0, d_model, 2):
            pe[pos, i] = math.sin(pos / 10000 ** (i / d_model))
            pe[pos, i + 1] = math.cos(pos / 10000 ** (i / d_model))
    return pe


def get_angles(pos: np.ndarray, i: np.ndarray, d_model: int) -> np.ndarray:
    return pos / np.power(10000, (2 * (i // 2)) / np.float32(d_model))


def numpy_table(position: int = 64, d_model: int = 32) -> Tensor:
    """The table of TensorFlow's tutorial: (1, position, d_model)."""
    angles = get_angles(np.arange(position)[:, np.newaxis], np.arange(d_model)[np.newaxis, :], d_model)
    angles[:, 0::2] = np.sin(angles[:, 0::2])
    angles[:, 1::2] = np.cos(angles[:, 1::2])
    return torch.tensor(angles[np.newaxis], dtype=torch.float32)


class PositionalEncoding(nn.Module):
    """x (B, T, D) with the sines added."""

    def __init__(self, d_model: int = 32, max_len: int = 64) -> None:
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, d_model)
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[: x.size(1)]


class LearnedPositions(nn.Module):
    """x (B, T, D) with a learned row added for each place."""

    def __init__(self, d_model: int = 32, max_len: int = 64) -> None:
        super().__init__()
        self.position_embedding = nn.Embedding(max_len, d_model)

    def forward(self, x: Tensor) -> Tensor:
        positions = torch.arange(x.size(1), device=x.device)
        return x + self.position_embedding(positions)


def rotate_half(x: Tensor) -> Tensor:
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class Rotary(nn.Module):
    """x (B, H, T, E), halves paired as in Llama, turned by its place."""

    def __init__(self, dim: int = 16, base: float = 10000.0) -> None:
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def angles(self, length: int) -> Tensor:
        freqs = torch.outer(torch.arange(length, dtype=torch.float), self.inv_freq)
        return torch.cat((freqs, freqs), dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        angles = self.angles(x.size(-2))
        return x * angles.cos() + rotate_half(x) * angles.sin()


class InterleavedRotary(Rotary):
    """x (B, H, T, E), neighbours paired as in the paper on RoPE."""

    def forward(self, x: Tensor) -> Tensor:
        freqs = torch.outer(torch.arange(x.size(-2), dtype=torch.float), self.inv_freq)
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = (even * freqs.cos() - odd * freqs.sin(), even * freqs.sin() + odd * freqs.cos())
        return torch.stack(turned, dim=-1).flatten(-2)


# Wrong ---------------------------------------------------------------------------------------------------------------


def table_sine_for_both(length: int = 64, d_model: int = 32) -> Tensor:
    """Sine in both columns of a pair."""
    pe = torch.zeros(length, d_model)
    for pos in range(length):
        for i in range(0, d_model, 2):
            pe[pos, i] = math.sin(pos / 10000 ** (i / d_model))
            pe[pos, i + 1] = math.sin(pos / 10000 ** (i / d_model))
    return pe


def table_exponent_of_its_own(length: int = 64, d_model: int = 32) -> Tensor:
    """The cosine gets (i + 1) / d_model, as the formula reads if taken word for word."""
    pe = torch.zeros(length, d_model)
    for pos in range(length):
        for i in range(0, d_model, 2):
            pe[pos, i] = math.sin(pos / 10000 ** (i / d_model))
            pe[pos, i + 1] = math.cos(pos / 10000 ** ((i + 1) / d_model))
    return pe


def table_floor_division(length: int = 64, d_model: int = 32) -> Tensor:
    """i // d_model is always 0: every pair turns with the same speed."""
    pe = torch.zeros(length, d_model)
    for pos in range(length):
        for i in range(0, d_model, 2):
            pe[pos, i] = math.sin(pos / 10000 ** (i // d_model))
            pe[pos, i + 1] = math.cos(pos / 10000 ** (i // d_model))
    return pe


def numpy_table_multiplied(position: int = 64, d_model: int = 32) -> Tensor:
    """The exponent lost its minus: pos * 10000 ** (2i / d) grows where it should shrink."""
    i = np.arange(d_model)[np.newaxis, :]
    angles = np.arange(position)[:, np.newaxis] * np.power(10000, (2 * (i // 2)) / np.float32(d_model))
    angles[:, 0::2] = np.sin(angles[:, 0::2])
    angles[:, 1::2] = np.cos(angles[:, 1::2])
    return torch.tensor(angles[np.newaxis], dtype=torch.float32)


class PositionsOverBatch(PositionalEncoding):
    """pe was (max_len, 1, D) for length first; on (B, T, D) it is cut and spread along the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[: x.size(0)].unsqueeze(1)


class PositionsTwice(PositionalEncoding):
    """Added, and added again on the way out."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.pe[: x.size(1)]
        return x + self.pe[: x.size(1)]


class PositionsAllEqual(PositionalEncoding):
    """The last row of the slice is added everywhere: pe[T] where pe[:T] was meant."""

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[x.size(1)]


class PositionsMultiplied(PositionalEncoding):
    """Times instead of plus."""

    def forward(self, x: Tensor) -> Tensor:
        return x * self.pe[: x.size(1)]


class PositionsInPlace(PositionalEncoding):
    """x += changes what the caller holds."""

    def forward(self, x: Tensor) -> Tensor:
        x += self.pe[: x.size(1)]
        return x


class PositionsBackwards(PositionalEncoding):
    """The slice is taken from the end, so a word's place depends on how many come after it."""

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[: x.size(1)].flip(0)


class LearnedZeroIndex(LearnedPositions):
    """zeros_like where arange was meant."""

    def forward(self, x: Tensor) -> Tensor:
        positions = torch.zeros(x.size(1), dtype=torch.long, device=x.device)
        return x + self.position_embedding(positions)


class LearnedNotAParameter(nn.Module):
    """A plain tensor: no optimiser and no checkpoint knows it."""

    def __init__(self, d_model: int = 32, max_len: int = 64) -> None:
        super().__init__()
        self.position_embedding = torch.randn(max_len, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.position_embedding[: x.size(1)]


class RotaryOverHeads(Rotary):
    """x is (B, H, T, E), and size(1) the number of heads."""

    def forward(self, x: Tensor) -> Tensor:
        angles = self.angles(x.size(1)).unsqueeze(1)  # (H, 1, E)
        return x * angles.cos() + rotate_half(x) * angles.sin()


class RotaryWithoutMinus(Rotary):
    """rotate_half without the minus: no rotation, lengths change."""

    def forward(self, x: Tensor) -> Tensor:
        angles = self.angles(x.size(-2))
        x1, x2 = x.chunk(2, dim=-1)
        return x * angles.cos() + torch.cat((x2, x1), dim=-1) * angles.sin()


class RotaryMixedLayouts(Rotary):
    """Angles for neighbours, rotate_half for halves."""

    def forward(self, x: Tensor) -> Tensor:
        freqs = torch.outer(torch.arange(x.size(-2), dtype=torch.float), self.inv_freq)
        angles = freqs.repeat_interleave(2, dim=-1)
        return x * angles.cos() + rotate_half(x) * angles.sin()


class RotaryIntegerAngles(Rotary):
    """The frequencies were made with integers: all after the first are 0, and one pair alone turns."""

    def __init__(self, dim: int = 16, base: int = 10000) -> None:
        super().__init__(dim, base)
        self.inv_freq = (1 / (base ** (torch.arange(0, dim, 2) / dim))).long().float()
