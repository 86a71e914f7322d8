"""report.html of a run: what it learned, how, and what its attention looks like."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from glassformer.core.metric import in_order, spoken
from glassformer.core.protocols import Tokenizer
from glassformer.generation.answer import answer_texts
from glassformer.generation.config import BeamConfig, GenerationConfig
from glassformer.generation.inputs import beginning
from glassformer.generation.stream import generate
from glassformer.generation.text import HasModel, generate_text, source_ids
from glassformer.inspection.attention import attention_weights
from glassformer.inspection.report import AttentionPicture, Example, ReportData, write_report
from glassformer.inspection.wording import word
from glassformer.models.inference import inference
from glassformer.tasks.task import Judging, Split, TaskData
from glassformer.training.objective import logits_of, unit

EXAMPLES, PICTURES, LONGEST_COMMAND = 10, 4, 80
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
    judged = in_order(result.get("test", result["valid"]))
    remarks = {name: str(value) for name, value in judged.items() if isinstance(value, str)}
    facts = ("parameters", "steps", "train_seconds", f"{unit(loaded.model)}_per_second", "precision")
    folder = shlex.quote(str(path.parent))
    if data.classes is not None:
        # The exponential of a mean over labels says nothing to anybody.
        judged.pop("perplexity", None)
        examples = _labelled(loaded, split, data.classes)
        attention = list(_encoder_attention(loaded, split, language))
        text = _short_text(split, SNIPPET)
        one = " | " not in text  # else it may be two texts, joined to be shown
        commands = [f"glassformer predict {folder} {_told(text) if one else '--input FILE'}"]
    elif split.pairs:
        text = data.example or _short_text(split, SNIPPET // 2)
        examples, attention = _answers(loaded, split, data), list(cross_attention(loaded, text, language))
        commands = [f"glassformer generate {folder} {_told(text)}", f"glassformer translate {folder} --input FILE"]
    else:
        snippet = _snippet(split, loaded.tokenizer)
        examples, attention = [_continuation(loaded, snippet)], list(_self_attention(loaded, snippet, language))
        commands = [f"glassformer generate {folder} PROMPT --temperature 0.8"]
    content = ReportData(
        title=f"{result['task']}: {path.parent.name}",
        headline={
            **{name: spoken(name, value) for name, value in judged.items() if name not in remarks},
            **{name: result[name] for name in facts},
        },
        remarks={"measured_on": "valid_data" if data.test is None else "test_data", **remarks},
        metrics=rows,
        examples=examples,
        attention=attention,
        commands=[*commands, f"glassformer eval {folder}", f"glassformer summary {folder}"],
    )
    write_report(path, content, language=language)


def _told(text: str) -> str:
    """As much of a text as a command can show."""
    return shlex.quote(text[:LONGEST_COMMAND])


def example_answer(loaded: HasModel, data: TaskData) -> str:
    """Return what a model makes of the text that its task shows first."""
    assert data.example is not None, "asked for where there is one"
    return _written(loaded, [data.example], data.judging)[0]


def _written(loaded: HasModel, texts: Sequence[str], judging: Judging) -> list[str]:
    config = BeamConfig(beam=judging.beam, length_penalty=judging.length_penalty)
    return [found[0].text for found in answer_texts(loaded, texts, config)]


def _answers(loaded: HasModel, split: Split, data: TaskData) -> list[Example]:
    own = [] if data.example is None else [(data.example, None)]
    pairs: list[tuple[str, str | None]] = [*own, *split.pairs[: EXAMPLES - len(own)]]
    judging = data.judging
    outputs = _written(loaded, [source for source, _ in pairs], judging)
    # Of translations another one may be as good: only where every right answer is the same is it said to be wrong.
    exact = "bleu" not in judging.metrics
    return [
        Example(source, output, expected, output == expected if exact else None)
        for (source, expected), output in zip(pairs, outputs, strict=True)
    ]


def _labelled(loaded: HasModel, split: Split, classes: Sequence[str]) -> list[Example]:
    items = list(range(min(EXAMPLES, len(split.source))))
    with inference(loaded.model.modules()):
        best = logits_of(loaded.model, split.source.batch(items, epoch=0).to(loaded.model.device)).argmax(-1).tolist()
    return [
        Example(text, classes[label], expected, classes[label] == expected)
        for (text, expected), label in zip(split.pairs, best, strict=False)
    ]


def _encoder_attention(loaded: HasModel, split: Split, language: str) -> Iterator[AttentionPicture]:
    """Self-attention on a short text of those that are labelled: in the stack that reads it."""
    lengths = [len(text) for text, _ in split.pairs]
    item = min(range(len(lengths)), key=lambda item: abs(lengths[item] - SNIPPET))
    batch = split.source.batch([item], epoch=0)
    read = batch.inputs if batch.source is None else batch.source
    tokens = read[0].tolist()[: 2 * SNIPPET]
    labels = [loaded.tokenizer.label(token) for token in tokens]
    if batch.source is None:
        yield from _surest(attention_weights(loaded.model, tokens), labels, labels, language)
        return
    start = batch.inputs[0].tolist()
    weights = attention_weights(loaded.model, start, sources=tokens, pattern="encoder.*.weights")
    yield from _surest(weights, labels, labels, language)


def _short_text(split: Split, length: int) -> str:
    """The text whose length is nearest to a number of characters."""
    return min((source for source, _ in split.pairs), key=lambda source: abs(len(source) - length))


def cross_attention(loaded: HasModel, text: str, language: str = "en") -> Iterator[AttentionPicture]:
    """The cross-attention heads that are surest of where to look: rows are what is written, columns what is read."""
    tokenizer, config = loaded.tokenizer, GenerationConfig(max_new_tokens=2 * SNIPPET)
    source, written = source_ids(tokenizer, text), list(generate_text(loaded, text, config).tokens)
    if not written:
        return
    read = [*beginning(loaded.model, tokenizer), *written[:-1]]
    weights = attention_weights(loaded.model, read, sources=source, pattern="*.cross_attention.weights")
    yield from _surest(weights, [*map(tokenizer.label, written)], [*map(tokenizer.label, source)], language)


def _self_attention(loaded: HasModel, snippet: Sequence[int], language: str) -> Iterator[AttentionPicture]:
    labels = [loaded.tokenizer.label(token) for token in snippet]
    yield from _surest(attention_weights(loaded.model, snippet), labels, labels, language)


def _surest(
    weights: Mapping[str, torch.Tensor], rows: Sequence[str], columns: Sequence[str], language: str
) -> Iterator[AttentionPicture]:
    """The heads whose largest weight is largest on average: a head that looks everywhere shows nothing."""
    heads = [
        (float(head.amax(-1).mean()), site.removesuffix(".weights"), number, head)
        for site, layer in weights.items()
        for number, head in enumerate(layer)
    ]
    for _, site, number, head in sorted(heads, key=lambda entry: -entry[0])[:PICTURES]:
        yield AttentionPicture(word("site_head", language).format(site=site, head=number), head, rows, columns)


def _snippet(split: Split, tokenizer: Tokenizer) -> list[int]:
    tokens: list[int] = split.source.batch([0], epoch=0).inputs[0].tolist()
    return tokens[:SNIPPET]


def _continuation(loaded: HasModel, snippet: Sequence[int]) -> Example:
    # From the ids: half a character of a byte tokenizer, or an unknown one, would not survive becoming text.
    config = GenerationConfig(max_new_tokens=200, temperature=0.8, when_full="slide")
    [written] = generate(loaded.model, [snippet], config, tokenizer=loaded.tokenizer)
    return Example(loaded.tokenizer.decode(snippet), written.text)
