"""`trace`: one forward pass, step by step."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Device, Json, Threads, open_model
from glassformer.cli.words import echo_json, given, is_stream, note, terminal_width

if TYPE_CHECKING:
    from glassformer.checkpoint.loading import Loaded
    from glassformer.generation.reading import Reading

ALL = "all"


def trace(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="A run folder, a checkpoint folder (also of Hugging Face), or preset:NAME.",
            show_default=False,
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="The text that is read; - reads it from stdin.", show_default=False),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="What an encoder-decoder writes; its own output when not given.", show_default=False
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page in place of printing.", show_default=False)
    ] = None,
    step: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only this step, with all its numbers.", show_default=False)
    ] = None,
    generate: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="In place of the steps: write N tokens one by one with a cache, and compare with one pass.",
            show_default=False,
        ),
    ] = None,
    matrix: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Without a model: attention by hand on your own X, W_q, W_k, W_v; or example: three words of size 4.",
            show_default=False,
        ),
    ] = None,
    causal: Annotated[
        bool, typer.Option("--causal", help="With --matrix: a word sees only itself and those before it.")
    ] = False,
    layers: Annotated[
        str, typer.Option(metavar="N,N", help="Blocks that are shown step by step, from 0; all = every one.")
    ] = "0",
    max_tokens: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Read only the first N tokens of each text.", show_default=False),
    ] = None,
    as_json: Json = False,
    language: Annotated[str, typer.Option(metavar="NAME", help="Of titles and explanations: en or zh.")] = "en",
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Follow one text through a model, step by step.

    Every value of one forward pass: its shape by letters and in numbers, some of its numbers, its equation, the paper's
    section, and the line of code that made it. The first block is shown in full, the others as one line.

    --matrix FILE takes JSON, {"X": [[1, 0], [0, 1]], "W_q": [[..]], "W_k": [[..]], "W_v": [[..]]}, and "words" if
    you like; or CSV: a line with a name (X, W_q, W_k, W_v, words), then its rows, one a line; - is standard input.
    X has one row a word, and q = X W_q, k = X W_k, v = X W_v.
    """
    from glassformer.core.files import ensure_writable
    from glassformer.core.wording import known_language

    known_language(language)
    modes = [f"--{name}" for name, on in (("step", step), ("generate", generate), ("matrix", matrix)) if on is not None]
    if html is not None and as_json:
        raise typer.BadParameter("--html writes a page and --json prints; choose one of them")
    if len(modes) > 1 or (html is not None and step is not None):
        raise typer.BadParameter(f"{' and '.join([*modes, *['--html'] * (len(modes) == 1)])} do not go together")
    if causal and matrix is None:
        raise typer.BadParameter("--causal is for --matrix; a model has its own mask")
    if html is not None:
        if html.is_dir() or is_stream(html):
            raise typer.BadParameter(f"--html {html} is no file; name one, such as trace.html")
        ensure_writable(html.parent, "--html")
    if matrix is not None:
        if model is not None:
            raise typer.BadParameter(f"--matrix needs no model; leave out {model}")
        _by_hand(matrix, causal, html, language, as_json)
        return
    if model is None or text is None:
        raise typer.BadParameter(
            f"{'MODEL' if model is None else 'TEXT'} is missing: trace MODEL TEXT, or trace --matrix example"
        )
    chosen = _layers(layers)
    read, answer = given(text), None if target is None else given(target)
    loaded = open_model(model, device, threads, "float32")
    if generate is None:
        _steps(loaded, read, answer, chosen, max_tokens, step, html, language, as_json)
    else:
        _generation(loaded, read, answer, generate, max_tokens, html, language, as_json)


