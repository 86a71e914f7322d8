"""One layer of a decoder with cross-attention in three hands.

The first two are given their masks, True for what may be seen: (B, 1, T, T) and (B, 1, 1, S). The third makes its
triangle itself, on PyTorch's attention, where True is what may not be seen.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .third_encoder_layers import MultiHeadAttention


class PortedDecoderLayer(nn.Module):
    def __init__(self, d_model: int = 32, ffn_hidden: int = 64, n_head: int = 2, drop_prob: float = 0.1) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_head)
        self.norm1 = nn.LayerNorm(d_model)
        self.enc_dec_attention = MultiHeadAttention(d_model, n_head)
        self.norm2 = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, ffn_hidden), nn.ReLU(), nn.Linear(ffn_hidden, d_model))
        self.norm3 = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(p=drop_prob)

    def forward(
        self, dec: Tensor, enc: Tensor, trg_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Tensor:
        _x = dec
        x = self.self_attention(q=dec, k=dec, v=dec, mask=trg_mask)
        x = self.norm1(self.dropout(x) + _x)
        _x = x
        x = self.enc_dec_attention(q=x, k=enc, v=enc, mask=src_mask)
        x = self.norm2(self.dropout(x) + _x)
        _x = x
        x = self.ffn(x)
        return self.norm3(self.dropout(x) + _x)


class ResidualConnection(nn.Module):
    def __init__(self, features: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(features)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return x + self.dropout(sublayer(self.norm(x)))


class LambdaDecoderBlock(nn.Module):
    def __init__(self, features: int = 32, h: int = 2, d_ff: int = 64, dropout: float = 0.1) -> None:
        super().__init__()
        self.self_attention_block = MultiHeadAttention(features, h)
        self.cross_attention_block = MultiHeadAttention(features, h)
        self.feed_forward_block = nn.Sequential(nn.Linear(features, d_ff), nn.ReLU(), nn.Linear(d_ff, features))
        self.residual_connections = self.connections(features, dropout)

    def connections(self, features: int, dropout: float) -> nn.ModuleList:
        return nn.ModuleList([ResidualConnection(features, dropout) for _ in range(3)])

    def forward(
        self, x: Tensor, encoder_output: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        x = self.residual_connections[0](x, lambda x: self.self_attention_block(x, x, x, tgt_mask))
        x = self.residual_connections[1](
            x, lambda x: self.cross_attention_block(x, encoder_output, encoder_output, src_mask)
        )
        return self.residual_connections[2](x, self.feed_forward_block)


class TriangleDecoderLayer(nn.Module):
    def __init__(self, d_model: int = 32, nhead: int = 2, d_ff: int = 64, dropout: float = 0.1) -> None:
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(d_model, nhead, dropout, batch_first=True)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def triangle(self, size: int) -> Tensor:
        return torch.triu(torch.ones(size, size, dtype=torch.bool), diagonal=1)

    def own(self, tgt: Tensor, tgt_key_padding_mask: Tensor | None) -> Tensor:
        mask = self.triangle(tgt.size(1))
        return self.self_attn(tgt, tgt, tgt, attn_mask=mask, key_padding_mask=tgt_key_padding_mask)[0]

    def cross(self, tgt: Tensor, memory: Tensor, memory_key_padding_mask: Tensor | None) -> Tensor:
        return self.cross_attn(tgt, memory, memory, key_padding_mask=memory_key_padding_mask)[0]

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(F.relu(self.linear1(x))))

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        tgt = self.norm1(tgt + self.dropout(self.own(tgt, tgt_key_padding_mask)))
        tgt = self.norm2(tgt + self.dropout(self.cross(tgt, memory, memory_key_padding_mask)))
        return self.norm3(tgt + self.dropout(self.feed_forward(tgt)))


# Wrong ---------------------------------------------------------------------------------------------------------------


class CrossHasTargetMask(PortedDecoderLayer):
    """trg_mask in both."""

    def forward(
        self, dec: Tensor, enc: Tensor, trg_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Tensor:
        return super().forward(dec, enc, trg_mask, trg_mask)


class OwnHasSourceMask(PortedDecoderLayer):
    """src_mask in both."""

    def forward(
        self, dec: Tensor, enc: Tensor, trg_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Tensor:
        return super().forward(dec, enc, src_mask, src_mask)


class SavedBeforeAll(PortedDecoderLayer):
    """The second sum has what was saved for the first."""

    def forward(
        self, dec: Tensor, enc: Tensor, trg_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Tensor:
        _x = dec
        x = self.self_attention(q=dec, k=dec, v=dec, mask=trg_mask)
        x = self.norm1(self.dropout(x) + _x)
        x = self.enc_dec_attention(q=x, k=enc, v=enc, mask=src_mask)
        x = self.norm2(self.dropout(x) + _x)
        _x = x
        x = self.ffn(x)
        return self.norm3(self.dropout(x) + _x)


class CrossAttendsToItself(LambdaDecoderBlock):
    """x three times, in the second lambda too."""

    def forward(
        self, x: Tensor, encoder_output: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        x = self.residual_connections[0](x, lambda x: self.self_attention_block(x, x, x, tgt_mask))
        x = self.residual_connections[1](x, lambda x: self.cross_attention_block(x, x, x, src_mask))
        return self.residual_connections[2](x, self.feed_forward_block)


class NormNeverAskedConnection(ResidualConnection):
    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return x + self.dropout(sublayer(x))


class NormNeverAsked(LambdaDecoderBlock):
    """The norm is made and not called."""

    def connections(self, features: int, dropout: float) -> nn.ModuleList:
        return nn.ModuleList([NormNeverAskedConnection(features, dropout) for _ in range(3)])


class OneConnectionThrice(LambdaDecoderBlock):
    """A list times three: one norm for all."""

    def connections(self, features: int, dropout: float) -> nn.ModuleList:
        return nn.ModuleList([ResidualConnection(features, dropout)] * 3)


class OneWordAhead(TriangleDecoderLayer):
    """diagonal=2 lets the next word in."""

    def triangle(self, size: int) -> Tensor:
        return torch.triu(torch.ones(size, size, dtype=torch.bool), diagonal=2)


class MemoryPaddingRead(TriangleDecoderLayer):
    """The mask of the memory is taken and not given on."""

    def cross(self, tgt: Tensor, memory: Tensor, memory_key_padding_mask: Tensor | None) -> Tensor:
        return self.cross_attn(tgt, memory, memory)[0]


class TriangleOnWrongCall(TriangleDecoderLayer):
    """The triangle went to the other attention."""

    def own(self, tgt: Tensor, tgt_key_padding_mask: Tensor | None) -> Tensor:
        return self.self_attn(tgt, tgt, tgt, key_padding_mask=tgt_key_padding_mask)[0]

    def cross(self, tgt: Tensor, memory: Tensor, memory_key_padding_mask: Tensor | None) -> Tensor:
        mask = self.triangle(tgt.size(1))
        return self.cross_attn(tgt, memory, memory, attn_mask=mask, key_padding_mask=memory_key_padding_mask)[0]


class HiddenUnitsAlwaysDropped(TriangleDecoderLayer):
    """F.dropout with its own idea of training."""

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(F.dropout(F.relu(self.linear1(x)), 0.1))
