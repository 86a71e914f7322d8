"""`embed`: texts as vectors."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.lines import InputFile, OutputFile
from glassformer.cli.options import Device, Model, Precision, Threads, open_model
from glassformer.cli.words import check_output, given, given_lines, json_text, put_lines


def embed(
    model: Model,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text; without it lines are read, each a text.")
    ] = None,
    input_file: InputFile = None,
    output: OutputFile = None,
    cut: Annotated[bool, typer.Option("--cut", help="Read only the beginning of texts that are too long.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON list a line; without it, numbers with blanks between.")
    ] = False,
    device: Device = "auto",
    threads: Threads = None,
    precision: Precision = "float32",
) -> None:
    """Print a vector for each text: the mean of its tokens' states, of length one.

    The product of two such vectors is their cosine, which says how alike two texts are to the model. A blank line stays
    blank; as JSON it is null.
    """
    from glassformer.cli.waiting import waiting

    if text is not None and input_file is not None:
        raise typer.BadParameter("give either a text or --input, not both")
    check_output(output)
    lines = given_lines(input_file) if text is None else [given(text)]
    loaded = open_model(model, device, threads, precision)
    with waiting("embedding") as advanced:
        from glassformer.generation.embed import embed_texts

        found = iter(embed_texts(loaded, [line for line in lines if line.strip()], cut=cut, advanced=advanced).tolist())
    vectors = [next(found) if line.strip() else None for line in lines]
    if as_json:
        put_lines((json_text(vector) for vector in vectors), output)
    else:
        put_lines((" ".join(f"{x:.6f}" for x in vector) if vector else "" for vector in vectors), output)
