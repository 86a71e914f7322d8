"""The reference library (Hugging Face transformers) as a contestant, with our weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.bench.contest import Answer, Contestant
from glassformer.bench.plain_training import PlainTraining, missing
from glassformer.bench.workloads import Decoding, PairTraining, Training, Translation, Work
from glassformer.checkpoint.foreign import to_foreign
from glassformer.checkpoint.reference import reference_library
from glassformer.core.compilers import no_compiler
from glassformer.families.registry import family_named
from glassformer.training.precision import TYPES

NAME, PACKAGE = "reference library", "transformers"

AT_ONCE = 64
"""Sentences that it translates together: more of them are slower."""


def contestants(work: Work, numbers: str) -> list[Contestant]:
    """Return how it does a piece of work: as it is, and compiled where that is made for."""
    if isinstance(work, Training):
        return [
            PlainTraining(NAME, PACKAGE, work, numbers, compiled=each, build=ReferenceDecoder) for each in (False, True)
        ]
    if isinstance(work, PairTraining):
        return [PlainTraining(NAME, PACKAGE, work, numbers, compiled=False, build=ReferencePairs)]
    if isinstance(work, Translation):
        return [ReferenceTranslation(work, numbers)]
    if work.reads:
        return [ReferenceReading(work, numbers)]
    return [ReferenceDecoding(work, numbers, compiled=compiled) for compiled in (False, True)]


def load(work: Work, family: str, *, dtype: torch.dtype | None = None) -> Any:
    """Return a workload's model as the reference library builds and runs it.

    Args:
        work: The workload.
        family: As what.
        dtype: Of its weights; None = float32.
    """
    library = reference_library()
    library.utils.logging.set_verbosity_error()
    settings, tensors = to_foreign(work.build(), family_named(family))
    architecture = settings["architectures"][0]
    kind = getattr(library, architecture)
    model = kind(kind.config_class(**_silent(settings)))
    missing_names, unknown = model.load_state_dict(tensors, strict=False)
    assert not unknown, f"{architecture} has no place for {unknown}"
    model.tie_weights()
    derived = ("lm_head.weight", "embed_tokens.weight", "embed_positions.weight", "inv_freq", "attn.bias")
    left = [name for name in missing_names if not name.endswith(derived)]
    assert not left, f"nothing filled {left}"
    return model.to(dtype).eval()


def _silent(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without what is said for a loader."""
    return {name: value for name, value in settings.items() if name not in ("architectures", "model_type", "dtype")}


class ReferenceDecoder(nn.Module):
    """Its GPT-2.

    Args:
        work: Sizes and weights.
    """

    def __init__(self, work: Training | PairTraining) -> None:
        super().__init__()
        self.model = load(work, "gpt2")

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits (B, T, V)."""
        logits: Tensor = self.model(input_ids=inputs, use_cache=False).logits
        return logits


class ReferencePairs(nn.Module):
    """Its Marian.

    Args:
        work: Sizes and weights.
    """

    def __init__(self, work: Training | PairTraining) -> None:
        super().__init__()
        self.model = load(work, "marian")

    def forward(self, inputs: Tensor, source: Tensor, there: Tensor) -> Tensor:
        """Return logits (B, T, V)."""
        logits: Tensor = self.model(
            input_ids=source, attention_mask=there.long(), decoder_input_ids=inputs, use_cache=False
        ).logits
        return logits


class _Reference:
    name = NAME

    def __init__(self, numbers: str, *, compiled: bool = False) -> None:
        self.numbers, self.compiled = numbers, compiled
        self.setting = "compiled, static cache" if compiled else ""
        self._answer: Answer | None = None

    def unavailable(self) -> str | None:
        return missing(PACKAGE) or (no_compiler() if self.compiled else None)

    def answer(self) -> Answer | None:
        return self._answer


class ReferenceDecoding(_Reference):
    """Its LLaMA, writing greedily."""

    def __init__(self, work: Decoding, numbers: str, *, compiled: bool) -> None:
        super().__init__(numbers, compiled=compiled)
        self.work = work

    def prepare(self) -> None:
        """Build the model."""
        self._model = load(self.work, "llama", dtype=TYPES.get(self.numbers))
        if self.compiled:
            self._model.forward = torch.compile(self._model.forward)
        self._prompts = torch.tensor(self.work.prompts())
        self._config = reference_library().GenerationConfig(
            max_new_tokens=self.work.new, min_new_tokens=self.work.new, do_sample=False, pad_token_id=0,
            cache_implementation="static" if self.compiled else None,
        )  # fmt: skip
        self._model.generation_config = self._config  # what is not said here would be taken from there

    def turn(self) -> int:
        """Write all rows."""
        there = torch.ones_like(self._prompts)
        written = self._model.generate(self._prompts, attention_mask=there, generation_config=self._config)
        self._answer = written[:, self.work.prompt :].tolist()
        return self.work.tokens


class ReferenceReading(_Reference):
    """Its LLaMA, reading a prompt into its cache."""

    def __init__(self, work: Decoding, numbers: str) -> None:
        super().__init__(numbers)
        self.work = work

    def prepare(self) -> None:
        """Build the model."""
        self._model = load(self.work, "llama", dtype=TYPES.get(self.numbers))
        self._prompts = torch.tensor(self.work.prompts())

    def turn(self) -> int:
        """Read all rows, and score the last token of each."""
        with torch.inference_mode():
            logits = self._model(input_ids=self._prompts, use_cache=True, logits_to_keep=1).logits
        self._answer = logits[:, -1:].argmax(-1).tolist()
        return self.work.tokens


class ReferenceTranslation(_Reference):
    """Its Marian, searching."""

    def __init__(self, work: Translation, numbers: str) -> None:
        super().__init__(numbers)
        self.work = work

    def prepare(self) -> None:
        """Build the model."""
        self._model = load(self.work, "marian", dtype=TYPES.get(self.numbers))
        self._sources = torch.tensor([[*source, 1] for source in self.work.sources()])
        length = self.work.length
        self._config = reference_library().GenerationConfig(
            max_new_tokens=length, min_new_tokens=length, num_beams=self.work.beam, do_sample=False,
            decoder_start_token_id=0, bos_token_id=0, eos_token_id=1, pad_token_id=2, length_penalty=1.0,
        )  # fmt: skip
        self._model.generation_config = self._config

    def turn(self) -> int:
        """Translate all sentences."""
        written = []
        for sources in self._sources.split(AT_ONCE):
            found = self._model.generate(
                sources, attention_mask=torch.ones_like(sources), generation_config=self._config
            )
            written += found[:, 1:].tolist()
        self._answer = written
        return self.work.tokens
