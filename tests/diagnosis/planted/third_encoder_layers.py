"""One layer of an encoder in three hands: a popular port of the paper, a vision block, and a port of Keras' example.

`PortedLayer` takes a mask (B, 1, 1, T), True for real; `VisionBlock` takes none; `KerasStyleLayer` takes 1 for real.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class LayerNorm(nn.Module):
    def __init__(self, d_model: int, eps: float = 1e-12) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        var = x.var(-1, unbiased=False, keepdim=True)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, n_head: int) -> None:
        super().__init__()
        self.n_head = n_head
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_concat = nn.Linear(d_model, d_model)

    def split(self, tensor: Tensor) -> Tensor:
        batch_size, length, d_model = tensor.size()
        return tensor.view(batch_size, length, self.n_head, d_model // self.n_head).transpose(1, 2)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.split(self.w_q(q)), self.split(self.w_k(k)), self.split(self.w_v(v))
        score = (q @ k.transpose(2, 3)) / math.sqrt(q.size(-1))
        if mask is not None:
            score = score.masked_fill(mask == 0, -10000)
        out = torch.softmax(score, dim=-1) @ v
        return self.w_concat(out.transpose(1, 2).contiguous().flatten(2))


class PortedLayer(nn.Module):
    norm: type[nn.Module] = LayerNorm

    def __init__(self, d_model: int = 32, ffn_hidden: int = 64, n_head: int = 2, drop_prob: float = 0.1) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_head)
        self.norm1 = self.norm(d_model)
        self.dropout1 = nn.Dropout(p=drop_prob)
        self.ffn = nn.Sequential(
            nn.Linear(d_model, ffn_hidden), nn.ReLU(), nn.Dropout(drop_prob), nn.Linear(ffn_hidden, d_model)
        )
        self.norm2 = self.norm(d_model)
        self.dropout2 = nn.Dropout(p=drop_prob)

    def forward(self, x: Tensor, src_mask: Tensor | None = None) -> Tensor:
        _x = x
        x = self.attention(q=x, k=x, v=x, mask=src_mask)
        x = self.dropout1(x)
        x = self.norm1(x + _x)
        _x = x
        x = self.ffn(x)
        x = self.dropout2(x)
        return self.norm2(x + _x)


class VisionBlock(nn.Module):
    def __init__(self, dim: int = 32, num_heads: int = 4) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = MultiHeadAttention(dim, num_heads)
        self.norm2 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(4 * dim, dim)

    def mlp(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self.fc1(x)))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attn(y, y, y)
        return x + self.mlp(self.norm2(x))


class KerasStyleLayer(nn.Module):
    batch_first = True

    def __init__(self, embed_dim: int = 32, num_heads: int = 2, ff_dim: int = 64, rate: float = 0.1) -> None:
        super().__init__()
        self.att = nn.MultiheadAttention(embed_dim, num_heads, batch_first=self.batch_first)
        self.ffn = nn.Sequential(nn.Linear(embed_dim, ff_dim), nn.ReLU(), nn.Linear(ff_dim, embed_dim))
        self.layernorm1 = nn.LayerNorm(embed_dim, eps=1e-6)
        self.layernorm2 = nn.LayerNorm(embed_dim, eps=1e-6)
        self.dropout1 = nn.Dropout(rate)
        self.dropout2 = nn.Dropout(rate)

    def attend(self, inputs: Tensor, attention_mask: Tensor | None) -> Tensor:
        ignored = None if attention_mask is None else attention_mask == 0
        return self.att(inputs, inputs, inputs, key_padding_mask=ignored, need_weights=False)[0]

    def forward(self, inputs: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        attn_output = self.dropout1(self.attend(inputs, attention_mask))
        out1 = self.layernorm1(inputs + attn_output)
        ffn_output = self.dropout2(self.ffn(out1))
        return self.layernorm2(out1 + ffn_output)


# Wrong ---------------------------------------------------------------------------------------------------------------


class SavedTooLate(PortedLayer):
    """What is saved is the attention's result, added to itself."""

    def forward(self, x: Tensor, src_mask: Tensor | None = None) -> Tensor:
        x = self.attention(q=x, k=x, v=x, mask=src_mask)
        _x = x
        x = self.dropout1(x)
        x = self.norm1(x + _x)
        _x = x
        x = self.ffn(x)
        x = self.dropout2(x)
        return self.norm2(x + _x)


class SavedOnce(PortedLayer):
    """The second sum still has what was saved for the first."""

    def forward(self, x: Tensor, src_mask: Tensor | None = None) -> Tensor:
        _x = x
        x = self.attention(q=x, k=x, v=x, mask=src_mask)
        x = self.dropout1(x)
        x = self.norm1(x + _x)
        x = self.ffn(x)
        x = self.dropout2(x)
        return self.norm2(x + _x)


class NormOverLength(LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(1, keepdim=True)
        var = x.var(1, unbiased=False, keepdim=True)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


class PortedNormOverLength(PortedLayer):
    """Mean and variance of a column."""

    norm = NormOverLength


class ScoreOfRowsHidden(PortedLayer):
    """The mask is turned: (B, 1, T, 1)."""

    def forward(self, x: Tensor, src_mask: Tensor | None = None) -> Tensor:
        return super().forward(x, None if src_mask is None else src_mask.transpose(-2, -1))


class NormedFirstBlock(VisionBlock):
    """The stream itself is normed."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x)
        x = x + self.attn(x, x, x)
        return x + self.mlp(self.norm2(x))


class TimesNotPlusBlock(VisionBlock):
    """* for +."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attn(y, y, y)
        return x * self.mlp(self.norm2(x))


class NothingBetweenBlock(VisionBlock):
    """The activation is made and not called: two matrices are one."""

    def mlp(self, x: Tensor) -> Tensor:
        return self.fc2(self.fc1(x))


class BatchNotFirstLayer(KerasStyleLayer):
    """PyTorch's default; the mask is turned to fit."""

    batch_first = False

    def attend(self, inputs: Tensor, attention_mask: Tensor | None) -> Tensor:
        ignored = None if attention_mask is None else (attention_mask == 0).transpose(0, 1)
        return self.att(inputs, inputs, inputs, key_padding_mask=ignored, need_weights=False)[0]


class MaskUpsideDownLayer(KerasStyleLayer):
    """In Keras True is seen, in PyTorch it is not."""

    def attend(self, inputs: Tensor, attention_mask: Tensor | None) -> Tensor:
        ignored = None if attention_mask is None else attention_mask.bool()
        return self.att(inputs, inputs, inputs, key_padding_mask=ignored, need_weights=False)[0]


class TriangleKeptLayer(KerasStyleLayer):
    """A layer of a decoder, renamed."""

    def attend(self, inputs: Tensor, attention_mask: Tensor | None) -> Tensor:
        ignored = None if attention_mask is None else attention_mask == 0
        causal = torch.ones(inputs.size(1), inputs.size(1), dtype=torch.bool).triu(1)
        return self.att(inputs, inputs, inputs, key_padding_mask=ignored, attn_mask=causal, need_weights=False)[0]
