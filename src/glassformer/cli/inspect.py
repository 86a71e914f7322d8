"""`inspect`: what a model looks at while it reads a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Device, Model, Precision, Threads, open_model
from glassformer.cli.words import given, note

if TYPE_CHECKING:
    from glassformer.checkpoint.loading import Loaded
    from glassformer.inspection.inspect import Axis, LayerAttention

HTML = Path("inspect.html")

MOST_WRITTEN = 256
"""Tokens that an encoder-decoder writes when it is given no target."""


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
    from glassformer.inspection.wording import known_language

    known_language(language)
    chosen_layers, chosen_heads = _numbers(layers, "--layers"), _numbers(heads, "--heads")
    read, answer = given(text), None if target is None else given(target)
    page = HTML if out is None and png is None else out
    if page is not None and page.is_dir():
        raise typer.BadParameter(f"--out {page} is a folder; name a file in it, such as {page / HTML}")
    for folder in (png, page.parent if page else None):
        if folder is not None:
            ensure_writable(folder)
    loaded = open_model(model, device, threads, precision)
    with waiting("looking"):
        from glassformer.inspection.inspect import inspect_sample
        from glassformer.inspection.pictures import write_pictures
        from glassformer.inspection.viewer import layer_names, write_inspection

        sample = _sample(loaded, read, answer, max_tokens)
        seen = inspect_sample(
            loaded.model,
            sample.tokens,
            _axis(loaded, sample.tokens),
            sources=sample.sources,
            source_labels=None if sample.sources is None else _axis(loaded, sample.sources),
            written_labels=None if sample.written is None else _axis(loaded, sample.written),
            layers=chosen_layers,
            heads=chosen_heads,
        )
        files, undrawn = ([], []) if png is None else write_pictures(png, seen, language=language)
        left_out: Sequence[LayerAttention] = ()
        if page is not None:
            texts, notes = {"model": loaded.source, **sample.texts}, sample.said(language)
            left_out = write_inspection(
                page, seen, title=Path(loaded.source).name, texts=texts, notes=notes, language=language
            )
            files.append(page)
    for line in sample.said("en"):
        note(line)
    if undrawn:
        note(f"no installed font has all of {', '.join(undrawn)}; the pictures show □ there, the HTML page all")
    if left_out:
        note(f"too large for the page and left out: {layer_names(left_out)}; name some layers with --layers")
    for file in files:
        typer.echo(file)


@dataclass(frozen=True)
class _Sample:
    """What the model reads and writes.

    Attributes:
        tokens: What the decoder, or the only stack, reads.
        sources: What the encoder of an encoder-decoder reads.
        written: What an encoder-decoder writes at each step.
        texts: The same for people, by its name.
        notes: What is to be said about it: key of a message and what it is filled with.
    """

    tokens: Sequence[int]
    sources: Sequence[int] | None
    written: Sequence[int] | None
    texts: dict[str, str]
    notes: list[tuple[str, dict[str, str | int]]] = field(default_factory=list)

    def said(self, language: str) -> list[str]:
        from glassformer.inspection.wording import word

        return [word(key, language).format(**values) for key, values in self.notes]


def _sample(loaded: Loaded, text: str, target: str | None, max_tokens: int | None) -> _Sample:
    from glassformer.core.errors import DataError
    from glassformer.generation.config import GenerationConfig
    from glassformer.generation.inputs import beginning
    from glassformer.generation.stream import generate
    from glassformer.inspection.canvas import readable

    model, tokenizer = loaded.model, loaded.tokenizer
    notes: list[tuple[str, dict[str, str | int]]] = []

    def encoded(name: str, whole: str) -> list[int]:
        ids = tokenizer.encode(whole)
        kept = ids if max_tokens is None else _first(loaded, ids, max_tokens)
        if len(kept) < len(ids):
            notes.append((f"cut_{name}", {"read": len(kept), "all": len(ids)}))
        return kept

    begin, end = beginning(tokenizer), [] if tokenizer.eos_id is None else [tokenizer.eos_id]
    ids = encoded("input", text)
    if model.encoder is None or model.decoder is None:
        if target is not None:
            raise DataError("this model reads one text and no target: give it without --target")
        labels = model.config.head is not None and model.config.head.pooling is not None
        tokens = [*begin, *ids, *end] if labels else [*begin, *ids] if model.encoder is None else [*ids, *end]
        return _Sample(tokens, None, None, {"input": text}, notes)
    writes = model.config.head is not None and model.config.head.pooling is None
    sources = [*ids, *end] if writes else [*begin, *ids, *end]
    if target is None and writes:
        config = GenerationConfig(max_new_tokens=min(max_tokens or MOST_WRITTEN, MOST_WRITTEN))
        [own] = generate(model, [[]], config, tokenizer=tokenizer, sources=[sources])
        written, target = list(own.tokens), own.text
        notes.append(("own_output", {"output": readable(target, 80)}))
    else:
        written = [*encoded("output", target or ""), *end]  # who labels texts reads the begin token and writes nothing
    whole = [*begin, *written]
    texts = {"input": text, **({"output": target} if target else {})}
    return _Sample(whole[:-1], sources, whole[1:], texts, notes)


def _first(loaded: Loaded, ids: Sequence[int], number: int) -> list[int]:
    """At most so many ids, and no character in part."""
    ends = [group.stop for group in _axis(loaded, ids).groups if group.stop <= number]
    return list(ids[: max(ends, default=number)])


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
