"""Tokens of a sequence put together into whole characters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, groupby


def whole_characters(pieces: Sequence[bytes]) -> list[range]:
    """Return the smallest groups of neighbouring tokens that are whole characters of UTF-8.

    A byte-level vocabulary may spread a character over tokens and put ends of two characters into one; a group
    then reaches to the next place where a token ends and no character is open. A token without bytes (a special
    one) is a group of its own and closes what is before it. A byte that is part of no character holds nothing
    together.

    Args:
        pieces: The bytes of each token of one sequence.

    Returns:
        Ranges of places in the sequence, from the first to the last, without gaps.
    """
    groups: list[range] = []
    for with_bytes, run in groupby(range(len(pieces)), key=lambda place: bool(pieces[place])):
        places = list(run)
        ends = _character_ends(b"".join(pieces[place] for place in places)) if with_bytes else {0}
        start = places[0]
        for place, end in zip(places, accumulate(len(pieces[place]) for place in places), strict=True):
            if end in ends:
                groups.append(range(start, place + 1))
                start = place + 1
    return groups


def _character_ends(data: bytes) -> set[int]:
    """Return where in the bytes no character is open; a byte that is part of none ends by itself."""
    characters = data.decode("utf-8", errors="surrogateescape")  # such a byte becomes one lone surrogate
    return set(accumulate(len(character.encode("utf-8", errors="surrogateescape")) for character in characters))
