"""A trace as plain text: for a terminal, and for whatever it is piped into."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unicodedata import combining, east_asian_width

from torch import Tensor

from glassformer.inspection.by_hand import HandStep, number
from glassformer.inspection.trace import Trace
from glassformer.inspection.trace_generation import GenerationTrace
from glassformer.inspection.trace_steps import Step
from glassformer.inspection.trace_wording import MESSAGES, REASONS, TITLES

WIDTH = 100
"""Columns where nobody says how many there are."""

ROWS, COLUMNS, MASK_ROWS = 4, 8, 32
"""What is shown of a matrix, and of a mask."""

LABEL = 12
"""Columns of a token's name."""

SEES, HIDDEN = "■", "·"


def trace_lines(trace: Trace, language: str, width: int | None = None) -> Iterator[str]:
    """Yield the lines of a whole trace.

    Args:
        trace: From `trace`.
        language: "en" or "zh".
        width: Columns of the terminal; None = 100.
    """
    width = width or WIDTH
    yield from _joined(sizes_line(trace, language).split(", "), width, "", ", ")
    yield ""
    yield from table(who_rows(trace, language), width)
    part = ""
    for step in trace.steps:
        heading = part_title(step, language)
        if step.name == "block":
            if part:
                yield ""
            part, line, sizes = "", f" {block_line(step, language)}", shape_of(step)
            fits = columns(line) + 2 + columns(sizes) <= width
            yield from [f"{line}{sizes.rjust(width - columns(line))}"] if fits else [line, f"     {sizes}"]
            for remark in step.remarks:
                yield from wrapped(remark, width, "     ")
            continue
        if heading != part:
            part = heading
            yield from ("", f"── {heading} ".ljust(width - columns(heading) + len(heading), "─"))
        yield ""
        yield from step_lines(step, trace, language, width)


def step_lines(step: Step, trace: Trace, language: str, width: int) -> Iterator[str]:
    """Yield the lines of one step: what it is called, why it is there, how it is made, some of its numbers."""
    title = f"{step.number:>3}. {title_of(step, language)}"
    sizes = shape_of(step)
    gap = width - columns(title) - columns(sizes)
    yield from [f"{title}{' ' * gap}{sizes}"] if gap >= 2 else [title, f"     {sizes}"]
    yield from wrapped(REASONS[step.name][language], width, "     ")
    yield from _joined(step.equation.split(",  "), width, "     ", ",  ")
    for remark in step.remarks:
        yield from wrapped(remark, width, "     ")
    yield from (f"       {line}" for line in excerpt(step, trace, language, width - 7))
    yield from _joined(found_of(step), width, "     ")


def block_line(step: Step, language: str) -> str:
    """Return what is said of a block that is not shown in full."""
    size = MESSAGES.say("rms", language, value=f"{float(step.value.float().square().mean().sqrt()):.3g}")
    return f"{step.number}. {title_of(step, language)}  ·  {size}"


def whole_lines(step: Step, trace: Trace, language: str, width: int | None = None) -> Iterator[str]:
    """Yield the lines of one step with all its numbers, matrix by matrix."""
    width = width or WIDTH
    yield f"{step.number}. {title_of(step, language)}  {shape_of(step)}"
    yield from wrapped(step.equation, width, "   ")
    yield from _joined(found_of(step), width, "   ")
    rows = row_labels(step, trace)
    value = step.value[0]
    slices = [("", value)] if value.ndim < 3 else [_head(step, head, language, value) for head in range(len(value))]
    for name, matrix in slices:
        yield ""
        if name:
            yield name
        lines = matrix if matrix.ndim == 2 else matrix.unsqueeze(0)
        for label, row in zip(rows or [""] * len(lines), lines, strict=True):
            yield from wrapped(
                " ".join(_cell(each, step) for each in row), width, " " * (LABEL + 1), f"{fitted(label, LABEL)} "
            )


def sizes_line(trace: Trace, language: str) -> str:
    """Return what each letter stands for in this trace."""
    said = [f"{letter} = {size:,} {_letter(letter, language)}" for letter, size in trace.sizes.items()]
    return ", ".join(said)


