"""DistilBERT in small, settings in a dict, and ALBERT's way of using one layer again and again.

`model(input_ids, attention_mask, labels)`: 1 in the mask is a real token, -100 in the labels is a word not asked for.
Gives a dataclass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CONFIG: dict[str, Any] = {"vocab_size": 32, "max_position_embeddings": 64, "dim": 32, "n_heads": 2, "hidden_dim": 64}


@dataclass
class MaskedLMOutput:
    logits: Tensor
    loss: Tensor | None = None


class Embeddings(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config["vocab_size"], config["dim"])
        self.position_embeddings = nn.Embedding(config["max_position_embeddings"], config["dim"])
        self.LayerNorm = nn.LayerNorm(config["dim"], eps=1e-12)

    def forward(self, input_ids: Tensor) -> Tensor:
        position_ids = torch.arange(input_ids.size(1), device=input_ids.device).expand_as(input_ids)
        return self.LayerNorm(self.word_embeddings(input_ids) + self.position_embeddings(position_ids))


class MultiHeadSelfAttention(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.dim, self.n_heads = config["dim"], config["n_heads"]
        self.q_lin = nn.Linear(self.dim, self.dim)
        self.k_lin = nn.Linear(self.dim, self.dim)
        self.v_lin = nn.Linear(self.dim, self.dim)
        self.out_lin = nn.Linear(self.dim, self.dim)

    def shape(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), -1, self.n_heads, self.dim // self.n_heads).transpose(1, 2)

    def unshape(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).contiguous().view(x.size(0), -1, self.dim)

    def scaled(self, q: Tensor) -> Tensor:
        return q / math.sqrt(self.dim // self.n_heads)

    def hidden(self, mask: Tensor) -> Tensor:
        return (mask == 0).view(mask.size(0), 1, 1, mask.size(1))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self.shape(self.q_lin(x)), self.shape(self.k_lin(x)), self.shape(self.v_lin(x))
        scores = torch.matmul(self.scaled(q), k.transpose(2, 3))
        weights = F.softmax(scores.masked_fill(self.hidden(mask), torch.finfo(scores.dtype).min), dim=-1)
        return self.out_lin(self.unshape(torch.matmul(weights, v)))


class TransformerBlock(nn.Module):
    attention_class: type[MultiHeadSelfAttention] = MultiHeadSelfAttention

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.attention = self.attention_class(config)
        self.sa_layer_norm = nn.LayerNorm(config["dim"], eps=1e-12)
        self.lin1 = nn.Linear(config["dim"], config["hidden_dim"])
        self.lin2 = nn.Linear(config["hidden_dim"], config["dim"])
        self.output_layer_norm = nn.LayerNorm(config["dim"], eps=1e-12)
        self.dropout = nn.Dropout(0.1)

    def drop(self, x: Tensor) -> Tensor:
        return self.dropout(x)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        sa_output = self.sa_layer_norm(self.attention(x, mask) + x)
        ffn_output = self.drop(self.lin2(F.gelu(self.lin1(sa_output))))
        return self.output_layer_norm(ffn_output + sa_output)


class LittleDistilBert(nn.Module):
    embeddings_class: type[Embeddings] = Embeddings
    block: type[TransformerBlock] = TransformerBlock
    n_layers = 2

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = self.embeddings_class(CONFIG)
        self.layer = nn.ModuleList([self.block(CONFIG) for _ in range(self.n_layers)])
        self.vocab_projector = nn.Linear(CONFIG["dim"], CONFIG["vocab_size"])

    def encode(self, x: Tensor, mask: Tensor) -> Tensor:
        for layer in self.layer:
            x = layer(x, mask)
        return x

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.reshape(-1), ignore_index=-100)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None
    ) -> MaskedLMOutput:
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        logits = self.vocab_projector(self.encode(self.embeddings(input_ids), mask))
        return MaskedLMOutput(logits, None if labels is None else self.loss(logits, labels))


class LittleAlbert(LittleDistilBert):
    """A variant that is right: one layer, meant to be used three times."""

    n_layers = 1

    def encode(self, x: Tensor, mask: Tensor) -> Tensor:
        for _ in range(3):
            x = self.layer[0](x, mask)
        return x


# Wrong ---------------------------------------------------------------------------------------------------------------


class QueryPaddingAttention(MultiHeadSelfAttention):
    def hidden(self, mask: Tensor) -> Tensor:
        return (mask == 0).view(mask.size(0), 1, mask.size(1), 1)


class QueryPaddingBlock(TransformerBlock):
    attention_class = QueryPaddingAttention


class QueryPaddingDistilBert(LittleDistilBert):
    block = QueryPaddingBlock


class WholeDimScaleAttention(MultiHeadSelfAttention):
    def scaled(self, q: Tensor) -> Tensor:
        return q / math.sqrt(self.dim)


class WholeDimScaleBlock(TransformerBlock):
    attention_class = WholeDimScaleAttention


class WholeDimScaleDistilBert(LittleDistilBert):
    block = WholeDimScaleBlock


class UnshapedAttention(MultiHeadSelfAttention):
    def unshape(self, x: Tensor) -> Tensor:
        return x.contiguous().view(x.size(0), -1, self.dim)


class UnshapedBlock(TransformerBlock):
    attention_class = UnshapedAttention


class UnshapedDistilBert(LittleDistilBert):
    block = UnshapedBlock


class DropoutMadeAnewBlock(TransformerBlock):
    def drop(self, x: Tensor) -> Tensor:
        return nn.Dropout(0.1)(x)


class DropoutMadeAnewDistilBert(LittleDistilBert):
    block = DropoutMadeAnewBlock


class PositionsNotAdded(Embeddings):
    def forward(self, input_ids: Tensor) -> Tensor:
        position_ids = torch.arange(input_ids.size(1), device=input_ids.device).expand_as(input_ids)
        embeddings = self.word_embeddings(input_ids)
        embeddings.add(self.position_embeddings(position_ids))
        return self.LayerNorm(embeddings)


class PositionsNotAddedDistilBert(LittleDistilBert):
    embeddings_class = PositionsNotAdded


class SumOverNumelDistilBert(LittleDistilBert):
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), labels.reshape(-1), reduction="sum")
        return loss / labels.numel()
