"""BERT as in transformers, `model(input_ids, attention_mask, token_type_ids, labels)`, 1 in the mask for a real token.

Gives logits, or (loss, logits) if there are labels; a label of -100 is not asked for. The head is tied to the words.
"""

from __future__ import annotations

import copy
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class BertEmbeddings(nn.Module):
    def __init__(self, vocab_size: int, hidden_size: int, max_position: int, dropout: float) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, hidden_size)
        self.position_embeddings = nn.Embedding(max_position, hidden_size)
        self.token_type_embeddings = nn.Embedding(2, hidden_size)
        self.LayerNorm = nn.LayerNorm(hidden_size, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor) -> Tensor:
        position_ids = torch.arange(input_ids.size(1), device=input_ids.device).expand_as(input_ids)
        words, positions = self.word_embeddings(input_ids), self.position_embeddings(position_ids)
        return self.dropout(self.LayerNorm(words + positions + self.token_type_embeddings(token_type_ids)))


class BertSelfAttention(nn.Module):
    softmax_dim = -1

    def __init__(self, hidden_size: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_size = hidden_size // num_heads
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.dropout = nn.Dropout(dropout)

    def transpose_for_scores(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.num_heads, self.head_size).permute(0, 2, 1, 3)

    def join(self, context: Tensor) -> Tensor:
        return context.permute(0, 2, 1, 3).flatten(2)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (self.transpose_for_scores(m(hidden)) for m in (self.query, self.key, self.value))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.head_size) + mask
        probs = self.dropout(scores.softmax(dim=self.softmax_dim))
        return self.join(torch.matmul(probs, v))


class BertOutput(nn.Module):
    """Dense, dropout, and the norm of the sum."""

    def __init__(self, inner: int, hidden_size: int, dropout: float) -> None:
        super().__init__()
        self.dense = nn.Linear(inner, hidden_size)
        self.LayerNorm = nn.LayerNorm(hidden_size, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor, input_tensor: Tensor) -> Tensor:
        return self.LayerNorm(self.dropout(self.dense(hidden)) + input_tensor)


class BertLayer(nn.Module):
    attention: type[BertSelfAttention] = BertSelfAttention

    def __init__(self, hidden_size: int, num_heads: int, intermediate_size: int, dropout: float) -> None:
        super().__init__()
        self.self_attention = self.attention(hidden_size, num_heads, dropout)
        self.attention_output = BertOutput(hidden_size, hidden_size, dropout)
        self.intermediate = nn.Linear(hidden_size, intermediate_size)
        self.output = BertOutput(intermediate_size, hidden_size, dropout)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        attended = self.attention_output(self.self_attention(hidden, mask), hidden)
        return self.output(F.gelu(self.intermediate(attended)), attended)


class LittleBert(nn.Module):
    embedding: type[BertEmbeddings] = BertEmbeddings
    layer: type[BertLayer] = BertLayer

    def __init__(
        self,
        vocab_size: int = 32,
        hidden_size: int = 32,
        num_hidden_layers: int = 2,
        num_attention_heads: int = 4,
        max_position_embeddings: int = 64,
        hidden_dropout_prob: float = 0.1,
    ) -> None:
        super().__init__()
        self.embeddings = self.embedding(vocab_size, hidden_size, max_position_embeddings, hidden_dropout_prob)
        layer = self.layer(hidden_size, num_attention_heads, 2 * hidden_size, hidden_dropout_prob)
        self.layers = self.stack(layer, num_hidden_layers)
        self.transform = nn.Sequential(nn.Linear(hidden_size, hidden_size), nn.GELU(), nn.LayerNorm(hidden_size))
        self.decoder = nn.Linear(hidden_size, vocab_size)
        self.decoder.weight = self.embeddings.word_embeddings.weight
        self.apply(self._init_weights)

    def stack(self, layer: nn.Module, n: int) -> nn.ModuleList:
        return nn.ModuleList([copy.deepcopy(layer) for _ in range(n)])

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.data.normal_(mean=0.0, std=0.06)
        if isinstance(module, nn.Linear):
            module.bias.data.zero_()

    def extended_mask(self, attention_mask: Tensor) -> Tensor:
        return (1.0 - attention_mask[:, None, None, :].float()) * torch.finfo(torch.float32).min

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        hidden = self.embeddings(input_ids, token_type_ids)
        mask = self.extended_mask(attention_mask)
        for layer in self.layers:
            hidden = layer(hidden, mask)
        logits = self.decoder(self.transform(hidden))
        return logits if labels is None else (self.loss(logits, labels), logits)