def who_rows(trace: Trace, language: str) -> list[list[str]]:
    """Return the table of who gives q, k and v: a row for each kind of attention, the first one its heading."""
    rows = [[MESSAGES[f"who_{name}"][language] for name in ("attention", "q", "kv", "sees", "layers")]]
    for asking in trace.asking:
        masked = asking.kind == "decoder" and asking.causal
        own = "from_encoder" if asking.kind == "encoder" else "from_decoder"
        keys = {"cross": "from_memory"}.get(asking.kind, own)
        sees = "sees_source" if asking.kind == "cross" else "sees_past" if asking.causal else "sees_all"
        sees += "_near" * asking.narrow
        names = ["decoder_masked" if masked else asking.kind, own, keys, sees]
        rows.append([*(MESSAGES[name][language] for name in names), str(asking.layers)])
    return rows


def part_title(step: Step, language: str) -> str:
    """Return the heading that a step stands below."""
    stack, part, *rest = [*step.part.split("."), "", ""]
    if stack == "head":
        return MESSAGES["part_head"][language]
    name = MESSAGES[f"stack_{stack}"][language]
    if part == "blocks":
        return MESSAGES.say("part_block", language, stack=name, layer=rest[0])
    return MESSAGES.say("part_input" if part in ("input", "position_bias") else "part_output", language, stack=name)


def shape_of(step: Step) -> str:
    """Return "(B, H, T, T) = (1, 4, 7, 7)"."""
    return f"({', '.join(step.shape.split())}) = ({', '.join(map(str, step.sizes))})"


def title_of(step: Step, language: str) -> str:
    """Return what a step is called."""
    return TITLES.say(step.name, language, layer=step.part.rpartition(".")[2], like=step.like)


def found_of(step: Step) -> list[str]:
    """Return where a step comes from: the paper's section, the line of code, the site of a tape."""
    return [each for each in (step.source, step.where, step.site) if each]


def row_labels(step: Step, trace: Trace) -> Sequence[str]:
    """Return what the rows of a step's matrices are called; nothing where they are no tokens."""
    letters = step.shape.split()
    axis = letters[-1] if step.name == "tokens" else letters[-2]
    return trace.labels.get(axis[0], ())


def column_labels(step: Step, trace: Trace) -> Sequence[str]:
    """Return what the columns of a step's matrices are called; nothing where they are no tokens or classes."""
    last = step.shape.split()[-1]
    return trace.labels.get(last[0], ()) if len(step.shape.split()) > 2 or last == "C" else ()


