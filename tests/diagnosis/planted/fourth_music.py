"""A music Transformer on event tokens: learned distances, skewed into place; ported from TensorFlow.

`model(x)` gives logits (B, T, V). A mask is 1 where nothing may be looked at.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CONFIG: dict[str, Any] = {
    "event_dim": 32,
    "embedding_dim": 32,
    "num_layer": 2,
    "num_head": 2,
    "max_seq": 64,
    "dropout": 0.1,
}


def look_ahead_mask(length: int) -> Tensor:
    return torch.triu(torch.ones(length, length), diagonal=1)


class RelativeGlobalAttention(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        d, self.h, self.max_seq = config["embedding_dim"], config["num_head"], config["max_seq"]
        self.dh = d // self.h
        self.Wq = nn.Linear(d, d)
        self.Wk = nn.Linear(d, d)
        self.Wv = nn.Linear(d, d)
        self.fc = nn.Linear(d, d)
        self.E = nn.Parameter(torch.randn(self.max_seq, self.dh) * 0.5)

    def left_embedding(self, length: int) -> Tensor:
        """Row length - 1 is for distance 0."""
        return self.E[self.max_seq - length :]

    def skew(self, QE: Tensor) -> Tensor:
        b, h, t, _ = QE.shape
        padded = F.pad(QE, [1, 0])
        return padded.reshape(b, h, t + 1, t)[:, :, 1:, :]

    def add_mask(self, logits: Tensor, mask: Tensor) -> Tensor:
        return logits + mask * -1e9

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        b, t, d = x.shape
        q = self.Wq(x).reshape(b, t, self.h, -1).permute(0, 2, 1, 3)
        k = self.Wk(x).reshape(b, t, self.h, -1).permute(0, 2, 1, 3)
        v = self.Wv(x).reshape(b, t, self.h, -1).permute(0, 2, 1, 3)
        QE = torch.einsum("bhld,md->bhlm", q, self.left_embedding(t))
        logits = (torch.matmul(q, k.permute(0, 1, 3, 2)) + self.skew(QE)) / math.sqrt(self.dh)
        attention = F.softmax(self.add_mask(logits, mask), -1)
        return self.fc(torch.matmul(attention, v).permute(0, 2, 1, 3).reshape(b, t, d))


class EncoderLayer(nn.Module):
    rga_class: type[RelativeGlobalAttention] = RelativeGlobalAttention

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        d = config["embedding_dim"]
        self.rga = self.rga_class(config)
        self.FFN_pre = nn.Linear(d, d * 2)
        self.FFN_suf = nn.Linear(d * 2, d)
        self.layernorm1 = nn.LayerNorm(d, eps=1e-6)
        self.layernorm2 = nn.LayerNorm(d, eps=1e-6)
        self.rate = config["dropout"]

    def drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.rate, training=self.training)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        out1 = self.layernorm1(x + self.drop(self.rga(x, mask)))
        ffn_out = self.FFN_suf(F.relu(self.FFN_pre(out1)))
        return self.layernorm2(out1 + self.drop(ffn_out))


class MusicTransformer(nn.Module):
    layer: type[EncoderLayer] = EncoderLayer

    def __init__(self) -> None:
        super().__init__()
        config = CONFIG
        self.embedding = nn.Embedding(config["event_dim"], config["embedding_dim"])
        self.enc_layers = self.stack([self.layer(config) for _ in range(config["num_layer"])])
        self.fc = nn.Linear(config["embedding_dim"], config["event_dim"])

    def stack(self, layers: list[EncoderLayer]) -> Any:
        return nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        mask = look_ahead_mask(x.size(1)).to(x.device)
        x = self.embedding(x.long())
        for layer in self.enc_layers:
            x = layer(x, mask)
        return self.fc(x)


# Wrong ---------------------------------------------------------------------------------------------------------------


class NotSkewedAttention(RelativeGlobalAttention):
    def skew(self, QE: Tensor) -> Tensor:
        return QE


class NotSkewedLayer(EncoderLayer):
    rga_class = NotSkewedAttention


class NotSkewedMusic(MusicTransformer):
    layer = NotSkewedLayer


class FirstRowsAttention(RelativeGlobalAttention):
    def left_embedding(self, length: int) -> Tensor:
        return self.E[:length]


class FirstRowsLayer(EncoderLayer):
    rga_class = FirstRowsAttention


class FirstRowsMusic(MusicTransformer):
    layer = FirstRowsLayer


class PlusBillionAttention(RelativeGlobalAttention):
    def add_mask(self, logits: Tensor, mask: Tensor) -> Tensor:
        return logits + mask * 1e9


class PlusBillionLayer(EncoderLayer):
    rga_class = PlusBillionAttention


class PlusBillionMusic(MusicTransformer):
    layer = PlusBillionLayer


class FunctionalDropoutLayer(EncoderLayer):
    def drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.rate)


class FunctionalDropoutMusic(MusicTransformer):
    layer = FunctionalDropoutLayer


class KerasListMusic(MusicTransformer):
    def stack(self, layers: list[EncoderLayer]) -> Any:
        return layers
