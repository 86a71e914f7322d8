"""How good a model is on data it has not learned from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from glassformer.data.order import BatchOrder
from glassformer.data.source import loader
from glassformer.generation.config import GenerationConfig
from glassformer.generation.text import HasModel, generate_texts
from glassformer.models.inference import inference
from glassformer.models.transformer import Transformer
from glassformer.tasks.task import MetricName, Split
from glassformer.training.objective import objective

HIGHER_IS_BETTER = {"loss": False, "exact_match": True}


def evaluate(
    loaded: HasModel,
    split: Split,
    metrics: Sequence[MetricName],
    *,
    batch_size: int = 64,
    advanced: Callable[[int, int], None] | None = None,
) -> dict[str, float]:
    """Return the metrics of a model on a split.

    Args:
        loaded: A model in any mode, which computes in its own precision, and its tokenizer.
        split: What to judge it by.
        metrics: Which metrics; "loss" brings "perplexity" and "tokens" along.
        batch_size: Sequences at a time; it changes no result.
        advanced: Called with (done, total) sequences.
    """
    found: dict[str, float] = {}
    if "loss" in metrics:
        found |= loss_metrics(loaded.model, split, batch_size, advanced)
    if "exact_match" in metrics and split.pairs:
        outputs = answers(loaded, [source for source, _ in split.pairs], batch_size=batch_size, advanced=advanced)
        right = sum(output == target for output, (_, target) in zip(outputs, split.pairs, strict=True))
        found["exact_match"] = right / len(split.pairs)
    return found


def loss_metrics(
    model: Transformer, split: Split, batch_size: int, advanced: Callable[[int, int], None] | None = None
) -> dict[str, float]:
    """Return loss (nats per token), perplexity (its exponential) and the number of scored tokens.

    Sums are divided once, at the end, so that neither batch size nor sentence length weighs in.
    """
    total, tokens, done = 0.0, 0, 0
    order = BatchOrder(len(split.source), batch_size, seed=0, shuffle=False)
    with inference(model.modules()):
        for batch in loader(split.source, order, epoch=0):
            loss = objective(model, batch.to(model.device))
            total += float(loss.sum)
            tokens += int(loss.count)
            done += len(batch)
            if advanced is not None:
                advanced(done, len(split.source))
    mean = total / max(1, tokens)
    return {"loss": mean, "perplexity": perplexity(mean), "tokens": tokens}


def perplexity(loss: float) -> float:
    """Return exp(loss); infinity where that is too large for a number."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


def answers(
    loaded: HasModel,
    texts: Sequence[str],
    *,
    batch_size: int = 64,
    advanced: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Return what a model writes for each text, greedily; texts of like length together, so that none waits long.

    What does not end is cut at twice the tokens of the text and 10 more.

    Args:
        loaded: An encoder-decoder and its tokenizer.
        texts: What it reads.
        batch_size: Texts at a time; it changes no result.
        advanced: Called with (done, total) texts.
    """
    limits = [2 * len(loaded.tokenizer.encode(text)) + 10 for text in texts]
    by_length = sorted(range(len(texts)), key=limits.__getitem__)
    outputs = [""] * len(texts)
    for begin in range(0, len(texts), batch_size):
        rows = by_length[begin : begin + batch_size]
        config = GenerationConfig(max_new_tokens=limits[rows[-1]])
        for row, written in zip(rows, generate_texts(loaded, [texts[row] for row in rows], config), strict=True):
            outputs[row] = loaded.tokenizer.decode(written.tokens[: limits[row]])
        if advanced is not None:
            advanced(begin + len(rows), len(texts))
    return outputs
