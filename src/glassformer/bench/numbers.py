"""A vocabulary without texts, for models that nobody reads."""

from __future__ import annotations

from collections.abc import Sequence


class NumberStream:
    """Turns ids into no text."""

    def push(self, token: int) -> str:
        """Return nothing."""
        return ""

    def finish(self) -> str:
        """Return nothing."""
        return ""


class Numbers:
    """The ids 0 to V - 1; a text is the ids that it names.

    Args:
        vocab_size: V.
        framed: Whether id 0 begins and id 1 ends what is written, as in an encoder-decoder.
    """

    def __init__(self, vocab_size: int, *, framed: bool = False) -> None:
        self.vocab_size = vocab_size
        self.bos_id = 0 if framed else None
        self.eos_id = 1 if framed else None

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """The end token, if there is one."""
        return () if self.eos_id is None else (self.eos_id,)

    @property
    def pad_id(self) -> int | None:
        """None."""
        return None

    @property
    def unk_id(self) -> int | None:
        """None."""
        return None

    @property
    def prefix(self) -> tuple[int, ...]:
        """Nothing stands before a text."""
        return ()

    def encode(self, text: str) -> list[int]:
        """Return the numbers of a text."""
        return [int(word) for word in text.split()]

    def decode(self, ids: Sequence[int], *, after: Sequence[int] = ()) -> str:
        """Return the ids as words."""
        return " ".join(map(str, ids))

    def label(self, token: int) -> str:
        """Return the id."""
        return str(token)

    def stream(self, *, after: Sequence[int] = ()) -> NumberStream:
        """Return a stream that gives no text."""
        return NumberStream()
