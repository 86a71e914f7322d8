"""Text on its way in and out: as people read it, and as scripts and shells do."""

from __future__ import annotations

import gzip
import json
import math
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import typer

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.metric import METRICS, Measured, in_order, spoken

NAME_WIDTH = 9
"""Columns of the names of what is said of a run."""

OTHER_NAMES: Mapping[str, str] = MappingProxyType({"top": "probs", "n_best": "nbest"})
"""Options of the command line that are called otherwise than their settings."""


def given(text: str) -> str:
    """Return the text of an argument; `-` stands for all of the standard input.

    Both are UTF-8, whatever the machine's locale says, as every file is.

    Raises:
        DataError: The standard input is closed or not UTF-8.
    """
    if text != "-":
        try:
            return text.encode("utf-8", "surrogateescape").decode("utf-8")  # undoes what an ASCII locale did
        except UnicodeError:
            return text  # the tokenizer says what is wrong with it
    return _standard_input().removesuffix("\n")


def given_lines(path: Path | None) -> list[str]:
    """Return the lines of a file, or of the standard input; none of an empty one.

    Raises:
        DataError: The file cannot be read; the standard input is closed or not UTF-8.
    """
    if path is not None:
        from glassformer.data.read import read_lines

        return read_lines(path, allow_empty=True)
    lines = _standard_input(in_lines=True).split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _standard_input(in_lines: bool = False) -> str:
    stream: Any = sys.stdin
    if stream is None:
        raise DataError("the text is to come from the standard input, but that is closed; pipe a text in")
    if stream.isatty():
        note("reading what is typed; Ctrl-D on an empty line ends it")
    raw = stream.buffer.read()
    try:
        content: str = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        offset = len(raw) - len(error.object) + error.start  # utf-8-sig counts from behind its mark
        line = _unified(raw[:offset].decode("utf-8", errors="replace")).count("\n") + 1
        where = f"in line {line}, at offset {offset}" if in_lines else f"at offset {offset}"
        raise DataError(
            f"the standard input is not UTF-8: byte 0x{raw[offset]:02X} {where}; convert it first"
        ) from error
    return _unified(content)


def _unified(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def note(text: str) -> None:
    """Say something beside the result, on the standard error."""
    typer.echo(f"note: {text}", err=True)


def check_output(path: Path | None) -> None:
    """Make sure that a file can be written, before any work is done for it.

    Raises:
        CheckpointError: It cannot.
    """
    if path is None or is_stream(path):
        return
    from glassformer.core.files import ensure_writable

    if path.is_dir():
        raise typer.BadParameter(f"--output {path} is a folder; name a file in it")
    ensure_writable(path.parent, "--output")


def is_stream(path: Path) -> bool:
    """True for a pipe or a device, such as /dev/stdout: it is written to, and no file can take its place."""
    return path.exists() and not path.is_file() and not path.is_dir()


def put_lines(lines: Iterable[str], path: Path | None) -> None:
    """Write lines to a file, whole or not at all, and say so; to the standard output; or into a pipe or device.

    Args:
        lines: Without their breaks.
        path: A file, compressed if its name ends in `.gz`, as it is read; None = the standard output.
    """
    if path is None:
        for line in lines:
            typer.echo(line)
        return
    from glassformer.core.files import write_atomically

    written = [f"{line}\n" for line in lines]
    content = "".join(written).encode("utf-8")
    if is_stream(path):
        path.write_bytes(content)
        return
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    write_atomically(path, lambda partial: _write_bytes(partial, content), len(content))
    typer.echo(f"{path}: {counted(len(written), 'line')}")


def echo_json(content: Any) -> None:
    """Print one JSON value on one line; a number that is not finite, which JSON cannot say, is null."""
    typer.echo(json_text(content))


def json_text(content: Any) -> str:
    """Return a value, or the fields of a dataclass, as one line of JSON that the standard output can show."""
    encoding = (sys.stdout.encoding or "ascii").lower() if sys.stdout is not None else "ascii"
    plain = asdict(content) if is_dataclass(content) and not isinstance(content, type) else content
    return json.dumps(_sayable(plain), ensure_ascii=not encoding.startswith("utf"), allow_nan=False)


@contextmanager
def named_as_options() -> Iterator[None]:
    """Name the settings of generation in an error as the command line does."""
    try:
        yield
    except ConfigError as error:
        message = re.sub(
            r"(?m)^(?:stop|seed|temperature|beam|top)\b|\b[a-z]+(?:_[a-z]+)+\b",
            lambda found: f"--{OTHER_NAMES.get(found[0], found[0].replace('_', '-'))}",
            str(error),
        )
        raise typer.BadParameter(message) from None


def quoted(path: Path | str) -> str:
    """Return a path as it can be pasted into a command."""
    return shlex.quote(str(path))


def counted(number: int, noun: str) -> str:
    """Return "1 token", "2,000 tokens", "2 batches"."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def named(name: str, text: str, width: int | None = None) -> str:
    """Return a text behind its name, in a column of its own.

    Args:
        name: At most 8 characters.
        text: What it is.
        width: Where lines end, between words (what has no blank, such as a path, stays whole); None = nowhere.
    """
    room = None if width is None else width - NAME_WIDTH
    lines = (
        [text] if room is None else textwrap.wrap(text, max(20, room), break_long_words=False, break_on_hyphens=False)
    )
    return f"{name:{NAME_WIDTH}}" + f"\n{' ' * NAME_WIDTH}".join(lines)


def terminal_width() -> int | None:
    """Return how many columns the terminal has; None where the output is no terminal, and lines stay whole."""
    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None


def listing(rows: Sequence[tuple[str, str]], width: int | None = None) -> Iterator[str]:
    """Yield lines of names, each with its text beside it, or below it where there is no room beside it.

    Args:
        rows: Names and texts.
        width: Where lines end, between words; None = nowhere.
    """
    indent = max(len(name) for name, _ in rows) + 2
    for name, text in rows:
        if width is None or indent + len(text) <= width:
            yield f"{name:<{indent}}{text}"
            continue
        beside = width - indent >= 30
        margin = indent if beside else 2
        first, *rest = textwrap.wrap(text, max(20, width - margin), break_long_words=False, break_on_hyphens=False)
        yield from (f"{name:<{indent}}{first}",) if beside else (name, f"  {first}")
        yield from (" " * margin + line for line in rest)


def clock(seconds: float) -> str:
    """Return a duration as minutes and seconds, or hours and minutes."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600}:{whole % 3600 // 60:02} h"
    return f"{whole // 60}:{whole % 60:02}"


def metrics_line(metrics: Measured) -> str:
    """Return metrics as a person reads them, what was most likely asked for first.

    Counts are left out, but for how many answers were right or wrong; so is perplexity, which only says the loss once
    more, where there is something else to say.
    """
    judging = {name: value for name, value in in_order(metrics).items() if name in METRICS and METRICS[name].judges}
    if len(judging) > len({"loss", "perplexity"}):
        judging.pop("perplexity", None)
    judged = {"exact_match": "pairs", "accuracy": "texts"}
    of = {name: f" of {metrics[count]:,}" for name, count in judged.items() if count in metrics}
    return "  ".join(
        f"{METRICS[name].label} {spoken(name, value)}{of.get(name, '')}" for name, value in judging.items()
    )


def _write_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _sayable(content: Any) -> Any:
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, dict):
        return {name: _sayable(value) for name, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_sayable(value) for value in content]
    return content
