"""Many texts at once, each with its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from glassformer.core.errors import UnsupportedError
from glassformer.generation.beam import beam_search
from glassformer.generation.config import BeamConfig, GenerationConfig
from glassformer.generation.hypothesis import Hypothesis, normalised
from glassformer.generation.inputs import check_model, check_sources
from glassformer.generation.stream import generate
from glassformer.generation.text import HasModel, source_ids

BATCH_TOKENS = 8192
"""Tokens of the sources that are answered together, times the width of the beam; padding counts, the end too."""


def answer_texts(
    loaded: HasModel,
    texts: Sequence[str] | Sequence[Sequence[int]],
    config: BeamConfig | None = None,
    *,
    batch_tokens: int = BATCH_TOKENS,
    advanced: Callable[[int, int], None] | None = None,
) -> list[list[Hypothesis]]:
    """Return what an encoder-decoder writes for each text, in the order of the texts.

    Texts of like length go together, so that none waits long for the others. What does not end is cut at twice the
    tokens of its text, the end token included, and 10 more, or at `config.max_new_tokens` if that is less.

    Args:
        loaded: An encoder-decoder and its tokenizer.
        texts: What it reads, as text or as ids without the end token.
        config: How wide and how many; with a beam of 1 each token is the most probable one, whatever the length
            penalty. One such answer each when None.
        batch_tokens: Tokens of sources at a time, as `BATCH_TOKENS`; in float32 it changes no result.
        advanced: Called with (done, total) texts.

    Raises:
        UnsupportedError: The model has no encoder or no decoder, or labels texts.
        DataError: At once: a text is longer than the model's context, or the tokenizer does not fit.
    """
    check_model(loaded.model, loaded.tokenizer)
    if loaded.model.encoder is None:
        raise UnsupportedError(
            "only an encoder-decoder answers a text, and this model is decoder-only; it goes on from one: use generate"
            " (in Python, generate_texts)"
        )
    config = config or BeamConfig(beam=1)
    sources = [source_ids(loaded.tokenizer, text) for text in texts]
    check_sources(loaded.model, sources, len(sources))  # with the numbers of the texts, not of rows in a batch
    limits = [min(2 * len(source) + 10, config.max_new_tokens) for source in sources]
    found: list[list[Hypothesis]] = [[] for _ in texts]
    done = 0
    for rows in _batches([len(source) for source in sources], batch_tokens // config.beam):
        of_rows = [sources[row] for row in rows], [limits[row] for row in rows]
        answers = _greedy(loaded, *of_rows, config) if config.beam == 1 else _searched(loaded, *of_rows, config)
        for row, answer in zip(rows, answers, strict=True):
            found[row] = answer
        done += len(rows)
        if advanced is not None:
            advanced(done, len(texts))
    return found


def _batches(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Rows of like length, the longest first: if memory is short, that shows at once."""
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if batches and (len(batches[-1]) + 1) * max(1, lengths[batches[-1][0]]) <= most:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def _searched(
    loaded: HasModel, sources: Sequence[Sequence[int]], limits: Sequence[int], config: BeamConfig
) -> list[list[Hypothesis]]:
    nothing: list[list[int]] = [[] for _ in sources]
    return beam_search(loaded.model, nothing, config, tokenizer=loaded.tokenizer, sources=sources, max_new=limits)


def _greedy(
    loaded: HasModel, sources: Sequence[Sequence[int]], limits: Sequence[int], config: BeamConfig
) -> list[list[Hypothesis]]:
    """The most probable token at every step: what a beam of 1 finds without a length penalty, in less time."""
    settings = GenerationConfig(
        max_new_tokens=max(limits),
        min_new_tokens=min(config.min_new_tokens, max(limits)),
        use_cache=config.use_cache,
        fast=config.fast,
    )
    nothing: list[list[int]] = [[] for _ in sources]
    written = generate(loaded.model, nothing, settings, tokenizer=loaded.tokenizer, sources=sources)
    answers = []
    for each, limit in zip(written, limits, strict=True):
        tokens, logprob = each.tokens[:limit], sum(each.logprobs[:limit])
        ended = each.stop_reason if len(each.tokens) <= limit else "length"
        score = normalised(logprob, len(tokens), config.length_penalty)
        answers.append([Hypothesis(loaded.tokenizer.decode(tokens), tokens, logprob, score, ended)])
    return answers
