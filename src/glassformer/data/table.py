"""Tables from files: TSV, CSV, and lines of a label and a text."""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from glassformer.core.errors import ConfigError, DataError, did_you_mean
from glassformer.data.read import Text, line_numbers, read_text

Column = str | int
"""A column by the name that the header gives it, or by its number from 0 (`1` or `"1"`)."""

SEPARATORS: Mapping[str, str] = MappingProxyType({"tab": "\t", "comma": ",", "space": " "})


@dataclass(frozen=True)
class Table:
    """Some columns of a file.

    Attributes:
        rows: The fields of each row, in the order in which the columns were asked for, exactly as they stand there.
        lines: The line of the file, from 1, in which each row begins.
        notes: What was left out.
    """

    rows: list[tuple[str, ...]]
    lines: list[int]
    notes: tuple[str, ...]


def read_table(
    path: str | Path,
    columns: Sequence[Column],
    *,
    header: bool | None,
    separator: str | None = None,
    encoding: str = "utf-8",
) -> Table:
    """Return some columns of a table, plain or (by its name) `.gz`.

    Between tabs and blanks everything is text, a quotation mark too. Between commas, and any other character, a field
    in quotation marks may hold separators, line breaks and doubled quotation marks. Blank lines are left out and
    counted.

    Args:
        path: The file.
        columns: Which columns. A name needs a header. A number in text is a number, unless the header has that name.
        header: Whether the first line holds the names of the columns; None: if any column is asked for by a name that
            is not a number.
        separator: "tab", "comma", "space" (the first blank of a line: `label rest of the line`) or any character;
            None: comma if the file is a `.csv`, else tab.
        encoding: Any text encoding that Python knows, by name.

    Raises:
        ConfigError: There is no such separator or encoding, or no column is asked for.
        DataError: The file cannot be read, a column is missing, or a row has too few or too many fields.
    """
    path = Path(path).expanduser()
    if not columns:
        raise ConfigError(f"no column of {path} is asked for; name at least 1")
    separator = _separator(path, separator)
    records, blank = [], []
    for line, fields in _records(path, read_text(path, encoding=encoding), separator):
        if len(fields) < 2 and not "".join(fields).strip():
            blank.append(line)
        else:
            records.append((line, fields))
    if header is None:
        header = any(isinstance(column, str) and not column.isdecimal() for column in columns)
    if len(records) <= header:
        raise DataError(f"{path} has 0 rows{' below its header' if records else ''}; give at least 1")
    first, shown = records[0]
    numbers = [_number(path, column, shown if header else None, len(shown)) for column in columns]
    for line, fields in records:
        if len(fields) != len(shown):
            raise DataError(
                f"{path}, line {line} has {len(fields)} field(s) and line {first} has {len(shown)};"
                " correct the line, or name the right separator"
            )
    rows = records[header:]
    return Table(
        rows=[tuple(fields[number] for number in numbers) for _, fields in rows],
        lines=[line for line, _ in rows],
        notes=(f"{path}: blank lines left out: {len(blank)} ({line_numbers(blank)})",) if blank else (),
    )


def _separator(path: Path, separator: str | None) -> str:
    if separator is None:
        return "," if path.name.lower().removesuffix(".gz").endswith(".csv") else "\t"
    if separator in SEPARATORS:
        return SEPARATORS[separator]
    if len(separator) != 1 or separator in '"\r\n\0':
        hint = did_you_mean(separator, SEPARATORS)
        raise ConfigError(f"separator {separator!r} is neither a name nor one possible character{hint}")
    return separator


def _records(path: Path, text: Text, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the fields of each row."""
    if separator in "\t ":
        cuts = 1 if separator == " " else -1
        yield from ((line, row.split(separator, cuts)) for line, row in enumerate(text.lines, start=1))
        return
    reader = csv.reader(io.StringIO(text.text), delimiter=separator, strict=True)
    line = 1
    try:
        for fields in reader:
            yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}: the row from line {line} is no CSV ({error}); check its quotation marks") from error


def _number(path: Path, column: Column, names: list[str] | None, width: int) -> int:
    """Return which column, from 0, is meant."""
    if names is not None and isinstance(column, str) and column in names:
        if names.count(column) > 1:
            raise DataError(
                f"{path} has {names.count(column)} columns named {column!r}; give the number of the one meant"
            )
        return names.index(column)
    if not isinstance(column, str) or column.isdecimal():
        number = int(column)
        if 0 <= number < width:
            return number
    if width == 1:
        raise DataError(
            f"{path} has no column {column!r}: the first line is one column only; does task.separator say what stands"
            " between columns? tab, comma, space or a character"
        )
    near = difflib.get_close_matches(str(column), names or [], n=1)
    hint = did_you_mean(str(column), near) or ";"
    known = f"named {', '.join(map(repr, names))}" if names else "without a header that names them"
    raise DataError(f"{path} has no column {column!r}{hint} there are {width}, numbered from 0, {known}")
