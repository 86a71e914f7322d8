"""What each optimisation buys here and now, and how equal its results are."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from glassformer.bench import gains_decoding, gains_training
from glassformer.bench.contest import Spread
from glassformer.bench.gain import Gain

MAKERS: tuple[Callable[[], tuple[Gain, ...]], ...] = (gains_decoding.gains, gains_training.gains)
"""Of the optimisations of each kind of work."""


@dataclass(frozen=True)
class Measured:
    """What came of one optimisation.

    Attributes:
        name: Of the optimisation.
        changed: What is done differently.
        ratio: How many times as fast it is than what it replaces: the median of the turns.
        ratios: The same, turn by turn.
        slow_seconds: What was replaced takes so long at best.
        fast_seconds: It takes so long at best.
        difference: Of the results, as a share of the larger; 0.0 = bit for bit.
    """

    name: str
    changed: str
    ratio: float
    ratios: tuple[float, ...]
    slow_seconds: float
    fast_seconds: float
    difference: float


def measure_gains(
    gains: Sequence[Gain],
    turns: int,
    advanced: Callable[[int, int], None] = lambda done, total: None,
    *,
    compiled: Callable[[str], object] = lambda name: None,
    seconds: float = 0.2,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Measured]:
    """Let both ways of each optimisation take turns, so that whatever else the machine does falls on both.

    Args:
        gains: What is measured.
        turns: Rounds; who goes first in one goes last in the next.
        advanced: Called with (done, total) rounds; to make ready is one, too.
        compiled: Called with the name of what is compiled next.
        seconds: A turn repeats the work until this time is over.
        clock: Returns seconds.
    """

    def paced(work: Callable[[], object]) -> float:
        count, began = 0, clock()
        while True:
            work()
            count += 1
            if (spent := clock() - began) >= seconds:
                return spent / count

    found, total = [], len(gains) * (turns + 1)
    for number, gain in enumerate(gains):
        if gain.compiles:
            compiled(gain.name)
        gain.slow(), gain.fast()  # what is made at a first call is made now
        difference = gain.differ()
        advanced(number * (turns + 1) + 1, total)
        slow: list[float] = []
        fast: list[float] = []
        for turn in range(turns):
            for way, paces in ((gain.slow, slow), (gain.fast, fast))[:: 1 if turn % 2 == 0 else -1]:
                paces.append(paced(way))
            advanced(number * (turns + 1) + turn + 2, total)
        ratios = tuple(one / other for one, other in zip(slow, fast, strict=True))
        found.append(Measured(gain.name, gain.changed, median(ratios), ratios, min(slow), min(fast), difference))
    return found


def gains_text(measured: Sequence[Measured]) -> str:
    """Return them as lines of at most 80 columns; what is changed stands below its name."""
    lines = [f"{'':<26}{'times as fast (quartiles)':<28}{'difference':<12}"]
    for each in measured:
        spread = Spread.of(each.ratios)
        bought = f"{spread.median:.2f} ({spread.low:.2f} to {spread.high:.2f})"
        equal = "none" if each.difference == 0 else f"{each.difference:.1e}"
        lines += [f"{each.name:<26}{bought:<28}{equal}", f"    {each.changed}"]
    return "\n".join(line.rstrip() for line in lines)
