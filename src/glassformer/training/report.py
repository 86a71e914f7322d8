"""report.html of a run: what it learned, how, and what its attention looks like."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from glassformer.core.protocols import Tokenizer
from glassformer.generation.config import GenerationConfig
from glassformer.generation.stream import generate
from glassformer.generation.text import HasModel, generate_text, source_ids
from glassformer.inspection.attention import attention_weights
from glassformer.inspection.report import AttentionPicture, Example, ReportData, write_report
from glassformer.tasks.task import Split, TaskData
from glassformer.training.evaluate import answers

EXAMPLES, PICTURES = 10, 4
SNIPPET = 24
"""Tokens of running text whose attention is shown, and after which a language model is asked to go on."""


def write_run_report(
    path: Path,
    loaded: HasModel,
    data: TaskData,
    result: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    language: str,
) -> None:
    """Write the report of a finished run.

    Args:
        path: The file, in the run folder.
        loaded: The model that was kept.
        data: The task's data.
        result: The content of result.json.
        rows: The lines of metrics.jsonl.
        language: "en" or "zh".
    """
    split = data.test or data.valid
    judged = result.get("test", result["valid"])
    facts = ("parameters", "steps", "train_seconds", "tokens_per_second", "precision")
    folder = shlex.quote(str(path.parent))
    if split.pairs:
        examples, attention = _answers(loaded, split), list(cross_attention(loaded, split))
        commands = [f"glassformer generate {folder} {shlex.quote(split.pairs[0][0])}", f"glassformer eval {folder}"]
    else:
        snippet = _snippet(split, loaded.tokenizer)
        examples, attention = [_continuation(loaded, snippet)], list(_self_attention(loaded, snippet))
        commands = [f"glassformer generate {folder} PROMPT --temperature 0.8", f"glassformer eval {folder}"]
    content = ReportData(
        title=f"{result['task']}: {path.parent.name}",
        headline={**_readable(judged), **{name: result[name] for name in facts}},
        metrics=rows,
        examples=examples,
        attention=attention,
        commands=[*commands, f"glassformer summary {folder}"],
    )
    write_report(path, content, language=language)


def _readable(metrics: Mapping[str, float]) -> dict[str, float | str]:
    """Metrics as a person reads them, what was asked for first: shares as percentages, losses to four places."""
    shares = {name: f"{100 * value:.1f} %" for name, value in metrics.items() if name == "exact_match"}
    losses = {name: f"{metrics[name]:.4f}" for name in ("loss", "perplexity") if name in metrics}
    return {**shares, **losses, **{name: value for name, value in metrics.items() if name not in {**shares, **losses}}}


def _answers(loaded: HasModel, split: Split) -> list[Example]:
    pairs = split.pairs[:EXAMPLES]
    outputs = answers(loaded, [source for source, _ in pairs])
    return [
        Example(source, output, expected, output == expected)
        for (source, expected), output in zip(pairs, outputs, strict=True)
    ]


def cross_attention(loaded: HasModel, split: Split) -> Iterator[AttentionPicture]:
    """The cross-attention heads that are surest of where to look: rows are what is written, columns what is read."""
    text = min((source for source, _ in split.pairs), key=lambda source: abs(len(source) - SNIPPET // 2))
    tokenizer, config = loaded.tokenizer, GenerationConfig(max_new_tokens=2 * SNIPPET)
    source, written = source_ids(tokenizer, text), list(generate_text(loaded, text, config).tokens)
    if not written:
        return
    begin = [] if tokenizer.bos_id is None else [tokenizer.bos_id]
    weights = attention_weights(
        loaded.model, [*begin, *written[:-1]], sources=source, pattern="*.cross_attention.weights"
    )
    yield from _surest(weights, [*map(tokenizer.label, written)], [*map(tokenizer.label, source)])


def _self_attention(loaded: HasModel, snippet: Sequence[int]) -> Iterator[AttentionPicture]:
    labels = [loaded.tokenizer.label(token) for token in snippet]
    yield from _surest(attention_weights(loaded.model, snippet), labels, labels)


def _surest(
    weights: Mapping[str, torch.Tensor], rows: Sequence[str], columns: Sequence[str]
) -> Iterator[AttentionPicture]:
    """The heads whose largest weight is largest on average: a head that looks everywhere shows nothing."""
    heads = [
        (float(head.amax(-1).mean()), site.removesuffix(".weights"), number, head)
        for site, layer in weights.items()
        for number, head in enumerate(layer)
    ]
    for _, site, number, head in sorted(heads, key=lambda entry: -entry[0])[:PICTURES]:
        yield AttentionPicture(f"{site}, head {number}", head, rows, columns)


def _snippet(split: Split, tokenizer: Tokenizer) -> list[int]:
    tokens: list[int] = split.source.batch([0], epoch=0).inputs[0].tolist()
    return tokens[:SNIPPET]


def _continuation(loaded: HasModel, snippet: Sequence[int]) -> Example:
    # From the ids: half a character of a byte tokenizer, or an unknown one, would not survive becoming text.
    config = GenerationConfig(max_new_tokens=200, temperature=0.8, when_full="slide")
    [written] = generate(loaded.model, [snippet], config, tokenizer=loaded.tokenizer)
    return Example(loaded.tokenizer.decode(snippet), written.text)