def excerpt(step: Step, trace: Trace, language: str, width: int) -> Iterator[str]:
    """Yield some numbers of a step; of a mask, the picture."""
    if step.name == "tokens":
        pairs = zip(row_labels(step, trace), step.value[0].tolist(), strict=True)
        yield from wrapped("  ".join(f"{label} {token}" for label, token in pairs), width)
        return
    if step.name == "probabilities":
        yield from _most_probable(step, trace, language, width)
        return
    value = step.value[0]
    if step.name == "mask":
        yield from picture(step, trace, language, width)
        return
    if value.ndim == 3:
        yield _head(step, 0, language, value)[0]
        value = value[0]
    elif value.ndim == 1:
        value = value.unsqueeze(0)
    rows, names = row_labels(step, trace), column_labels(step, trace)
    across = min(value.shape[1], COLUMNS, max(1, (width - LABEL - 2) // 9))
    if names:
        yield " " * (LABEL + 1) + "".join(f"{fitted(name, 8, right=True)} " for name in names[:across]).rstrip()
    for label, row in zip(rows[:ROWS] or [""] * ROWS, value[:ROWS], strict=False):
        numbers = "".join(f"{_cell(each, step):>8} " for each in row[:across])
        yield f"{fitted(label, LABEL)} {numbers}{'…' * (across < value.shape[1])}".rstrip()
    if len(value) > ROWS:
        yield "⋮"


def picture(step: Step, trace: Trace, language: str, width: int) -> Iterator[str]:
    """Yield a mask as a picture: a line for each token that looks, a character for each that it may look at."""
    mask = step.value[0]
    alike = bool((mask == mask[:1]).all())
    said = MESSAGES["every_head"][language] if alike else _head(step, 0, language, mask)[0]
    rows = row_labels(step, trace)
    longest = max(mask.shape[1:])
    shown = min(longest, MASK_ROWS, max(1, (width - LABEL - 1) // 2))
    yield said if longest == shown else f"{said}; {MESSAGES.say('more', language, shown=shown, all=longest)}"
    margin = min(LABEL, max(map(columns, rows[:shown])))
    for label, row in zip(rows[:shown], mask[0, :shown, :shown].tolist(), strict=False):
        yield f"{fitted(label, margin, right=True)}  {' '.join(SEES if each else HIDDEN for each in row)}"


def generation_lines(found: GenerationTrace, language: str, width: int | None = None) -> Iterator[str]:
    """Yield what training does at once and generation one after the other."""
    width = width or WIDTH
    for text in generation_texts(found, language)[:2]:
        yield from wrapped(text, width)
    yield ""
    yield from table(generation_rows(found, language), width)
    yield ""
    for text in generation_texts(found, language)[2:]:
        yield from wrapped(text, width)


def generation_texts(found: GenerationTrace, language: str) -> list[str]:
    """Return the sentences around the table of passes."""
    positions, passes = found.positions, len(found.passes)
    texts = [
        MESSAGES.say("parallel", language, positions=positions, shape=f"(B, T) = (1, {positions})"),
        MESSAGES.say("serial", language, passes=passes),
        MESSAGES.say("work", language, cached=positions, uncached=sum(each.after for each in found.passes)),
        MESSAGES.say("same", language, passes=passes, value=f"{found.difference:.1e}"),
    ]
    return [*texts, MESSAGES["ended"][language]] if found.ended else texts


def generation_rows(found: GenerationTrace, language: str) -> list[list[str]]:
    """Return a row for each pass, the first one their heading."""
    rows = [[MESSAGES[key][language] for key in ("pass", "goes_in", "before", "behind", "written", "differs")]]

    def holds(tokens: int, size: int) -> str:
        return MESSAGES.say("holds_one" if tokens == 1 else "holds", language, tokens=tokens, size=spoken_bytes(size))

    for index, each in enumerate(found.passes, start=1):
        read = " ".join(each.read[:3]) + (" …" if len(each.read) > 3 else "")
        before, after = holds(each.before, each.bytes_before), holds(each.after, each.bytes_after)
        rows.append(
            [str(index), f"(1, {len(each.read)}): {read}", before, after, each.written, f"{each.difference:.1e}"]
        )
    return rows


def hand_lines(
    steps: Sequence[HandStep], words: Sequence[str], language: str, root: float, width: int | None = None
) -> Iterator[str]:
    """Yield attention by hand, matrix by matrix.

    Args:
        steps: From `attend_by_hand`.
        words: What the rows are called.
        language: "en" or "zh".
        root: √d_k.
        width: Columns of a line of words; matrices are as wide as they are; None = 100.
    """
    width = width or WIDTH
    margin = max(6, *(columns(word) for word in words)) + 2
    for index, step in enumerate(steps, start=1):
        if index > 1:
            yield ""
        sizes = f"({step.value.shape[0]}, {step.value.shape[1]})"
        said = MESSAGES.say(f"hand_{step.name}", language, root=number(root))
        yield from wrapped(f"{step.equation}  {sizes}  {said}", width, " " * 4, f"{index:>2}. ")
        names = words if not step.name.startswith("W_") else [""] * len(step.value)
        cells = hand_cells(step)
        across = max(6, *(len(cell) for row in cells for cell in row), *(columns(word) for word in words))
        if step.columns:
            yield " " * (margin + 4) + " ".join(fitted(word, across, right=True) for word in words)
        for word, row in zip(names, cells, strict=True):
            yield f"    {fitted(word, margin)}{' '.join(f'{cell:>{across}}' for cell in row)}"
        if step.worked:
            yield from wrapped(step.worked, width, " " * 6)


def hand_cells(step: HandStep) -> list[list[str]]:
    """Return the numbers of a matrix as one would write them."""
    if step.name == "mask":
        return [[SEES if each else HIDDEN for each in row] for row in step.value.tolist()]
    places = 3 if step.name == "weights" else 2
    return [[number(each, places) for each in row] for row in step.value]


def spoken_bytes(size: int) -> str:
    """Return a number of bytes as a person says it."""
    return f"{size:,} B" if size < 1024 else f"{size / 1024:,.1f} KiB" if size < 2**20 else f"{size / 2**20:,.1f} MiB"


def trace_json(trace: Trace, language: str, number: int | None = None) -> dict[str, Any]:
    """Return a trace, or one whole step of it, as numbers, texts, lists and dicts.

    Args:
        trace: From `trace`.
        language: Of titles and reasons.
        number: The step whose values are wanted, all of them; None = every step, each with its mean, its root mean
            square, its smallest and largest value.
    """
    if number is not None:
        step = trace.step(number)
        return _step_json(step, language) | {"values": step.value.tolist()}
    return {
        "sizes": dict(trace.sizes),
        "labels": {letter: list(labels) for letter, labels in trace.labels.items() if labels},
        "attention": [vars(asking) for asking in trace.asking],
        "steps": [_step_json(step, language) for step in trace.steps],
        "top": [[{"token": token, "probability": share} for token, share in row] for row in trace.top],
    }


def table(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield rows in columns of equal width; where they do not fit, each cell below the other."""
    widths = [max(columns(row[column]) for row in rows) for column in range(len(rows[0]))]
    if sum(widths) + 2 * (len(widths) - 1) <= width:
        for row in rows:
            yield "  ".join(fitted(cell, size) for cell, size in zip(row, widths, strict=True)).rstrip()
        return
    names, *content = rows
    for row in content:
        yield row[0]
        for name, cell in zip(names[1:], row[1:], strict=True):
            yield f"  {name}: {cell}"


def wrapped(text: str, width: int, indent: str = "", first: str | None = None) -> Iterator[str]:
    """Yield a text in lines of at most `width` columns, broken at blanks, or between Chinese characters."""
    line = indent if first is None else first
    begun = False
    for word in _words(text):
        if begun and columns(line + word) > width:
            yield line.rstrip()
            line, word = indent, word.lstrip()
        line, begun = line + word, True
    if begun:
        yield line.rstrip()


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    wide = sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
    return wide - sum(1 for character in text if combining(character))


def fitted(text: str, size: int, *, right: bool = False) -> str:
    """Return a text in exactly so many columns, cut where it is longer."""
    if columns(text) > size:
        while columns(text) > size - 1:
            text = text[:-1]
        text += "…"
    room = " " * (size - columns(text))
    return room + text if right else text + room


def _words(text: str) -> Iterator[str]:
    """The pieces between which a line may end, each with the blanks before it."""
    piece = ""
    for character in text:
        if character == " " and piece.strip():
            yield piece
            piece = character
        elif east_asian_width(character) == "W" and character not in "，。；：、）":
            if piece:
                yield piece
            piece = character
        else:
            piece += character
    if piece:
        yield piece


def _joined(pieces: Sequence[str], width: int, indent: str, between: str = "  ·  ") -> Iterator[str]:
    """The pieces with something between, as many on a line as there is room for."""
    line = ""
    for piece in pieces:
        longer = f"{line}{between}{piece}" if line else piece
        if line and columns(indent + longer) > width:
            yield from wrapped(line, width, indent)
            longer = piece
        line = longer
    yield from wrapped(line, width, indent)


def _head(step: Step, head: int, language: str, value: Tensor) -> tuple[str, Tensor]:
    return MESSAGES.say("head_number", language, head=head, heads=len(value)), value[head]


def _letter(letter: str, language: str) -> str:
    return MESSAGES[letter[0]][language] + letter[1:]


def _cell(value: Tensor, step: Step) -> str:
    if step.name == "mask":
        return SEES if value else HIDDEN
    plain = float(value)
    return str(int(plain)) if step.name == "tokens" else f"{plain:.3f}" if abs(plain) < 1000 else f"{plain:.3g}"


def _most_probable(step: Step, trace: Trace, language: str, width: int) -> Iterator[str]:
    for label, row in list(zip(top_labels(step, trace, language), trace.top, strict=True))[-MASK_ROWS:]:
        line = label
        for place, (token, share) in enumerate(row):
            longer = f"{line}{'   ' if place else '  '}{fitted(token, LABEL).rstrip()} {share:.3f}"
            if place and columns(longer) > width:
                break
            line = longer
        yield line


def top_labels(step: Step, trace: Trace, language: str) -> list[str]:
    """Return what each row of most probable tokens is about, in columns of one width."""
    if step.value.ndim == 2:
        return [MESSAGES["whole_text"][language]]
    key = "after" if trace.asking[-1].kind != "encoder" else "at"
    said = [MESSAGES.say(key, language, token=label) for label in row_labels(step, trace)]
    size = min(max(map(columns, said)), 2 * LABEL)
    return [fitted(text, size) for text in said]


def _step_json(step: Step, language: str) -> dict[str, Any]:
    value = step.value.float()
    told: Mapping[str, Any] = {
        "number": step.number,
        "name": step.name,
        "title": title_of(step, language),
        "reason": REASONS[step.name][language],
        "part": step.part,
        "site": step.site or None,
        "shape": step.shape.split(),
        "sizes": list(step.sizes),
        "equation": step.equation,
        "source": step.source,
        "where": step.where,
        "remarks": list(step.remarks),
        "mean": float(value.mean()),
        "rms": float(value.square().mean().sqrt()),
        "smallest": float(value.min()),
        "largest": float(value.max()),
    }
    return dict(told)
