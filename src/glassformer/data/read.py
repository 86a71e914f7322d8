"""Text from files: UTF-8 unless another encoding is named, whatever the machine's locale says."""

from __future__ import annotations

import codecs
import difflib
import gzip
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from encodings.aliases import aliases
from pathlib import Path

from glassformer.core.errors import ConfigError, DataError, did_you_mean

REPLACEMENT = "\ufffd"
LINES_NAMED = 10
NULS = 0.2
"""A file of which at least this share are NUL characters holds two or four bytes a character, or no text."""


@dataclass(frozen=True)
class Text:
    """What a file says.

    Attributes:
        text: The characters, without a byte order mark; every line break is a '\\n'.
        replaced: How often bytes that are not of the encoding became U+FFFD; always 0 unless that was asked for.
    """

    text: str
    replaced: int

    @property
    def lines(self) -> list[str]:
        """The lines without their breaks; a break at the very end opens no further line.

        Only '\\n' breaks a line. `str.splitlines` also breaks at U+2028 and form feeds, and two files of
        sentence pairs would drift apart where one side holds such a character.
        """
        lines = self.text.split("\n")
        return lines[:-1] if lines[-1] == "" else lines


def read_text(
    path: str | Path, replace_invalid: bool = False, *, encoding: str = "utf-8", allow_empty: bool = False
) -> Text:
    """Return the text of a file, plain or (by its name) `.gz`.

    Args:
        path: The file.
        replace_invalid: Turn bytes that are not of the encoding into U+FFFD and count them, instead of refusing.
        encoding: Any text encoding that Python knows, by name.
        allow_empty: Whether a file without a character is a text too.

    Raises:
        ConfigError: There is no such encoding.
        DataError: The file is missing, a folder, empty, damaged, or not of that encoding.
    """
    path = Path(path).expanduser()
    check_encoding(encoding)
    data = _bytes(path)
    try:
        text, replaced = data.decode(encoding), 0
    except UnicodeDecodeError as error:
        if not replace_invalid:
            raise DataError(_wrong_byte(path, data, encoding, error)) from error
        text = data.decode(encoding, errors="replace")
        # Some may stand in the file itself: those are still there when what is wrong is left out.
        replaced = text.count(REPLACEMENT) - data.decode(encoding, errors="ignore").count(REPLACEMENT)
    if text and text.count("\0") >= NULS * len(text):
        raise DataError(
            f"{path} holds {text.count(chr(0)):,} NUL characters among {len(text):,}: it is UTF-16, UTF-32 or no text;"
            f" {_as(encoding)}"
        )
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if not text and not allow_empty:
        raise DataError(f"{path} is empty; give a file with text in it")
    return Text(text, replaced)


def read_lines(path: str | Path, *, encoding: str = "utf-8", allow_empty: bool = False) -> list[str]:
    """Return the lines of a file, empty ones included, without their breaks.

    Args:
        path: The file, plain or (by its name) `.gz`.
        encoding: Any text encoding that Python knows, by name.
        allow_empty: Whether a file without a character is a text too, of no lines.

    Raises:
        ConfigError: As for `read_text`.
        DataError: As for `read_text`.
    """
    return read_text(path, encoding=encoding, allow_empty=allow_empty).lines


def line_numbers(lines: Sequence[int]) -> str:
    """Return the numbers of some lines in words: "line 7", or "lines 2, 3", or the first ten and how many more.

    Args:
        lines: At least 1.
    """
    more = f" and {len(lines) - LINES_NAMED} more" if len(lines) > LINES_NAMED else ""
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines[:LINES_NAMED]))}{more}"


def check_encoding(encoding: str) -> None:
    """Make sure that an encoding can be read.

    Raises:
        ConfigError: Python knows none of that name, or it is not one of text in files.
    """
    try:
        "".encode(encoding)
        usable = codecs.lookup(encoding).name not in ("idna", "punycode")
    except (LookupError, ValueError):
        usable = False
    if not usable:
        name = encoding.lower().replace("-", "_")
        near = difflib.get_close_matches(name, sorted({*aliases, *aliases.values()}), n=1)
        others = "; Python's encodings of text can be read, such as utf-8, utf-16, latin-1, cp1252, gb18030, big5"
        raise ConfigError(f"there is no encoding {encoding!r}{did_you_mean(name, near) or others}")


def default_text() -> str:
    """Return a text that every Python has on disk: the topics of its own `help()`.

    About half a million characters of English, the same in every run of one Python version; enough to try a
    language model without a download.
    """
    from pydoc_data.topics import topics  # half a megabyte, read only when asked for

    return "\n".join(topics[name] for name in sorted(topics))


def _bytes(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except FileNotFoundError as error:
        raise DataError(_missing(path)) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not a whole gzip file ({error}); fetch or compress it again") from error
    except OSError as error:
        if path.is_dir():
            raise DataError(f"{path} is a folder; name a file in it") from error
        raise DataError(f"cannot read {path} ({error.strerror}); make it readable or name another") from error


def _missing(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"there is no file {path}, nor the folder {folder}; check the path"
    near = difflib.get_close_matches(path.name, os.listdir(folder), n=1)
    return f"there is no file {path}{did_you_mean(path.name, near) or '; check the name'}"


def _wrong_byte(path: Path, data: bytes, encoding: str, error: UnicodeDecodeError) -> str:
    offset = len(data) - len(error.object) + error.start  # utf-8-sig counts from behind its mark
    before = data[:offset].decode(encoding, errors="replace")
    line = before.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
    return (
        f"{path} is not {_spoken(encoding)}: byte 0x{data[offset]:02X} in line {line}, at byte offset {offset}"
        f" (from 0); {_as(encoding)}"
    )


def _as(encoding: str) -> str:
    name = _spoken(encoding)
    return f"save the file as {name}, or name the encoding it has (of pairs and tables: task.encoding=NAME)"


def _spoken(encoding: str) -> str:
    return "UTF-8" if codecs.lookup(encoding).name == "utf-8" else encoding
