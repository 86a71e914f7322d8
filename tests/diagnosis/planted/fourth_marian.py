"""Marian in small: one table for source, target and output, sines in the left half and cosines in the right.

`model(input_ids, attention_mask, decoder_input_ids, labels)`; with labels alone the decoder reads them shifted right
behind the padding token (0), and -100 in a label is no target. Gives a dataclass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD = 0


@dataclass
class Seq2SeqOutput:
    logits: Tensor
    loss: Tensor | None = None


def sinusoidal(n_pos: int, dim: int) -> Tensor:
    angle = torch.arange(n_pos)[:, None] / 10000 ** (2 * torch.arange(dim // 2) / dim)
    return torch.cat([angle.sin(), angle.cos()], dim=1)


class MarianAttention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scaling = heads, (dim // heads) ** -0.5
        self.q_proj, self.k_proj, self.v_proj = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.out_proj = nn.Linear(dim, dim)

    def split(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        return x.view(b, t, self.heads, d // self.heads).transpose(1, 2)

    def forward(self, x: Tensor, source: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = (
            self.split(self.q_proj(x) * self.scaling),
            self.split(self.k_proj(source)),
            self.split(self.v_proj(source)),
        )
        scores = torch.matmul(q, k.transpose(-1, -2))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.out_proj(torch.matmul(F.softmax(scores, dim=-1), v).transpose(1, 2).flatten(2))


class MarianLayer(nn.Module):
    """Post-norm; with cross-attention if it is a decoder's."""

    def __init__(self, dim: int, heads: int, decoder: bool) -> None:
        super().__init__()
        self.self_attn = MarianAttention(dim, heads)
        self.self_attn_layer_norm = nn.LayerNorm(dim)
        if decoder:
            self.encoder_attn = MarianAttention(dim, heads)
            self.encoder_attn_layer_norm = nn.LayerNorm(dim)
        self.fc1, self.fc2 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
        self.final_layer_norm = nn.LayerNorm(dim)

    def forward(
        self, x: Tensor, mask: Tensor | None, memory: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        x = self.self_attn_layer_norm(x + self.self_attn(x, x, mask))
        if memory is not None:
            x = self.encoder_attn_layer_norm(x + self.encoder_attn(x, memory, memory_mask))
        return self.final_layer_norm(x + self.fc2(F.silu(self.fc1(x))))


class LittleMarian(nn.Module):
    positions: Tensor

    def __init__(self, vocab_size: int = 32, dim: int = 32, heads: int = 2, layers: int = 2) -> None:
        super().__init__()
        self.embed_scale = math.sqrt(dim)
        self.shared = nn.Embedding(vocab_size, dim)
        self.register_buffer("positions", sinusoidal(64, dim), persistent=False)
        self.encoder_layers = nn.ModuleList(MarianLayer(dim, heads, decoder=False) for _ in range(layers))
        self.decoder_layers = nn.ModuleList(MarianLayer(dim, heads, decoder=True) for _ in range(layers))
        self.lm_head = nn.Linear(dim, vocab_size, bias=False)
        self.init_weights()
        self.tie_weights()

    def init_weights(self) -> None:
        nn.init.normal_(self.shared.weight, std=0.1)

    def tie_weights(self) -> None:
        self.lm_head.weight = self.shared.weight

    def embed(self, ids: Tensor) -> Tensor:
        return self.shared(ids) * self.embed_scale + self.positions[: ids.size(1)]

    def encode(self, input_ids: Tensor, mask: Tensor | None) -> Tensor:
        x = self.embed(input_ids)
        for layer in self.encoder_layers:
            x = layer(x, mask)
        return x

    def decode(self, ids: Tensor, memory: Tensor, memory_mask: Tensor | None) -> Tensor:
        x = self.embed(ids)
        causal = torch.ones(ids.size(1), ids.size(1), device=ids.device).tril()
        for layer in self.decoder_layers:
            x = layer(x, causal, memory, memory_mask)
        return self.lm_head(x)

    def shift_tokens_right(self, labels: Tensor) -> Tensor:
        shifted = labels.new_full(labels.shape, PAD)
        shifted[:, 1:] = labels[:, :-1].clone()
        return shifted.masked_fill(shifted == -100, PAD)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Seq2SeqOutput:
        mask = None if attention_mask is None else attention_mask[:, None, None, :]
        if decoder_input_ids is None:
            assert labels is not None
            decoder_input_ids = self.shift_tokens_right(labels)
        logits = self.decode(decoder_input_ids, self.encode(input_ids, mask), mask)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=-100)
        return Seq2SeqOutput(logits, loss)


# Wrong ---------------------------------------------------------------------------------------------------------------


class ClonedHeadMarian(LittleMarian):
    def tie_weights(self) -> None:
        self.lm_head.weight = nn.Parameter(self.shared.weight.clone())


class DefaultEmbeddingMarian(LittleMarian):
    def init_weights(self) -> None:
        pass


class LabelsOverwrittenMarian(LittleMarian):
    def shift_tokens_right(self, labels: Tensor) -> Tensor:
        labels[labels == -100] = PAD
        shifted = labels.new_full(labels.shape, PAD)
        shifted[:, 1:] = labels[:, :-1].clone()
        return shifted


class CrossUnmaskedMarian(LittleMarian):
    def decode(self, ids: Tensor, memory: Tensor, memory_mask: Tensor | None) -> Tensor:
        return super().decode(ids, memory, None)


class NotAssignedMarian(LittleMarian):
    def encode(self, input_ids: Tensor, mask: Tensor | None) -> Tensor:
        x = self.embed(input_ids)
        for layer in self.encoder_layers:
            layer(x, mask)
        return x
