"""The report of a run: what came out, how it got there, what it looks like inside, what to do next."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from glassformer.core.files import write_text
from glassformer.core.wording import known_language
from glassformer.inspection.canvas import svg
from glassformer.inspection.figures import Points, bars, curve, heat_map
from glassformer.inspection.page import (
    cell,
    commands,
    facts,
    mark,
    note,
    page,
    picture,
    pictures,
    rows,
    section,
)
from glassformer.inspection.wording import word

LIMIT_BYTES = 2_000_000
"""What a report may take; pictures of attention that would exceed it are left out, and it says how many."""

MOST_EXAMPLES, LONGEST_TEXT = 100, 400
"""Examples that are shown, and characters of each of their texts."""


@dataclass(frozen=True)
class Example:
    """One input and what became of it.

    Attributes:
        input: What the model was given.
        output: What it made of it.
        expected: What it should have been, if that is known.
        right: Whether the output is right, if someone has judged it.
    """

    input: str
    output: str
    expected: str | None = None
    right: bool | None = None


@dataclass(frozen=True, eq=False)
class AttentionPicture:
    """One head's weights in one sample.

    Attributes:
        caption: Which layer, which head.
        weights: From `attention_weights`. *Shape:* (T, S).
        rows: Label of each query.
        columns: Label of each key.
    """

    caption: str
    weights: Float[Tensor, "query key"]
    rows: Sequence[str]
    columns: Sequence[str]


@dataclass(frozen=True, eq=False)
class ReportData:
    """What a report shows; what is empty has no section.

    Attributes:
        title: Heading of the page.
        headline: The numbers that count, by name; names of result.json and of metrics are translated.
        remarks: What is to be known about these numbers, each with its name; names are translated.
        metrics: The lines of metrics.jsonl. From those whose "split" is "train" or "valid" come the curves of
            "loss" and "lr"; from those whose split is "norms" the size of every layer's output,
            {"step": 100, "split": "norms", "norms": {"decoder.blocks.0": 1.2}}.
        examples: Inputs and outputs.
        attention: Pictures, the most telling first.
        commands: What to type next.
    """

    title: str
    headline: Mapping[str, float | int | str]
    remarks: Mapping[str, str] = field(default_factory=dict)
    metrics: Sequence[Mapping[str, Any]] = ()
    examples: Sequence[Example] = ()
    attention: Sequence[AttentionPicture] = ()
    commands: Sequence[str] = ()


def write_report(path: Path, data: ReportData, *, language: str = "en") -> None:
    """Write a report as one HTML file that needs nothing else, of at most `LIMIT_BYTES`.

    Args:
        path: The file.
        data: What it shows.
        language: "en" or "zh".

    Raises:
        ConfigError: There is no such language.
        DataError: A picture has more or fewer labels than positions.
        CheckpointError: The file cannot be written.
    """
    write_text(path, report(data, language=language))


def report(data: ReportData, *, language: str = "en") -> str:
    """Return the text of the file that `write_report` writes."""
    language = known_language(language)
    before = [*_headline(data, language), *_examples(data, language), *_learning(data, language)]
    before += _norms(data, language)
    after = [section(word("next", language), commands(data.commands))] if data.commands else []
    taken = len(page(data.title, [*before, *after], word("footer", language), language).encode())
    attention = _attention(data, language, LIMIT_BYTES - taken)
    return page(data.title, [*before, *attention, *after], word("footer", language), language)


def _headline(data: ReportData, language: str) -> Iterator[str]:
    if data.headline:
        values = [(word(name, language), _number(value)) for name, value in data.headline.items()]
        remark = word("remark", language)
        said = [
            note(remark.format(name=word(name, language), text=word(text, language)))
            for name, text in data.remarks.items()
        ]
        yield section(word("result", language), facts(values) + "".join(said))


def _examples(data: ReportData, language: str) -> Iterator[str]:
    if not data.examples:
        return
    shown = data.examples[:MOST_EXAMPLES]
    expected = any(example.expected is not None for example in shown)
    judged = any(example.right is not None for example in shown)
    names = ["input", *["expected"] * expected, "output"]
    content = []
    for example in shown:
        texts = [example.input, *[example.expected or ""] * expected, example.output]
        cells = [cell(_cut(text)) for text in texts]
        if judged:
            right = example.right
            cells.append("" if right is None else mark(right, word("right" if right else "wrong", language)))
        content.append(cells)
    body = rows([*(word(name, language) for name in names), *[""] * judged], content)
    missing = len(data.examples) - len(shown)
    if missing:
        body += note(word("left_out_examples", language).format(number=missing))
    yield section(word("examples", language), body, word("examples_hint", language))


def _learning(data: ReportData, language: str) -> Iterator[str]:
    losses = {split: _points(data.metrics, split, "loss") for split in ("train", "valid")}
    rates = _points(data.metrics, "train", "lr")
    drawn = []
    if any(losses.values()):
        drawn.append(
            curve(
                {word(split, language): points for split, points in losses.items() if points},
                title=word("loss_curve", language),
                x_label=word("step", language),
                y_label=word("loss_axis", language),
            )
        )
    if rates:
        drawn.append(
            curve(
                {word("lr_curve", language): rates},
                title=word("lr_curve", language),
                x_label=word("step", language),
                y_label=word("lr_axis", language),
            )
        )
    if drawn:
        body = pictures([picture(svg(figure)) for figure in drawn])
        yield section(word("learning", language), body, word("learning_hint", language))


def _norms(data: ReportData, language: str) -> Iterator[str]:
    looks = [row for row in data.metrics if row.get("split") == "norms"]
    if not looks:
        return
    last: Mapping[str, float] = looks[-1]["norms"]
    series = {site: [(row["step"], row["norms"][site]) for row in looks if site in row["norms"]] for site in last}
    sizes = [size for points in series.values() for _, size in points if math.isfinite(size) and size > 0]
    axis = word("norms_axis", language)
    drawn = [
        curve(
            series,
            title=word("norms_curve", language),
            x_label=word("step", language),
            y_label=axis,
            log=bool(sizes) and max(sizes) > 30 * min(sizes),
        ),
        bars(last, title=word("norms_last", language), x_label=axis),
    ]
    body = pictures([picture(svg(figure)) for figure in drawn])
    yield section(word("norms", language), body, word("norms_hint", language))


def _attention(data: ReportData, language: str, room: int) -> Iterator[str]:
    """As many pictures as there is room for, in bytes."""
    if not data.attention:
        return
    room -= 2_000  # for the section itself
    drawn: list[str] = []
    for each in data.attention:
        one = picture(svg(heat_map(each.weights, each.rows, each.columns, title=each.caption)))
        room -= len(one.encode())
        if room < 0:
            break
        drawn.append(one)
    body = pictures(drawn)
    missing = len(data.attention) - len(drawn)
    if missing:
        limit = f"{LIMIT_BYTES / 1e6:g}"
        body += note(word("left_out_pictures", language).format(number=missing, limit=limit))
    blank = "" if language == "zh" else " "
    hint = blank.join(word(key, language) for key in ("attention_hint", "attention_chosen"))
    yield section(word("attention", language), body, hint)


def _points(metrics: Sequence[Mapping[str, Any]], split: str, name: str) -> Points:
    rows_of_split = (row for row in metrics if row.get("split") == split)
    return [(row["step"], row[name]) for row in rows_of_split if isinstance(row.get(name), int | float)]


def _number(value: float | int | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
