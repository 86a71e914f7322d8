"""A classifier of texts on PyTorch's encoder: sines, layers, the mean of the real words, log-probabilities of classes.

`attention_mask` is 1 for a real word, as tokenizers give it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model: int, max_len: int = 64) -> None:
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, d_model)
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[:, : x.size(1)]


class TextClassifier(nn.Module):
    batch_first = True

    def __init__(self, vocab_size: int = 32, d_model: int = 32, num_classes: int = 5, dropout: float = 0.1) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.pos_encoder = PositionalEncoding(d_model)
        layer = nn.TransformerEncoderLayer(d_model, 2, 2 * d_model, dropout, batch_first=self.batch_first)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(d_model, num_classes)

    def encode(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.pos_encoder(self.embedding(input_ids))
        return self.encoder(x, src_key_padding_mask=attention_mask == 0)

    def pool(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        mask = attention_mask.unsqueeze(-1).float()
        return (x * mask).sum(1) / mask.sum(1)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        x = self.encode(input_ids, attention_mask)
        logits = self.fc(self.dropout(self.pool(x, attention_mask)))
        return torch.log_softmax(logits, dim=1)


# Wrong ---------------------------------------------------------------------------------------------------------------


class MaskTurnedToFitClassifier(TextClassifier):
    """batch_first forgotten: words listen to the other texts. The mask did not fit, and was turned until it did."""

    batch_first = False

    def encode(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.pos_encoder(self.embedding(input_ids))
        return self.encoder(x, src_key_padding_mask=(attention_mask == 0).transpose(0, 1))


class OnesArePaddingClassifier(TextClassifier):
    """The tokenizer's mask, handed on as it is."""

    def encode(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.pos_encoder(self.embedding(input_ids))
        return self.encoder(x, src_key_padding_mask=attention_mask.bool())


class ZeroedPaddingClassifier(TextClassifier):
    """Padding is set to zero, and still listened to."""

    def encode(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.pos_encoder(self.embedding(input_ids))
        return self.encoder(x * attention_mask.unsqueeze(-1))


class FirstOfBatchClassifier(TextClassifier):
    """x[0] was the first word where the batch was second; here it is the first text."""

    def pool(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        return x[0]


class MeanByLengthClassifier(TextClassifier):
    """The sum of the real words over the number of all."""

    def pool(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        return (x * attention_mask.unsqueeze(-1)).mean(1)


class SoftmaxOverTextsClassifier(TextClassifier):
    """dim=0 is the batch."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        x = self.encode(input_ids, attention_mask)
        logits = self.fc(self.dropout(self.pool(x, attention_mask)))
        return torch.log_softmax(logits, dim=0)
