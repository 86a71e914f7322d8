"""The program `glassformer`: its verbs, and what becomes of a user's mistake."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, TextIO

import typer

from glassformer.cli import look, use
from glassformer.cli import train as training
from glassformer.core.errors import GlassformerError
from glassformer.version import __version__

app = typer.Typer(
    name="glassformer",
    help="A Transformer you can see through: build, train, run and look into it.",
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


app.command(epilog="Example: glassformer demo --out runs/first")(training.demo)
app.command(epilog="Example: glassformer train shakespeare --set task.text=book.txt --set training.max_steps=500")(
    training.train
)
app.command("eval", epilog="Example: glassformer eval runs/reverse-1 --json")(use.evaluate)
app.command(epilog='Example: glassformer generate runs/shakespeare-1 "ROMEO:" --temperature 0.8 --stream')(use.generate)
app.command(epilog="Example: glassformer score runs/reverse-1 31415 --target 51413")(use.score)
app.command(epilog="Example: glassformer summary preset:paper-base")(look.summary)
app.command(epilog="Example: glassformer sites runs/reverse-1")(look.sites)


def main() -> None:
    """Run the program; a user's mistake is one clear message and exit code 1, never a traceback."""
    for out in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets an escape for it and not a crash.
        out.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    warnings.showwarning = _show_warning
    try:
        app()
    except GlassformerError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone, as `| head` does
        sys.exit(141)
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
        sys.exit(130)


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