def _steps(
    loaded: Loaded,
    text: str,
    target: str | None,
    layers: list[int] | None,
    max_tokens: int | None,
    step: int | None,
    html: Path | None,
    language: str,
    as_json: bool,
) -> None:
    from glassformer.cli.waiting import waiting

    with waiting("tracing"):
        from glassformer.diagnosis.reading_notes import reading_notes
        from glassformer.generation.reading import reading_of
        from glassformer.inspection.trace import trace as traced
        from glassformer.inspection.trace_page import write_trace
        from glassformer.inspection.trace_text import trace_json, trace_lines, whole_lines

        reading = reading_of(loaded.model, loaded.tokenizer, text, target, max_tokens=max_tokens)
        found = traced(
            loaded.model, reading.tokens, sources=reading.sources, name=loaded.tokenizer.label, layers=layers
        )
    _say(reading, language)
    if html is not None:
        notes = reading_notes(reading, language)
        texts = {"input": text} | ({"output": reading.output} if reading.output else {})
        title = Path(loaded.source).resolve().name
        write_trace(html, found, title=title, texts=texts, notes=notes, language=language)
        typer.echo(html)
    elif as_json:
        echo_json(trace_json(found, language, step))
    elif step is not None:
        _print(whole_lines(found.step(step), found, language, terminal_width()))
    else:
        _print(trace_lines(found, language, terminal_width()))


def _generation(
    loaded: Loaded,
    text: str,
    target: str | None,
    number: int,
    max_tokens: int | None,
    html: Path | None,
    language: str,
    as_json: bool,
) -> None:
    from glassformer.cli.waiting import waiting

    if target is not None:
        raise typer.BadParameter("--generate writes by itself; leave out --target")
    with waiting("tracing"):
        from glassformer.generation.reading import reading_of
        from glassformer.inspection.trace_generation import trace_generation
        from glassformer.inspection.trace_page import write_generation
        from glassformer.inspection.trace_text import generation_lines

        model, tokenizer = loaded.model, loaded.tokenizer
        crosses = model.config.kind == "encoder_decoder" and not model.config.pools
        # An encoder-decoder goes on from what stands before every target; an empty one is that alone.
        reading = reading_of(model, tokenizer, text, "" if crosses else None, max_tokens=max_tokens)
        ends = () if tokenizer.eos_id is None else (tokenizer.eos_id,)
        found = trace_generation(
            model, reading.tokens, number, sources=reading.sources, name=tokenizer.label, ends=ends
        )
    _say(reading, language)
    if html is not None:
        title = Path(loaded.source).resolve().name
        write_generation(html, found, title=title, texts={"input": text}, language=language)
        typer.echo(html)
    elif as_json:
        echo_json(found)
    else:
        _print(generation_lines(found, language, terminal_width()))


def _by_hand(source: str, causal: bool, html: Path | None, language: str, as_json: bool) -> None:
    from glassformer.cli.waiting import waiting

    with waiting("loading"):
        from glassformer.data.read import read_text
        from glassformer.inspection.by_hand import EXAMPLE, attend_by_hand, example, parse_matrices
        from glassformer.inspection.trace_page import write_by_hand
        from glassformer.inspection.trace_text import hand_lines

    chosen = source == EXAMPLE and not Path(source).exists()
    text = "" if chosen else sys.stdin.read() if source == "-" else read_text(source).text
    matrices = example() if chosen else parse_matrices(text, "standard input" if source == "-" else source)
    steps, root = attend_by_hand(matrices, causal=causal), math.sqrt(matrices.W_q.shape[1])
    if html is not None:
        write_by_hand(html, steps, matrices.words, root, language)
        typer.echo(html)
    elif as_json:
        told = [{"name": each.name, "equation": each.equation, "values": each.value.tolist()} for each in steps]
        echo_json({"words": list(matrices.words), "steps": told})
    else:
        _print(hand_lines(steps, matrices.words, language, root, terminal_width()))


def _say(reading: Reading, language: str) -> None:
    from glassformer.diagnosis.reading_notes import reading_notes

    for line in reading_notes(reading, language, output=True):
        note(line)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)


def _layers(text: str) -> list[int] | None:
    if text == ALL:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"--layers is {text!r}; give numbers from 0, such as 0,3, or all") from None
