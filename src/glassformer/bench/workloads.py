"""The work that is compared, as data: which model, on how much of what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import torch

from glassformer.core.config import InitConfig, InitRule
from glassformer.core.errors import ConfigError, did_you_mean
from glassformer.data.batch import Batch, padded
from glassformer.inspection.summary import summarise
from glassformer.models.arguments import AttentionArguments, ModelArguments
from glassformer.models.transformer import Transformer

Size = Literal["small", "medium"]
SIZES: tuple[Size, ...] = ("small", "medium")

BYTES: Mapping[str, float] = MappingProxyType({"float32": 4.0, "bf16": 2.0, "int8": 34 / 32})
"""Of one weight; of 32 in 8 bits a scale is read, too."""


@dataclass(frozen=True)
class Workload:
    """A model, and its seed.

    Attributes:
        name: Of the work, short.
        arguments: The architecture.
        vocab_size: Number of token ids.
    """

    name: str
    arguments: ModelArguments
    vocab_size: int

    def build(self) -> Transformer:
        """Return the model; its weights are the same every time."""
        return Transformer(self.arguments.resolve(self.vocab_size), generator=torch.Generator().manual_seed(0))

    @property
    def parameters(self) -> int:
        """How many numbers the model has; one that is tied counts once."""
        return sum(parameter.numel() for parameter in self._shape().parameters())

    def _shape(self) -> Transformer:
        with torch.device("meta"):
            return Transformer(self.arguments.resolve(self.vocab_size))

    def _ids(self, rows: int, length: int) -> list[list[int]]:
        """Random ids, none of the first few, which may have a meaning; the same every time."""
        generator = torch.Generator().manual_seed(1)
        return torch.randint(4, self.vocab_size, (rows, length), generator=generator).tolist()


@dataclass(frozen=True)
class Training(Workload):
    """Updates of a decoder on rows of equal length.

    Attributes:
        rows: Of a batch.
        length: Tokens of a row.
    """

    rows: int
    length: int

    def batches(self) -> tuple[Batch, ...]:
        """Return what is learned from, over and over."""
        batches = []
        for number, ids in enumerate(torch.tensor(self._ids(4 * self.rows, self.length + 1)).split(self.rows)):
            lengths, items = (self.length,) * self.rows, (number,)
            batches.append(Batch(ids[:, :-1].contiguous(), lengths, ids[:, 1:].contiguous(), items))
        return tuple(batches)

    def flops(self) -> float:
        """Return the operations for one token, forward and backward, causal masks not counted on."""
        return 3 * summarise(self._shape(), self.length).total.flops / self.length


@dataclass(frozen=True)
class PairTraining(Workload):
    """Updates of an encoder-decoder on pairs of sentences, which are as unequal as real ones.

    Attributes:
        tokens: Of a batch on its longer side, padding included; pairs of like length go together.
    """

    tokens: int

    def batches(self) -> tuple[Batch, ...]:
        """Return what is learned from, over and over: lengths as of the captions of Multi30k in subword tokens."""
        generator = torch.Generator().manual_seed(1)
        drawn = torch.randn(4 * self.tokens // 16, 2, generator=generator)
        drawn[:, 1] = 0.8 * drawn[:, 0] + 0.6 * drawn[:, 1]  # long sentences have long translations
        lengths = (14 * (0.3 * drawn).exp()).round().int().clamp(4, 45).tolist()
        ids = [
            [torch.randint(4, self.vocab_size, (n,), generator=generator).tolist() for n in pair]
            for pair in sorted(lengths)
        ]
        groups: list[list[list[list[int]]]] = [[]]
        for pair in ids:
            longest = max(len(side) for each in (*groups[-1], pair) for side in each) + 1
            if groups[-1] and longest * (len(groups[-1]) + 1) > self.tokens:
                groups.append([])
            groups[-1].append(pair)
        return tuple(_pair_batch(number, group) for number, group in enumerate(groups))

    def flops(self) -> float:
        """Return the operations for one token, forward and backward, of sentences of 15 tokens."""
        return 3 * summarise(self._shape(), 15).total.flops / (2 * 15)


def _pair_batch(number: int, group: Sequence[Sequence[Sequence[int]]]) -> Batch:
    sources, targets = [pair[0] for pair in group], [pair[1] for pair in group]
    return Batch(
        inputs=padded(targets, 2, begin=[0]),
        lengths=tuple(len(target) + 1 for target in targets),
        labels=padded(targets, -100, end=[1]),
        items=(number,),
        source=padded(sources, 2, end=[1]),
        source_lengths=tuple(len(source) + 1 for source in sources),
    )


def tokens_of(batch: Batch) -> int:
    """Return the tokens of a batch that are none of padding, of both sides."""
    return sum(batch.lengths) + sum(batch.source_lengths)


@dataclass(frozen=True)
class Decoding(Workload):
    """Greedy writing, one token after the other.

    Attributes:
        rows: Texts at once.
        prompt: Tokens that are read first.
        new: Tokens that are written; 1 = reading alone is measured, and tokens are those of the prompt.
    """

    rows: int
    prompt: int
    new: int

    def prompts(self) -> list[list[int]]:
        """Return what is read."""
        return self._ids(self.rows, self.prompt)

    @property
    def reads(self) -> bool:
        """Whether it is reading that is measured."""
        return self.new == 1

    @property
    def tokens(self) -> int:
        """Of one piece of work."""
        return self.rows * (self.prompt if self.reads else self.new)

    def flops(self) -> float:
        """Return the operations for one token of the prompt; only the last one is scored."""
        model = self._shape()
        head = 0 if model.head is None or model.head.weight is None else 2 * model.head.weight.numel()
        return summarise(model, self.prompt).total.flops / self.prompt - head * (1 - 1 / self.prompt)

    def bytes(self, numbers: str) -> float:
        """Return what is read from memory for one token: every matrix once for all rows."""
        model = self._shape()
        tables = 0 if self.arguments.tied else model.output_stack.input.embedding.weight.numel()
        return (self.parameters - tables) * BYTES[numbers] / self.rows


@dataclass(frozen=True)
class Translation(Workload):
    """Beam search over sentences of equal length, whose translations are as long as they are.

    Attributes:
        sentences: How many.
        length: Tokens of each, the end token not counted, and of its translation.
        beam: How many beginnings are followed.
    """

    sentences: int
    length: int
    beam: int

    def sources(self) -> list[list[int]]:
        """Return what is translated, without end tokens."""
        return self._ids(self.sentences, self.length)

    @property
    def tokens(self) -> int:
        """Target tokens of one piece of work."""
        return self.sentences * self.length

    def flops(self) -> float:
        """Return the operations for one target token, of all beginnings, and of a source token."""
        model = self._shape()
        rows = {row.name: row.flops for row in summarise(model, self.length).rows}
        encoder = sum(flops for name, flops in rows.items() if name.startswith("encoder"))
        return (encoder + self.beam * (sum(rows.values()) - encoder)) / self.length


Work = Training | PairTraining | Decoding | Translation


def _gpt(n_layers: int, d_model: int, n_heads: int, context: int, dropout: float) -> ModelArguments:
    """As GPT-2 is built."""
    return ModelArguments(
        kind="decoder", d_model=d_model, n_layers=n_layers, n_heads=n_heads, dropout=dropout, positions="learned",
        max_positions=context, embedding_scale=False, activation="gelu_tanh", norm_place="pre",
        attention=AttentionArguments(dropout=dropout),
    )  # fmt: skip


def _llama(n_layers: int, d_model: int, n_heads: int, d_ff: int) -> ModelArguments:
    """As LLaMA is built, with one table of tokens for both ends."""
    return ModelArguments(
        kind="decoder", d_model=d_model, n_layers=n_layers, n_heads=n_heads, d_ff=d_ff, dropout=0.0,
        positions="rotary", max_positions=1024, embedding_scale=False, activation="silu", gated=True, bias=False,
        norm="rms", norm_place="pre",
    )  # fmt: skip


def _pairs(n_layers: int, d_model: int, n_heads: int, init: InitConfig | None = None) -> ModelArguments:
    """As Marian is built, with the paper's ReLU."""
    return ModelArguments(
        kind="encoder_decoder", d_model=d_model, n_layers=n_layers, n_heads=n_heads, dropout=0.1,
        positions="sinusoidal", position_layout="halves", max_positions=512, activation="relu", norm_place="post",
        head_bias=True, init=init or InitConfig(),
    )  # fmt: skip


