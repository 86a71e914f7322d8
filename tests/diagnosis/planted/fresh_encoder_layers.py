"""One layer of an encoder, three more hands: torch's names with a fused function, a gated one, a port from Keras."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class FusedLayer(nn.Module):
    """Pre-norm; src_key_padding_mask (B, T) is True for padding."""

    def __init__(self, d_model: int = 32, nhead: int = 4, dim_feedforward: int = 64, drop_path: float = 0.1) -> None:
        super().__init__()
        self.nhead = nhead
        self.drop_path = drop_path
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)
        self.mlp = nn.Sequential(nn.Linear(d_model, dim_feedforward), nn.GELU(), nn.Linear(dim_feedforward, d_model))
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)

    def seen(self, padding: Tensor | None) -> Tensor | None:
        return None if padding is None else ~padding[:, None, None, :]

    def attn(self, x: Tensor, padding: Tensor | None) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.nhead, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.seen(padding))
        return self.out(y.transpose(1, 2).flatten(2))

    def path(self, y: Tensor) -> Tensor:
        """Stochastic depth: while training, a row is left out now and then."""
        if not self.training:
            return y
        return y * (torch.rand(y.size(0), 1, 1) >= self.drop_path) / (1 - self.drop_path)

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        src = src + self.path(self.attn(self.norm1(src), src_key_padding_mask))
        return src + self.path(self.mlp(self.norm2(src)))


class RMSNorm(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.g = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6) * self.g


class GatedLayer(nn.Module):
    """RMSNorm and SwiGLU, forward(x, mask) with mask (B, T), 1 for a real word."""

    norm: type[RMSNorm] = RMSNorm

    def __init__(self, dim: int = 32, heads: int = 4, hidden: int = 48) -> None:
        super().__init__()
        self.heads = heads
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.w12 = nn.Linear(dim, 2 * hidden, bias=False)
        self.w3 = nn.Linear(hidden, dim, bias=False)
        self.attention_norm = self.norm(dim)
        self.ffn_norm = self.norm(dim)

    def attend(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)) for t in self.wqkv(x).chunk(3, dim=-1))
        scores = torch.einsum("bihd,bjhd->bhij", q, k) * q.size(-1) ** -0.5
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, None, :] == 0, -1e9)
        return self.wo(torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v).flatten(2))

    def feed_forward(self, x: Tensor) -> Tensor:
        gate, up = self.w12(x).chunk(2, dim=-1)
        return self.w3(F.silu(gate) * up)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        h = x + self.attend(self.attention_norm(x), mask)
        return h + self.feed_forward(self.ffn_norm(h))


class KerasBlock(nn.Module):
    """The TransformerBlock of a Keras example; mask (B, T) is True for a real word; post-norm."""

    def __init__(self, embed_dim: int = 32, num_heads: int = 4, ff_dim: int = 64, rate: float = 0.1) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.rate = rate
        self.att = nn.MultiheadAttention(embed_dim, num_heads, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(embed_dim, ff_dim), nn.ReLU(), nn.Linear(ff_dim, embed_dim))
        self.layernorm1 = nn.LayerNorm(embed_dim, eps=1e-6)
        self.layernorm2 = nn.LayerNorm(embed_dim, eps=1e-6)

    def attention_mask(self, mask: Tensor) -> Tensor:
        """(B * H, T, S), True for what is hidden."""
        T = mask.size(1)
        return ~mask[:, None, :].expand(-1, T, T).repeat_interleave(self.num_heads, dim=0)

    def drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.rate, self.training)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        hidden = None if mask is None else self.attention_mask(mask)
        attn_output = self.drop(self.att(inputs, inputs, inputs, attn_mask=hidden, need_weights=False)[0])
        out1 = self.layernorm1(inputs + attn_output)
        return self.layernorm2(out1 + self.drop(self.ffn(out1)))


# With torch's names --------------------------------------------------------------------------------------------------


class PaddingSeen(FusedLayer):
    """True is padding in torch's layers and look-here in torch's fused function: the mask goes over as it is."""

    def seen(self, padding: Tensor | None) -> Tensor | None:
        return None if padding is None else padding[:, None, None, :]


class PathAlwaysDropped(FusedLayer):
    """Stochastic depth without a look at self.training."""

    def path(self, y: Tensor) -> Tensor:
        return y * (torch.rand(y.size(0), 1, 1) >= self.drop_path) / (1 - self.drop_path)


class NormedAtBothEnds(FusedLayer):
    """Pre-norm, and the same norm once more on the sum."""

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        src = self.norm1(src + self.path(self.attn(self.norm1(src), src_key_padding_mask)))
        return self.norm2(src + self.path(self.mlp(self.norm2(src))))


class TriangleInEncoder(FusedLayer):
    """The line was copied from a decoder, and the padding is hidden by luck if it is on the right."""

    def attn(self, x: Tensor, padding: Tensor | None) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.nhead, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class HeadsBeforeThree(FusedLayer):
    """The three of q, k, v is unpacked from the axis of the words: view(3, B, T, ...) of what is (B, T, 3, ...)."""

    def attn(self, x: Tensor, padding: Tensor | None) -> Tensor:
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(3, B, T, self.nhead, C // self.nhead).transpose(2, 3)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.seen(padding))
        return self.out(y.transpose(1, 2).flatten(2))


# Gated ---------------------------------------------------------------------------------------------------------------


class WordRMSNorm(RMSNorm):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(dim=1, keepdim=True) + 1e-6) * self.g


class NormOverWords(GatedLayer):
    """dim=1 in the norm: the mean square over the words."""

    norm = WordRMSNorm


class SquareRootRMSNorm(RMSNorm):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6) * self.g


class MultipliedByRoot(GatedLayer):
    """sqrt where rsqrt was meant: what is large becomes larger."""

    norm = SquareRootRMSNorm


class FoundIsStream(GatedLayer):
    """The second sum is with what the attention found, not with the stream."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        h = self.attend(self.attention_norm(x), mask)
        x = x + h
        return h + self.feed_forward(self.ffn_norm(x))


class GateFromNeighbour(GatedLayer):
    """The gate is made from the neighbour, after a roll meant to look one word back."""

    def feed_forward(self, x: Tensor) -> Tensor:
        gate, up = self.w12(x).chunk(2, dim=-1)
        return self.w3(F.silu(gate.roll(1, dims=1)) * up)


# From Keras ----------------------------------------------------------------------------------------------------------


class SecondSumFromInputs(KerasBlock):
    """inputs + ffn_output where out1 + ffn_output was meant."""

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        hidden = None if mask is None else self.attention_mask(mask)
        attn_output = self.drop(self.att(inputs, inputs, inputs, attn_mask=hidden, need_weights=False)[0])
        out1 = self.layernorm1(inputs + attn_output)
        return self.layernorm2(inputs + self.drop(self.ffn(out1)))


class TrainingIsTrue(KerasBlock):
    """Keras hands training= to call; here nobody does, and the default is True."""

    def drop(self, x: Tensor, training: bool = True) -> Tensor:
        return F.dropout(x, self.rate, training)


class HeadsMaskRepeated(KerasBlock):
    """repeat(H, 1, 1) where repeat_interleave was meant: sentences get the padding of their neighbours."""

    def attention_mask(self, mask: Tensor) -> Tensor:
        T = mask.size(1)
        return ~mask[:, None, :].expand(-1, T, T).repeat(self.num_heads, 1, 1)
