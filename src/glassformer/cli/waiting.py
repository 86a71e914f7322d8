"""A bar for what takes longer than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

PAUSE, GROWTH = 2.0, 1.2
"""Seconds between two lines at first, and how much longer all took at the next one than at the one before."""


@contextmanager
def waiting(what: str, *, piped: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Yield a function to be told (done, total); on a terminal a bar follows it, and vanishes at the end.

    The bar goes to the standard error, so that the output can be piped while one watches.

    Args:
        what: What is being waited for.
        piped: Whether lines stand in for the bar where there is no terminal: for what takes minutes in any case.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield _lines(what) if piped and sys.stderr is not None else lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    with Progress(
        TextColumn(what),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TaskProgressColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
    ) as bar:
        task = bar.add_task(what, total=None, count="")
        yield lambda done, total: bar.update(task, completed=done, total=total, count=f"{done:,}/{total:,}")


def _lines(what: str) -> Callable[[int, int], None]:
    """Say a line now, and others as it goes on: ever fewer, so that an hour has about thirty."""
    begun = time.monotonic()
    due = PAUSE
    typer.echo(what, err=True)

    def advanced(done: int, total: int) -> None:
        nonlocal due
        seconds = time.monotonic() - begun
        if seconds >= due:
            due = GROWTH * seconds + PAUSE
            typer.echo(f"{what}: {done:,}/{total:,} after {seconds:,.0f} s", err=True)

    return advanced
