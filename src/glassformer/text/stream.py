"""Text out of ids as they arrive, whole characters only."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from glassformer.core.errors import DataError


def piece_of(pieces: Sequence[bytes], token: int) -> bytes:
    """Return the bytes of one token.

    Raises:
        DataError: The id is not of this vocabulary.
    """
    if not 0 <= token < len(pieces):
        raise DataError(
            f"token id {token} is outside 0..{len(pieces) - 1} (vocab size {len(pieces)});"
            " decode with the tokenizer whose ids these are"
        )
    return pieces[token]


def without_lead(data: bytes, lead: bytes) -> bytes:
    """Return the bytes that begin a text without the space that its tokenizer put in front, if it is there.

    Args:
        data: The first bytes of a text.
        lead: What is put before every text; no bytes where nothing is.
    """
    return data.removeprefix(lead)


class TextStream:
    """The text of one sequence, as far as its bytes so far make it certain.

    A character may be spread over several tokens. What is emitted is the longest prefix of the bytes that is
    whole UTF-8; at most three bytes wait for the rest of their character. Looking for U+FFFD in decoded text
    instead would swallow text that really contains it.

    Args:
        pieces: The bytes of each token, by id; no bytes for a special token.
        lead: A space that the tokenizer puts before every text, left out here where it begins the text; or no bytes.
    """

    def __init__(self, pieces: Sequence[bytes], lead: bytes = b"") -> None:
        self._pieces = pieces
        self._lead = lead
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token: int) -> str:
        """Take one more id; return the text that is now certain (possibly empty).

        Raises:
            DataError: The id is not of this vocabulary.
        """
        piece = piece_of(self._pieces, token)
        if piece and self._lead:
            piece, self._lead = without_lead(piece, self._lead), b""
        return self._decoder.decode(piece)

    def finish(self) -> str:
        """Return what is still held back; an unfinished character becomes U+FFFD."""
        return self._decoder.decode(b"", final=True)
