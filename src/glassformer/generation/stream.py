"""The one loop that writes: forward, choose, stop or go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.core.protocols import Tokenizer
from glassformer.core.tape import Tape
from glassformer.generation.config import GenerationConfig
from glassformer.generation.fast import Forward
from glassformer.generation.inputs import (
    beginning,
    check_model,
    check_prompts,
    check_sources,
    encode_sources,
    padded,
    select_memory,
)
from glassformer.generation.prefill import read_ahead
from glassformer.generation.row import Row
from glassformer.generation.sampling import (
    forbid,
    keep_top_k,
    keep_top_p,
    log_probabilities,
    penalise,
    pick,
    require_choice,
    require_numbers,
    temper,
)
from glassformer.generation.stopping import StopReason
from glassformer.kernels.softmax import quick_log_softmax
from glassformer.models.inference import inference
from glassformer.models.quick import quick_copy
from glassformer.models.transformer import Transformer

Candidates = tuple[tuple[int, float], ...]
"""Token ids and their probabilities, the most probable first."""


@dataclass(frozen=True)
class Step:
    """What one step gave one row.

    Attributes:
        row: The row's number in the list of prompts, from 0.
        token: The new id; None if there was no room for a single one, and then this is the row's only step.
        text: The text that became certain: whole characters, nothing of a special token or a stop string.
        logprob: Log-probability of the token in nats, as the model gave it, before penalty, temperature and
            filters: what `score` says of it. 0 without a token.
        top: The most probable tokens, as the model gave them; ids that the tokenizer lacks are left out.
        stop_reason: Why the row ends with this step; None if it goes on.
    """

    row: int
    token: int | None
    text: str
    logprob: float = 0.0
    top: Candidates = ()
    stop_reason: StopReason | None = None


@dataclass(frozen=True)
class Generation:
    """What a model wrote on from one prompt.

    Attributes:
        text: Without the prompt, special tokens, and the stop string that ended it.
        tokens: All new ids, also the end token and those of a stop string.
        stop_reason: Why it ended: "eos", "stop string", "length" or "context".
        logprobs: Log-probability of each token in nats; see `Step`.
        top: The most probable tokens at each step; see `Step`. Each is empty unless asked for.
    """

    text: str
    tokens: tuple[int, ...]
    stop_reason: StopReason
    logprobs: tuple[float, ...]
    top: tuple[Candidates, ...]


def generate(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    config: GenerationConfig,
    *,
    tokenizer: Tokenizer,
    sources: Sequence[Sequence[int]] | None = None,
    tape: Tape | None = None,
) -> list[Generation]:
    """Write on from prompts and return the whole texts, in the order of the prompts.

    All prompts are one batch. Whoever has many cuts them into batches, and adds to `config.seed` the number
    of the batch's first prompt.

    Args:
        model: A decoder-only model or an encoder-decoder, in any mode; see `stream`, as for all that follow.
        prompts: Token ids of each row, without special tokens.
        config: How much, how surprisingly, and until what.
        tokenizer: Turns ids into text, and knows the begin and end tokens.
        sources: What an encoder-decoder reads, one for each prompt, as in training.
        tape: What is recorded and changed in each forward pass.

    Raises:
        DataError: A prompt, a source or the tokenizer does not fit; a score that is NaN; no token left.
        UnsupportedError: The model cannot write.
    """
    rows: list[list[Step]] = [[] for _ in prompts]
    for step in stream(model, prompts, config, tokenizer=tokenizer, sources=sources, tape=tape):
        rows[step.row].append(step)
    return [_collected(steps) for steps in rows]


def stream(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    config: GenerationConfig,
    *,
    tokenizer: Tokenizer,
    sources: Sequence[Sequence[int]] | None = None,
    tape: Tape | None = None,
) -> Iterator[Step]:
    """Write on from prompts, and yield each token as it comes.

    x_{n+1} ~ p(x | begin, prompt, x_1 .. x_n), for every live row in turn.

    Prefill and decode are one line: the model is given what its cache lacks, which is all of a row at first
    and one token from then on; a long prompt is read in chunks (`prefill_chunk`). Rows share a batch and nothing
    else, and a row that ends leaves it. A row's scores depend on the others by rounding only: in float32 that
    leaves its tokens as they are unless two are all but equally probable; in half precision equality is not
    promised.

    Args:
        model: A decoder-only model or an encoder-decoder. Forward passes are in eval mode and without
            gradients; between two steps the model is as the caller left it.
        prompts: Token ids of each row, without special tokens; the begin token is put before them if the
            tokenizer has one, and then a prompt may be empty.
        config: How much, how surprisingly, and until what.
        tokenizer: Turns ids into text, and knows the begin and end tokens.
        sources: What an encoder-decoder reads, one for each prompt, as in training.
        tape: What is recorded and changed in each forward pass.

    Returns:
        An iterator over the steps; it may be given up at any time.

    Raises:
        DataError: At once: a prompt that is empty, longer than the context, or has an id that the model does
            not know; a tokenizer or sources that do not fit. At a step: a score that is NaN; no token left.
        UnsupportedError: The model cannot write.
    """
    check_model(model, tokenizer)
    check_prompts(model, prompts, tokenizer)
    check_sources(model, sources, len(prompts))
    begin, limit = beginning(model, tokenizer), model.max_positions
    rows = [Row(index, prompt, config, tokenizer, begin, limit) for index, prompt in enumerate(prompts)]
    return _steps(model, rows, config, tokenizer, sources, tape)


def _steps(
    model: Transformer,
    rows: list[Row],
    config: GenerationConfig,
    tokenizer: Tokenizer,
    sources: Sequence[Sequence[int]] | None,
    tape: Tape | None,
) -> Iterator[Step]:
    for row in rows:
        if (reason := row.ends()) is not None:  # no room for a single token
            yield Step(row.index, None, "", stop_reason=reason)
    rows = [row for row in rows if row.ends() is None]
    if not rows:
        return
    if config.fast != "off":
        model = quick_copy(model)
    modules = list(model.modules())
    memory = None
    if sources is not None:
        with inference(modules):
            memory = encode_sources(model, [sources[row.index] for row in rows], tape)
    capacity = max(len(row.context) for row in rows) + config.max_new_tokens
    capacity = capacity if model.max_positions is None else min(capacity, model.max_positions)
    # In a stack that is not causal a new token changes what all earlier ones see: nothing of them can be kept.
    cached = config.use_cache and model.can_cache
    cache = model.new_cache(len(rows), capacity) if cached else None
    forward = Forward(model, config.fast, config.max_new_tokens)
    log_softmax = log_probabilities if config.fast == "off" else quick_log_softmax

    for step in count(1):
        unread = [row.unread for row in rows]
        with inference(modules):
            if cache is not None and tape is None:  # a tape sees a prompt whole
                unread = read_ahead(model, unread, cache, config.prefill_chunk, memory)
            known = [0] * len(rows) if cache is None else cache.lengths
            tokens, places = padded(unread, model.device, start=known)
            logits = forward(tokens, places, memory=memory, cache=cache, tape=tape)
        if cache is not None:
            cache.advance([len(new) for new in unread])
            for row in rows:
                row.n_cached = len(row.context)

        chosen = _choose(logits, rows, config, tokenizer, step)  # (B,)
        logprobs = log_softmax(logits)  # (B, V)
        of_chosen = logprobs.gather(1, chosen.unsqueeze(1)).squeeze(1)
        tops = _candidates(logprobs[:, : tokenizer.vocab_size], config.top)
        live = []
        for i, (token, logprob) in enumerate(zip(chosen.tolist(), of_chosen.tolist(), strict=True)):
            text, reason = rows[i].take(token)
            if reason is None:
                live.append(i)
            yield Step(rows[i].index, token, text, logprob, tops[i], reason)

        if not live:
            return
        if len(live) < len(rows):
            rows = [rows[i] for i in live]
            memory = None if memory is None else select_memory(memory, live)
            if cache is not None:
                cache.select(live)
        slid = [row.slide() for row in rows]
        if any(slid) and cache is not None:
            cache.truncate([row.n_cached for row in rows])


def _choose(
    logits: Float[Tensor, "batch vocab"],
    rows: Sequence[Row],
    config: GenerationConfig,
    tokenizer: Tokenizer,
    step: int,
) -> Int[Tensor, " batch"]:
    """Return the next token of each row."""
    numbers = [row.index for row in rows]
    require_numbers(logits, step, numbers)
    too_early = list(tokenizer.eos_ids) if step <= config.min_new_tokens else []
    scores: Tensor = logits.to(torch.promote_types(logits.dtype, torch.float32))
    scores = penalise(scores, [row.history for row in rows], config.repetition_penalty)
    scores = forbid(scores, vocab_size=tokenizer.vocab_size, tokens=too_early)
    require_choice(scores, step, numbers)
    if config.temperature == 0:
        return pick(scores)
    scores = keep_top_p(keep_top_k(temper(scores, config.temperature), config.top_k), config.top_p)
    draws = [torch.rand((), generator=row.random, device=row.random.device) for row in rows]
    return pick(scores, torch.stack(draws))


def _candidates(logprobs: Float[Tensor, "batch vocab"], n: int) -> list[Candidates]:
    """Return the n most probable tokens of each row."""
    values, ids = logprobs.topk(min(n, logprobs.shape[1]))
    pairs = zip(ids.tolist(), values.exp().tolist(), strict=True)
    return [tuple(zip(tokens, probabilities, strict=True)) for tokens, probabilities in pairs]


def _collected(steps: Sequence[Step]) -> Generation:
    """Return one row's steps as one text."""
    reason = steps[-1].stop_reason
    assert reason is not None, "a stream ends when every row has ended"
    written = [(step.token, step) for step in steps if step.token is not None]
    return Generation(
        text="".join(step.text for step in steps),
        tokens=tuple(token for token, _ in written),
        stop_reason=reason,
        logprobs=tuple(step.logprob for _, step in written),
        top=tuple(step.top for _, step in written),
    )
