"""A small GPT with rotary positions and a cache, written from a Llama tutorial; and what goes wrong with a cache.

`logits, cache = model(idx)` reads a prompt; `logits, cache = model(next_idx, cache)` goes on from there, with one
token or several. A cache is a list with (keys, values) for each layer.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LayerCache = tuple[Tensor, Tensor]


def rope_frequencies(head_dim: int, max_len: int, theta: float = 10000.0) -> Tensor:
    inv_freq = 1.0 / theta ** (torch.arange(0, head_dim, 2).float() / head_dim)
    angles = torch.outer(torch.arange(max_len).float(), inv_freq)
    return torch.polar(torch.ones_like(angles), angles)  # (max_len, head_dim / 2), complex


def apply_rope(x: Tensor, freqs: Tensor) -> Tensor:
    # x: (B, H, T, head_dim), freqs: (T, head_dim / 2)
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * freqs).flatten(-2).type_as(x)


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Attention(nn.Module):
    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.wk(x).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.wv(x).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)
        return q, k, v

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        T, S = q.size(-2), k.size(-2)
        # query i stands at place S - T + i and sees the keys up to there
        mask = torch.ones(T, S, dtype=torch.bool, device=q.device).tril(S - T)
        scores = q @ k.transpose(-2, -1) / self.head_dim**0.5
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        out = (weights @ v).transpose(1, 2)
        return self.wo(out.reshape(out.size(0), T, -1))

    def forward(self, x: Tensor, freqs: Tensor, cache: LayerCache | None = None) -> tuple[Tensor, LayerCache]:
        q, k, v = self.project(x)
        start = 0 if cache is None else cache[0].size(-2)
        now = freqs[start : start + x.size(1)]
        q, k = apply_rope(q, now), apply_rope(k, now)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=-2)
            v = torch.cat([cache[1], v], dim=-2)
        return self.attend(q, k, v), (k, v)


class FeedForward(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, 3 * dim, bias=False)
        self.up = nn.Linear(dim, 3 * dim, bias=False)
        self.down = nn.Linear(3 * dim, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class DecoderLayer(nn.Module):
    def __init__(self, attention: nn.Module, dim: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(dim)
        self.attention = attention
        self.ffn_norm = RMSNorm(dim)
        self.feed_forward = FeedForward(dim)

    def forward(self, x: Tensor, freqs: Tensor, cache: LayerCache | None = None) -> tuple[Tensor, LayerCache]:
        attended, cache = self.attention(self.attention_norm(x), freqs, cache)
        x = x + attended
        return x + self.feed_forward(self.ffn_norm(x)), cache


class CachedGPT(nn.Module):
    attention: type[Attention] = Attention

    def __init__(
        self, vocab_size: int = 32, dim: int = 32, num_heads: int = 2, num_layers: int = 2, max_len: int = 64
    ) -> None:
        super().__init__()
        self.max_len = max_len
        self.tok_embeddings = nn.Embedding(vocab_size, dim)
        self.layers = nn.ModuleList(DecoderLayer(self.attention(dim, num_heads), dim) for _ in range(num_layers))
        self.norm = RMSNorm(dim)
        self.output = nn.Linear(dim, vocab_size, bias=False)
        self.register_buffer("freqs", rope_frequencies(dim // num_heads, max_len), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.06)

    def forward(self, idx: Tensor, cache: list[LayerCache] | None = None) -> tuple[Tensor, list[LayerCache]]:
        x = self.tok_embeddings(idx)
        new_cache = []
        for i, layer in enumerate(self.layers):
            x, layer_cache = layer(x, self.freqs, None if cache is None else cache[i])
            new_cache.append(layer_cache)
        return self.output(self.norm(x)), new_cache

    @torch.inference_mode()
    def generate(self, idx: Tensor, max_new_tokens: int = 8) -> Tensor:
        logits, cache = self(idx)
        for _ in range(max_new_tokens):
            next_idx = logits[:, -1].argmax(-1, keepdim=True)
            idx = torch.cat([idx, next_idx], dim=1)
            logits, cache = self(next_idx, cache)
        return idx


class RestartingAttention(Attention):
    """Every call counts its positions from 0, whatever the cache holds."""

    def forward(self, x: Tensor, freqs: Tensor, cache: LayerCache | None = None) -> tuple[Tensor, LayerCache]:
        q, k, v = self.project(x)
        freqs = freqs[: x.size(1)]
        q, k = apply_rope(q, freqs), apply_rope(k, freqs)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=-2)
            v = torch.cat([cache[1], v], dim=-2)
        return self.attend(q, k, v), (k, v)


class CacheWithoutPositionsGPT(CachedGPT):
    attention = RestartingAttention


class SkippingAttention(Attention):
    """The token after n cached ones is given place n + 1, as if the cache began at 1."""

    def forward(self, x: Tensor, freqs: Tensor, cache: LayerCache | None = None) -> tuple[Tensor, LayerCache]:
        q, k, v = self.project(x)
        start = 0 if cache is None else cache[0].size(-2) + 1
        now = freqs[start : start + x.size(1)]
        q, k = apply_rope(q, now), apply_rope(k, now)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=-2)
            v = torch.cat([cache[1], v], dim=-2)
        return self.attend(q, k, v), (k, v)


class CacheOffByOneGPT(CachedGPT):
    attention = SkippingAttention


class ForgetfulAttention(Attention):
    """What is handed on is the newest chunk only: the cache is overwritten at every step."""

    def forward(self, x: Tensor, freqs: Tensor, cache: LayerCache | None = None) -> tuple[Tensor, LayerCache]:
        q, k, v = self.project(x)
        start = 0 if cache is None else cache[0].size(-2)
        now = freqs[start : start + x.size(1)]
        q, k = apply_rope(q, now), apply_rope(k, now)
        new_cache = (k, v)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=-2)
            v = torch.cat([cache[1], v], dim=-2)
        return self.attend(q, k, v), new_cache


class CacheOverwrittenGPT(CachedGPT):
    attention = ForgetfulAttention


class CrossedAttention(Attention):
    """New values are put in front, new keys behind."""

    def forward(self, x: Tensor, freqs: Tensor, cache: LayerCache | None = None) -> tuple[Tensor, LayerCache]:
        q, k, v = self.project(x)
        start = 0 if cache is None else cache[0].size(-2)
        now = freqs[start : start + x.size(1)]
        q, k = apply_rope(q, now), apply_rope(k, now)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=-2)
            v = torch.cat([v, cache[1]], dim=-2)
        return self.attend(q, k, v), (k, v)


class CacheStaleOrderGPT(CachedGPT):
    attention = CrossedAttention


class TwiceRotatedAttention(Attention):
    """The rotation comes after the join, so cached keys are turned again at every step."""

    def forward(self, x: Tensor, freqs: Tensor, cache: LayerCache | None = None) -> tuple[Tensor, LayerCache]:
        q, k, v = self.project(x)
        start = 0 if cache is None else cache[0].size(-2)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=-2)
            v = torch.cat([cache[1], v], dim=-2)
        q = apply_rope(q, freqs[start : start + x.size(1)])
        k = apply_rope(k, freqs[: k.size(-2)])
        return self.attend(q, k, v), (k, v)


class CacheRotatedAgainGPT(CachedGPT):
    attention = TwiceRotatedAttention


class CornerMaskAttention(Attention):
    """The triangle starts in the upper left corner: with a cache the new token sees the first key alone."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        return self.wo(out.reshape(out.size(0), q.size(-2), -1))


