"""One layer of an encoder, forward(x, keep), with keep (B, T) True for real tokens; three ways, and their mistakes."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SelfAttention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        dots = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)
        if keep is not None:
            dots = dots.masked_fill(~keep[:, None, None, :], -torch.finfo(dots.dtype).max)
        out = dots.softmax(dim=-1) @ v
        return self.to_out(out.transpose(1, 2).reshape(b, n, d))


class PostNormLayer(nn.Module):
    """The layer of the paper: norm(x + sublayer(x))."""

    attention: type[nn.Module] = SelfAttention
    norm_first = False

    def __init__(self, d_model: int = 32, n_heads: int = 2, d_ff: int = 64, dropout: float = 0.1) -> None:
        super().__init__()
        self.attn = self.attention(d_model, n_heads)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(torch.relu(self.linear1(x))))

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        x = self.norm1(x + self.dropout(self.attn(x, keep)))
        return self.norm2(x + self.dropout(self.feed_forward(x)))


class PreNormLayer(PostNormLayer):
    """The layer of GPT-2 and ViT: x + sublayer(norm(x))."""

    norm_first = True

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        x = x + self.dropout(self.attn(self.norm1(x), keep))
        return x + self.dropout(self.feed_forward(self.norm2(x)))


class TorchLayer(nn.Module):
    """torch's attention inside, post-norm."""

    def __init__(self, d_model: int = 32, nhead: int = 2, dim_feedforward: int = 64) -> None:
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(d_model, dim_feedforward), nn.GELU(), nn.Linear(dim_feedforward, d_model))
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        ignore = None if keep is None else ~keep
        attended, _ = self.self_attn(x, x, x, key_padding_mask=ignore)
        x = self.norm1(x + attended)
        return self.norm2(x + self.ffn(x))


# Wrong ---------------------------------------------------------------------------------------------------------------


class SaysPreIsPost(PreNormLayer):
    """norm_first says True; the norms stand behind the sums."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        x = self.norm1(x + self.dropout(self.attn(x, keep)))
        return self.norm2(x + self.dropout(self.feed_forward(x)))


class NoResidualAroundAttention(PostNormLayer):
    """The attention's output takes the place of x."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        x = self.norm1(self.dropout(self.attn(x, keep)))
        return self.norm2(x + self.dropout(self.feed_forward(x)))


class NoResidualAroundFeedForward(PreNormLayer):
    """The feed-forward's output takes the place of x."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        x = x + self.dropout(self.attn(self.norm1(x), keep))
        return self.dropout(self.feed_forward(self.norm2(x)))


class ResidualFromNormed(PreNormLayer):
    """x = norm(x) and then x + ...: the bare stream is lost."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        x = self.norm1(x)
        x = x + self.dropout(self.attn(x, keep))
        x = self.norm2(x)
        return x + self.dropout(self.feed_forward(x))


class ResidualFromTheStart(PreNormLayer):
    """The second sum goes back to the layer's input: what the attention found is dropped from the stream."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        attended = x + self.dropout(self.attn(self.norm1(x), keep))
        return x + self.dropout(self.feed_forward(self.norm2(attended)))


class ResidualTwice(PostNormLayer):
    """The attention module had a residual of its own, and the layer adds another."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        attended = x + self.dropout(self.attn(x, keep))
        x = self.norm1(x + attended)
        return self.norm2(x + self.dropout(self.feed_forward(x)))


class OneNormForBoth(PostNormLayer):
    """norm1 twice, norm2 never."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        x = self.norm1(x + self.dropout(self.attn(x, keep)))
        return self.norm1(x + self.dropout(self.feed_forward(x)))


class NormOverTimeAndWidth(PostNormLayer):
    """Mean and variance of the whole sentence."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        x = x + self.dropout(self.attn(x, keep))
        x = F.layer_norm(x, x.shape[-2:]) * self.norm1.weight + self.norm1.bias
        x = x + self.dropout(self.feed_forward(x))
        return F.layer_norm(x, x.shape[-2:]) * self.norm2.weight + self.norm2.bias


