"""Position encodings: Marian's halves, a Chinese tutorial's, NeoX's rotation, T5's buckets, learned rows."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

# Right ---------------------------------------------------------------------------------------------------------------


def halves_table(n_pos: int = 64, dim: int = 32) -> Tensor:
    """(n_pos, dim): sines in the left half, cosines in the right."""
    position_enc = np.array([[pos / np.power(10000, 2 * (j // 2) / dim) for j in range(dim)] for pos in range(n_pos)])
    table = [np.sin(position_enc[:, 0::2]), np.cos(position_enc[:, 1::2])]
    return torch.tensor(np.concatenate(table, axis=1), dtype=torch.float32)


def relative_buckets(length: int = 40, num_buckets: int = 16, max_distance: int = 32) -> Tensor:
    """(length, length): T5's bucket of key - query, the upper half of the buckets for what lies ahead."""
    relative = torch.arange(length)[None, :] - torch.arange(length)[:, None]
    num_buckets //= 2
    found = (relative > 0).long() * num_buckets
    n = relative.abs()
    exact = num_buckets // 2
    large = exact + (torch.log(n.clamp(min=1) / exact) / math.log(max_distance / exact) * (num_buckets - exact)).long()
    return found + torch.where(n < exact, n, large.clamp(max=num_buckets - 1))


class SinusoidZh(nn.Module):
    """位置编码: x 为 (B, T, D), 加上正弦和余弦。"""

    pe: Tensor

    def __init__(self, d_model: int = 32, max_len: int = 64) -> None:
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len).unsqueeze(1).float()
        div_term = self.div_term(d_model)
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0), persistent=False)  # 增加批次维度

    def div_term(self, d_model: int) -> Tensor:
        return torch.exp(torch.arange(0, d_model, 2).float() * -(math.log(10000.0) / d_model))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[:, : x.size(1)]


def rotate_half(x: Tensor) -> Tensor:
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class NeoXRotary(nn.Module):
    """x (B, H, T, E) turned, its first half against its second: forward(x, offset)."""

    cos: Tensor
    sin: Tensor

    def __init__(self, dim: int = 16, max_len: int = 64) -> None:
        super().__init__()
        inv_freq = 1.0 / (10000 ** (torch.arange(0, dim, 2).float() / dim))
        emb = self.both(torch.outer(torch.arange(max_len).float(), inv_freq))
        self.register_buffer("cos", emb.cos(), persistent=False)
        self.register_buffer("sin", emb.sin(), persistent=False)

    def both(self, freqs: Tensor) -> Tensor:
        return torch.cat((freqs, freqs), dim=-1)

    def half(self, x: Tensor) -> Tensor:
        return rotate_half(x)

    def forward(self, x: Tensor, offset: int = 0) -> Tensor:
        cos, sin = self.cos[offset : offset + x.size(-2)], self.sin[offset : offset + x.size(-2)]
        return x * cos + self.half(x) * sin


class PositionRows(nn.Module):
    """x (B, T, D) with a learned row for each place, the places kept in a buffer."""

    position_ids: Tensor

    def __init__(self, hidden: int = 32, max_len: int = 64) -> None:
        super().__init__()
        self.position_embeddings = nn.Embedding(max_len, hidden)
        self.register_buffer("position_ids", torch.arange(max_len).unsqueeze(0), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.position_embeddings(self.position_ids[:, : x.size(1)])


# Wrong ---------------------------------------------------------------------------------------------------------------


def halves_table_floored(n_pos: int = 64, dim: int = 32) -> Tensor:
    position_enc = np.array([[pos / np.power(10000, 2 * (j // 2) // dim) for j in range(dim)] for pos in range(n_pos)])
    table = [np.sin(position_enc[:, 0::2]), np.cos(position_enc[:, 1::2])]
    return torch.tensor(np.concatenate(table, axis=1), dtype=torch.float32)


def relative_buckets_clamped(length: int = 40, num_buckets: int = 16, max_distance: int = 32) -> Tensor:
    relative = torch.arange(length)[None, :] - torch.arange(length)[:, None]
    num_buckets //= 2
    found = (relative > 0).long() * num_buckets
    n = relative.clamp(min=0)
    exact = num_buckets // 2
    large = exact + (torch.log(n.clamp(min=1) / exact) / math.log(max_distance / exact) * (num_buckets - exact)).long()
    return found + torch.where(n < exact, n, large.clamp(max=num_buckets - 1))


class MinusForgottenZh(SinusoidZh):
    def div_term(self, d_model: int) -> Tensor:
        return torch.exp(torch.arange(0, d_model, 2).float() * (math.log(10000.0) / d_model))


class MinusForgottenRotary(NeoXRotary):
    def half(self, x: Tensor) -> Tensor:
        x1, x2 = x.chunk(2, dim=-1)
        return torch.cat((x2, x1), dim=-1)


class TwoFormsMixedRotary(NeoXRotary):
    def both(self, freqs: Tensor) -> Tensor:
        return freqs.repeat_interleave(2, dim=-1)


class RowsMadeInForward(PositionRows):
    def forward(self, x: Tensor) -> Tensor:
        position_embeddings = nn.Embedding(x.size(1), x.size(2)).to(x.device)
        return x + position_embeddings(self.position_ids[:, : x.size(1)])
