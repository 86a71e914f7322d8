"""Decoder layers in three more hands: forward(x, memory, keep, memory_keep), keep (B, T) True for a real token."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .fourth_encoder_layers import SublayerConnection


class DecoderAttention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = self.split(self.wq(q)), self.split(self.wk(k)), self.split(self.wv(v))
        return self.wo(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))


def target_mask(x: Tensor, keep: Tensor | None) -> Tensor:
    mask = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).tril()
    return mask if keep is None else mask & keep[:, None, None, :]


class HarvardDecoderLayer(nn.Module):
    def __init__(self, dim: int = 32, heads: int = 2, dropout: float = 0.1) -> None:
        super().__init__()
        self.self_attn, self.src_attn = DecoderAttention(dim, heads), DecoderAttention(dim, heads)
        self.feed_forward = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
        self.sublayer = nn.ModuleList([SublayerConnection(dim, dropout) for _ in range(3)])

    def source_mask(self, keep: Tensor | None) -> Tensor | None:
        return None if keep is None else keep[:, None, None, :]

    def forward(
        self, x: Tensor, memory: Tensor, keep: Tensor | None = None, memory_keep: Tensor | None = None
    ) -> Tensor:
        m, src_mask, tgt_mask = memory, self.source_mask(memory_keep), target_mask(x, keep)
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, tgt_mask))
        x = self.sublayer[1](x, lambda x: self.src_attn(x, m, m, src_mask))
        return self.sublayer[2](x, self.feed_forward)


class T5DecoderLayer(nn.Module):
    """RMS norms in front."""

    def __init__(self, dim: int = 32, heads: int = 2) -> None:
        super().__init__()
        self.self_attn, self.cross_attn = DecoderAttention(dim, heads), DecoderAttention(dim, heads)
        self.norm1, self.norm2, self.norm3 = nn.RMSNorm(dim), nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.wi, self.wo = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def attentions(self, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor | None) -> Tensor:
        y = self.norm1(x)
        x = x + self.self_attn(y, y, y, mask)
        return x + self.cross_attn(self.norm2(x), memory, memory, memory_mask)

    def forward(
        self, x: Tensor, memory: Tensor, keep: Tensor | None = None, memory_keep: Tensor | None = None
    ) -> Tensor:
        memory_mask = None if memory_keep is None else memory_keep[:, None, None, :]
        x = self.attentions(x, memory, target_mask(x, keep), memory_mask)
        return x + self.wo(F.relu(self.wi(self.norm3(x))))


class BuiltInDecoderLayer(nn.Module):
    """Around nn.MultiheadAttention, where True in a mask means not to look."""

    def __init__(self, dim: int = 32, heads: int = 2) -> None:
        super().__init__()
        self.self_attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.multihead_attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ffn = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def look(self, x: Tensor, padding: Tensor | None) -> Tensor:
        hidden = torch.triu(torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device), diagonal=1)
        return self.self_attn(x, x, x, attn_mask=hidden, key_padding_mask=padding)[0]

    def forward(
        self, x: Tensor, memory: Tensor, keep: Tensor | None = None, memory_keep: Tensor | None = None
    ) -> Tensor:
        x = self.norm1(x + self.look(x, None if keep is None else ~keep))
        memory_padding = None if memory_keep is None else ~memory_keep
        x = self.norm2(x + self.multihead_attn(x, memory, memory, key_padding_mask=memory_padding)[0])
        return self.norm3(x + self.ffn(x))


# Wrong ---------------------------------------------------------------------------------------------------------------


class SourceIsTargetLayer(HarvardDecoderLayer):
    def forward(
        self, x: Tensor, memory: Tensor, keep: Tensor | None = None, memory_keep: Tensor | None = None
    ) -> Tensor:
        tgt_mask = target_mask(x, keep)
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, tgt_mask))
        x = self.sublayer[1](x, lambda x: self.src_attn(x, x, x, tgt_mask))
        return self.sublayer[2](x, self.feed_forward)


class SourceMaskTurnedLayer(HarvardDecoderLayer):
    def source_mask(self, keep: Tensor | None) -> Tensor | None:
        return None if keep is None else keep[:, None, :, None]


class OneResidualLayer(T5DecoderLayer):
    def attentions(self, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor | None) -> Tensor:
        residual = x
        y = self.norm1(x)
        x = self.self_attn(y, y, y, mask)
        x = self.cross_attn(self.norm2(x), memory, memory, memory_mask)
        return residual + x


class MemoryWithoutGradLayer(T5DecoderLayer):
    def attentions(self, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor | None) -> Tensor:
        return super().attentions(x, memory.detach(), mask, memory_mask)


class TrilForTriuLayer(BuiltInDecoderLayer):
    def look(self, x: Tensor, padding: Tensor | None) -> Tensor:
        hidden = torch.tril(torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device), diagonal=-1)
        return self.self_attn(x, x, x, attn_mask=hidden, key_padding_mask=padding)[0]


class HintAloneLayer(BuiltInDecoderLayer):
    def look(self, x: Tensor, padding: Tensor | None) -> Tensor:
        return self.self_attn(x, x, x, is_causal=True, key_padding_mask=padding)[0]
