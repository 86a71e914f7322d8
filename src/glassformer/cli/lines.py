"""`translate` and `predict`: a line in, a line out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from glassformer.cli.options import Device, Precision, RunFolder, Threads, compile_operators, open_model
from glassformer.cli.words import (
    check_output,
    counted,
    given,
    given_lines,
    json_text,
    named_as_options,
    note,
    put_lines,
)

if TYPE_CHECKING:
    from glassformer.generation.hypothesis import Hypothesis

InputFile = Annotated[
    Path | None,
    typer.Option("--input", metavar="FILE", help="A text a line; standard input when not given.", show_default=False),
]
OutputFile = Annotated[
    Path | None,
    typer.Option(
        "--output", metavar="FILE", help="Where to write; standard output when not given.", show_default=False
    ),
]


def translate(
    run: RunFolder,
    input_file: InputFile = None,
    output: OutputFile = None,
    beam: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Beginnings followed side by side; the run's own when not given."),
    ] = None,
    nbest: Annotated[
        int, typer.Option(metavar="N", min=1, help="Above 1: N lines each, with line number and score before the text.")
    ] = 1,
    length_penalty: Annotated[
        float | None,
        typer.Option(metavar="A", help="0 favours short translations, 1 compares means; the run's own when not given."),
    ] = None,
    over_long: Annotated[
        str, typer.Option(metavar="WAY", help="With lines longer than the context: error, cut or skip.")
    ] = "error",
    fast: Annotated[
        Literal["auto", "off"],
        typer.Option(help="off: the model as it is written; auto: by code of our own where that is faster."),
    ] = "auto",
    device: Device = "auto",
    threads: Threads = None,
    precision: Precision = "float32",
) -> None:
    """Translate line by line: one line in, one line out, always.

    A blank line stays blank, so that line n of the output belongs to line n of the input.
    """
    from glassformer.cli.waiting import waiting

    check_output(output)
    lines = given_lines(input_file)
    loaded = open_model(str(run), device, threads, precision)
    if fast != "off":
        compile_operators(loaded.model.device)
    with waiting("translating") as advanced:
        from glassformer.generation.config import BeamConfig
        from glassformer.generation.lines import answer_lines, on_one_line
        from glassformer.training.run import read_recipe

        advanced(0, len(lines))
        judging = read_recipe(run).task.judging
        width = beam or max(judging.beam, nbest)
        penalty = judging.length_penalty if length_penalty is None else length_penalty
        with named_as_options():
            config = BeamConfig.parse({"beam": width, "n_best": nbest, "length_penalty": penalty, "fast": fast})
        done = answer_lines(loaded, lines, config, over_long=over_long, advanced=advanced)
    if nbest == 1:
        put_lines((on_one_line(found[0].text) if found else "" for found in done.found), output)
    else:
        put_lines(
            (line for number, found in enumerate(done.found, 1) for line in _ranked(number, found, nbest)), output
        )
    for what, numbers in (("cut", done.cut), ("skipped", done.skipped)):
        if numbers:
            note(f"{counted(len(numbers), 'line')} too long and {what}, the first of them line {numbers[0]}")
    if done.unknown:
        note(f"{counted(done.unknown, 'token')} unknown to this model")
    unfinished = sum(bool(found) and found[0].stop_reason != "eos" for found in done.found)
    if unfinished:
        were = "was" if unfinished == 1 else "were"
        note(f"{counted(unfinished, 'translation')} did not end and {were} cut; the model may need more training")


def _ranked(number: int, found: Sequence[Hypothesis], nbest: int) -> Iterator[str]:
    """Line number, score and text of each hypothesis; where there are fewer than asked for, nothing but the number."""
    from glassformer.generation.lines import on_one_line

    for each in found:
        yield f"{number}\t{each.score:.4f}\t{on_one_line(each.text)}"
    for _ in range(nbest - len(found)):
        yield f"{number}\t\t"


def predict(
    run: RunFolder,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text to label; without it lines are read.")
    ] = None,
    second: Annotated[
        str | None, typer.Argument(metavar="SECOND", help="The second text, where two are judged together.")
    ] = None,
    input_file: InputFile = None,
    output: OutputFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON value a line, with the probability of every label.")
    ] = False,
    device: Device = "auto",
    threads: Threads = None,
    precision: Precision = "float32",
) -> None:
    """Label new texts: for each line its label and how probable it is.

    Where two texts are judged together, a line holds both, with a tab between them. A blank line stays blank; as JSON
    it is null.
    """
    from glassformer.cli.waiting import waiting

    if text is not None and input_file is not None:
        raise typer.BadParameter("give either a text or --input, not both")
    check_output(output)
    lines = given_lines(input_file) if text is None else []
    loaded = open_model(str(run), device, threads, precision)
    with waiting("labelling") as advanced:
        from glassformer.training.predict import predict as predict_texts
        from glassformer.training.predict import texts_of
        from glassformer.training.run import read_recipe

        task = read_recipe(run).task
        if text is None:
            rows = texts_of(lines, task)
        elif second is None and "\t" in text:
            rows = texts_of([given(text)], task)
        else:
            rows = [tuple(given(each) for each in (text, second) if each is not None)]
        blank = [not "".join(row).strip() for row in rows]
        full = [row for row, empty in zip(rows, blank, strict=True) if not empty]
        advanced(0, len(full))
        found = predict_texts(loaded, task, full, advanced=advanced)
    rest = iter(found)
    said = [None if empty else next(rest) for empty in blank]
    put_lines((json_text(each) if as_json else "" if each is None else each.line for each in said), output)
    unknown, cut = sum(each.unknown for each in found), sum(each.cut > 0 for each in found)
    if unknown:
        note(f"{counted(unknown, 'token')} unknown to this model")
    if cut:
        note(f"{counted(cut, 'text')} too long and cut")
