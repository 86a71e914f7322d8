"""`inspect`: what a model looks at while it reads a text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from glassformer.cli.options import Device, Json, Model, Precision, Threads, open_model
from glassformer.cli.words import echo_json, given, is_stream, note

if TYPE_CHECKING:
    from glassformer.inspection.inspect import LayerAttention

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
    pool: Annotated[
        int, typer.Option(metavar="N", min=1, help="Show N neighbouring tokens as one, for long texts.")
    ] = 1,
    generate: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Write N tokens and show each step's attention.", show_default=False),
    ] = None,
    contrast: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="A second text: which heads notice the difference?", show_default=False),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(metavar="TOKEN", help="Compare at this token of both texts.", show_default=False),
    ] = None,
    patch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SITE=VALUE",
            help="Replace what stands at a site (* allowed, [0,3] for heads) by zero, mean, or a file's numbers; "
            "several times.",
            show_default=False,
        ),
    ] = None,
    ablate: Annotated[
        str, typer.Option(metavar="WORD", help="What a head is set to, to see its worth: zero, mean or none.")
    ] = "zero",
    ablate_heads: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Heads to take away one by one; the others are estimated.", show_default=False
        ),
    ] = None,
    language: Annotated[
        str, typer.Option(metavar="NAME", help="Of pages, pictures and what is printed: en or zh.")
    ] = "en",
    as_json: Json = False,
    device: Device = "auto",
    threads: Threads = None,
    precision: Precision = "float32",
) -> None:
    """Show who looks at whom, in every layer and head.

    Writes one HTML page that needs no network, or pictures, or both: the attention of encoder, decoder and
    cross-attention, what each head does and is worth, what the model would say after each layer, and how large the
    residual stream is.
    """
    from glassformer.cli.waiting import waiting
    from glassformer.core.files import ensure_writable
    from glassformer.core.wording import known_language

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
        from glassformer.diagnosis.look import inspect as look_into
        from glassformer.diagnosis.look_lines import found_lines, note_lines
        from glassformer.inspection.pictures import write_pictures

        shown = page is not None or as_json
        look = look_into(
            loaded,
            read,
            answer,
            source=loaded.source,
            layers=chosen_layers,
            heads=chosen_heads,
            max_tokens=max_tokens,
            pool=pool,
            generate=generate or 0,
            contrast=contrast,
            token=token,
            patches=patch or (),
            guesses=shown,
            ablate=_ablated(ablate) if shown else None,
            most_heads=ablate_heads,
            language=language,
            advanced=advanced,
        )
        seen = look.inspection
        files, undrawn = ([], []) if png is None else write_pictures(png, seen, language=language, advanced=advanced)
        left_out: Sequence[LayerAttention] = ()
        if page is not None:
            left_out = look.save(page)
            files.append(page)
    for line in note_lines(look, undrawn, left_out):
        note(line)
    if as_json:
        echo_json(look.to_dict() | {"files": [str(file) for file in files]})
        return
    for line in [*found_lines(look), *map(str, files)]:
        typer.echo(line)


def _ablated(text: str) -> Literal["zero", "mean"] | None:
    if text == "none":
        return None
    if text not in ("zero", "mean"):
        raise typer.BadParameter(f"--ablate is {text!r}; give zero, mean or none")
    return "zero" if text == "zero" else "mean"


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
