"""Ctrl-C and SIGTERM as ordinary ways to end a run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType


class Interrupts:
    """While open, the first signal asks the loop to end after the current update; the second ends it at once.

    Outside of the main thread, where Python takes no signals, it does nothing.

    Args:
        heard: Called when the first signal comes, so that whoever waits is told that it was heard.
    """

    def __init__(self, heard: Callable[[], object] = lambda: None) -> None:
        self.heard = heard
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def __call__(self) -> bool:
        """True once a signal has come."""
        return self.received is not None

    @property
    def exit_code(self) -> int:
        """What a shell expects of a program that a signal ended: 130 for Ctrl-C, 143 for SIGTERM."""
        return 0 if self.received is None else 128 + self.received.value

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = signal.Signals(number)
        self.heard()
