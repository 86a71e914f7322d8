"""Text from files: always UTF-8, whatever the machine's locale says."""

from __future__ import annotations

import difflib
import gzip
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

from glassformer.core.errors import DataError, did_you_mean

REPLACEMENT = "\ufffd"


@dataclass(frozen=True)
class Text:
    """What a file says.

    Attributes:
        text: The characters, without a byte order mark; every line break is a '\\n'.
        replaced: How often bytes that are no UTF-8 became U+FFFD; always 0 unless that was asked for.
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


def read_text(path: str | Path, replace_invalid: bool = False) -> Text:
    """Return the text of a UTF-8 file, plain or (by its name) `.gz`.

    Args:
        path: The file.
        replace_invalid: Turn bytes that are no UTF-8 into U+FFFD and count them, instead of refusing.

    Raises:
        DataError: The file is missing, a folder, empty, damaged, or not UTF-8.
    """
    path = Path(path).expanduser()
    data = _bytes(path)
    try:
        text, replaced = data.decode("utf-8"), 0
    except UnicodeDecodeError as error:
        if not replace_invalid:
            raise DataError(_not_utf8(path, data, error.start)) from error
        text = data.decode("utf-8", errors="replace")
        replaced = text.count(REPLACEMENT) - data.count(REPLACEMENT.encode())  # some may stand in the file
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if not text:
        raise DataError(f"{path} is empty; give a file with text in it")
    return Text(text, replaced)


def read_lines(path: str | Path) -> list[str]:
    """Return the lines of a UTF-8 file, empty ones included, without their breaks.

    Args:
        path: The file.

    Raises:
        DataError: As for `read_text`.
    """
    return read_text(path).lines


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


def _not_utf8(path: Path, data: bytes, offset: int) -> str:
    line = data[:offset].replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") + 1
    return (
        f"{path} is not UTF-8: byte 0x{data[offset]:02X} in line {line}, at byte offset {offset} (from 0);"
        " save the file as UTF-8"
    )
