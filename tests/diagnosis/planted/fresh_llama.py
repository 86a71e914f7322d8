"""A small Llama: RMSNorm, rotary positions, grouped heads, SwiGLU, and a cache in the way of transformers.

`model(input_ids)` gives logits; with `use_cache=True` it gives (logits, past_key_values), and `past_key_values`, one
(keys, values) of shape (B, K, S, E) for each layer, is handed back with the tokens that come next.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Past = tuple[tuple[Tensor, Tensor], ...]


def rotate_half(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return x * cos + rotate_half(x) * sin


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    B, K, S, E = x.shape
    return x[:, :, None].expand(B, K, n_rep, S, E).reshape(B, K * n_rep, S, E)


class LlamaRMSNorm(nn.Module):
    def __init__(self, hidden_size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states: Tensor) -> Tensor:
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        return self.weight * hidden_states * torch.rsqrt(variance + self.variance_epsilon)


class LlamaAttention(nn.Module):
    def __init__(self, hidden_size: int, num_heads: int, num_kv_heads: int, max_len: int = 128) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = hidden_size // num_heads
        self.scaling = self.head_dim**-0.5
        self.q_proj = nn.Linear(hidden_size, num_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(num_heads * self.head_dim, hidden_size, bias=False)
        inv_freq = 1.0 / (10000.0 ** (torch.arange(0, self.head_dim, 2).float() / self.head_dim))
        emb = torch.cat([torch.outer(torch.arange(max_len).float(), inv_freq)] * 2, dim=-1)
        self.register_buffer("cos", emb.cos(), persistent=False)
        self.register_buffer("sin", emb.sin(), persistent=False)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        B, T, _ = x.shape
        q = self.q_proj(x).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(B, T, self.num_kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(B, T, self.num_kv_heads, self.head_dim).transpose(1, 2)
        return q, k, v

    def mask(self, T: int, S: int) -> Tensor:
        # (T, S): nothing of the past is hidden, and of the new tokens only what comes later
        new = torch.triu(torch.full((T, T), float("-inf")), diagonal=1)
        return torch.hstack([torch.zeros(T, S - T), new])

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        n_rep = self.num_heads // self.num_kv_heads
        k, v = repeat_kv(k, n_rep), repeat_kv(v, n_rep)
        scores = torch.matmul(q, k.transpose(2, 3)) * self.scaling + self.mask(q.size(2), k.size(2)).to(q.device)
        out = torch.matmul(F.softmax(scores, dim=-1), v)
        return self.o_proj(out.transpose(1, 2).reshape(q.size(0), q.size(2), -1))

    def past_length(self, past: tuple[Tensor, Tensor]) -> int:
        return past[0].shape[2]

    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        q, k, v = self.project(x)
        start = 0 if past is None else self.past_length(past)
        cos, sin = self.cos[start : start + x.size(1)], self.sin[start : start + x.size(1)]
        q, k = apply_rotary(q, cos, sin), apply_rotary(k, cos, sin)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        return self.attend(q, k, v), (k, v)


class LlamaMLP(nn.Module):
    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaDecoderLayer(nn.Module):
    def __init__(self, attention: LlamaAttention, norm: type[nn.Module], hidden_size: int) -> None:
        super().__init__()
        self.self_attn = attention
        self.mlp = LlamaMLP(hidden_size, 2 * hidden_size)
        self.input_layernorm = norm(hidden_size)
        self.post_attention_layernorm = norm(hidden_size)

    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        residual = x
        x, past = self.self_attn(self.input_layernorm(x), past)
        x = residual + x
        residual = x
        x = self.mlp(self.post_attention_layernorm(x))
        return residual + x, past


class LittleLlama(nn.Module):
    attention: type[LlamaAttention] = LlamaAttention
    layer: type[LlamaDecoderLayer] = LlamaDecoderLayer
    rms_norm: type[nn.Module] = LlamaRMSNorm

    def __init__(
        self,
        vocab_size: int = 32,
        hidden_size: int = 32,
        num_hidden_layers: int = 2,
        num_attention_heads: int = 4,
        num_key_value_heads: int = 2,
        tie_word_embeddings: bool = True,
    ) -> None:
        super().__init__()
        self.tie_word_embeddings = tie_word_embeddings
        self.embed_tokens = nn.Embedding(vocab_size, hidden_size)
        self.lm_head = nn.Linear(hidden_size, vocab_size, bias=False)
        self.layers = nn.ModuleList(
            [
                self.layer(
                    self.attention(hidden_size, num_attention_heads, num_key_value_heads), self.rms_norm, hidden_size
                )
                for _ in range(num_hidden_layers)
            ]
        )
        self.norm = self.rms_norm(hidden_size)
        self.post_init()

    def post_init(self) -> None:
        if self.tie_word_embeddings:
            self.lm_head.weight = self.embed_tokens.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.08)

    def forward(
        self, input_ids: Tensor, past_key_values: Past | None = None, use_cache: bool = False
    ) -> Tensor | tuple[Tensor, Past]:
        x = self.embed_tokens(input_ids)
        present = []
        for i, layer in enumerate(self.layers):
            x, kept = layer(x, None if past_key_values is None else past_key_values[i])
            present.append(kept)
        logits = self.lm_head(self.norm(x))
        return (logits, tuple(present)) if use_cache else logits


# Rotation ------------------------------------------------------------------------------------------------------------


class ValuesTurnedAttention(LlamaAttention):
    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        start = 0 if past is None else self.past_length(past)
        cos, sin = self.cos[start : start + x.size(1)], self.sin[start : start + x.size(1)]
        q, k, v = (apply_rotary(t, cos, sin) for t in self.project(x))
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        return self.attend(q, k, v), (k, v)


class ValuesTurnedLlama(LittleLlama):
    """All three of q, k and v are turned: what a word says depends on where it stands."""

    attention = ValuesTurnedAttention


class QueriesTurnedAttention(LlamaAttention):
    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        q, k, v = self.project(x)
        start = 0 if past is None else self.past_length(past)
        q = apply_rotary(q, self.cos[start : start + x.size(1)], self.sin[start : start + x.size(1)])
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        return self.attend(q, k, v), (k, v)


class QueriesTurnedLlama(LittleLlama):
    """The keys are not turned: all earlier words look equally far away."""

    attention = QueriesTurnedAttention


# Cache ---------------------------------------------------------------------------------------------------------------


class BareKeysAttention(LlamaAttention):
    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        q, k, v = self.project(x)
        start = 0 if past is None else self.past_length(past)
        cos, sin = self.cos[start : start + x.size(1)], self.sin[start : start + x.size(1)]
        kept = (k, v) if past is None else (torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2))
        q, k = apply_rotary(q, cos, sin), apply_rotary(k, cos, sin)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), kept[1]
        return self.attend(q, k, v), kept


class BareKeysCachedLlama(LittleLlama):
    """The keys go into the cache before they are turned and come out as they went in."""

    attention = BareKeysAttention


class RepeatedCachedAttention(LlamaAttention):
    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        q, k, v = self.project(x)
        start = 0 if past is None else self.past_length(past)
        cos, sin = self.cos[start : start + x.size(1)], self.sin[start : start + x.size(1)]
        q, k = apply_rotary(q, cos, sin), apply_rotary(k, cos, sin)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        out = self.attend(q, k, v)
        n_rep = self.num_heads // self.num_kv_heads
        return out, (repeat_kv(k, n_rep), repeat_kv(v, n_rep))


class RepeatedCachedLlama(LittleLlama):
    """The cache holds the repeated heads, and new keys with fewer heads do not fit behind them: crash."""

    attention = RepeatedCachedAttention


class HeadsCountedAttention(LlamaAttention):
    def past_length(self, past: tuple[Tensor, Tensor]) -> int:
        return past[0].shape[1]


class HeadsCountedLlama(LittleLlama):
    """shape[1] of the cache is the number of heads: every new token stands at place 2."""

    attention = HeadsCountedAttention


class PastMaskBehindAttention(LlamaAttention):
    def mask(self, T: int, S: int) -> Tensor:
        new = torch.triu(torch.full((T, T), float("-inf")), diagonal=1)
        return torch.hstack([new, torch.zeros(T, S - T)])


class PastMaskBehindLlama(LittleLlama):
    """The zeros for the past are stacked behind the triangle: one token fits, a chunk reads its own future."""

    attention = PastMaskBehindAttention


class NewKeysFirstAttention(LlamaAttention):
    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        q, k, v = self.project(x)
        start = 0 if past is None else self.past_length(past)
        cos, sin = self.cos[start : start + x.size(1)], self.sin[start : start + x.size(1)]
        q, k = apply_rotary(q, cos, sin), apply_rotary(k, cos, sin)
        if past is not None:
            k, v = torch.cat([k, past[0]], dim=2), torch.cat([v, past[1]], dim=2)
        return self.attend(q, k, v), (k, v)


class NewKeysFirstLlama(LittleLlama):
    """torch.cat([k, past]): with one token nothing shows, with several the mask lies over the wrong keys."""

    attention = NewKeysFirstAttention


class PresentsReversedLlama(LittleLlama):
    """The presents are collected from the front: layer i is handed the cache of the layer behind it."""

    def forward(
        self, input_ids: Tensor, past_key_values: Past | None = None, use_cache: bool = False
    ) -> Tensor | tuple[Tensor, Past]:
        x = self.embed_tokens(input_ids)
        present: Past = ()
        for i, layer in enumerate(self.layers):
            x, kept = layer(x, None if past_key_values is None else past_key_values[i])
            present = (kept, *present)
        logits = self.lm_head(self.norm(x))
        return (logits, present) if use_cache else logits


# The rest ------------------------------------------------------------------------------------------------------------


class SummedRMSNorm(LlamaRMSNorm):
    def forward(self, hidden_states: Tensor) -> Tensor:
        variance = hidden_states.pow(2).sum(-1, keepdim=True)
        return self.weight * hidden_states * torch.rsqrt(variance + self.variance_epsilon)


class SummedNormLlama(LittleLlama):
    """sum where mean was meant: what comes out has length 1, not root mean square 1."""

    rms_norm = SummedRMSNorm


class TimeRMSNorm(LlamaRMSNorm):
    def forward(self, hidden_states: Tensor) -> Tensor:
        variance = hidden_states.pow(2).mean(1, keepdim=True)
        return self.weight * hidden_states * torch.rsqrt(variance + self.variance_epsilon)


class TimeNormLlama(LittleLlama):
    """mean(1) is the mean over the words, later ones included."""

    rms_norm = TimeRMSNorm


class ScaledUpAttention(LlamaAttention):
    def __init__(self, hidden_size: int, num_heads: int, num_kv_heads: int, max_len: int = 128) -> None:
        super().__init__(hidden_size, num_heads, num_kv_heads, max_len)
        self.scaling = self.head_dim**0.5


class ScaledUpLlama(LittleLlama):
    """scaling = head_dim ** 0.5 multiplies the scores: the softmax is nearly one-hot."""

    attention = ScaledUpAttention


class TiedThenReplacedLlama(LittleLlama):
    """The table is made anew after the tie, so the head keeps the old one to itself."""

    def post_init(self) -> None:
        super().post_init()
        table = nn.Embedding(self.embed_tokens.num_embeddings, self.embed_tokens.embedding_dim)
        table.weight.data.copy_(self.embed_tokens.weight.data)
        self.embed_tokens = table


class OldResidualLayer(LlamaDecoderLayer):
    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        residual = x
        x, past = self.self_attn(self.input_layernorm(x), past)
        x = residual + x
        x = self.mlp(self.post_attention_layernorm(x))
        return residual + x, past


class OldResidualLlama(LittleLlama):
    """The second `residual = x` is missing: the attention's own sum is dropped from the stream."""

    layer = OldResidualLayer
