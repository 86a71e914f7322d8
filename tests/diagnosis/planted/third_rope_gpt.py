"""A fork of a small GPT with what is now usual in it: rotary positions, RMSNorm, a gate, and PyTorch's own attention.

The caller shifts; -1 marks a place without a target, as it does there.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def rotary_tables(head_dim: int, length: int, base: float = 10000.0) -> tuple[Tensor, Tensor]:
    inv_freq = 1.0 / (base ** (torch.arange(0, head_dim, 2).float() / head_dim))
    angles = torch.arange(length).float()[:, None] * inv_freq[None, :]
    angles = torch.cat([angles, angles], dim=1)
    return torch.cos(angles), torch.sin(angles)


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    _, _, seq_len, head_dim = x.shape
    x1 = x[..., : head_dim // 2]
    x2 = x[..., head_dim // 2 :]
    cos = cos[:seq_len, :].unsqueeze(0).unsqueeze(0)
    sin = sin[:seq_len, :].unsqueeze(0).unsqueeze(0)
    rotated = torch.cat((-x2, x1), dim=-1)
    return x * cos + rotated * sin


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class RopeAttention(nn.Module):
    def __init__(self, dim: int, n_head: int, block_size: int, dropout: float) -> None:
        super().__init__()
        self.n_head, self.dropout = n_head, dropout
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        cos, sin = self.tables(dim // n_head, block_size)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def tables(self, head_dim: int, length: int) -> tuple[Tensor, Tensor]:
        return rotary_tables(head_dim, length)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        dropout_p = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p, is_causal=True)

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        q = self.wq(x).view(B, T, self.n_head, -1).transpose(1, 2)
        k = self.wk(x).view(B, T, self.n_head, -1).transpose(1, 2)
        v = self.wv(x).view(B, T, self.n_head, -1).transpose(1, 2)
        q, k = apply_rope(q, self.cos, self.sin), apply_rope(k, self.cos, self.sin)
        y = self.attend(q, k, v)
        return self.wo(y.transpose(1, 2).contiguous().view(B, T, C))


class SwiGLU(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class RopeBlock(nn.Module):
    attention: type[nn.Module] = RopeAttention
    norm: type[nn.Module] = RMSNorm

    def __init__(self, dim: int, n_head: int, block_size: int, dropout: float) -> None:
        super().__init__()
        self.attn = self.attention(dim, n_head, block_size, dropout)
        self.mlp = SwiGLU(dim, 2 * dim)
        self.norm1 = self.norm(dim)
        self.norm2 = self.norm(dim)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class RopeGPT(nn.Module):
    block: type[RopeBlock] = RopeBlock

    def __init__(
        self, vocab_size: int = 32, block_size: int = 64, dim: int = 32, n_head: int = 2, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocab_size, dim)
        self.blocks = nn.ModuleList([self.block(dim, n_head, block_size, dropout) for _ in range(2)])
        self.norm_f = self.block.norm(dim)
        self.lm_head = nn.Linear(dim, vocab_size, bias=False)

    def embed(self, idx: Tensor) -> Tensor:
        return self.wte(idx)

    def logits(self, x: Tensor) -> Tensor:
        return self.lm_head(x)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.embed(idx)
        for block in self.blocks:
            x = block(x)
        x = self.norm_f(x)
        if targets is None:
            return self.logits(x), None
        logits = self.lm_head(x)
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1), ignore_index=-1)


class LastWordGPT(RopeGPT):
    """Healthy: without targets there are logits for the last place alone, which is all that sampling needs."""

    def logits(self, x: Tensor) -> Tensor:
        return self.lm_head(x[:, [-1], :])


# Wrong ---------------------------------------------------------------------------------------------------------------


class TurnedByHeadAttention(RopeAttention):
    """Turned before the transpose: what is taken for the length are the heads."""

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        q = self.wq(x).view(B, T, self.n_head, -1)
        k = self.wk(x).view(B, T, self.n_head, -1)
        v = self.wv(x).view(B, T, self.n_head, -1)
        q, k = apply_rope(q, self.cos, self.sin), apply_rope(k, self.cos, self.sin)
        y = self.attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        return self.wo(y.transpose(1, 2).contiguous().view(B, T, C))


class TurnedByHeadBlock(RopeBlock):
    attention = TurnedByHeadAttention


class TurnedByHeadGPT(RopeGPT):
    block = TurnedByHeadBlock


class PairsAndHalvesAttention(RopeAttention):
    """Angles for neighbours, and a rotation of halves."""

    def tables(self, head_dim: int, length: int) -> tuple[Tensor, Tensor]:
        inv_freq = 1.0 / (10000.0 ** (torch.arange(0, head_dim, 2).float() / head_dim))
        freqs = torch.arange(length).float()[:, None] * inv_freq[None, :]
        emb = freqs.repeat_interleave(2, dim=-1)
        return emb.cos(), emb.sin()


class PairsAndHalvesBlock(RopeBlock):
    attention = PairsAndHalvesAttention


class PairsAndHalvesGPT(RopeGPT):
    block = PairsAndHalvesBlock


class AlwaysDropoutAttention(RopeAttention):
    """The function of PyTorch drops whenever it is told to, eval() or not."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)


class AlwaysDropoutBlock(RopeBlock):
    attention = AlwaysDropoutAttention


class AlwaysDropoutGPT(RopeGPT):
    block = AlwaysDropoutBlock


class NotToldCausalAttention(RopeAttention):
    """is_causal is false unless it is said."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0)


class NotToldCausalBlock(RopeBlock):
    attention = NotToldCausalAttention


class NotToldCausalGPT(RopeGPT):
    block = NotToldCausalBlock


class ScaledTwiceAttention(RopeAttention):
    """The queries are scaled by hand, and the function scales once more."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q = q * q.size(-1) ** -0.5
        dropout_p = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p, is_causal=True)


class ScaledTwiceBlock(RopeBlock):
    attention = ScaledTwiceAttention


class ScaledTwiceGPT(RopeGPT):
    block = ScaledTwiceBlock


class SquareOfMean(RMSNorm):
    """The square of the mean, not the mean of the squares."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.mean(-1, keepdim=True).pow(2) + self.eps) * self.weight


class SquareOfMeanBlock(RopeBlock):
    norm = SquareOfMean


class SquareOfMeanGPT(RopeGPT):
    block = SquareOfMeanBlock


class NormedBeforeSumBlock(RopeBlock):
    """x is already normed where it is added."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x)
        x = x + self.attn(x)
        x = self.norm2(x)
        return x + self.mlp(x)


class NormedBeforeSumGPT(RopeGPT):
    block = NormedBeforeSumBlock


class FrozenWordsGPT(RopeGPT):
    """no_grad around the embedding."""

    def embed(self, idx: Tensor) -> Tensor:
        with torch.no_grad():
            return self.wte(idx)
