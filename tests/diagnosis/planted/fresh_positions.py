"""More position encodings: a table, a module with dropout, complex rotation, ALiBi, a parameter."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Right ---------------------------------------------------------------------------------------------------------------


def position_table(max_len: int = 64, dim: int = 32) -> Tensor:
    """(max_len, dim): sine in the even columns, cosine in the odd ones."""
    pos = torch.arange(max_len, dtype=torch.float)[:, None]
    two_i = torch.arange(0, dim, 2, dtype=torch.float)[None, :]
    angle = pos / 10000 ** (two_i / dim)
    table = torch.empty(max_len, dim)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()
    return table


class DroppedPositions(nn.Module):
    """dropout(x + table) on (B, T, D)."""

    def __init__(self, d_model: int = 32, dropout: float = 0.1, max_len: int = 64) -> None:
        super().__init__()
        self.p = dropout
        self.register_buffer("pe", position_table(max_len, d_model)[None], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x + self.pe[:, : x.shape[1]], self.p, self.training)


class ComplexRotary(nn.Module):
    """x (B, H, T, E), neighbours as complex numbers, beginning at place `offset`."""

    def __init__(self, head_dim: int = 16, max_len: int = 128, theta: float = 10000.0) -> None:
        super().__init__()
        freqs = theta ** -(torch.arange(0, head_dim, 2).float() / head_dim)
        self.register_buffer("freqs_cis", self.table(torch.outer(torch.arange(max_len).float(), freqs)), False)

    def table(self, angles: Tensor) -> Tensor:
        return torch.polar(torch.ones_like(angles), angles)

    def places(self, length: int, offset: int) -> Tensor:
        return self.freqs_cis[offset : offset + length]

    def forward(self, x: Tensor, offset: int = 0) -> Tensor:
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * self.places(x.size(-2), offset)).flatten(-2).type_as(x)


def alibi_bias(n_heads: int = 4, length: int = 32) -> Tensor:
    """(H, T, T), added to the scores: 0 for the word itself, lower and lower with the distance."""
    slopes = torch.tensor([2 ** (-8 * (h + 1) / n_heads) for h in range(n_heads)])
    place = torch.arange(length)
    return -slopes[:, None, None] * (place[:, None] - place[None, :]).abs()


class ParameterPositions(nn.Module):
    """A learned row for each place, (1, max_len, D) as in ViT, added to x (B, T, D)."""

    def __init__(self, dim: int = 32, max_len: int = 64) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.randn(1, max_len, dim) * 0.02)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pos_embedding[:, : x.size(1)]


# Wrong ---------------------------------------------------------------------------------------------------------------


def position_table_order(max_len: int = 64, dim: int = 32) -> Tensor:
    """The brackets of the exponent are lost: ten thousand is raised to 2i and that is divided by dim."""
    pos = torch.arange(max_len, dtype=torch.float)[:, None]
    two_i = torch.arange(0, dim, 2, dtype=torch.float)[None, :]
    angle = pos / (10000**two_i / dim)
    table = torch.empty(max_len, dim)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()
    return table


def position_table_doubled(max_len: int = 64, dim: int = 32) -> Tensor:
    """The arange counts by two already, and the formula's 2i doubles it again."""
    pos = torch.arange(max_len, dtype=torch.float)[:, None]
    i = torch.arange(0, dim, 2, dtype=torch.float)[None, :]
    angle = pos / 10000 ** (2 * i / dim)
    table = torch.empty(max_len, dim)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()
    return table


def position_table_log10(max_len: int = 64, dim: int = 32) -> Tensor:
    """log10 under exp: a base of 55 where 10000 was meant."""
    pos = torch.arange(max_len, dtype=torch.float)[:, None]
    angle = pos * torch.exp(torch.arange(0, dim, 2) * -(math.log10(10000.0) / dim))
    table = torch.empty(max_len, dim)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()
    return table


def position_table_overwritten(max_len: int = 64, dim: int = 32) -> Tensor:
    """0::2 in both lines: the cosine takes the place of the sine, and every other column stays empty."""
    pos = torch.arange(max_len, dtype=torch.float)[:, None]
    two_i = torch.arange(0, dim, 2, dtype=torch.float)[None, :]
    angle = pos / 10000 ** (two_i / dim)
    table = torch.zeros(max_len, dim)
    table[:, 0::2] = angle.sin()
    table[:, 0::2] = angle.cos()
    return table


class DroppedInEvaluation(DroppedPositions):
    """F.dropout is not told about self.training."""

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x + self.pe[:, : x.shape[1]], self.p)


class FirstPlaceForAll(DroppedPositions):
    """The comma moves: pe[:, 0] instead of pe[:, :T]."""

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x + self.pe[:, 0], self.p, self.training)


class PolarExchanged(ComplexRotary):
    """polar(angles, ones): the angle is the length and the length the angle."""

    def table(self, angles: Tensor) -> Tensor:
        return torch.polar(angles, torch.ones_like(angles))


class OffsetUnused(ComplexRotary):
    """offset is an argument and no more: what comes after a cache begins at place 0."""

    def places(self, length: int, offset: int) -> Tensor:
        return self.freqs_cis[:length]


class RotatedByLast(ComplexRotary):
    """freqs_cis[length] where [:length] was meant: everything is turned alike."""

    def places(self, length: int, offset: int) -> Tensor:
        return self.freqs_cis[offset + length]


def alibi_bias_upwards(n_heads: int = 4, length: int = 32) -> Tensor:
    """Without the minus, what is far is favoured."""
    slopes = torch.tensor([2 ** (-8 * (h + 1) / n_heads) for h in range(n_heads)])
    place = torch.arange(length)
    return slopes[:, None, None] * (place[:, None] - place[None, :]).abs()


def alibi_bias_by_query(n_heads: int = 4, length: int = 32) -> Tensor:
    """The place of the query alone, which a softmax does not notice."""
    slopes = torch.tensor([2 ** (-8 * (h + 1) / n_heads) for h in range(n_heads)])
    place = torch.arange(length)
    return -slopes[:, None, None] * place[None, :, None].expand(1, length, length)


class SlicedByWidth(ParameterPositions):
    """size(-1) is the width: crash, unless the length happens to be the same."""

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pos_embedding[:, : x.size(-1)]


class FrozenPretrained(ParameterPositions):
    """nn.Embedding.from_pretrained freezes unless told otherwise."""

    def __init__(self, dim: int = 32, max_len: int = 64) -> None:
        super().__init__(dim, max_len)
        self.pos_embedding.requires_grad_(False)
        self.rows = nn.Embedding.from_pretrained(self.pos_embedding[0])
        del self.pos_embedding

    def forward(self, x: Tensor) -> Tensor:
        return x + self.rows(torch.arange(x.size(1), device=x.device))