# Masks ---------------------------------------------------------------------------------------------------------------


class MaskNotSubtractedBert(LittleBert):
    """1.0 - is missing: the real words are pushed down and the padding is read."""

    def extended_mask(self, attention_mask: Tensor) -> Tensor:
        return attention_mask[:, None, None, :].float() * -10000.0


class MaskOneAxisShortBert(LittleBert):
    """mask[:, None, :] where two axes are missing: the batch is laid along the heads, and crashes or, by luck, runs."""

    def extended_mask(self, attention_mask: Tensor) -> Tensor:
        return (1.0 - attention_mask[:, None, :].float()) * -10000.0


class TinyNotMinBert(LittleBert):
    """finfo.tiny is the smallest number above zero, not the lowest of all."""

    def extended_mask(self, attention_mask: Tensor) -> Tensor:
        return (1.0 - attention_mask[:, None, None, :].float()) * torch.finfo(torch.float32).tiny


class OneWayBert(LittleBert):
    """The triangle came along from a GPT: no word of an encoder sees what follows it."""

    def extended_mask(self, attention_mask: Tensor) -> Tensor:
        T = attention_mask.size(1)
        seen = attention_mask[:, None, None, :] * torch.ones(T, T, device=attention_mask.device).tril()
        return (1.0 - seen) * -10000.0


# Inside --------------------------------------------------------------------------------------------------------------


class QuerySoftmaxAttention(BertSelfAttention):
    softmax_dim = 2


class QuerySoftmaxLayer(BertLayer):
    attention = QuerySoftmaxAttention


class QuerySoftmaxBert(LittleBert):
    """Softmax(dim=2) of (B, H, T, S) is the axis of the queries."""

    layer = QuerySoftmaxLayer


class ContextNotPermutedAttention(BertSelfAttention):
    def join(self, context: Tensor) -> Tensor:
        return context.reshape(context.size(0), context.size(2), -1)


class ContextNotPermutedLayer(BertLayer):
    attention = ContextNotPermutedAttention


class ContextNotPermutedBert(LittleBert):
    """The heads are flattened without the permute."""

    layer = ContextNotPermutedLayer


class OutputFromInputLayer(BertLayer):
    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        attended = self.attention_output(self.self_attention(hidden, mask), hidden)
        return self.output(F.gelu(self.intermediate(attended)), hidden)


class OutputFromInputBert(LittleBert):
    """The second output is given the layer's input to add to."""

    layer = OutputFromInputLayer


class PositionsOfTheWordsEmbeddings(BertEmbeddings):
    def forward(self, input_ids: Tensor, token_type_ids: Tensor) -> Tensor:
        words, positions = self.word_embeddings(input_ids), self.position_embeddings(input_ids)
        return self.dropout(self.LayerNorm(words + positions + self.token_type_embeddings(token_type_ids)))


class PositionsOfTheWordsBert(LittleBert):
    """The table of positions is read at the numbers of the words."""

    embedding = PositionsOfTheWordsEmbeddings


class SegmentsDroppedEmbeddings(BertEmbeddings):
    def forward(self, input_ids: Tensor, token_type_ids: Tensor) -> Tensor:
        position_ids = torch.arange(input_ids.size(1), device=input_ids.device).expand_as(input_ids)
        embeddings = self.word_embeddings(input_ids) + self.position_embeddings(position_ids)
        return self.dropout(self.LayerNorm(embeddings))


class SegmentsDroppedBert(LittleBert):
    """token_type_ids is an argument, its table a parameter, and neither is used."""

    embedding = SegmentsDroppedEmbeddings


class ShallowCopiesBert(LittleBert):
    """copy.copy of a module shares everything inside it: two layers, one set of weights."""

    def stack(self, layer: nn.Module, n: int) -> nn.ModuleList:
        return nn.ModuleList([copy.copy(layer) for _ in range(n)])


# Training ------------------------------------------------------------------------------------------------------------


class MasksInForwardBert(LittleBert):
    """Words are masked at random inside forward, in evaluation too, and in the caller's own tensor."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        input_ids[torch.rand(input_ids.shape) < 0.15] = 3  # [MASK]
        return super().forward(input_ids, attention_mask, token_type_ids, labels)


class ShiftedLikeGPTBert(LittleBert):
    """The labels are shifted as for a model that goes from left to right."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits[:, :-1].reshape(-1, logits.size(-1)), labels[:, 1:].reshape(-1))


class ZeroIgnoredBert(LittleBert):
    """ignore_index is the number of [PAD], and the labels say -100: crash."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1), ignore_index=0)
