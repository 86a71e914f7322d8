"""What becomes of a mistake: one clear message and an exit code, never a traceback."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import NoReturn, ParamSpec

import typer

from glassformer.core.errors import GlassformerError

P = ParamSpec("P")

SHOWN_LINES = 8
"""A message is to be read: of a checkpoint with 200 wrong shapes the first ones say enough."""

NO_MEMORY = re.compile(
    r"can't allocate memory: you tried to allocate (\d+) bytes|out of memory|Storage size calculation overflowed"
)
"""How torch says it; on a CPU it has no kind of error for it."""


def guarded(verb: Callable[P, None]) -> Callable[P, None]:
    """Return the verb, which now ends with exit code 1 for a mistake, 130 for Ctrl-C, 141 for a reader that left."""

    @wraps(verb)
    def run(*args: P.args, **options: P.kwargs) -> None:
        try:
            verb(*args, **options)
        except typer.Exit:
            raise
        except GlassformerError as error:
            _fail(str(error))
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)
            raise typer.Exit(130) from None
        except SystemExit as error:  # ours is typer.Exit: code of the user's own that is run calls exit()
            _fail(f"the code that is run ended the program, exit({error.code}); it must return or raise an error")
        except BrokenPipeError:  # whoever read our output has gone, as `| head` does
            _drop_output()
            raise typer.Exit(141) from None
        except OSError as error:
            _drop_output()
            _fail(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        except (MemoryError, RuntimeError) as error:
            found = NO_MEMORY.search(str(error))
            if found is None and not isinstance(error, MemoryError):
                raise
            wanted = f" for {int(found[1]) / 2**30:,.1f} GiB at once" if found and found[1] else ""
            _fail(f"not enough memory{wanted}; choose a smaller model, batch or context")

    return run


def _fail(message: str) -> NoReturn:
    lines = f"error: {message}".splitlines()
    if len(lines) > SHOWN_LINES:
        lines = [*lines[: SHOWN_LINES - 1], f"  ... and {len(lines) - SHOWN_LINES + 1} more"]
    for line in lines:
        typer.echo(line, err=True)
    raise typer.Exit(1)


def _drop_output() -> None:
    """Forget what a dead standard output holds back: Python would try to write it again at its very end."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