class CacheCornerMaskGPT(CachedGPT):
    attention = CornerMaskAttention


class ChunkSeesItselfAttention(Attention):
    """No mask once there is a cache: right for one new token, wrong for several."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=q.size(-2) == k.size(-2)).transpose(1, 2)
        return self.wo(out.reshape(out.size(0), q.size(-2), -1))


class CacheChunkUnmaskedGPT(CachedGPT):
    attention = ChunkSeesItselfAttention


class LastLayerNotCachedGPT(CachedGPT):
    """The loop over the layers hands the first layer's cache to all of them."""

    def forward(self, idx: Tensor, cache: list[LayerCache] | None = None) -> tuple[Tensor, list[LayerCache]]:
        x = self.tok_embeddings(idx)
        new_cache = []
        for layer in self.layers:
            x, layer_cache = layer(x, self.freqs, None if cache is None else cache[0])
            new_cache.append(layer_cache)
        return self.output(self.norm(x)), new_cache


class NeverResetGPT(CachedGPT):
    """The cache lives on the model and is not emptied: a new text is read as if it went on from the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.kv_cache: list[LayerCache] | None = None

    def forward(self, idx: Tensor, cache: list[LayerCache] | None = None) -> tuple[Tensor, list[LayerCache]]:
        if self.training:
            return super().forward(idx, cache)
        if self.kv_cache is not None and self.kv_cache[0][0].size(0) != idx.size(0):
            self.kv_cache = None
        if self.kv_cache is not None and self.kv_cache[0][0].size(2) + idx.size(1) > self.max_len:
            self.kv_cache = None
        logits, self.kv_cache = super().forward(idx, cache or self.kv_cache)
        return logits, self.kv_cache


class RotatedByHeadAttention(Attention):
    """The angles are unsqueezed on the wrong side: each head is turned by its number, no token by its place."""

    def forward(self, x: Tensor, freqs: Tensor, cache: LayerCache | None = None) -> tuple[Tensor, LayerCache]:
        q, k, v = self.project(x)
        freqs = freqs[: self.num_heads].unsqueeze(1)  # (H, 1, head_dim / 2)
        q, k = apply_rope(q, freqs), apply_rope(k, freqs)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=-2)
            v = torch.cat([cache[1], v], dim=-2)
        return self.attend(q, k, v), (k, v)


class RotatedByHeadGPT(CachedGPT):
    attention = RotatedByHeadAttention


class ValuesFromKeysAttention(Attention):
    """The line for v was copied from the line for k."""

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.wk(x).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.wk(x).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)
        return q, k, v


class ValuesFromKeysGPT(CachedGPT):
    attention = ValuesFromKeysAttention
