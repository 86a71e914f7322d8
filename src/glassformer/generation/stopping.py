"""When a row ends, and which of its text may be shown before that is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from glassformer.core.protocols import TokenStream

StopReason = Literal["eos", "stop string", "length", "context"]
"""The end token came; a stop string came; `max_new_tokens` are there; the model's context is full."""


def stop_reason(
    *, is_eos: bool, stop_string: bool, room_in_length: int, room_in_context: int | None
) -> StopReason | None:
    """Return why a row ends now, or None if it goes on; of several reasons the first in `StopReason`.

    Args:
        is_eos: The newest token is the end token.
        stop_string: The newest token completed a stop string.
        room_in_length: Tokens that the row may still get.
        room_in_context: Tokens that still fit the model's context; None = no end to it.
    """
    if is_eos:
        return "eos"
    if stop_string:
        return "stop string"
    if room_in_length <= 0:
        return "length"
    if room_in_context is not None and room_in_context <= 0:
        return "context"
    return None


class ShownText:
    """The text of one row as it may be shown: whole characters, and nothing of a stop string.

    A stop string may be spread over several tokens, so a suffix that could be its beginning is held back
    until the next tokens decide. Of several stop strings the one that is complete first counts: what is shown
    does not depend on how the text is cut into tokens.

    Args:
        stream: The row's incremental decoder.
        stop: The stop strings, none of them empty.

    Attributes:
        stopped: True once a stop string is complete.
    """

    def __init__(self, stream: TokenStream, stop: Sequence[str] = ()) -> None:
        self._stream = stream
        self._stop = tuple(stop)
        self._held = ""
        self.stopped = False

    def push(self, token: int) -> str:
        """Take one more id; return the text that may be shown now (possibly empty)."""
        return self._show(self._stream.push(token))

    def finish(self) -> str:
        """Return what is still held back, at the end of a row."""
        if self.stopped:
            return ""
        shown = self._show(self._stream.finish())
        held, self._held = self._held, ""
        return shown + held

    def _show(self, new: str) -> str:
        text = self._held + new
        found = [(text.find(stop) + len(stop), text.find(stop)) for stop in self._stop if stop in text]
        if found:
            self.stopped, self._held = True, ""
            _, begin = min(found)  # the first to be complete; of those that end together, the longest
            return text[:begin]
        certain = len(text) - max((_overlap(text, stop) for stop in self._stop), default=0)
        self._held = text[certain:]
        return text[:certain]


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of `text` that is a beginning of `stop`, not all of it."""
    return next((n for n in range(len(stop) - 1, 0, -1) if text.endswith(stop[:n])), 0)
