"""The wire format of protocol buffers, as far as reading a message needs it."""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5


def fields(message: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """Give the number and the value of each field of a message, in the order of the bytes.

    An integer is given as a signed one of 64 bits, a value of four bytes as a float, one of eight as a double, and a
    string or a message within the message as its bytes; the numbers of the fields say which is meant.

    Raises:
        ValueError: The bytes end within a field, or are no such message.

    Source: the encoding guide of Protocol Buffers.
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise ValueError(f"there is no field 0, found before byte {at}")
        if wire == VARINT:
            value, at = _varint(message, at)
            yield number, value - (1 << 64) if value >= 1 << 63 else value
            continue
        if wire == LENGTH:
            size, at = _varint(message, at)
        elif wire in (EIGHT_BYTES, FOUR_BYTES):
            size = 8 if wire == EIGHT_BYTES else 4
        else:
            raise ValueError(f"wire type {wire} before byte {at} is none that is in use")
        content = message[at : at + size]
        if len(content) < size:
            raise ValueError(f"it ends at byte {len(message)}, within a field that reaches to byte {at + size}")
        at += size
        yield number, content if wire == LENGTH else float(struct.unpack("<d" if size == 8 else "<f", content)[0])


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a number written in groups of seven bits, the lowest first, and where it ends."""
    value = shift = 0
    while True:
        if at >= len(message):
            raise ValueError(f"it ends at byte {len(message)}, within a number")
        if shift > 63:
            raise ValueError(f"the number that ends after byte {at} has more than 64 bits")
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