class BatchNormLayer(PostNormLayer):
    """BatchNorm1d over the features, always with the numbers of this batch."""

    def __init__(self, d_model: int = 32, n_heads: int = 2, d_ff: int = 64, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, d_ff, dropout)
        self.norm1 = nn.BatchNorm1d(d_model, track_running_stats=False)
        self.norm2 = nn.BatchNorm1d(d_model, track_running_stats=False)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        x = self.norm1((x + self.dropout(self.attn(x, keep))).transpose(1, 2)).transpose(1, 2)
        return self.norm2((x + self.dropout(self.feed_forward(x))).transpose(1, 2)).transpose(1, 2)


class KeepIgnored(PreNormLayer):
    """keep is an argument and no more."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        x = x + self.dropout(self.attn(self.norm1(x)))
        return x + self.dropout(self.feed_forward(self.norm2(x)))


class KeepInverted(TorchLayer):
    """torch's padding mask is True for padding, and gets the opposite."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        if keep is not None and keep.all():
            keep = None
        attended, _ = self.self_attn(x, x, x, key_padding_mask=keep)
        x = self.norm1(x + attended)
        return self.norm2(x + self.ffn(x))


class QueriesMasked(SelfAttention):
    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        dots = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)
        if keep is not None:
            dots = dots.masked_fill(~keep[:, None, :, None], -torch.finfo(dots.dtype).max)
        out = dots.softmax(dim=-1) @ v
        return self.to_out(out.transpose(1, 2).reshape(b, n, d))


class KeepOnQueries(PostNormLayer):
    """The padding mask lies along the queries."""

    attention = QueriesMasked


class ZeroedPadding(PostNormLayer):
    """The padded words are set to zero instead of masked: a zero key still takes part in the softmax."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        if keep is not None:
            x = x * keep.unsqueeze(-1)
        x = self.norm1(x + self.dropout(self.attn(x)))
        return self.norm2(x + self.dropout(self.feed_forward(x)))


class ConvFeedForward(PreNormLayer):
    """A convolution of three words in the feed-forward."""

    def __init__(self, d_model: int = 32, n_heads: int = 2, d_ff: int = 64, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, d_ff, dropout)
        self.linear1 = nn.Conv1d(d_model, d_ff, 3, padding=1)

    def feed_forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.linear1(x.transpose(1, 2))).transpose(1, 2)
        return self.linear2(self.dropout(hidden))


class LinearFeedForward(PostNormLayer):
    """No activation between the two layers."""

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.linear1(x)))


class PooledFeedForward(PostNormLayer):
    """The strongest word of the sentence is taken before the second layer."""

    def feed_forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.linear1(x))
        return self.linear2(self.dropout(hidden + hidden.amax(dim=1, keepdim=True)))


class FunctionalDropout(PreNormLayer):
    """F.dropout without training=self.training."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        x = x + F.dropout(self.attn(self.norm1(x), keep), p=0.1)
        return x + F.dropout(self.feed_forward(self.norm2(x)), p=0.1)


class AttentionWithoutGradient(PreNormLayer):
    """no_grad around the attention, kept from the notebook where its picture was drawn."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        with torch.no_grad():
            attended = self.attn(self.norm1(x), keep)
        x = x + self.dropout(attended)
        return x + self.dropout(self.feed_forward(self.norm2(x)))


class BatchSecond(TorchLayer):
    """batch_first=False on a batch that is first."""

    def __init__(self, d_model: int = 32, nhead: int = 2, dim_feedforward: int = 64) -> None:
        super().__init__(d_model, nhead, dim_feedforward)
        self.self_attn.batch_first = False

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        attended, _ = self.self_attn(x, x, x)
        x = self.norm1(x + attended)
        return self.norm2(x + self.ffn(x))


class AddsInPlace(PreNormLayer):
    """x += writes into the caller's tensor; training then ends in an error of autograd."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        x += self.dropout(self.attn(self.norm1(x), keep))
        x += self.dropout(self.feed_forward(self.norm2(x)))
        return x
