"""`inspect`: what a model looks at while it reads a text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Device, Model, Precision, Threads, open_model
from glassformer.cli.words import given, is_stream, note

if TYPE_CHECKING:
    from glassformer.checkpoint.loading import Loaded
    from glassformer.generation.reading import Reading
    from glassformer.inspection.inspect import Axis, LayerAttention

HTML = Path("inspect.html")


def inspect(
    model: Model,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text that is read; - reads it from stdin.")],
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="What an encoder-decoder writes; its own output when not given.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The HTML page; inspect.html when no --png is given.", show_default=False),
    ] = None,
    png: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A picture of every layer there.", show_default=False)
    ] = None,
    layers: Annotated[
        str | None, typer.Option(metavar="N,N", help="Only these layers, from 0.", show_default=False)
    ] = None,
    heads: Annotated[
        str | None, typer.Option(metavar="N,N", help="Only these heads, from 0.", show_default=False)
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Read only the first N tokens of each text.", show_default=False),
    ] = None,
    language: Annotated[str, typer.Option(metavar="NAME", help="Of the page and the pictures: en or zh.")] = "en",
    device: Device = "auto",
    threads: Threads = None,
    precision: Precision = "float32",
) -> None:
    """Show who looks at whom, in every layer and head.

    Writes one HTML page that needs no network, or pictures, or both: the attention of encoder, decoder and
    cross-attention, and how large the residual stream is after every layer.
    """
    from glassformer.cli.waiting import waiting
    from glassformer.core.files import ensure_writable
    from glassformer.core.wording import known_language
    from glassformer.inspection.wording import word

    known_language(language)
    chosen_layers, chosen_heads = _numbers(layers, "--layers"), _numbers(heads, "--heads")
    read, answer = given(text), None if target is None else given(target)
    page = HTML if out is None and png is None else out
    if page is not None and page.is_dir():
        raise typer.BadParameter(f"--out {page} is a folder; name a file in it, such as {page / HTML}")
    if page is not None and is_stream(page):
        raise typer.BadParameter(f"--out {page} is a pipe or a device; name a file, such as {HTML}")
    for option, folder in (("--png", png), ("--out", page.parent if page else None)):
        if folder is not None:
            ensure_writable(folder, option)
    loaded = open_model(model, device, threads, precision)
    with waiting("looking") as advanced:
        from glassformer.generation.reading import reading_of
        from glassformer.inspection.canvas import readable
        from glassformer.inspection.inspect import inspect_sample
        from glassformer.inspection.pictures import write_pictures
        from glassformer.inspection.viewer import layer_names, write_inspection

        reading = reading_of(loaded.model, loaded.tokenizer, read, answer, max_tokens=max_tokens)
        seen = inspect_sample(
            loaded.model,
            reading.tokens,
            _axis(loaded, reading.tokens),
            sources=reading.sources,
            source_labels=None if reading.sources is None else _axis(loaded, reading.sources),
            written_labels=None if reading.written is None else _axis(loaded, reading.written),
            layers=chosen_layers,
            heads=chosen_heads,
        )
        files, undrawn = ([], []) if png is None else write_pictures(png, seen, language=language, advanced=advanced)
        left_out: Sequence[LayerAttention] = ()
        if page is not None:
            texts = {"model": loaded.source, "input": read}
            if reading.output:
                texts["output"] = reading.output
            title, notes = Path(loaded.source).resolve().name, _cut(reading, language)
            notes += [word("own_output", language)] * reading.own
            left_out = write_inspection(page, seen, title=title, texts=texts, notes=notes, language=language)
            files.append(page)
    for line in _cut(reading, "en"):
        note(line)
    if reading.own:
        note(f"{word('own_output', 'en').removesuffix('.')}: {readable(reading.output or '', 80)}")
    if seen.labels:
        label, share = next(iter(seen.labels.items()))
        note(f"labelled {readable(label)}, {100 * share:.1f} %")
    if undrawn:
        note(f"no installed font has all of {', '.join(undrawn)}; the pictures show □ there, the HTML page all")
    if left_out:
        note(f"too large for the page and left out: {layer_names(left_out)}; name some layers with --layers")
    for file in files:
        typer.echo(file)


def _cut(reading: Reading, language: str) -> list[str]:
    """How much of a text that is too long was read."""
    from glassformer.inspection.wording import word

    return [word(f"cut_{name}", language).format(read=n, all=of) for name, (n, of) in reading.cut.items()]


def _axis(loaded: Loaded, ids: Sequence[int]) -> Axis:
    from glassformer.inspection.inspect import Axis

    return Axis.grouped(loaded.tokenizer.label_groups(ids))


def _numbers(text: str | None, option: str) -> list[int] | None:
    """The numbers of "0,3"."""
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"{option} is {text!r}; give numbers from 0 with commas between, such as 0,3"
        ) from None
