"""This project as a contestant: what `train`, `generate` and `translate` call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from glassformer.bench.contest import OURS, Answer, Contestant
from glassformer.bench.numbers import Numbers
from glassformer.bench.workloads import Decoding, PairTraining, Training, Translation, Work, tokens_of
from glassformer.core.compilers import no_compiler
from glassformer.core.protocols import Tokenizer
from glassformer.data.batch import Batch
from glassformer.generation.answer import answer_texts
from glassformer.generation.config import BeamConfig, GenerationConfig
from glassformer.generation.fast import Fast
from glassformer.generation.stream import generate
from glassformer.models.quantise import quantise_model
from glassformer.models.transformer import Transformer
from glassformer.tasks.task import Judging, Split, TaskData
from glassformer.text.build import byte_tokenizer
from glassformer.training.config import TrainingConfig
from glassformer.training.precision import TYPES, Precision
from glassformer.training.trainer import Trainer


def contestants(work: Work, numbers: str) -> list[Contestant]:
    """Return how we do a piece of work.

    Args:
        work: The work.
        numbers: "float32" or "bf16".
    """
    if isinstance(work, Training | PairTraining):
        return [OurTraining(work, numbers, compiled=compiled) for compiled in (False, True)]
    kinds = ("float32", "int8") if numbers == "float32" else (numbers,)
    if isinstance(work, Decoding):
        if work.reads or numbers != "float32":
            return [OurDecoding(work, each) for each in kinds]
        how: tuple[Fast, ...] = ("auto", "off", "on")
        return [OurDecoding(work, each, fast) for each in kinds for fast in how]
    ways: tuple[Literal["auto", "off"], ...] = ("auto", "off") if numbers == "float32" else ("auto",)
    return [OurTranslation(work, each, way) for each in kinds for way in ways]


SETTINGS = {"off": "as written", "auto": "", "on": "compiled"}
"""What a table calls --fast."""


class _Ours:
    name = OURS
    setting = ""

    def __init__(self, numbers: str) -> None:
        self.numbers = numbers

    def unavailable(self) -> str | None:
        return None


class OurTraining(_Ours):
    """Updates, as the training loop makes them."""

    def __init__(self, work: Training | PairTraining, numbers: str, *, compiled: bool = False) -> None:
        super().__init__(numbers)
        self.work, self.compiled = work, compiled
        self.setting = "compiled" if compiled else ""

    def unavailable(self) -> str | None:
        """Say what is not installed."""
        return no_compiler() if self.compiled else None

    def prepare(self) -> None:
        """Build model and trainer."""
        source = MadeBatches(self.work.batches())
        data = TaskData(byte_tokenizer(), source, Split(source), None, self.work.arguments.kind, Judging(("loss",)))
        # no more than the peers do: no warm-up of the rate, no look at the norms of layers
        config = TrainingConfig(
            max_steps=10**6, batch_size=1, lr=3e-4, schedule="constant", warmup=0, norms_every=None,
            compile="on" if self.compiled else "off",
        )  # fmt: skip
        self._trainer = Trainer(self.work.build(), data, config, Precision(self.numbers, "as asked", "cpu"))
        self._windows = self._trainer.windows()

    def turn(self) -> int:
        """Make an update, its batch included; return the tokens of both sides."""
        window = next(self._windows)
        self._trainer.update(window)
        return sum(map(tokens_of, window))

    def answer(self) -> Answer | None:
        """Nothing: dropout is not drawn alike."""
        return None


class OurDecoding(_Ours):
    """Greedy writing.

    Args:
        work: What is written.
        numbers: "float32", "bf16" or "int8".
        fast: As of `generate`.
    """

    def __init__(self, work: Decoding, numbers: str, fast: Fast = "auto") -> None:
        super().__init__(numbers)
        self.work, self.fast = work, fast
        self.setting = SETTINGS[fast]

    def prepare(self) -> None:
        """Build the model."""
        self._model = self.work.build().eval().to(TYPES.get(self.numbers))
        if self.numbers == "int8":
            quantise_model(self._model)
        self._config = GenerationConfig(max_new_tokens=self.work.new, fast=self.fast)
        self._prompts, self._tokenizer = self.work.prompts(), Numbers(self.work.vocab_size)

    def turn(self) -> int:
        """Write all rows."""
        written = generate(self._model, self._prompts, self._config, tokenizer=self._tokenizer)
        self._answer = [each.tokens for each in written]
        return self.work.tokens

    def answer(self) -> Answer | None:
        """Return the new ids."""
        return self._answer


class OurTranslation(_Ours):
    """Beam search over all sentences."""

    def __init__(self, work: Translation, numbers: str, fast: Literal["auto", "off"] = "auto") -> None:
        super().__init__(numbers)
        self.work, self.fast, self.setting = work, fast, SETTINGS[fast]

    def prepare(self) -> None:
        """Build the model."""
        model = self.work.build().eval().to(TYPES.get(self.numbers))
        if self.numbers == "int8":
            quantise_model(model)
        self._loaded = WithNumbers(model, Numbers(self.work.vocab_size, framed=True))
        length = self.work.length
        self._config = BeamConfig(beam=self.work.beam, max_new_tokens=length, min_new_tokens=length, fast=self.fast)
        self._sources = self.work.sources()

    def turn(self) -> int:
        """Translate all sentences."""
        found = answer_texts(self._loaded, self._sources, self._config)
        self._answer = [hypotheses[0].tokens for hypotheses in found]
        return self.work.tokens

    def answer(self) -> Answer | None:
        """Return the target ids."""
        return self._answer


@dataclass(frozen=True)
class WithNumbers:
    """A model with a vocabulary."""

    model: Transformer
    tokenizer: Tokenizer


class MadeBatches:
    """A source whose items are whole batches."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def batch(self, items: Sequence[int], epoch: int) -> Batch:
        """Return one batch."""
        return self._batches[items[0]]

    @property
    def longest(self) -> tuple[int, int]:
        """The longest rows of both sides."""
        sources = (max(batch.source_lengths, default=0) for batch in self._batches)
        return max(sources), max(max(batch.lengths) for batch in self._batches)
