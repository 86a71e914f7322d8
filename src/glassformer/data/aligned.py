"""Pairs of texts, from two files line by line or from one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from glassformer.core.errors import DataError
from glassformer.data.read import line_numbers, read_lines
from glassformer.data.table import Column, read_table


@dataclass(frozen=True)
class TextPairs:
    """Texts with their translation, or whatever else belongs to each.

    Attributes:
        pairs: Source and target; neither is blank.
        lines: The line, from 1, in which each pair stands.
        notes: What was left out.
    """

    pairs: list[tuple[str, str]]
    lines: list[int]
    notes: tuple[str, ...]


def read_aligned(source: str | Path, target: str | Path, *, encoding: str = "utf-8") -> TextPairs:
    """Return the pairs of two files of which line n of one belongs to line n of the other.

    A pair of which a side is empty or blank is left out as a pair, so that no later line meets the wrong one.

    Args:
        source: A file, plain or (by its name) `.gz`.
        target: Another.
        encoding: Of both files.

    Raises:
        ConfigError: There is no such encoding.
        DataError: A file cannot be read, they differ in their number of lines, or no pair is left.
    """
    sources, targets = (read_lines(path, encoding=encoding, allow_empty=True) for path in (source, target))
    if len(sources) != len(targets):
        raise DataError(
            f"{source} has {len(sources)} lines and {target} has {len(targets)}; line n of one belongs to line n of the"
            " other, so give files of equally many lines"
        )
    pairs = list(zip(sources, targets, strict=True))
    return _usable(pairs, range(1, len(pairs) + 1), f"{source} and {target}", ())


def read_pair_table(
    path: str | Path,
    columns: tuple[Column, Column],
    *,
    header: bool | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
) -> TextPairs:
    """Return the pairs that stand in two columns of a table; one with a blank side is left out.

    Args:
        path: The file.
        columns: That of the source and that of the target, by name or number.
        header: As for `read_table`.
        separator: As for `read_table`.
        encoding: Of the file.

    Raises:
        ConfigError: As for `read_table`.
        DataError: As for `read_table`, or no pair is left.
    """
    table = read_table(path, columns, header=header, separator=separator, encoding=encoding)
    return _usable([(source, target) for source, target in table.rows], table.lines, str(path), table.notes)


def _usable(pairs: list[tuple[str, str]], lines: Sequence[int], name: str, notes: tuple[str, ...]) -> TextPairs:
    kept = [bool(source.strip() and target.strip()) for source, target in pairs]
    if not any(kept):
        raise DataError(
            f"0 usable pairs in {name}: of {len(pairs)}, each has an empty side; give at least 1 whole pair"
        )
    dropped = [line for line, keep in zip(lines, kept, strict=True) if not keep]
    if dropped:
        notes += (f"{name}: {len(dropped)} of {len(pairs)} pairs dropped (empty side), {line_numbers(dropped)}",)
    return TextPairs(
        pairs=[pair for pair, keep in zip(pairs, kept, strict=True) if keep],
        lines=[line for line, keep in zip(lines, kept, strict=True) if keep],
        notes=notes,
    )
