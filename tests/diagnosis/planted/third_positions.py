"""Positions as loops, as numpy, as a buffer, and as a rotation, right and wrong.

A function returns a table; a module adds to (B, T, D), and `NotebookRotary` turns (B, heads, T, width).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

# Right ---------------------------------------------------------------------------------------------------------------


def sinusoid_encoding_table(n_position: int = 64, d_hid: int = 32) -> Tensor:
    def get_position_angle_vec(position: int) -> list[float]:
        return [position / np.power(10000, 2 * (hid_j // 2) / d_hid) for hid_j in range(d_hid)]

    table = np.array([get_position_angle_vec(pos_i) for pos_i in range(n_position)])
    table[:, 0::2] = np.sin(table[:, 0::2])
    table[:, 1::2] = np.cos(table[:, 1::2])
    return torch.FloatTensor(table).unsqueeze(0)


def timing_signal(length: int = 64, channels: int = 32) -> Tensor:
    """Healthy: all sines first and all cosines then, as the first library of the paper has it."""
    position = torch.arange(length).float()
    num_timescales = channels // 2
    log_timescale_increment = math.log(10000.0) / (num_timescales - 1)
    inv_timescales = torch.exp(torch.arange(num_timescales).float() * -log_timescale_increment)
    scaled_time = position.unsqueeze(1) * inv_timescales.unsqueeze(0)
    return torch.cat([torch.sin(scaled_time), torch.cos(scaled_time)], dim=1)


class LoopedEncoder(nn.Module):
    """The embedding is made larger, and the sines are added."""

    def __init__(self, d_model: int = 32, max_seq_len: int = 64) -> None:
        super().__init__()
        self.d_model = d_model
        pe = torch.zeros(max_seq_len, d_model)
        for pos in range(max_seq_len):
            for i in range(0, d_model, 2):
                pe[pos, i] = math.sin(self.angle(pos, i))
                pe[pos, i + 1] = math.cos(self.angle(pos, i, odd=True))
        self.register_buffer("pe", pe.unsqueeze(0), persistent=False)

    def angle(self, pos: int, i: int, odd: bool = False) -> float:
        return pos / (10000 ** (i / self.d_model))

    def forward(self, x: Tensor) -> Tensor:
        x = x * math.sqrt(self.d_model)
        seq_len = x.size(1)
        return x + self.pe[:, :seq_len]


class BufferedPositions(nn.Module):
    def __init__(self, d_model: int = 32, seq_len: int = 64, dropout: float = 0.1) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        pe = torch.zeros(seq_len, d_model)
        position = torch.arange(0, seq_len, dtype=torch.float).unsqueeze(1)
        div_term = self.div_term(d_model)
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0), persistent=False)

    def div_term(self, d_model: int) -> Tensor:
        return torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))

    def forward(self, x: Tensor) -> Tensor:
        x = x + (self.pe[:, : x.shape[1], :]).requires_grad_(False)
        return self.dropout(x)


class NotebookRotary(nn.Module):
    def __init__(self, head_dim: int = 16, context_length: int = 64, theta_base: float = 10000.0) -> None:
        super().__init__()
        inv_freq = 1.0 / (theta_base ** (torch.arange(0, head_dim, 2).float() / head_dim))
        angles = self.spread(torch.arange(context_length).float()[:, None] * inv_freq[None, :])
        self.register_buffer("cos", torch.cos(angles), persistent=False)
        self.register_buffer("sin", torch.sin(angles), persistent=False)

    def spread(self, angles: Tensor) -> Tensor:
        return torch.cat([angles, angles], dim=1)

    def halves(self, x: Tensor) -> tuple[Tensor, Tensor]:
        head_dim = x.size(-1)
        return x[..., : head_dim // 2], x[..., head_dim // 2 :]

    def rows(self, x: Tensor) -> tuple[Tensor, Tensor]:
        seq_len = x.shape[2]
        return self.cos[:seq_len], self.sin[:seq_len]

    def forward(self, x: Tensor) -> Tensor:
        cos, sin = self.rows(x)
        x1, x2 = self.halves(x)
        rotated = torch.cat((-x2, x1), dim=-1)
        return x * cos + rotated * sin


# Wrong ---------------------------------------------------------------------------------------------------------------


def sinusoid_two_j(n_position: int = 64, d_hid: int = 32) -> Tensor:
    """2j where 2 (j // 2) was meant: each column has a frequency of its own, twice as steep."""

    def get_position_angle_vec(position: int) -> list[float]:
        return [position / np.power(10000, 2 * hid_j / d_hid) for hid_j in range(d_hid)]

    table = np.array([get_position_angle_vec(pos_i) for pos_i in range(n_position)])
    table[:, 0::2] = np.sin(table[:, 0::2])
    table[:, 1::2] = np.cos(table[:, 1::2])
    return torch.FloatTensor(table).unsqueeze(0)


def sinusoid_rows(n_position: int = 64, d_hid: int = 32) -> Tensor:
    """Sines for the even places, cosines for the odd ones."""

    def get_position_angle_vec(position: int) -> list[float]:
        return [position / np.power(10000, 2 * (hid_j // 2) / d_hid) for hid_j in range(d_hid)]

    table = np.array([get_position_angle_vec(pos_i) for pos_i in range(n_position)])
    table[0::2] = np.sin(table[0::2])
    table[1::2] = np.cos(table[1::2])
    return torch.FloatTensor(table).unsqueeze(0)


class LoopedTwice(LoopedEncoder):
    """i steps by two already, and the cosine is one further on."""

    def angle(self, pos: int, i: int, odd: bool = False) -> float:
        return pos / (10000 ** ((2 * (i + odd)) / self.d_model))


class PlacesOfRows(LoopedEncoder):
    """The rows of the batch have the places."""

    def forward(self, x: Tensor) -> Tensor:
        x = x * math.sqrt(self.d_model)
        return x + self.pe.transpose(0, 1)[: x.size(0)]


class OneRowForAll(BufferedPositions):
    """A colon is missing: the row after the last one, for every place."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.pe[:, x.shape[1], :].requires_grad_(False)
        return self.dropout(x)


class MinusForgotten(BufferedPositions):
    """Frequencies that grow: up to ten thousand turns a place."""

    def div_term(self, d_model: int) -> Tensor:
        return torch.exp(torch.arange(0, d_model, 2).float() * (math.log(10000.0) / d_model))


class TurnedByRowOfHeads(NotebookRotary):
    """The length is read one axis too early."""

    def rows(self, x: Tensor) -> tuple[Tensor, Tensor]:
        seq_len = x.shape[1]
        return self.cos[:seq_len, None, :], self.sin[:seq_len, None, :]


class AnglesInPairs(NotebookRotary):
    """repeat_interleave belongs to the other layout."""

    def spread(self, angles: Tensor) -> Tensor:
        return angles.repeat_interleave(2, dim=-1)


class EveryOtherHalf(NotebookRotary):
    """Even and odd columns, joined as if they were halves."""

    def halves(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x[..., ::2], x[..., 1::2]
