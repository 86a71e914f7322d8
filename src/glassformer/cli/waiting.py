"""A bar for what takes longer than a moment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def waiting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function to be told (done, total); on a terminal a bar follows it, and vanishes at the end.

    The bar goes to the standard error, so that the output can be piped while one watches.

    Args:
        what: What is being waited for.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda done, total: None
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
