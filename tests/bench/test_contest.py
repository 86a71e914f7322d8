"""Contestants take turns, and their speeds are medians; who fails is a line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from glassformer.bench.contest import OURS, Answer, Contest, Row, Rules, Spread, compete
from glassformer.bench.machine import Machine


class Clock:
    """Time that passes only when somebody works, and what they did."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[str] = []

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Fake:
    """Does 12 tokens of work in the seconds that are given, turn by turn; None = it raises."""

    setting = ""

    def __init__(
        self,
        clock: Clock,
        name: str,
        seconds: list[float | None],
        *,
        numbers: str = "float32",
        missing: str | None = None,
        answer: Answer | None = None,
    ) -> None:
        self.clock, self.name, self.seconds = clock, name, iter(seconds)
        self.numbers, self.missing, self.ids = numbers, missing, answer

    def unavailable(self) -> str | None:
        return self.missing

    def prepare(self) -> None:
        self.clock.log.append(f"ready {self.name}")

    def turn(self) -> int:
        self.clock.log.append(self.name)
        taken = next(self.seconds)
        if taken is None:
            raise RuntimeError("it broke\nand says much more")
        self.clock.now += taken
        return 12

    def answer(self) -> Answer | None:
        return self.ids


def _run(clock: Clock, *contestants: Fake, advanced: Callable[[int, int], None] | None = None) -> Contest:
    machine = Machine(1, 100.0, 50.0, 10.0)
    rules = Rules(turns=3, seconds=0.0, rest=0.5, warmups=1, clock=clock.read, sleep=clock.sleep)
    return compete(contestants, lambda: machine, rules, advanced or (lambda done, total: None))


def test_contest_takes_turns_and_the_first_of_a_round_is_the_last_of_the_next() -> None:
    clock = Clock()
    told: list[tuple[int, int]] = []
    _run(
        clock,
        *(Fake(clock, name, [1.0] * 4) for name in (OURS, "b", "c")),
        advanced=lambda done, total: told.append((done, total)),
    )
    warm = ["ready glassformer", OURS, "ready b", "b", "ready c", "c"]
    assert clock.log == [*warm, OURS, "b", "c", "b", "c", OURS, "c", OURS, "b"]
    assert told == [(done, 12) for done in range(1, 13)]


def test_contest_gives_medians_quartiles_and_ratios_of_the_same_round() -> None:
    clock = Clock()
    # the first of each is the warm-up; 12 tokens in 1, 2, 3 s are 12, 6, 4 tokens/s
    contest = _run(clock, Fake(clock, OURS, [9.0, 1.0, 2.0, 3.0]), Fake(clock, "peer", [7.0, 4.0, 4.0, 4.0]))
    ours, peer = contest.rows
    assert ours.speeds == pytest.approx((12.0, 6.0, 4.0))
    assert (ours.speed.low, ours.speed.median, ours.speed.high) == pytest.approx((5.0, 6.0, 9.0))
    assert ours.ready_seconds == pytest.approx(9.0)
    assert peer.speed.median == pytest.approx(3.0)
    assert contest.ahead(peer) == pytest.approx(2.0)  # of 4, 2 and 4/3
    assert contest.machine == Machine(1, 100.0, 50.0, 10.0)


def test_a_turn_repeats_short_work_until_its_time_is_over() -> None:
    clock = Clock()
    rules = Rules(turns=1, seconds=1.0, rest=0.0, warmups=0, clock=clock.read, sleep=clock.sleep)
    contest = compete([Fake(clock, OURS, [0.5, 0.25, 0.25])], lambda: Machine(1, 1.0, 1.0, 1.0), rules)
    assert contest.rows[0].speeds == pytest.approx((36.0,))


def test_an_absent_peer_is_a_word() -> None:
    clock = Clock()
    contest = _run(clock, Fake(clock, OURS, [1.0] * 4), Fake(clock, "peer", [], missing="peer is not installed"))
    assert [row.name for row in contest.rows] == [OURS]
    assert [(each.name, each.reason) for each in contest.absent] == [("peer", "peer is not installed")]
    assert "ready peer" not in clock.log


@pytest.mark.parametrize("works", [0, 1, 2])
def test_a_peer_that_raises_is_one_line_and_the_others_go_on(works: int) -> None:
    clock = Clock()
    seconds: list[float | None] = [*[1.0] * works, None]
    contest = _run(clock, Fake(clock, "peer", seconds), Fake(clock, OURS, [1.0] * 4))
    assert [row.speeds for row in contest.rows] == [pytest.approx((12.0, 12.0, 12.0))]
    assert [each.reason for each in contest.absent] == ["RuntimeError: it broke"]
    assert clock.log.count("peer") == works + 1


def test_rows_are_compared_with_ours_in_the_same_numbers() -> None:
    rows = [
        Row(OURS, "float32", "", (10.0,), 0.0, [[1, 2], [3]]),
        Row(OURS, "bf16", "", (40.0,), 0.0, [[1, 2], [3]]),
        Row("peer", "float32", "", (5.0,), 0.0, [(1, 2), (3,)]),
        Row("peer", "bf16", "", (5.0,), 0.0, [[1, 2], [4]]),
        Row("peer", "int8", "", (5.0,), 0.0, None),
    ]
    contest = Contest(tuple(rows), (), Machine(1, 1.0, 1.0, 1.0))
    assert [contest.ahead(row) for row in rows] == [1.0, 1.0, 2.0, 8.0, 2.0]
    assert [contest.agrees(row) for row in rows] == [None, (2, 2), (2, 2), (1, 2), None]


def test_without_us_there_is_no_ratio() -> None:
    row = Row("peer", "float32", "", (5.0,), 0.0, [[1]])
    contest = Contest((row,), (), Machine(1, 1.0, 1.0, 1.0))
    assert contest.ahead(row) is None
    assert contest.agrees(row) is None


def test_quartiles_of_one_number_are_that_number() -> None:
    assert Spread.of([3.0]) == Spread(3.0, 3.0, 3.0)
