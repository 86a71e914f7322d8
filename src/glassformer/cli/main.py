"""The program `glassformer` and its verbs."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any, TextIO

import typer

from glassformer.cli import bench, folders, lines, look, use, vectors
from glassformer.cli import check as checking
from glassformer.cli import inspect as inspecting
from glassformer.cli import trace as tracing
from glassformer.cli import train as training
from glassformer.cli.guard import guarded
from glassformer.version import __version__

app = typer.Typer(
    name="glassformer",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"glassformer {__version__}")
        raise typer.Exit


@app.callback(epilog="Start with: glassformer demo")
def _glassformer(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """A Transformer you can see through: build, train, run and look into it."""


benches = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(benches, name="bench", help="Measure side by side.")


def _verb(name: str, run: Callable[..., None], example: str, to: typer.Typer = app) -> None:
    """Add a verb; its docstring is its help, and the docstring's first line all that the overview says of it."""
    line = (inspect.getdoc(run) or "").partition("\n")[0]
    to.command(name, short_help=line, epilog=f"Example: {example}")(guarded(run))


_verb("demo", training.demo, "glassformer demo --out runs/first")
_verb("train", training.train, "glassformer train language_model --set task.text=book.txt --out runs/book")
_verb("eval", use.evaluate, "glassformer eval runs/book --json")
_verb("translate", lines.translate, "glassformer translate runs/multi30k --input de.txt --output en.txt")
_verb("predict", lines.predict, 'glassformer predict runs/trec "Who wrote it ?"')
_verb("generate", use.generate, 'glassformer generate runs/book "The " --temperature 0.8 --stream')
_verb("score", use.score, "glassformer score runs/first 31415 --target 51413")
_verb("inspect", inspecting.inspect, "glassformer inspect runs/first 31415 --png pictures")
_verb("trace", tracing.trace, "glassformer trace runs/first 31415")
_verb("check", checking.check, "glassformer check my_model.py:GPT")
_verb("embed", vectors.embed, 'glassformer embed minilm "A sentence." --json')
_verb("convert", folders.convert, "glassformer convert runs/book book-hf --to hf")
_verb("verify", folders.verify, "glassformer verify book-hf")
_verb("summary", look.summary, "glassformer summary preset:paper-base")
_verb("sites", look.sites, "glassformer sites runs/first")
_verb("train", bench.train, "glassformer bench train --size small", benches)
_verb("translate", bench.translate, "glassformer bench translate --against ctranslate2 --threads 2", benches)
_verb("decode", bench.decode, "glassformer bench decode --against llama.cpp --json", benches)
_verb("prefill", bench.prefill, "glassformer bench prefill --precision float32", benches)
_verb("startup", bench.startup, "glassformer bench startup --turns 5", benches)
_verb("gains", bench.gains, "glassformer bench gains --threads 2", benches)
_verb("attention", bench.attention, "glassformer bench attention --text input.txt --out attention", benches)


def main() -> None:
    """Run the program."""
    streams: list[Any] = [sys.stdout, sys.stderr]
    for out in streams:
        if out is not None:  # a program may be started with a stream closed
            # A terminal that cannot show a character gets an escape for it and not a crash.
            out.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning
    app(prog_name="glassformer")


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning as one line for the user, without the place in the code."""
    typer.echo(f"warning: {message}", err=True)
