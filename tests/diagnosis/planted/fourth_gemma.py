"""Gemma and Mistral in small: grouped keys, a sliding window, norms that multiply by 1 + weight, a key-value cache.

`model(input_ids, past_key_values=None)` gives a dataclass with logits and past_key_values, one (k, v) for each layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

KeyValue = tuple[Tensor, Tensor]


@dataclass
class ModelOutput:
    logits: Tensor
    past_key_values: list[KeyValue]


class GemmaRMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return normed * (1.0 + self.weight)


def rope(x: Tensor, positions: Tensor) -> Tensor:
    half = x.size(-1) // 2
    freq = 10000.0 ** (-torch.arange(half, device=x.device) / half)
    angle = positions[:, None] * freq
    x1, x2 = x[..., :half], x[..., half:]
    return torch.cat([x1 * angle.cos() - x2 * angle.sin(), x2 * angle.cos() + x1 * angle.sin()], dim=-1)


class GemmaAttention(nn.Module):
    def __init__(self, dim: int, n_heads: int, n_kv_heads: int, window: int) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim, self.window = n_heads, n_kv_heads, dim // n_heads, window
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)

    def positions(self, start: int, length: int, device: torch.device) -> Tensor:
        return torch.arange(start, start + length, device=device)

    def allowed(self, i: Tensor, j: Tensor) -> Tensor:
        return (j <= i) & (i - j < self.window)

    def update(self, past: KeyValue | None, k: Tensor, v: Tensor) -> KeyValue:
        if past is None:
            return k, v
        return torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, start: int) -> Tensor:
        i = torch.arange(start, start + q.size(2), device=q.device)[:, None]
        j = torch.arange(k.size(2), device=q.device)[None, :]
        scores = q @ k.transpose(2, 3) * self.head_dim**-0.5
        return scores.masked_fill(~self.allowed(i, j), torch.finfo(q.dtype).min).softmax(dim=-1) @ v

    def forward(self, x: Tensor, past: KeyValue | None) -> tuple[Tensor, KeyValue]:
        b, t, _ = x.shape
        start = 0 if past is None else past[0].size(2)
        q = self.q_proj(x).view(b, t, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(b, t, self.n_kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(b, t, self.n_kv_heads, self.head_dim).transpose(1, 2)
        positions = self.positions(start, t, x.device)
        k, v = past = self.update(past, rope(k, positions), v)
        groups = self.n_heads // self.n_kv_heads
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        out = self.attend(rope(q, positions), k, v, k.size(2) - t)
        return self.o_proj(out.transpose(1, 2).reshape(b, t, -1)), past


class GemmaLayer(nn.Module):
    attention: type[GemmaAttention] = GemmaAttention
    norm: type[GemmaRMSNorm] = GemmaRMSNorm

    def __init__(self, dim: int, n_heads: int, n_kv_heads: int, window: int) -> None:
        super().__init__()
        self.self_attn = self.attention(dim, n_heads, n_kv_heads, window)
        self.gate_proj = nn.Linear(dim, 2 * dim, bias=False)
        self.up_proj = nn.Linear(dim, 2 * dim, bias=False)
        self.down_proj = nn.Linear(2 * dim, dim, bias=False)
        self.input_layernorm = self.norm(dim)
        self.post_attention_layernorm = self.norm(dim)

    def forward(self, x: Tensor, past: KeyValue | None) -> tuple[Tensor, KeyValue]:
        attended, past = self.self_attn(self.input_layernorm(x), past)
        x = x + attended
        y = self.post_attention_layernorm(x)
        return x + self.down_proj(F.gelu(self.gate_proj(y), approximate="tanh") * self.up_proj(y)), past


class LittleGemma(nn.Module):
    layer: type[GemmaLayer] = GemmaLayer
    window = 4

    def __init__(self, vocab_size: int = 32, dim: int = 32, n_layers: int = 2) -> None:
        super().__init__()
        self.normalizer = dim**0.5
        self.embed_tokens = nn.Embedding(vocab_size, dim)
        self.layers = nn.ModuleList(self.layer(dim, 4, 2, self.window) for _ in range(n_layers))
        self.norm = self.layer.norm(dim)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.08)

    def forward(self, input_ids: Tensor, past_key_values: list[KeyValue] | None = None) -> ModelOutput:
        x = self.embed_tokens(input_ids) * self.normalizer
        presents = []
        for n, layer in enumerate(self.layers):
            x, present = layer(x, None if past_key_values is None else past_key_values[n])
            presents.append(present)
        return ModelOutput(F.linear(self.norm(x), self.embed_tokens.weight), presents)


class WideGemma(LittleGemma):
    """A variant that is right: the window holds everything."""

    window = 64


# Wrong ---------------------------------------------------------------------------------------------------------------


class WindowBothWaysAttention(GemmaAttention):
    def allowed(self, i: Tensor, j: Tensor) -> Tensor:
        return (i - j).abs() < self.window


class WindowBothWaysLayer(GemmaLayer):
    attention = WindowBothWaysAttention


class WindowBothWaysGemma(LittleGemma):
    layer = WindowBothWaysLayer


class MultipliedMaskAttention(GemmaAttention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor, start: int) -> Tensor:
        low = torch.finfo(q.dtype).min
        mask = torch.triu(torch.full((q.size(2), k.size(2)), low, device=q.device), diagonal=1 + start)
        mask = mask * torch.tril(torch.ones_like(mask), diagonal=start - self.window)
        return (q @ k.transpose(2, 3) * self.head_dim**-0.5 + mask).softmax(dim=-1) @ v


class MultipliedMaskLayer(GemmaLayer):
    attention = MultipliedMaskAttention


class MultipliedMaskGemma(LittleGemma):
    layer = MultipliedMaskLayer


class PlainWeightNorm(GemmaRMSNorm):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class PlainWeightLayer(GemmaLayer):
    norm = PlainWeightNorm


class PlainWeightGemma(LittleGemma):
    layer = PlainWeightLayer


class OneFurtherAttention(GemmaAttention):
    def positions(self, start: int, length: int, device: torch.device) -> Tensor:
        if start > 0:
            start = start + 1
        return torch.arange(start, start + length, device=device)


class OneFurtherLayer(GemmaLayer):
    attention = OneFurtherAttention


class OneFurtherGemma(LittleGemma):
    layer = OneFurtherLayer


class NeverAppendedAttention(GemmaAttention):
    def update(self, past: KeyValue | None, k: Tensor, v: Tensor) -> KeyValue:
        if past is not None:
            torch.cat([past[0], k], dim=2)
            torch.cat([past[1], v], dim=2)
        return k, v


class NeverAppendedLayer(GemmaLayer):
    attention = NeverAppendedAttention


class NeverAppendedGemma(LittleGemma):
    layer = NeverAppendedLayer


class TopLeftCausalAttention(GemmaAttention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor, start: int) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class TopLeftCausalLayer(GemmaLayer):
    attention = TopLeftCausalAttention


class TopLeftCausalGemma(WideGemma):
    layer = TopLeftCausalLayer
