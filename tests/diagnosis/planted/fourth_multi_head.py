"""Multi-head attention as a module in three more hands; a mask is True for look here, (T, T) or (B, 1, T, T)."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class DenseGeneralAttention(nn.Module):
    """A port from JAX, kernels (D, H, E): forward(inputs_q, inputs_kv, mask)."""

    def __init__(self, features: int = 32, num_heads: int = 2) -> None:
        super().__init__()
        head_dim = features // num_heads
        self.query = nn.Parameter(torch.randn(features, num_heads, head_dim) * features**-0.5)
        self.key = nn.Parameter(torch.randn(features, num_heads, head_dim) * features**-0.5)
        self.value = nn.Parameter(torch.randn(features, num_heads, head_dim) * features**-0.5)
        self.out = nn.Parameter(torch.randn(num_heads, head_dim, features) * features**-0.5)

    def kv(self, inputs_q: Tensor, inputs_kv: Tensor) -> tuple[Tensor, Tensor]:
        k = torch.einsum("bkf,fhd->bkhd", inputs_kv, self.key)
        v = torch.einsum("bkf,fhd->bkhd", inputs_kv, self.value)
        return k, v

    def forward(self, inputs_q: Tensor, inputs_kv: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        inputs_kv = inputs_q if inputs_kv is None else inputs_kv
        q = torch.einsum("bqf,fhd->bqhd", inputs_q, self.query) / math.sqrt(self.query.shape[-1])
        k, v = self.kv(inputs_q, inputs_kv)
        weights = torch.einsum("bqhd,bkhd->bhqk", q, k)
        if mask is not None:
            weights = torch.where(mask, weights, -1e10)
        x = torch.einsum("bhqk,bkhd->bqhd", F.softmax(weights, dim=-1), v)
        return torch.einsum("bqhd,hdf->bqf", x, self.out)


def clones(module: nn.Module, N: int) -> nn.ModuleList:
    return nn.ModuleList([copy.deepcopy(module) for _ in range(N)])


class MultiHeadedAttention(nn.Module):
    """Harvard's, with the list of four linear layers: forward(query, key, value, mask)."""

    def __init__(self, h: int = 2, d_model: int = 32) -> None:
        super().__init__()
        self.d_k = d_model // h
        self.h = h
        self.linears = self.make(nn.Linear(d_model, d_model))

    def make(self, linear: nn.Linear) -> nn.ModuleList:
        return clones(linear, 4)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), -1, self.h, self.d_k).transpose(1, 2)

    def join(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).contiguous().view(x.size(0), -1, self.h * self.d_k)

    def final(self, x: Tensor) -> Tensor:
        return self.linears[-1](x)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        query, key, value = (
            self.split(linear(x)) for linear, x in zip(self.linears, (query, key, value), strict=False)
        )
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.final(self.join(torch.matmul(scores.softmax(dim=-1), value)))


class DictAttention(nn.Module):
    """The projections in a dict, torch's fused attention: forward(x, mask)."""

    names = ("q", "k", "v")

    def __init__(self, dim: int = 32, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.proj = self.keep({name: nn.Linear(dim, dim, bias=False) for name in self.names})
        self.out = nn.Linear(dim, dim, bias=False)

    def keep(self, projections: dict[str, nn.Module]) -> Any:
        return nn.ModuleDict(projections)

    def fused(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        b, t, d = x.shape
        q, k, v = (self.proj[n](x).view(b, t, self.heads, d // self.heads).transpose(1, 2) for n in self.names)
        return self.out(self.fused(q, k, v, mask).transpose(1, 2).reshape(b, t, d))


class SharedKeyAttention(nn.Module):
    """A variant that is right: one key and one value for all heads: forward(x, mask)."""

    def __init__(self, dim: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.dim_head = heads, dim // heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * self.dim_head, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q = self.to_q(x).unflatten(-1, (self.heads, self.dim_head)) * self.dim_head**-0.5
        k, v = self.to_kv(x).chunk(2, dim=-1)
        sim = torch.einsum("bihd,bjd->bhij", q, k)
        if mask is not None:
            sim = sim.masked_fill(~mask, -1e9)
        return self.to_out(torch.einsum("bhij,bjd->bihd", sim.softmax(-1), v).flatten(2))


# Wrong ---------------------------------------------------------------------------------------------------------------


class ValuesFromQuerySide(DenseGeneralAttention):
    def kv(self, inputs_q: Tensor, inputs_kv: Tensor) -> tuple[Tensor, Tensor]:
        k = torch.einsum("bkf,fhd->bkhd", inputs_q, self.key)
        v = torch.einsum("bkf,fhd->bkhd", inputs_q, self.value)
        return k, v


class ClonesNotCopied(MultiHeadedAttention):
    def make(self, linear: nn.Linear) -> nn.ModuleList:
        return nn.ModuleList([linear for _ in range(4)])


class HeadsBeforeWords(MultiHeadedAttention):
    def split(self, x: Tensor) -> Tensor:
        return x.contiguous().view(x.size(0), self.h, -1, self.d_k)


class FinalLinearForgotten(MultiHeadedAttention):
    def final(self, x: Tensor) -> Tensor:
        return x


class PlainDictAttention(DictAttention):
    def keep(self, projections: dict[str, nn.Module]) -> Any:
        return projections


class FloatedMaskAttention(DictAttention):
    def fused(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else mask.to(q.dtype))
