"""`check`: an examination of a Transformer, or of a part of one."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Device, Json, Threads, open_transformer, place
from glassformer.cli.words import echo_json, listing, quoted, terminal_width

if TYPE_CHECKING:
    from glassformer.diagnosis.report import Report

WIDTH = 100
"""Columns where the output is no terminal."""


def check(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL | FILE.py:NAME",
            help="A run folder, a checkpoint folder, preset:NAME; or a class, a function or an object in a file of "
            "yours; or a filled-in template.",
            show_default=False,
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="KIND",
            help="What it is: decoder, encoder, encoder_decoder, or a kind of part such as multi_head.",
            show_default=False,
        ),
    ] = None,
    expect: Annotated[
        str | None,
        typer.Option(metavar="WORD", help="What is said of a part: pre or post, or paper.", show_default=False),
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="KEY,KEY", help="Only these properties; see --list.", show_default=False)
    ] = None,
    template: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a file there that asks how to call it.", show_default=False),
    ] = None,
    exercise: Annotated[
        bool,
        typer.Option(
            "--exercise", help="The ladder of exercises, or the one that is named: begin it, or have it read."
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the exercises are.", show_default=False)
    ] = None,
    known: Annotated[bool, typer.Option("--list", help="Print the properties, and what each is.")] = False,
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=2**32 - 1, help="Of everything random.")] = 0,
    language: Annotated[str, typer.Option(metavar="NAME", help="Of the verdicts: en or zh.")] = "en",
    as_json: Json = False,
    device: Device = "cpu",
    threads: Threads = None,
) -> None:
    """Examine a Transformer or a part of one, also one that you wrote.

    It is run, not read: what must not change is changed nowhere, what must is. The exit code is 1 if a property
    fails. With --exercise: write and check the parts yourself, one after another.
    """
    from glassformer.core.wording import known_language

    known_language(language)
    keys = None if only is None else [key.strip() for key in only.split(",")]
    if known:
        _print_properties(kind, language)
    elif exercise:
        _exercise(model, out or Path(), language)
    elif model is None:
        raise typer.BadParameter(
            "name a model, or FILE.py:NAME; --list says what is examined, --exercise what to write"
        )
    elif template is not None and kind is not None and _is_part(kind):
        from glassformer.diagnosis.parts.template import write_part_template

        name = write_part_template(template, model, kind)
        typer.echo(f"{template}: fill it in, then run  glassformer check {quoted(f'{template}:{name}')} --as {kind}")
    elif template is not None:
        from glassformer.diagnosis.template import write_template

        write_template(template, model)
        typer.echo(f"{template}: fill it in, then run  glassformer check {quoted(template)}")
    else:
        with redirect_stdout(sys.stderr):  # what the code that is examined prints is no part of the report
            report = _examine(model, kind, expect, keys, seed, device, threads)
        if as_json:
            echo_json(report.as_dict(language))
        else:
            for line in report.lines(language, terminal_width() or WIDTH):
                typer.echo(line)
        if not report.ok:
            raise typer.Exit(1)


def _is_part(kind: str) -> bool:
    from glassformer.diagnosis.check import KINDS

    return kind not in KINDS


def _examine(
    source: str,
    kind: str | None,
    expect: str | None,
    only: list[str] | None,
    seed: int,
    device: str,
    threads: int | None,
) -> Report:
    from glassformer.cli.waiting import waiting
    from glassformer.core.user_code import is_user_code, load_user_code
    from glassformer.diagnosis.check import KINDS, check, model_kind

    whole = model_kind(kind) if kind in KINDS else None
    if source.endswith(".py"):
        from glassformer.diagnosis.template import subject_from

        with waiting("examining") as advanced:
            return check(subject_from(Path(source)), name=source, only=only, seed=seed, advanced=advanced)
    if not is_user_code(source):
        if kind is not None and whole is None:
            from glassformer.diagnosis.parts.recognise import kind_named

            kind_named(kind)
            raise typer.BadParameter(f"--as {kind} is for FILE.py:NAME; {source} is a whole model")
        opened = open_transformer(source, device, threads)
        with waiting("examining") as advanced:
            return check(opened, name=source, kind=whole, only=only, seed=seed, advanced=advanced)
    where = place(device, threads)
    code = load_user_code(source)
    with waiting("examining") as advanced:
        from glassformer.diagnosis.user_model import examine_named

        return examine_named(
            code.value, code.name, kind=kind, expect=expect, only=only, seed=seed, device=where, advanced=advanced
        )


def _print_properties(kind: str | None, language: str) -> None:
    from glassformer.diagnosis.check import KINDS
    from glassformer.diagnosis.model.properties import MODEL_PROPERTIES

    properties = MODEL_PROPERTIES
    if kind is not None and kind not in KINDS:
        from glassformer.diagnosis.parts.recognise import kind_named

        properties = kind_named(kind).properties
    rows = [(each.key, each.words.say(f"{each.key}.name", language)) for each in properties]
    for line in listing(rows, terminal_width()):
        typer.echo(line)


def _exercise(name: str | None, folder: Path, language: str) -> None:
    from glassformer.cli.waiting import waiting
    from glassformer.diagnosis.exercises.ladder import attempt, overview

    if name is None:
        for line in overview(folder, language):
            typer.echo(line)
        return
    with waiting("examining") as advanced:
        tried = attempt(name, folder, language, width=terminal_width() or WIDTH, advanced=advanced)
    for line in tried.lines:
        typer.echo(line)
    if not tried.ok:
        raise typer.Exit(1)
