"""A trace as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from torch import Tensor

from glassformer.core.files import write_text
from glassformer.core.wording import known_language
from glassformer.inspection.by_hand import HandStep, number
from glassformer.inspection.canvas import readable
from glassformer.inspection.page import cell, facts, note, page, rows, section
from glassformer.inspection.trace import Trace
from glassformer.inspection.trace_generation import GenerationTrace
from glassformer.inspection.trace_steps import Step
from glassformer.inspection.trace_text import (
    block_line,
    column_labels,
    found_of,
    generation_rows,
    generation_texts,
    hand_cells,
    part_title,
    row_labels,
    shape_of,
    title_of,
    top_labels,
    who_rows,
)
from glassformer.inspection.trace_wording import MESSAGES, REASONS

ROWS, COLUMNS, MASK_ROWS = 8, 12, 48
"""What is shown of a matrix, and of a mask."""

LONGEST_LABEL, LONGEST_TEXT = 24, 400

SHADED = ("weights", "linear_weights", "mask")
"""Steps whose numbers, from 0 to 1, are also shown as a shade."""

CSS = """
article { margin: 1.5rem 0; }
h3 { margin: 0; font-size: 1rem; overflow-wrap: anywhere; }
h3 code { color: var(--soft); font-weight: 400; font-size: 0.85rem; margin-inline-start: 0.5rem; }
article p { margin: 0.15rem 0 0.4rem; }
article pre { margin: 0.4rem 0; padding: 0.4rem 0.7rem; }
.scroll { overflow-x: auto; }
.numbers { width: auto; font: 0.8rem/1.4 ui-monospace, "SF Mono", Consolas, "DejaVu Sans Mono", monospace; }
.numbers tr { display: table-row; padding: 0; border: 0; }
.numbers th, .numbers td {
  display: table-cell; min-width: 0; padding: 0.1rem 0.5rem; border: 0; text-align: end; white-space: pre;
  font-size: inherit; font-variant-numeric: tabular-nums;
}
.numbers th:first-child { text-align: start; position: sticky; left: 0; background: var(--paper); }
.numbers td::before { content: none; }
.numbers td[style] { background: color-mix(in srgb, var(--good) calc(var(--w) * 60%), transparent); }
.found { font-size: 0.8rem; }
"""


def write_trace(
    path: Path, trace: Trace, *, title: str, texts: Mapping[str, str], notes: Sequence[str] = (), language: str = "en"
) -> None:
    """Write a trace as one HTML file.

    Args:
        path: The file.
        trace: From `trace`.
        title: What the model is called.
        texts: What was read and written, by "input" and "output".
        notes: What else is to be known about them.
        language: "en" or "zh".

    Raises:
        ConfigError: There is no such language.
        CheckpointError: The file cannot be written.
    """
    known_language(language)
    letters = [(f"{letter}: {MESSAGES[letter[0]][language]}", f"{size:,}") for letter, size in trace.sizes.items()]
    names, *content = who_rows(trace, language)
    sections = [
        _texts(texts, language) + "".join(map(note, notes)),
        section(MESSAGES["letters"][language], facts(letters)),
        section(MESSAGES["who"][language], rows(names, [[*map(cell, row)] for row in content])),
    ]
    for heading, steps in groupby(trace.steps, lambda step: part_title(step, language)):
        sections.append(section(heading, "\n".join(_article(step, trace, language) for step in steps)))
    _write(path, MESSAGES.say("title", language, model=title), sections, language)


def write_generation(
    path: Path, found: GenerationTrace, *, title: str, texts: Mapping[str, str], language: str = "en"
) -> None:
    """Write what training does at once and generation step by step as one HTML file; arguments as of `write_trace`."""
    known_language(language)
    names, *content = generation_rows(found, language)
    said = generation_texts(found, language)
    body = "".join(map(note, said[:2])) + rows(names, [[*map(cell, row)] for row in content])
    body += "".join(map(note, said[2:]))
    sections = [_texts(texts, language), section(MESSAGES["generation"][language], body)]
    _write(path, MESSAGES.say("title", language, model=title), sections, language)


def write_by_hand(path: Path, steps: Sequence[HandStep], words: Sequence[str], root: float, language: str) -> None:
    """Write attention by hand as one HTML file; arguments as of `hand_lines`."""
    known_language(language)
    articles = []
    for index, step in enumerate(steps, start=1):
        names = ["" for _ in step.value] if step.name.startswith("W_") else words
        shades = step.value if step.name in SHADED else None
        articles.append(
            f"<article><h3>{index}. {escape(step.equation)}<code>{tuple(step.value.shape)}</code></h3>"
            f"<p>{escape(MESSAGES.say(f'hand_{step.name}', language, root=number(root)))}</p>"
            f"{_numbers(hand_cells(step), names, words if step.columns else (), shades)}"
            f"{f'<pre>{escape(step.worked)}</pre>' if step.worked else ''}</article>"
        )
    _write(path, MESSAGES["by_hand"][language], ["\n".join(articles)], language)


def _write(path: Path, title: str, sections: Sequence[str], language: str) -> None:
    write_text(path, page(title, sections, MESSAGES["footer"][language], language, css=CSS))


def _texts(texts: Mapping[str, str], language: str) -> str:
    shown = [cell(text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…") for text in texts.values()]
    return rows([MESSAGES[name][language] for name in texts], [shown])


def _article(step: Step, trace: Trace, language: str) -> str:
    if step.name == "block":
        remarks = "".join(map(note, step.remarks))
        return f"<article><h3>{escape(block_line(step, language))}</h3>{remarks}</article>"
    remarks = "".join(map(note, step.remarks))
    return (
        f"<article><h3>{step.number}. {escape(title_of(step, language))}<code>{escape(shape_of(step))}</code></h3>"
        f"<p>{escape(REASONS[step.name][language])}</p><pre>{escape(step.equation)}</pre>{remarks}"
        f"{''.join(_content(step, trace, language))}"
        f'<p class="found">{escape("  ·  ".join(found_of(step)))}</p></article>'
    )


def _content(step: Step, trace: Trace, language: str) -> Iterator[str]:
    """Some of the numbers."""
    value = step.value[0]
    names, labels = row_labels(step, trace), column_labels(step, trace)
    if step.name == "tokens":
        shown = [[str(token) for token in value.tolist()]]
        yield _numbers(shown, [""], names)
        return
    if step.name == "probabilities":
        shown = [[f"{readable(token, LONGEST_LABEL)} {share:.3f}" for token, share in row] for row in trace.top]
        yield _numbers(shown[-MASK_ROWS:], top_labels(step, trace, language)[-MASK_ROWS:], ())
        return
    if value.ndim == 3:
        alike = step.name == "mask" and bool((value == value[:1]).all())
        said = MESSAGES.say("head_number", language, head=0, heads=len(value))
        yield f"<p>{escape(MESSAGES['every_head'][language] if alike else said)}</p>"
        value = value[0]
    value = value if value.ndim == 2 else value.unsqueeze(0)
    down, across = (MASK_ROWS, MASK_ROWS) if step.name == "mask" else (ROWS, COLUMNS)
    part = value[:down, :across]
    if step.name == "mask":
        cells = [["■" if each else "·" for each in row] for row in part.tolist()]
    else:
        cells = [[f"{each:.3f}" for each in row] for row in part.tolist()]
    if value.shape[1] > across:
        cells = [[*row, "…"] for row in cells]
    yield _numbers(cells, names[:down], labels[:across], part if step.name in SHADED else None)
    if len(value) > down and names:
        yield note(MESSAGES.say("more", language, shown=down, all=len(value)))


def _numbers(
    cells: Sequence[Sequence[str]], names: Sequence[str], labels: Sequence[str], shades: Tensor | None = None
) -> str:
    """A table of numbers, which stays one on a telephone and is moved sideways there."""
    head = "".join(f"<th>{escape(readable(label, LONGEST_LABEL))}</th>" for label in labels)
    lines = [f"<tr><th></th>{head}</tr>"] if labels else []
    for at, row in enumerate(cells):
        name = readable(names[at], LONGEST_LABEL) if at < len(names) else ""
        shown = []
        for column, text in enumerate(row):
            shaded = shades is not None and column < shades.shape[1]
            style = f' style="--w: {float(shades[at, column]):.2f}"' if shades is not None and shaded else ""
            shown.append(f"<td{style}>{escape(text)}</td>")
        lines.append(f"<tr><th>{escape(name)}</th>{''.join(shown)}</tr>")
    return f'<div class="scroll"><table class="numbers">{"".join(lines)}</table></div>'
