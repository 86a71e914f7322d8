"""BART in small: pre-norm, torch's fused attention, `model(input_ids, attention_mask, decoder_input_ids, labels)`.

With labels alone the decoder reads them shifted right behind a start token (2); -100 in a label is no target, and is
read as padding (1). Gives logits, or (loss, logits).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD, START = 1, 2


def shift_tokens_right(labels: Tensor) -> Tensor:
    shifted = labels.new_full(labels.shape, START)
    shifted[:, 1:] = labels[:, :-1]
    return shifted.masked_fill(shifted == -100, PAD)


class BartAttention(nn.Module):
    def __init__(self, d_model: int, heads: int, is_causal: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.is_causal = is_causal
        self.q_proj = nn.Linear(d_model, d_model)
        self.kv_proj = nn.Linear(d_model, 2 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, source: Tensor, keep: Tensor | None = None) -> Tensor:
        q = self.q_proj(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.kv_proj(source).chunk(2, dim=-1))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=keep, is_causal=self.is_causal)
        return self.out_proj(out.transpose(1, 2).flatten(2))


def feed_forward(d_model: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Linear(2 * d_model, d_model))


class BartEncoderLayer(nn.Module):
    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.self_attn = BartAttention(d_model, heads)
        self.ffn = feed_forward(d_model)
        self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x: Tensor, keep: Tensor | None) -> Tensor:
        y = self.norm_1(x)
        x = x + self.self_attn(y, y, keep)
        return x + self.ffn(self.norm_2(x))


class BartDecoderLayer(nn.Module):
    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.self_attn = BartAttention(d_model, heads, is_causal=True)
        self.encoder_attn = BartAttention(d_model, heads)
        self.ffn = feed_forward(d_model)
        self.norm_1, self.norm_2, self.norm_3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x: Tensor, memory: Tensor, keep: Tensor | None) -> Tensor:
        y = self.norm_1(x)
        x = x + self.self_attn(y, y)
        x = x + self.encoder_attn(self.norm_2(x), memory, keep)
        return x + self.ffn(self.norm_3(x))


class LittleBart(nn.Module):
    encoder_layer: type[BartEncoderLayer] = BartEncoderLayer
    decoder_layer: type[BartDecoderLayer] = BartDecoderLayer

    def __init__(
        self, vocab_size: int = 32, d_model: int = 32, heads: int = 4, layers: int = 2, max_positions: int = 64
    ) -> None:
        super().__init__()
        self.shared = nn.Embedding(vocab_size, d_model)
        self.encoder_positions = nn.Embedding(max_positions, d_model)
        self.decoder_positions = nn.Embedding(max_positions, d_model)
        self.encoder_layers = nn.ModuleList([self.encoder_layer(d_model, heads) for _ in range(layers)])
        self.decoder_layers = nn.ModuleList([self.decoder_layer(d_model, heads) for _ in range(layers)])
        self.encoder_norm = nn.LayerNorm(d_model)
        self.decoder_norm = nn.LayerNorm(d_model)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.1)

    def encode(self, input_ids: Tensor, keep: Tensor | None) -> Tensor:
        place = torch.arange(input_ids.size(1), device=input_ids.device)
        x = self.shared(input_ids) + self.encoder_positions(place)
        for layer in self.encoder_layers:
            x = layer(x, keep)
        return self.encoder_norm(x)

    def decode(self, decoder_input_ids: Tensor, memory: Tensor, keep: Tensor | None) -> Tensor:
        place = torch.arange(decoder_input_ids.size(1), device=decoder_input_ids.device)
        x = self.shared(decoder_input_ids) + self.decoder_positions(place)
        for layer in self.decoder_layers:
            x = layer(x, memory, keep)
        return F.linear(self.decoder_norm(x), self.shared.weight)

    def keep(self, attention_mask: Tensor | None) -> Tensor | None:
        return None if attention_mask is None else attention_mask[:, None, None, :].bool()

    def shift(self, labels: Tensor) -> Tensor:
        return shift_tokens_right(labels)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        if decoder_input_ids is None:
            if labels is None:
                raise ValueError("give decoder_input_ids or labels")
            decoder_input_ids = self.shift(labels)
        keep = self.keep(attention_mask)
        logits = self.decode(decoder_input_ids, self.encode(input_ids, keep), keep)
        return logits if labels is None else (self.loss(logits, labels), logits)


# Labels --------------------------------------------------------------------------------------------------------------


class LabelsReadBart(LittleBart):
    """The decoder reads the labels as they are: each place is asked for the word it was just told."""

    def shift(self, labels: Tensor) -> Tensor:
        return labels.masked_fill(labels == -100, PAD)


class RolledLabelsBart(LittleBart):
    """roll instead of a shift: the last label comes round to the first place."""

    def shift(self, labels: Tensor) -> Tensor:
        return labels.roll(1, dims=1).masked_fill(labels.roll(1, dims=1) == -100, PAD)


class ShiftedLeftBart(LittleBart):
    """Shifted to the left: the decoder reads the word after the one it is asked for."""

    def shift(self, labels: Tensor) -> Tensor:
        shifted = labels.new_full(labels.shape, PAD)
        shifted[:, :-1] = labels[:, 1:]
        return shifted.masked_fill(shifted == -100, PAD)


class MinusHundredReadBart(LittleBart):
    """-100 is not put back to padding before the decoder looks it up: crash."""

    def shift(self, labels: Tensor) -> Tensor:
        shifted = labels.new_full(labels.shape, START)
        shifted[:, 1:] = labels[:, :-1]
        return shifted


class PaddingAskedBart(LittleBart):
    """-100 is put back to padding in the labels themselves, and the loss asks for it."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        labels = labels.masked_fill(labels == -100, PAD)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))