VARIED = InitConfig(embedding=InitRule(kind="normal", std="d_model"), linear=InitRule(gain=3.0))
"""With it an untrained model writes more than one word again and again, so that equal answers say something."""

LLAMA_110M = _llama(12, 768, 12, 2048)

WORK: Mapping[str, Mapping[Size, tuple[Work, ...]]] = MappingProxyType(
    {
        "train": {
            "medium": (
                Training("6x384", _gpt(6, 384, 6, 256, 0.2), 65, rows=16, length=256),
                Training("4x128", _gpt(4, 128, 4, 64, 0.0), 65, rows=12, length=64),
                PairTraining("pairs", _pairs(3, 256, 8), 8000, tokens=4096),
            ),
            "small": (
                Training("4x128", _gpt(4, 128, 4, 64, 0.0), 65, rows=12, length=64),
                PairTraining("pairs", _pairs(2, 64, 4), 1000, tokens=1024),
            ),
        },
        "decode": {
            "medium": (
                Decoding("one", LLAMA_110M, 32_000, rows=1, prompt=16, new=48),
                Decoding("eight", LLAMA_110M, 32_000, rows=8, prompt=16, new=24),
            ),
            "small": (
                Decoding("one", _llama(4, 256, 4, 704), 4000, rows=1, prompt=16, new=48),
                Decoding("eight", _llama(4, 256, 4, 704), 4000, rows=8, prompt=16, new=24),
            ),
        },
        "prefill": {
            "medium": (Decoding("256", LLAMA_110M, 32_000, rows=1, prompt=256, new=1),),
            "small": (Decoding("256", _llama(4, 256, 4, 704), 4000, rows=1, prompt=256, new=1),),
        },
        "translate": {
            "medium": (
                Translation("beam5", _pairs(3, 256, 8, VARIED), 8000, sentences=256, length=16, beam=5),
                Translation("beam1", _pairs(3, 256, 8, VARIED), 8000, sentences=256, length=16, beam=1),
            ),
            "small": (
                Translation("beam5", _pairs(2, 64, 4, VARIED), 1000, sentences=32, length=12, beam=5),
                Translation("beam1", _pairs(2, 64, 4, VARIED), 1000, sentences=32, length=12, beam=1),
            ),
        },
    }
)
"""By verb and size."""


def work(verb: str, size: str, only: Sequence[str] = ()) -> tuple[Work, ...]:
    """Return the workloads of a verb.

    Args:
        verb: One of `WORK`.
        size: One of `SIZES`.
        only: Names of those that are wanted; none = all.

    Raises:
        ConfigError: There is no such size or name.
    """
    if size not in SIZES:
        raise ConfigError(f"there is no size {size!r}{did_you_mean(size, SIZES)}")
    found = WORK[verb]["small" if size == "small" else "medium"]
    names = [each.name for each in found]
    for name in only:
        if name not in names:
            raise ConfigError(f"bench {verb} has no work {name!r} of size {size}{did_you_mean(name, names)}")
    return tuple(each for each in found if not only or each.name in only)
