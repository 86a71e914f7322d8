"""A contestant in a process of its own."""

from __future__ import annotations

import signal
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any
from weakref import finalize

import torch

from glassformer.bench.contest import Answer, Contestant
from glassformer.core.errors import DataError


class Apart:
    """Another contestant, which does its work in a process of its own.

    It is for programs that bring threads of their own. Of two pools of threads in one process, one is slowed down by
    the other even while that has nothing to do: our search took 1.45 times as long once CTranslate2 had translated.

    Args:
        contestant: It is copied to the other process before it is made ready.
    """

    def __init__(self, contestant: Contestant) -> None:
        self._contestant = contestant
        self.name, self.numbers, self.setting = contestant.name, contestant.numbers, contestant.setting

    def unavailable(self) -> str | None:
        """Say what it says."""
        return self._contestant.unavailable()

    def prepare(self) -> None:
        """Start the process, and make it ready there."""
        spawn = get_context("spawn")
        self._asks, answers = spawn.Pipe()
        process = spawn.Process(target=_serve, args=(answers, self._contestant, torch.get_num_threads()), daemon=True)
        process.start()
        answers.close()
        finalize(self, process.kill)
        self._ask("prepare")

    def turn(self) -> int:
        """Have it do its work."""
        tokens: int = self._ask("turn")
        return tokens

    def answer(self) -> Answer | None:
        """Return what it wrote."""
        answer: Answer | None = self._ask("answer")
        return answer

    def _ask(self, what: str) -> Any:
        try:
            self._asks.send(what)
            well, found = self._asks.recv()
        except (EOFError, OSError):
            raise DataError("its process has ended") from None
        if not well:
            raise DataError(found)
        return found


def _serve(asked: Connection, contestant: Contestant, threads: int) -> None:
    """Do what is asked for until nobody is there to ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asks ends this process
    torch.set_num_threads(threads)
    deeds: dict[str, Callable[[], Any]] = {
        "prepare": contestant.prepare, "turn": contestant.turn, "answer": contestant.answer,
    }  # fmt: skip
    while True:
        try:
            what = asked.recv()
        except EOFError:
            return
        try:
            found = (True, deeds[what]())
        except Exception as error:  # other libraries raise whatever they like
            line = next(iter(str(error).strip().splitlines()), "")
            found = (False, f"{type(error).__name__}: {line}")
        asked.send(found)
