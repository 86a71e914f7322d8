"""Text in, text out: the stream and the score for those who do not want to see ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from glassformer.core.errors import DataError
from glassformer.core.protocols import Tokenizer
from glassformer.core.tape import Tape
from glassformer.generation.beam import beam_search
from glassformer.generation.config import BeamConfig, GenerationConfig
from glassformer.generation.hypothesis import Hypothesis
from glassformer.generation.score import Score, score
from glassformer.generation.stream import Generation, Step, generate, stream
from glassformer.models.transformer import Transformer


@runtime_checkable
class HasModel(Protocol):
    """A model with its tokenizer, such as `gf.load` returns."""

    @property
    def model(self) -> Transformer: ...
    @property
    def tokenizer(self) -> Tokenizer: ...


def generate_text(
    loaded: HasModel, text: str, config: GenerationConfig | None = None, *, tape: Tape | None = None
) -> Generation:
    """Return what a model writes: on from the text, or, as an encoder-decoder, as the answer to it.

    Args:
        loaded: Model and tokenizer.
        text: The prompt, or the source.
        config: How much, how surprisingly, and until what; greedy when None.
        tape: What is recorded and changed in each forward pass.

    Raises:
        DataError: The text is empty where there is no begin token, or longer than the context.
    """
    return generate_texts(loaded, [text], config, tape=tape)[0]


def generate_texts(
    loaded: HasModel,
    texts: Sequence[str],
    config: GenerationConfig | None = None,
    *,
    tape: Tape | None = None,
) -> list[Generation]:
    """Return what a model writes for each of several texts, as one batch; see `generate_text`."""
    prompts, sources = _inputs(loaded, texts)
    return generate(
        loaded.model,
        prompts,
        config or GenerationConfig(),
        tokenizer=loaded.tokenizer,
        sources=sources,
        tape=tape,
    )


def beam_texts(
    loaded: HasModel,
    texts: Sequence[str],
    config: BeamConfig | None = None,
    *,
    max_new: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """Return the best texts that a beam search finds for each of several texts, as one batch.

    Args:
        loaded: Model and tokenizer.
        texts: The prompts, or the sources of an encoder-decoder.
        config: How wide, how many, how long; the defaults when None.
        max_new: Each text's own largest number of new tokens, in place of `config.max_new_tokens`.

    Returns:
        For each text its hypotheses, the best first; see `beam_search`.

    Raises:
        DataError: A text is empty where there is no begin token, or longer than the context.
    """
    prompts, sources = _inputs(loaded, texts)
    return beam_search(
        loaded.model,
        prompts,
        config or BeamConfig(),
        tokenizer=loaded.tokenizer,
        sources=sources,
        max_new=max_new,
    )


def stream_text(loaded: HasModel, text: str, config: GenerationConfig | None = None) -> Iterator[Step]:
    """Yield each step of `generate_text` as it comes; `step.text` holds whole characters only."""
    prompts, sources = _inputs(loaded, [text])
    return stream(loaded.model, prompts, config or GenerationConfig(), tokenizer=loaded.tokenizer, sources=sources)


def score_text(loaded: HasModel, text: str, target: str | None = None) -> Score:
    """Return how probable a model finds a text, or the target given the text as source.

    Args:
        loaded: Model and tokenizer.
        text: What is scored by a decoder-only model, or what an encoder-decoder reads.
        target: What is scored by an encoder-decoder.

    Raises:
        DataError: There is a target and no encoder, or an encoder and no target.
    """
    reads = loaded.model.encoder is not None and loaded.model.decoder is not None
    if reads != (target is not None):
        raise DataError(
            "an encoder-decoder scores a target, given a text: say which with --target"
            if reads
            else "this model is decoder-only and reads no source: score the whole text without --target"
        )
    if target is None:
        return score(loaded.model, loaded.tokenizer.encode(text), tokenizer=loaded.tokenizer)
    source = source_ids(loaded.tokenizer, text)
    return score(loaded.model, loaded.tokenizer.encode(target), tokenizer=loaded.tokenizer, source=source)


def source_ids(tokenizer: Tokenizer, text: str | Sequence[int]) -> list[int]:
    """Return what an encoder reads of a text: its ids and, as in training, the end token."""
    end = [] if tokenizer.eos_id is None else [tokenizer.eos_id]
    return [*(tokenizer.encode(text) if isinstance(text, str) else text), *end]


def _inputs(loaded: HasModel, texts: Sequence[str]) -> tuple[list[list[int]], list[list[int]] | None]:
    """Prompts and sources: an encoder-decoder reads the texts, a decoder-only model goes on from them."""
    if loaded.model.encoder is not None and loaded.model.decoder is not None:
        return [[] for _ in texts], [source_ids(loaded.tokenizer, text) for text in texts]
    return [loaded.tokenizer.encode(text) for text in texts], None
