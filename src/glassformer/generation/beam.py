"""Beam search: follow each sentence's most probable beginnings side by side, and return its best whole texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.core.errors import DataError
from glassformer.core.protocols import Tokenizer
from glassformer.generation.config import BeamConfig
from glassformer.generation.hypothesis import Hypothesis
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
from glassformer.generation.sampling import forbid, log_probabilities, require_choice, require_numbers
from glassformer.generation.sentence import Continuation, Sentence
from glassformer.kernels.softmax import has_quick_softmax, quick_most_probable
from glassformer.models.inference import inference
from glassformer.models.quick import quick_copy
from glassformer.models.transformer import Transformer


def beam_search(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    config: BeamConfig,
    *,
    tokenizer: Tokenizer,
    sources: Sequence[Sequence[int]] | None = None,
    max_new: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """Return the best texts that a search of limited width finds for each prompt.

    argmax over whole texts of log P(text | begin, prompt, source) / n^alpha, with n tokens, the end token included.

    Each step extends a sentence's live prefixes by every token; of those that end, the `n_best` best are kept
    (`Sentence.take` says which count), of the others the `beam` most probable live on. A sentence is done once no live
    prefix can still become better than the worst kept one, the longest possible length assumed: so the first of
    several results is the one that n_best = 1 gives, and the tighter the limit, the sooner the search ends.
    Hypotheses that reach a limit are unfinished; they come behind all that ended and only if these are fewer than
    `n_best`. Of equals, the one found first comes first: the shorter one, that of the prefix in the lower place,
    that of the lower token id. So beam = 1 and alpha = 0 is greedy generation.

    All prompts are one batch: whoever has many cuts them into batches. Rows share a batch and nothing else; in float32
    a sentence's hypotheses do not depend on the others unless two are all but equally probable.

    Args:
        model: A decoder-only model or an encoder-decoder. Forward passes are in eval mode and without gradients.
        prompts: Token ids of each row, without special tokens; the begin token is put before them if the tokenizer
            has one, and then a prompt may be empty.
        config: How wide, how many, how long.
        tokenizer: Turns ids into text, and knows the begin and end tokens.
        sources: What an encoder-decoder reads, one for each prompt, as in training.
        max_new: Each row's own largest number of new tokens, in place of `config.max_new_tokens`; it outweighs
            `min_new_tokens`.

    Returns:
        For each prompt its hypotheses, the best first: `n_best`, or as many as there are.

    Raises:
        DataError: A prompt that is empty, longer than the context, or has an id that the model does not know; a
            tokenizer, sources or `max_new` that do not fit; a score that is NaN; no token left.
        UnsupportedError: The model cannot write.

    Source: Wu et al. 2016, arXiv:1609.08144, section 7; when to end: Huang et al. 2017, arXiv:1809.00069.
    """
    check_model(model, tokenizer)
    check_prompts(model, prompts, tokenizer)
    check_sources(model, sources, len(prompts))
    limits = [config.max_new_tokens] * len(prompts) if max_new is None else list(max_new)
    if len(limits) != len(prompts) or min(limits, default=0) < 0:
        raise DataError(f"max_new is {limits} for {len(prompts)} prompts; give one number, 0 or above, for each")
    contexts = [[*beginning(model, tokenizer), *prompt] for prompt in prompts]
    sentences = [
        Sentence(
            index,
            context,
            config,
            ends=tokenizer.eos_ids,
            max_new=limits[index],
            room=None if model.max_positions is None else model.max_positions - len(context),
        )
        for index, context in enumerate(contexts)
    ]
    live = [sentence for sentence in sentences if not sentence.done]
    if live:
        _search(model if config.fast == "off" else quick_copy(model), live, config, tokenizer, sources)
    return [sentence.results(tokenizer) for sentence in sentences]


def _search(
    model: Transformer,
    sentences: list[Sentence],
    config: BeamConfig,
    tokenizer: Tokenizer,
    sources: Sequence[Sequence[int]] | None,
) -> None:
    """Carry on the given sentences until all are done."""
    modules = list(model.modules())
    memory = None
    if sources is not None:
        with inference(modules):
            memory = encode_sources(model, [sources[sentence.index] for sentence in sentences])
    capacity = max(len(sentence.context) + sentence.limit for sentence in sentences)
    # In a stack that is not causal a new token changes what all earlier ones see: nothing of them can be kept.
    cached = config.use_cache and model.can_cache
    cache = model.new_cache(len(sentences), capacity) if cached else None

    width = 1  # rows a sentence; those of one sentence are adjacent
    for step in count(1):
        rows = [(sentence, prefix) for sentence in sentences for prefix in sentence.rows(width)]
        known = [0] * len(rows) if cache is None else cache.lengths
        unread = [behind(sentence.context, prefix.tokens, n) for (sentence, prefix), n in zip(rows, known, strict=True)]
        seen = None if memory is None else replace(memory, beams=width)
        with inference(modules):
            if cache is not None:
                unread = read_ahead(model, unread, cache, config.prefill_chunk, seen)
                known = cache.lengths
            tokens, places = padded(unread, model.device, start=known)
            logits = model(tokens, places=places, memory=seen, cache=cache, outputs="last")
        if cache is not None:
            cache.advance([len(new) for new in unread])

        ends = list(tokenizer.eos_ids)
        too_early = ends if step <= config.min_new_tokens else []
        n_ends = max(len(ends), 1)
        n = config.beam + n_ends  # beam that go on, and those that end
        of = quick_largest if config.fast != "off" and has_quick_softmax(logits) else largest
        values, ids = of(logits, n, tokenizer.vocab_size, too_early)
        if not bool((values[:, 0] > -torch.inf).all()):  # NaN is not, either
            numbers = [sentence.index for sentence, _ in rows]
            require_numbers(logits, step, numbers)
            require_choice(forbid(logits, vocab_size=tokenizer.vocab_size, tokens=too_early), step, numbers)
        before = values.new_tensor([prefix.logprob for _, prefix in rows], dtype=torch.float64).view(-1, width)
        found = best_continuations(before, values, ids, (1 + n_ends) * config.beam)
        for sentence, continuations in zip(sentences, found, strict=True):
            sentence.take(continuations)

        kept = close_ranks([not sentence.done for sentence in sentences])
        if not kept:
            return
        old_width, width = width, max(len(sentences[i].live) for i in kept)
        if cache is not None:
            parents = [i * old_width + prefix.parent for i in kept for prefix in sentences[i].rows(width)]
            if len(kept) == len(sentences) and width == old_width:
                cache.reorder(parents)
            else:
                cache.select(parents, kept)
        if len(kept) < len(sentences):
            sentences = [sentences[i] for i in kept]
            memory = None if memory is None else select_memory(memory, kept)


def behind(context: Sequence[int], tokens: Sequence[int], known: int) -> list[int]:
    """Return what follows the first `known` of a context and the tokens after it."""
    of_tokens = known - len(context)
    return [*tokens[of_tokens:]] if of_tokens >= 0 else [*context[known:], *tokens]


def close_ranks(going_on: Sequence[bool]) -> list[int]:
    """Return the numbers of those that go on; the last ones take the places of those that do not, so that few move."""
    number = sum(going_on)
    last = [i for i in range(number, len(going_on)) if going_on[i]]
    return [i if going_on[i] else last.pop() for i in range(number)]


def largest(
    logits: Float[Tensor, "row vocab"], n: int, vocab_size: int, forbidden: Sequence[int]
) -> tuple[Float[Tensor, "row n"], Int[Tensor, "row n"]]:
    """Return the log-probabilities of the n most probable tokens of each row and their ids; see `most_probable`.

    Args:
        logits: *Shape:* (R, V).
        n: How many.
        vocab_size: Number of ids that mean something.
        forbidden: Ids whose probability is 0.
    """
    logprobs = log_probabilities(logits)[:, :vocab_size]
    logprobs[:, list(forbidden)] = -torch.inf
    return most_probable(logprobs, n)


def quick_largest(
    logits: Float[Tensor, "row vocab"], n: int, vocab_size: int, forbidden: Sequence[int]
) -> tuple[Float[Tensor, "row n"], Int[Tensor, "row n"]]:
    """Return the same by glassformer::most_probable, for scores for which `has_quick_softmax`."""
    values, ids = quick_most_probable(logits, n + len(forbidden), min(vocab_size, logits.shape[1]))
    if forbidden:
        values[torch.isin(ids, torch.tensor(forbidden))] = -torch.inf
        values, order = values.sort(dim=-1, descending=True, stable=True)
        values, ids = values[:, :n], ids.gather(1, order[:, :n])
    return values, ids


def most_probable(logprobs: Float[Tensor, "row vocab"], n: int) -> tuple[Float[Tensor, "row n"], Int[Tensor, "row n"]]:
    """Return the n largest values of each row and their ids; of equals, those with the lower id.

    Args:
        logprobs: *Shape:* (R, V).
        n: How many, n <= V; or all of them.

    Returns:
        Values in falling order and ids, on the host. *Shape:* (R, min(n, V)).
    """
    n = min(n, logprobs.shape[1])
    values, ids = (found.cpu() for found in logprobs.topk(min(n + 1, logprobs.shape[1])))
    # topk takes any of several equal ones: where the last place is contested, the row is sorted.
    if values.shape[1] > n and bool((contested := values[:, n - 1] == values[:, n]).any()):
        ordered, order = logprobs[contested.to(logprobs.device)].sort(dim=-1, descending=True, stable=True)
        values[contested, :n], ids[contested, :n] = ordered[:, :n].cpu(), order[:, :n].cpu()
    ids, order = ids[:, :n].sort(dim=-1)
    values, order = values.gather(1, order).sort(dim=-1, descending=True, stable=True)
    return values, ids.gather(1, order)


def best_continuations(
    before: Float[Tensor, "batch beam"], values: Float[Tensor, "row n"], ids: Int[Tensor, "row n"], n: int
) -> list[list[Continuation]]:
    """Return the n best continuations of each sentence, the best first.

    log P(prefix and token) = log P(prefix) + log p(token | prefix), in float64. Of equals, that of the prefix in the
    lower place comes first, then that of the lower token id.

    Args:
        before: log P of each prefix; -inf = it goes on with nothing. *Shape:* (B, K).
        values: log p of the most probable tokens of each prefix, in falling order. *Shape:* (B K, N).
        ids: The tokens. *Shape:* (B K, N).
        n: How many; fewer if there are no more.
    """
    batch, n_tokens = len(before), values.shape[1]
    totals = (before.view(-1, 1) + values).view(batch, -1)  # (B, K N)
    totals, order = totals.sort(dim=1, descending=True, stable=True)
    order = order[:, :n]
    parents = order // n_tokens
    tokens = ids.view(batch, -1).gather(1, order)
    found = zip(totals[:, :n].tolist(), parents.tolist(), tokens.tolist(), strict=True)
    return [list(zip(*sentence, strict=True)) for sentence in found]
