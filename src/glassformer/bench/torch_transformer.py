"""torch's own `nn.Transformer` as a contestant, with the embeddings and the head that it lacks."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.bench.contest import Contestant
from glassformer.bench.plain_training import PlainTraining
from glassformer.bench.workloads import PairTraining, Training, Work
from glassformer.parts.position import sinusoid

NAME = "torch.nn.Transformer"


def contestants(work: Work, numbers: str) -> list[Contestant]:
    """Return how it does a piece of work: pairs of sentences are what it was made for."""
    if not isinstance(work, PairTraining):
        return []
    return [
        PlainTraining(NAME, "torch", work, numbers, compiled=compiled, build=TorchPairs) for compiled in (False, True)
    ]


class TorchPairs(nn.Module):
    """`nn.Transformer` with one table of tokens for source, target and head, and sinusoidal positions.

    Args:
        work: Its sizes.
    """

    def __init__(self, work: Training | PairTraining) -> None:
        super().__init__()
        said = work.arguments
        self.transformer = nn.Transformer(
            said.d_model, said.n_heads, said.n_layers, said.n_layers, said.d_ff or 4 * said.d_model, said.dropout,
            batch_first=True,
        )  # fmt: skip
        # The norms after the last layers of nn.Transformer are not in the paper, nor in the other models here.
        self.transformer.encoder.norm = self.transformer.decoder.norm = None
        self.table = nn.Embedding(work.vocab_size, said.d_model)
        nn.init.normal_(self.table.weight, std=said.d_model**-0.5)
        self.bias = nn.Parameter(torch.zeros(work.vocab_size))
        self.dropout = nn.Dropout(said.dropout)
        places = torch.arange(said.max_positions or 512).unsqueeze(0)
        self.register_buffer("positions", sinusoid(places, said.d_model, layout="halves", dtype=torch.float32)[0])

    def forward(self, inputs: Tensor, source: Tensor, there: Tensor) -> Tensor:
        """Return logits (B, T, V)."""
        length = inputs.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool).triu(1)
        states = self.transformer(
            self._embed(source), self._embed(inputs), tgt_mask=causal, tgt_is_causal=True,
            src_key_padding_mask=~there, memory_key_padding_mask=~there,
        )  # fmt: skip
        return F.linear(states, self.table.weight, self.bias)

    def _embed(self, ids: Tensor) -> Tensor:
        positions = self.get_buffer("positions")
        scaled = self.table(ids) * self.table.embedding_dim**0.5 + positions[: ids.shape[1]]
        dropped: Tensor = self.dropout(scaled)
        return dropped
