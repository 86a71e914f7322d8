"""Rung 7."""

from __future__ import annotations

from decoder_layer import DecoderLayer
from encoder_layer import EncoderLayer
from mask import causal_mask
from position import positions
from torch import Tensor, nn


class Transformer(nn.Module):
    def __init__(
        self,
        vocab_size: int,
        d_model: int = 64,
        n_heads: int = 4,
        n_layers: int = 2,
        d_ff: int = 256,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.d_model = d_model
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        sizes = d_model, n_heads, d_ff, dropout
        self.encoder = nn.ModuleList(EncoderLayer(*sizes) for _ in range(n_layers))
        self.decoder = nn.ModuleList(DecoderLayer(*sizes) for _ in range(n_layers))
        self.norm_source, self.norm_target = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        nn.init.normal_(self.head.weight, std=0.02)

    def forward(self, source: Tensor, target: Tensor, source_keep: Tensor | None = None) -> Tensor:
        seen = None if source_keep is None else source_keep[:, None, None, :]
        memory = self.embed(source)
        for layer in self.encoder:
            memory = layer(memory, seen)
        memory, x = self.norm_source(memory), self.embed(target)
        causal = causal_mask(target.shape[1]).to(target.device)
        for layer in self.decoder:
            x = layer(x, memory, causal, seen)
        return self.head(self.norm_target(x))

    def embed(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) * self.d_model**0.5
        return x + positions(tokens.shape[1], self.d_model).to(x)
