from __future__ import annotations

from dataclasses import replace

import pytest

from glassformer.bench.gain import Gain
from glassformer.bench.gains import gains_text, measure_gains


def _made(clock: list[float], slow: list[float], fast: list[float], difference: float = 0.0) -> Gain:
    """An optimisation whose calls take the given seconds, one after the other."""

    def taking(seconds: list[float]):
        calls = iter([0.0, *seconds])  # the first call, in which things are made, is not timed

        def work() -> None:
            clock[0] += next(calls)

        return work

    return Gain("cache", "what was read is kept", taking(slow), taking(fast), lambda: difference)


def test_measured_gain_is_the_ratio_of_each_turn():
    clock, told = [0.0], []
    gain = _made(clock, [3.0, 8.0], [1.0, 2.0], 0.25)
    [found] = measure_gains([gain], 2, lambda *done: told.append(done), clock=lambda: clock[0])
    assert (found.ratio, found.ratios) == (3.5, (3.0, 4.0))
    assert (found.slow_seconds, found.fast_seconds, found.difference) == (3.0, 1.0, 0.25)
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_measured_turn_repeats_what_is_short():
    clock = [0.0]
    gain = _made(clock, [0.5, 0.5, 0.5], [0.25] * 4)
    [found] = measure_gains([gain], 1, seconds=1.0, clock=lambda: clock[0])
    assert found.ratios == (2.0,)
    assert clock == [2.0]  # two calls and four


def test_compiling_is_told_of_before_it_begins():
    clock = [0.0]
    plain, graph = _made(clock, [1.0], [1.0]), replace(_made(clock, [1.0], [1.0]), name="graph", compiles=True)
    told = []
    measure_gains([plain, graph], 1, compiled=lambda name: told.append((name, clock[0])), clock=lambda: clock[0])
    assert told == [("graph", 2.0)]


def test_gains_are_lines_of_80_columns():
    clock = [0.0]
    text = gains_text(measure_gains([_made(clock, [3.0, 8.0], [1.0, 2.0])], 2, clock=lambda: clock[0]))
    assert text.splitlines() == [
        "                          times as fast (quartiles)   difference",
        "cache                     3.50 (3.25 to 3.75)         none",
        "    what was read is kept",
    ]


@pytest.mark.parametrize(("difference", "said"), [(0.0, "none"), (3.2e-7, "3.2e-07")])
def test_gains_say_how_equal_results_are(difference, said):
    clock = [0.0]
    gain = _made(clock, [1.0], [1.0], difference)
    assert gains_text(measure_gains([gain], 1, clock=lambda: clock[0])).splitlines()[1].endswith(said)
