"""Small models and a small tokenizer for the tests of this room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from glassformer.core.config import InitConfig, InitRule
from glassformer.models.arguments import ModelArguments
from glassformer.models.transformer import Transformer

LETTERS = "abcdefghijklmnopqrstuvwxyz .!"
POSITIONS = ("none", "sinusoidal", "learned", "rotary", "alibi", "relative")

WIDE = InitRule(kind="normal", std=0.6)
SEED = 13
"""Drawn widely, a random model has preferences; from this seed, models of every kind write different texts
from different prompts, so that a row that is mixed up, or a position that is off, shows."""


class LetterStream:
    def __init__(self, letters: Mapping[int, str]) -> None:
        self.letters = letters

    def push(self, token: int) -> str:
        return self.letters.get(token, "")

    def finish(self) -> str:
        return ""


class Letters:
    """One id a letter, after pad 0, bos 1, eos 2; ids beyond the letters stand for nothing."""

    def __init__(self, vocab_size: int = 32, *, bos: int | None = 1, eos: int | None = 2) -> None:
        self.vocab_size, self.bos_id, self.eos_id = vocab_size, bos, eos
        self.pad_id, self.unk_id = 0, None
        self.letters = {id: letter for id, letter in enumerate(LETTERS, 3) if id < vocab_size}

    @property
    def eos_ids(self) -> tuple[int, ...]:
        return () if self.eos_id is None else (self.eos_id,)

    @property
    def prefix(self) -> tuple[int, ...]:
        return () if self.bos_id is None else (self.bos_id,)

    def encode(self, text: str) -> list[int]:
        return [LETTERS.index(letter) + 3 for letter in text]

    def decode(self, ids: Sequence[int], *, after: Sequence[int] = ()) -> str:
        return "".join(self.letters.get(id, "") for id in ids)

    def label(self, token: int) -> str:
        return self.letters.get(token, f"<{token}>")

    def stream(self, *, after: Sequence[int] = ()) -> LetterStream:
        return LetterStream(self.letters)


def build(kind: str = "decoder", positions: str = "learned", *, seed: int = SEED, **arguments: Any) -> Transformer:
    """A random model of two layers of 16 with 32 ids; `arguments` as in ModelArguments."""
    defaults: dict[str, Any] = {
        "n_layers": 2,
        "d_model": 16,
        "n_heads": 2,
        "d_ff": 32,
        "dropout": 0.0,
        "max_positions": 64 if positions == "learned" else None,
        "embedding_scale": False,
        "tied": False,
        "norm_place": "pre",
        "init": InitConfig(embedding=WIDE, linear=WIDE, residual=WIDE, head=WIDE),
    }
    made = ModelArguments(kind=kind, positions=positions, **{**defaults, **arguments})
    return Transformer(made.resolve(32), generator=torch.Generator().manual_seed(seed)).eval()


def bigram(follows: Mapping[str, str], *, strength: float = 20.0) -> Transformer:
    """A model whose next token depends on the last one only: after x, `follows[x]` scores `strength`.

    "<" is the begin token, ">" the end token. A real Transformer: its embedding is the identity, its
    sublayers add nothing, and its head is the table.
    """
    model = build("decoder", "none", d_model=32, n_layers=1, norm="none", tied=False)
    ids = {"<": 1, ">": 2} | {letter: id for id, letter in enumerate(LETTERS, 3)}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.output_stack.input.embedding.weight.copy_(torch.eye(32))
        assert model.head is not None
        for letter, following in follows.items():
            model.head.weight[ids[following], ids[letter]] = strength
    return model


def naive(model: Transformer, context: Sequence[int], n: int, source: Sequence[int] | None = None) -> list[int]:
    """Greedy generation as the equation says it: one row, no cache, no padding, no end."""
    context = list(context)
    start = len(context)
    with torch.no_grad():
        memory = None if source is None else model.encode(torch.tensor([source]))
        for _ in range(n):
            context.append(int(model(torch.tensor([context]), memory=memory)[0, -1].argmax()))
    return context[start:]
