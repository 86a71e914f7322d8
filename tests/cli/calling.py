"""How the tests call the command line, and what they ask of its answers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from typer.testing import CliRunner, Result

import glassformer
from glassformer.cli.main import app

TINY = ("training.max_steps=4", "model.d_model=16", "model.n_heads=2", "model.n_layers=1")
SEQUENCES = (*TINY, "task.test_size=20", "task.valid_size=10")
TEXT = (*TINY, "task.context=16")

GERMAN = {"rot": "red", "blau": "blue", "Hund": "dog", "Katze": "cat", "sieht": "sees", "und": "and", "ein": "a"}
QUESTIONS = {"who": "person", "where": "place", "how many": "number"}

BOOK = "The quick brown fox jumps over the lazy dog, and then it sleeps. 我们今天去看山看水，天上有云。🎉\n" * 40


def sets(*edits: str) -> list[str]:
    """Each edit with its --set."""
    return [part for edit in edits for part in ("--set", edit)]


def call(*arguments: str | Path, typed: str | bytes | None = None) -> Result:
    """Run the command line in this process; what it does not catch is an error of the test."""
    return CliRunner().invoke(
        app, [str(argument) for argument in arguments], input=typed, prog_name="glassformer", catch_exceptions=False
    )


def process(code: str, *arguments: str | Path) -> tuple[list[str], dict[str, str]]:
    """The command and environment of a Python process that runs some code with this package, wherever it is."""
    root = str(Path(glassformer.__file__).parents[1])
    return [sys.executable, "-c", code, *map(str, arguments)], os.environ | {"PYTHONPATH": root}


PROGRAM = "from glassformer.cli.main import main; main()"


def train(*arguments: str | Path) -> Result:
    """Train, and be sure that it worked."""
    result = call("train", *arguments)
    assert result.exit_code == 0, result.output
    return result


def refused(result: Result, *says: str, code: int = 1) -> str:
    """Be sure that a mistake was told on the standard error, briefly and in these words, and nothing else was said."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) <= 8
    for words in says:
        assert words in result.stderr
    return result.stderr