class LossShiftsAgainBart(LittleBart):
    """The inputs are shifted right already, and the loss shifts the labels left as well."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits[:, :-1].reshape(-1, logits.size(-1)), labels[:, 1:].reshape(-1))


# Wiring --------------------------------------------------------------------------------------------------------------


class LastStateBart(LittleBart):
    """Only the last state of the encoder is handed on, as with an LSTM."""

    def encode(self, input_ids: Tensor, keep: Tensor | None) -> Tensor:
        return super().encode(input_ids, keep)[:, -1:]

    def decode(self, decoder_input_ids: Tensor, memory: Tensor, keep: Tensor | None) -> Tensor:
        return super().decode(decoder_input_ids, memory, None)


class FloatKeepBart(LittleBart):
    """attention_mask goes to torch as floats, and floats are added to the scores."""

    def keep(self, attention_mask: Tensor | None) -> Tensor | None:
        return None if attention_mask is None else attention_mask[:, None, None, :].float()


class CausalEncoderLayer(BartEncoderLayer):
    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__(d_model, heads)
        self.self_attn.is_causal = True

    def forward(self, x: Tensor, keep: Tensor | None) -> Tensor:
        y = self.norm_1(x)
        x = x + self.self_attn(y, y)
        return x + self.ffn(self.norm_2(x))


class CausalEncoderBart(LittleBart):
    """The encoder is given is_causal=True, and since that allows no mask beside it, no mask."""

    encoder_layer = CausalEncoderLayer


class DecoderNotCausalLayer(BartDecoderLayer):
    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__(d_model, heads)
        self.self_attn = BartAttention(d_model, heads)


class DecoderNotCausalBart(LittleBart):
    """The decoder's self-attention is built with the default, is_causal=False."""

    decoder_layer = DecoderNotCausalLayer


class MemoryNotAddedLayer(BartDecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, keep: Tensor | None) -> Tensor:
        y = self.norm_1(x)
        x = x + self.self_attn(y, y)
        x = self.encoder_attn(self.norm_2(x), memory, keep)
        return x + self.ffn(self.norm_3(x))


class MemoryNotAddedBart(LittleBart):
    """x = where x = x + was meant, around the cross-attention."""

    decoder_layer = MemoryNotAddedLayer
