"""How probable a model finds a text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.core.errors import DataError, UnsupportedError
from glassformer.core.protocols import Tokenizer
from glassformer.generation.inputs import (
    beginning,
    check_ids,
    check_lengths,
    check_model,
    check_sources,
    encode_sources,
    padded,
)
from glassformer.generation.sampling import log_probabilities
from glassformer.models.inference import inference
from glassformer.models.quick import quick_copy
from glassformer.models.transformer import Transformer


@dataclass(frozen=True)
class Score:
    """Log-probabilities of the tokens of a text.

    Attributes:
        tokens: The ids that were scored.
        logprobs: log p(token | all before it), in nats, one for each of `tokens`.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]

    @property
    def total(self) -> float:
        """Log-probability of all of them together, in nats; 0 for no token."""
        return math.fsum(self.logprobs)


def score(
    model: Transformer,
    tokens: Sequence[int],
    *,
    tokenizer: Tokenizer,
    source: Sequence[int] | None = None,
    before: int = 0,
) -> Score:
    """Return the log-probability of each token of a text, given those before it.

    log p(x_t | begin, x_1 .. x_{t-1}), for every t > before.

    An encoder-decoder is given the source too, and its end token is scored like the rest: a translation is
    only whole when it ends. Without a begin token the first token has nothing before it and is not scored, so
    that a text of one token has 0 scored tokens.

    Args:
        model: A decoder-only model or an encoder-decoder; it is left in the mode it was in.
        tokens: The text's ids, without special tokens.
        tokenizer: Knows the begin and end tokens.
        source: What an encoder-decoder reads, as in training.
        before: How many of the first tokens are given and not scored, from 0 to all.

    Raises:
        DataError: More tokens than the model's context (texts are not cut: the first tokens of a second
            piece would miss what stands before them); an id that the model does not know; a source that does
            not fit; `before` outside its range.
        UnsupportedError: The model cannot write, or is not causal.
    """
    check_model(model, tokenizer)
    if not model.config.output_stack.causal:
        raise UnsupportedError(
            "this decoder is not causal: each token sees those after it, so none can be judged by those "
            "before it alone; use a model with causal=True"
        )
    check_sources(model, None if source is None else [source], 1)
    if not 0 <= before <= len(tokens):
        raise DataError(f"before is {before}, outside 0..{len(tokens)} (the number of tokens)")
    check_ids([tokens], model.config.output_stack.input.vocab_size, "text")
    begin = beginning(model, tokenizer)
    end = [tokenizer.eos_id] if source is not None and tokenizer.eos_id is not None else []
    whole = [*begin, *tokens, *end]
    first = max(len(begin) + before, 1)  # the first that is scored
    if first >= len(whole):
        return Score((), ())
    read = whole[:-1]
    check_lengths([read], model.max_positions, "text")
    inputs, places = padded([read], model.device)
    model = quick_copy(model)
    with inference(model.modules()):
        memory = None if source is None else encode_sources(model, [source])
        logprobs = log_probabilities(model(inputs, places=places, memory=memory))[0]  # (T, V)
    scored = whole[first:]
    chosen = logprobs[range(first - 1, len(read)), scored]
    return Score(tuple(scored), tuple(chosen.tolist()))
