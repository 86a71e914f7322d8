"""T5 in small: learned buckets of distance added to the scores, no 1/sqrt(d), RMS norms, one table for all words.

`model(input_ids, decoder_input_ids, attention_mask, decoder_attention_mask)` gives logits; encode() and decode() apart.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class T5Config:
    vocab_size: int = 32
    d_model: int = 32
    d_ff: int = 64
    num_heads: int = 2
    num_layers: int = 2
    num_buckets: int = 16
    max_distance: int = 32
    is_decoder: bool = False


class T5LayerNorm(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class T5Attention(nn.Module):
    def __init__(self, config: T5Config) -> None:
        super().__init__()
        d = config.d_model
        self.n_heads = config.num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        nn.init.normal_(self.q.weight, std=(d * d // self.n_heads) ** -0.5)

    def heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor, source: Tensor, bias: Tensor) -> Tensor:
        scores = self.heads(self.q(x)) @ self.heads(self.k(source)).transpose(2, 3) + bias
        return self.o((scores.softmax(dim=-1) @ self.heads(self.v(source))).transpose(1, 2).flatten(2))


class T5Block(nn.Module):
    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.self_attn = T5Attention(config)
        self.norm_self = T5LayerNorm(config.d_model)
        self.cross_attn = T5Attention(config) if config.is_decoder else None
        self.norm_cross = T5LayerNorm(config.d_model) if config.is_decoder else None
        self.wi = nn.Linear(config.d_model, config.d_ff, bias=False)
        self.wo = nn.Linear(config.d_ff, config.d_model, bias=False)
        self.norm_ff = T5LayerNorm(config.d_model)

    def cross(self, x: Tensor, memory: Tensor, bias: Tensor) -> Tensor:
        assert self.cross_attn is not None
        assert self.norm_cross is not None
        return self.cross_attn(self.norm_cross(x), memory, bias)

    def forward(self, x: Tensor, bias: Tensor, memory: Tensor | None, memory_bias: Tensor | None) -> Tensor:
        y = self.norm_self(x)
        x = x + self.self_attn(y, y, bias)
        if memory is not None and memory_bias is not None:
            x = x + self.cross(x, memory, memory_bias)
        return x + self.wo(F.relu(self.wi(self.norm_ff(x))))


def additive(keep: Tensor) -> Tensor:
    return (1.0 - keep.float()) * torch.finfo(torch.float).min


class T5Stack(nn.Module):
    block: type[T5Block] = T5Block

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.config = config
        self.blocks = nn.ModuleList([self.block(config) for _ in range(config.num_layers)])
        self.relative_attention_bias = nn.Embedding(config.num_buckets, config.num_heads)
        self.final_layer_norm = T5LayerNorm(config.d_model)

    def bucket(self, relative_position: Tensor) -> Tensor:
        buckets, found = self.config.num_buckets, torch.zeros_like(relative_position)
        if self.config.is_decoder:
            distance = -torch.min(relative_position, torch.zeros_like(relative_position))
        else:
            buckets //= 2
            found = (relative_position > 0).long() * buckets
            distance = relative_position.abs()
        exact = buckets // 2
        far = torch.log(distance.clamp(min=1).float() / exact) / math.log(self.config.max_distance / exact)
        large = (exact + far * (buckets - exact)).long().clamp(max=buckets - 1)
        return found + torch.where(distance < exact, distance, large)

    def relative_position(self, length: int, device: torch.device) -> Tensor:
        context_position = torch.arange(length, device=device)[:, None]
        memory_position = torch.arange(length, device=device)[None, :]
        return memory_position - context_position

    def position_bias(self, length: int, device: torch.device) -> Tensor:
        buckets = self.bucket(self.relative_position(length, device))
        return self.relative_attention_bias(buckets).permute(2, 0, 1).unsqueeze(0)

    def extended(self, x: Tensor, keep: Tensor | None) -> Tensor:
        """The mask, (B or 1, 1, T or 1, T), to be added."""
        mask = torch.ones(1, 1, 1, x.size(1), dtype=torch.bool, device=x.device)
        if keep is not None:
            mask = keep.bool()[:, None, None, :]
        if self.config.is_decoder:
            mask = mask & torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).tril()
        return additive(mask)

    def forward(
        self, x: Tensor, keep: Tensor | None, memory: Tensor | None = None, memory_keep: Tensor | None = None
    ) -> Tensor:
        bias = self.position_bias(x.size(1), x.device) + self.extended(x, keep)
        memory_bias = None
        if memory is not None:
            seen = torch.ones(memory.shape[:2], device=x.device) if memory_keep is None else memory_keep
            memory_bias = additive(seen[:, None, None, :])
        for block in self.blocks:
            x = block(x, bias, memory, memory_bias)
        return self.final_layer_norm(x)


class LittleT5(nn.Module):
    stack: type[T5Stack] = T5Stack

    def __init__(self) -> None:
        super().__init__()
        config = T5Config()
        self.d_model = config.d_model
        self.shared = nn.Embedding(config.vocab_size, config.d_model)
        nn.init.normal_(self.shared.weight, std=0.5)
        self.encoder = T5Stack(self.encoder_config(config))
        self.decoder = self.stack(self.decoder_config(config))

    def encoder_config(self, config: T5Config) -> T5Config:
        return copy.deepcopy(config)

    def decoder_config(self, config: T5Config) -> T5Config:
        config = copy.deepcopy(config)
        config.is_decoder = True
        return config

    def encode(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return self.encoder(self.shared(input_ids), attention_mask)

    def decode(
        self, ids: Tensor, memory: Tensor, attention_mask: Tensor | None = None, decoder_mask: Tensor | None = None
    ) -> Tensor:
        x = self.decoder(self.shared(ids), decoder_mask, memory, attention_mask)
        return F.linear(x * self.d_model**-0.5, self.shared.weight)

    def forward(
        self,
        input_ids: Tensor,
        decoder_input_ids: Tensor,
        attention_mask: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
    ) -> Tensor:
        memory = self.encode(input_ids, attention_mask)
        return self.decode(decoder_input_ids, memory, attention_mask, decoder_attention_mask)


# Wrong ---------------------------------------------------------------------------------------------------------------


class SelfTwiceBlock(T5Block):
    def cross(self, x: Tensor, memory: Tensor, bias: Tensor) -> Tensor:
        assert self.cross_attn is not None
        assert self.norm_cross is not None
        y = self.norm_cross(x)
        return self.cross_attn(y, y, torch.zeros_like(bias[..., :1]))


class SelfTwiceStack(T5Stack):
    block = SelfTwiceBlock


class SelfTwiceT5(LittleT5):
    stack = SelfTwiceStack


class GivenMaskOnlyStack(T5Stack):
    def extended(self, x: Tensor, keep: Tensor | None) -> Tensor:
        if keep is not None:
            return additive(keep.bool()[:, None, None, :])
        return super().extended(x, keep)


class GivenMaskOnlyT5(LittleT5):
    stack = GivenMaskOnlyStack


class ContextMinusMemoryStack(T5Stack):
    def relative_position(self, length: int, device: torch.device) -> Tensor:
        context_position = torch.arange(length, device=device)[:, None]
        memory_position = torch.arange(length, device=device)[None, :]
        return context_position - memory_position


class ContextMinusMemoryT5(LittleT5):
    stack = ContextMinusMemoryStack


class OneConfigT5(LittleT5):
    def encoder_config(self, config: T5Config) -> T5Config:
        return config

    def decoder_config(self, config: T5Config) -> T5Config:
        config.is_decoder = True
        return config
