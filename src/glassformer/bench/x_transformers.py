"""x-transformers as a contestant."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.bench.contest import Answer, Contestant
from glassformer.bench.plain_training import PlainTraining, missing
from glassformer.bench.workloads import Decoding, PairTraining, Training, Work
from glassformer.training.precision import TYPES

NAME, PACKAGE = "x-transformers", "x_transformers"


def contestants(work: Work, numbers: str) -> list[Contestant]:
    """Return how it does a piece of work; it has no beam search, and of reading alone no verb."""
    if isinstance(work, Training):
        return [PlainTraining(NAME, PACKAGE, work, numbers, compiled=each, build=XDecoder) for each in (False, True)]
    if isinstance(work, PairTraining):
        return [PlainTraining(NAME, PACKAGE, work, numbers, compiled=False, build=XPairs)]
    if isinstance(work, Decoding) and not work.reads:
        return [XDecoding(work, numbers)]
    return []


class XDecoder(nn.Module):
    """A decoder of the sizes of a workload.

    Args:
        work: Its sizes.
    """

    def __init__(self, work: Training | PairTraining | Decoding) -> None:
        super().__init__()
        library: Any = import_module(PACKAGE)
        said = work.arguments
        rotary = said.positions == "rotary"
        layers = library.Decoder(
            dim=said.d_model, depth=said.n_layers, heads=said.n_heads, attn_dim_head=said.d_model // said.n_heads,
            ff_mult=(said.d_ff or 4 * said.d_model) / said.d_model, ff_glu=said.gated, ff_swish=said.gated,
            ff_no_bias=not said.bias, use_rmsnorm=said.norm == "rms", rotary_pos_emb=rotary, attn_flash=True,
            attn_dropout=said.attention.dropout, ff_dropout=said.dropout, layer_dropout=0.0,
        )  # fmt: skip
        self.decoder = library.TransformerWrapper(
            num_tokens=work.vocab_size, max_seq_len=said.max_positions, attn_layers=layers,
            use_abs_pos_emb=not rotary, emb_dropout=said.dropout, tie_embedding=True,
        )  # fmt: skip

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits (B, T, V)."""
        logits: Tensor = self.decoder(inputs)
        return logits


class XPairs(nn.Module):
    """An encoder-decoder of the sizes of a workload.

    Args:
        work: Its sizes.
    """

    def __init__(self, work: Training | PairTraining) -> None:
        super().__init__()
        library: Any = import_module(PACKAGE)
        said = work.arguments
        layers = {
            "depth": said.n_layers, "heads": said.n_heads, "attn_dim_head": said.d_model // said.n_heads,
            "attn_flash": True, "ff_mult": (said.d_ff or 4 * said.d_model) / said.d_model, "ff_dropout": said.dropout,
        }  # fmt: skip
        stack = {
            "num_tokens": work.vocab_size, "max_seq_len": said.max_positions, "use_abs_pos_emb": False,
            "scaled_sinu_pos_emb": True, "emb_dropout": said.dropout,
        }  # fmt: skip
        self.encoder = library.TransformerWrapper(
            **stack, return_only_embed=True, attn_layers=library.Encoder(dim=said.d_model, **layers)
        )
        self.decoder = library.TransformerWrapper(
            **stack, tie_embedding=True,
            attn_layers=library.Decoder(dim=said.d_model, cross_attend=True, **layers),
        )  # fmt: skip
        self.decoder.token_emb = self.encoder.token_emb

    def forward(self, inputs: Tensor, source: Tensor, there: Tensor) -> Tensor:
        """Return logits (B, T, V)."""
        memory = self.encoder(source, mask=there, return_embeddings=True)
        logits: Tensor = self.decoder(inputs, context=memory, context_mask=there)
        return logits


class XDecoding:
    """Greedy writing with its cache."""

    name = NAME
    setting = ""

    def __init__(self, work: Decoding, numbers: str) -> None:
        self.work, self.numbers = work, numbers

    def unavailable(self) -> str | None:
        """Say what is not installed."""
        return missing(PACKAGE)

    def prepare(self) -> None:
        """Build the model."""
        library: Any = import_module(PACKAGE)
        model = XDecoder(self.work).eval().to(TYPES.get(self.numbers))
        self._writer = library.AutoregressiveWrapper(model.decoder)
        self._prompts = torch.tensor(self.work.prompts())

    def turn(self) -> int:
        """Write all rows."""
        self._writer.generate(self._prompts, self.work.new, temperature=0.0, cache_kv=True)
        return self.work.tokens

    def answer(self) -> Answer | None:
        """Nothing: its weights are its own."""
        return None
