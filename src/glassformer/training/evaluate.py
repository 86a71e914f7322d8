"""How good a model is on data it has not learned from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from glassformer.data.batch import Batch
from glassformer.data.order import BatchOrder, Order, TokenOrder
from glassformer.data.source import HasLengths, Source, loader
from glassformer.generation.answer import answer_texts
from glassformer.generation.config import BeamConfig
from glassformer.generation.text import HasModel
from glassformer.models.inference import inference
from glassformer.models.loss import cross_entropy
from glassformer.models.transformer import Transformer
from glassformer.tasks.task import Judging, Split
from glassformer.text.tokenizer import TextTokenizer
from glassformer.training.metrics import LABEL_METRICS, TEXT_METRICS, label_metrics, text_metrics
from glassformer.training.objective import logits_of, objective, unit

BATCH_TOKENS = 4096
"""Tokens at a time, padding included."""

Advanced = Callable[[int, int], None]
"""Told of progress, as (done, total) rows."""


def evaluate(
    loaded: HasModel,
    split: Split,
    judging: Judging,
    *,
    batch_tokens: int = BATCH_TOKENS,
    advanced: Advanced | None = None,
) -> dict[str, float | str]:
    """Return the metrics of a model on a split.

    Args:
        loaded: A model in any mode, which computes in its own precision, and its tokenizer.
        split: What to judge it by.
        judging: Which metrics, and how answers are made; "loss" and the metrics of labels bring "perplexity" and how
            many "tokens" or "texts" there are along, those of answers how many "pairs", "bleu" its signature.
        batch_tokens: Tokens at a time, padding included; it changes no result.
        advanced: Told of progress.
    """
    found: dict[str, float | str] = {}
    if set(judging.metrics) & {"loss", *LABEL_METRICS}:
        found |= source_metrics(loaded.model, split.source, judging, batch_tokens, advanced)
    if split.pairs and set(judging.metrics) & set(TEXT_METRICS):
        config = BeamConfig(beam=judging.beam, length_penalty=judging.length_penalty)
        answers = answer_texts(loaded, [text for text, _ in split.pairs], config, advanced=advanced)
        outputs, expected = [answer[0].text for answer in answers], [target for _, target in split.pairs]
        found |= text_metrics(judging.metrics, outputs, expected, judging.bleu_tokenizer) | {"pairs": len(expected)}
    return found


def greedy(judging: Judging) -> Judging:
    """Return the same judging with answers that are quickly made, as they are while a model still learns."""
    return replace(judging, beam=1)


def source_metrics(
    model: Transformer, source: Source, judging: Judging, batch_tokens: int, advanced: Advanced | None = None
) -> dict[str, float | str]:
    """Return loss (nats per target), perplexity (its exponential) and the number of targets, and metrics of labels.

    Sums are divided once, at the end, so that neither batch size nor sentence length weighs in.
    """
    total, targets, done = 0.0, 0, 0
    labelled = model.config.pools
    outputs: list[int] = []
    expected: list[int] = []
    with inference(model.modules()):
        for batch in judged_batches(source, batch_tokens):
            here = batch.to(model.device)
            if labelled:
                logits = logits_of(model, here)
                loss = cross_entropy(logits, here.labels)
                outputs += logits.argmax(-1).tolist()
                expected += batch.labels.tolist()
            else:
                loss = objective(model, here)
            total += float(loss.sum)
            targets += int(loss.count)
            done += len(batch)
            if advanced is not None:
                advanced(done, len(source))
    mean = total / max(1, targets)
    found: dict[str, float | str] = {"loss": mean, "perplexity": perplexity(mean), unit(model): targets}
    return found | label_metrics(judging.metrics, outputs, expected)


def count_unknown(tokenizer: TextTokenizer, source: Source) -> int:
    """Return how many tokens of a source stand for something that has no id of its own."""
    number = 0
    for batch in judged_batches(source, BATCH_TOKENS):
        # What a decoder reads is what it has to tell, one place later: counted once.
        told = batch.labels if batch.labels.ndim > 1 else batch.inputs
        tokens = told if batch.source is None else torch.cat((batch.source.flatten(), told.flatten()))
        number += tokenizer.n_unknown(tokens.flatten().tolist())
    return number


def judged_batches(source: Source, batch_tokens: int = BATCH_TOKENS) -> Iterator[Batch]:
    """Yield the batches in which a source is measured, in order."""
    order: Order
    if isinstance(source, HasLengths):
        order = TokenOrder(source.lengths, max(batch_tokens, *source.longest), seed=0, shuffle=False)
    else:
        order = BatchOrder(len(source), max(1, batch_tokens // max(source.longest)), seed=0, shuffle=False)
    return loader(source, order, epoch=0)


def perplexity(loss: float) -> float:
    """Return exp(loss); infinity where that is too large for a number."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf
