"""Ctrl-C and SIGTERM as ordinary ways to end a run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType


class StopNow(KeyboardInterrupt):
    """The first signal, where the current update is not waited for."""


class Interrupts:
    """While open, the first signal asks the loop to end after the current update; the second ends it at once.

    The first one ends an update at once, too, that is being compiled: that takes a minute, and a terminal sends its
    Ctrl-C to the compiler as well.

    Outside of the main thread, where Python takes no signals, it does nothing.

    Args:
        heard: Called when the first signal comes, so that whoever waits is told that it was heard, with whether the
            update ends at once. In a thread of its own: the signal may come in the midst of a line that is printed.
        compiles: Asked whether an update is being compiled.
    """

    def __init__(
        self, heard: Callable[[bool], object] = lambda now: None, compiles: Callable[[], bool] = lambda: False
    ) -> None:
        self.heard, self.compiles = heard, compiles
        self._teller: threading.Thread | None = None
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
        if self._teller is not None:
            self._teller.join()

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
        now = self.compiles()
        self._teller = threading.Thread(target=self.heard, args=(now,))
        self._teller.start()
        if now:
            raise StopNow
