"""Text on its way in and out: as people read it, and as scripts and shells do."""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from glassformer.core.errors import DataError


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
    stream: Any = sys.stdin
    if stream is None:
        raise DataError("the text is to come from the standard input (-), but that is closed; pipe a text in")
    raw = stream.buffer.read()
    try:
        content: str = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"the standard input is not UTF-8: byte 0x{raw[error.start]:02X} at offset {error.start}; convert it first"
        ) from error
    return content.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")


def echo_json(content: Any) -> None:
    """Print one JSON value on one line; a number that is not finite, which JSON cannot say, is null."""
    encoding = (sys.stdout.encoding or "ascii").lower() if sys.stdout is not None else "ascii"
    typer.echo(json.dumps(_sayable(content), ensure_ascii=not encoding.startswith("utf"), allow_nan=False))


def quoted(path: Path | str) -> str:
    """Return a path as it can be pasted into a command."""
    return shlex.quote(str(path))


def counted(number: int, noun: str) -> str:
    """Return "1 token", "2,000 tokens", "2 batches"."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def clock(seconds: float) -> str:
    """Return a duration as minutes and seconds, or hours and minutes."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600}:{whole % 3600 // 60:02} h"
    return f"{whole // 60}:{whole % 60:02}"


def metrics_line(metrics: Mapping[str, float]) -> str:
    """Return metrics as a person reads them: shares as percentages; the number of tokens is left out."""
    shown = []
    for name, value in metrics.items():
        if name == "exact_match":
            shown.append(f"exact match {100 * value:.1f} %")
        elif name != "tokens":
            shown.append(f"{name} {value:.4f}" if value < 1e6 else f"{name} {value:.2e}")
    return "  ".join(shown)


def _sayable(content: Any) -> Any:
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, dict):
        return {name: _sayable(value) for name, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_sayable(value) for value in content]
    return content
