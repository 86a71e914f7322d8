"""Contestants that do the same work in turns, and what their speeds say."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Protocol

from glassformer.bench.machine import Machine, typical

OURS = "glassformer"
"""The contestant that the others are compared with."""

Answer = Sequence[Sequence[int]]
"""The ids that a contestant wrote, row by row."""


class Contestant(Protocol):
    """One program, in one setting, that can do a piece of work again and again."""

    @property
    def name(self) -> str:
        """The program."""
        ...

    @property
    def numbers(self) -> str:
        """What it computes in: "float32", "bf16" or "int8"."""
        ...

    @property
    def setting(self) -> str:
        """What else is set, such as "compiled"; "" = nothing."""
        ...

    def unavailable(self) -> str | None:
        """Return why it cannot take part here, and the way out; None = it can."""
        ...

    def prepare(self) -> None:
        """Make ready: load, convert, compile."""
        ...

    def turn(self) -> int:
        """Do one piece of the work; return its tokens."""
        ...

    def answer(self) -> Answer | None:
        """Return what it wrote last, where it has the weights of all; None = nothing that others must have, too."""
        ...


@dataclass(frozen=True)
class Rules:
    """How a contest is run.

    Attributes:
        turns: Rounds; every contestant has one turn in each.
        seconds: A turn repeats the work until this time is over.
        rest: Seconds between turns, in which the threads of the one before go to sleep.
        warmups: Turns that do not count.
        clock: Returns seconds.
        sleep: Waits for seconds.
    """

    turns: int = 5
    seconds: float = 0.5
    rest: float = 0.1
    warmups: int = 2
    clock: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Spread:
    """Numbers of which half lie between `low` and `high`: the quartiles, and the median between them."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return that of at least one number."""
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        return cls(*quantiles(values, n=4, method="inclusive"))


@dataclass(frozen=True)
class Row:
    """How fast one contestant was.

    Attributes:
        name: The program.
        numbers: What it computed in.
        setting: What else was set.
        speeds: Tokens a second of each round.
        ready_seconds: What `prepare` and the turns before the rounds took, compilation included.
        answer: What it wrote, if that says something.
    """

    name: str
    numbers: str
    setting: str
    speeds: tuple[float, ...]
    ready_seconds: float
    answer: Answer | None = None

    @property
    def speed(self) -> Spread:
        """Tokens a second."""
        return Spread.of(self.speeds)


@dataclass(frozen=True)
class Absent:
    """Who did not take part to the end, and why, in one line."""

    name: str
    numbers: str
    setting: str
    reason: str


@dataclass(frozen=True)
class Contest:
    """What came out.

    Attributes:
        rows: Who finished, in the order that they were given in.
        absent: Who did not.
        machine: What the machine gave in the same rounds.
    """

    rows: tuple[Row, ...]
    absent: tuple[Absent, ...]
    machine: Machine

    def ours(self, numbers: str) -> Row | None:
        """Return our row in the same numbers, or else our first."""
        ours = [row for row in self.rows if row.name == OURS]
        return next((row for row in ours if row.numbers == numbers), ours[0] if ours else None)

    def ahead(self, row: Row) -> float | None:
        """Return how many times as fast as this contestant we are: the median over the rounds, each by itself."""
        ours = self.ours(row.numbers)
        if ours is None:
            return None
        return median(mine / theirs for mine, theirs in zip(ours.speeds, row.speeds, strict=True))

    def agrees(self, row: Row) -> tuple[int, int] | None:
        """Return of how many texts it wrote what we did in float32, and of how many; None where weights differ."""
        ours = self.ours("float32")
        if ours is None or ours is row or ours.answer is None or row.answer is None:
            return None
        pairs = zip(ours.answer, row.answer, strict=True)
        return sum(list(mine) == list(theirs) for mine, theirs in pairs), len(ours.answer)


class _Seat:
    """A contestant with what has been measured of it."""

    def __init__(self, contestant: Contestant) -> None:
        self.contestant = contestant
        self.speeds: list[float] = []
        self.ready = 0.0
        self.answer: Answer | None = None
        self.reason: str | None = None


def compete(
    contestants: Sequence[Contestant],
    measure: Callable[[], Machine],
    rules: Rules | None = None,
    advanced: Callable[[int, int], None] = lambda done, total: None,
) -> Contest:
    """Let contestants take turns, so that whatever else the machine does falls on all of them.

    Each is made ready and warmed up first. Then each round measures the machine and gives every contestant a turn; who
    goes first in one round goes last in the next. What raises drops out with one line, and the others go on.

    Args:
        contestants: Who competes; ours are named `OURS`.
        measure: Says what the machine gives now.
        rules: How often, how long.
        advanced: Called with (done, total) turns; making ready is one, too.
    """
    rules = rules or Rules()
    seats = [_Seat(contestant) for contestant in contestants]
    total = len(seats) * (rules.turns + 1)
    for done, seat in enumerate(seats, 1):
        seat.reason = seat.contestant.unavailable()
        if seat.reason is None:
            with _falling(seat):
                _make_ready(seat, rules)
        advanced(done, total)
    samples = [measure()]
    for number in range(rules.turns):
        samples.append(measure())
        first = number % max(1, len(seats))
        for place, seat in enumerate((*seats[first:], *seats[:first]), 1):
            if seat.reason is None:
                rules.sleep(rules.rest)
                with _falling(seat):
                    seat.speeds.append(_speed(seat.contestant, rules))
            advanced(len(seats) * (number + 1) + place, total)
    return Contest(
        tuple(_row(seat) for seat in seats if seat.reason is None),
        tuple(
            Absent(seat.contestant.name, seat.contestant.numbers, seat.contestant.setting, seat.reason)
            for seat in seats
            if seat.reason is not None
        ),
        typical(samples),
    )


def _make_ready(seat: _Seat, rules: Rules) -> None:
    began = rules.clock()
    seat.contestant.prepare()
    for _ in range(rules.warmups):
        seat.contestant.turn()
    seat.ready = rules.clock() - began
    seat.answer = seat.contestant.answer()


def _speed(contestant: Contestant, rules: Rules) -> float:
    tokens, began = 0, rules.clock()
    while True:
        tokens += contestant.turn()
        spent = rules.clock() - began
        if spent >= rules.seconds:
            return tokens / spent


def _row(seat: _Seat) -> Row:
    who = seat.contestant
    return Row(who.name, who.numbers, who.setting, tuple(seat.speeds), seat.ready, seat.answer)


@contextmanager
def _falling(seat: _Seat) -> Iterator[None]:
    """Note what a contestant raises; what peers warn of is theirs."""
    try:
        with warnings.catch_warnings():
            if seat.contestant.name != OURS:
                warnings.simplefilter("ignore")
            yield
    except Exception as error:  # other libraries raise whatever they like
        line = next(iter(str(error).strip().splitlines()), "")
        seat.reason = f"{type(error).__name__}: {line}" if line else type(error).__name__
