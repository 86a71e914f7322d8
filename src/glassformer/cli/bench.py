"""`bench`: measurements side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Json, Threads, place
from glassformer.cli.words import echo_json, note

if TYPE_CHECKING:
    from glassformer.bench.task import Task


def attention(
    text: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A text whose characters are learned as well, such as input.txt of karpathy/char-rnn on GitHub.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Trainings of each variant.")] = 3,
    only: Annotated[
        str | None, typer.Option(metavar="NAME,NAME", help="Only these variants.", show_default=False)
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where results, tables and pictures go; goes on if it holds some.")
    ] = Path("attention"),
    language: Annotated[str, typer.Option(metavar="NAME", help="Of tables and pictures: en or zh.")] = "en",
    as_json: Json = False,
    threads: Threads = 1,
) -> None:
    """Compare kinds of attention and of positions by what they lose.

    The same small model with one edit, the same data, steps and seeds: recall of a key by its distance, copying, and
    the next character of a text, also beyond the length of training. What the literature reports was written down
    beforehand, and is confirmed, refuted or not decided. Each line of results.jsonl is one training of about a minute;
    all of it takes an hour or more.
    """
    from dataclasses import asdict

    from glassformer.cli.waiting import waiting
    from glassformer.core.files import ensure_writable
    from glassformer.core.wording import known_language

    known_language(language)
    ensure_writable(out, "--out")
    place("cpu", threads)
    with waiting("training") as advanced:
        from glassformer.bench.copying import Copying
        from glassformer.bench.next_character import NextCharacter
        from glassformer.bench.quality import measure_all
        from glassformer.bench.quality_picture import write_pictures
        from glassformer.bench.quality_table import tables
        from glassformer.bench.recall import Recall
        from glassformer.bench.variants import chosen
        from glassformer.data.read import read_text

        variants = chosen(only.split(",") if only else [])
        tasks: list[Task] = [Recall(), Copying()]
        if text is not None:
            tasks.append(NextCharacter(read_text(text).text))
        results = measure_all(tasks, variants, range(seeds), out / "results.jsonl", advanced)
    files = write_pictures(results, out, language)
    if as_json:
        echo_json([asdict(result) for result in results])
    else:
        typer.echo(tables(results, language))
    if text is None:
        note("no text was learned: name one with --text")
    for file in files:
        note(f"picture: {file}")
