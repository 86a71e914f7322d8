"""What the literature says that each variant loses or wins, written down before anything was measured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from glassformer.bench.quality import Result

STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""97.5 % points of Student's t with 1, 2, ... 9 degrees of freedom; beyond, 2 is near enough."""


@dataclass(frozen=True)
class Interval:
    """A mean over seeds, with the interval that holds it in 95 of 100 such experiments.

    Attributes:
        mean: Over seeds.
        half: Half the width, t s / sqrt(n); infinite for one seed.
        n: Seeds.
    """

    mean: float
    half: float
    n: int

    @staticmethod
    def of(values: Sequence[float]) -> Interval:
        """Return the interval of one value a seed."""
        n = len(values)
        if n < 2:
            return Interval(values[0], math.inf, n)
        t = STUDENT[n - 2] if n - 2 < len(STUDENT) else 2.0
        return Interval(statistics.fmean(values), t * statistics.stdev(values) / math.sqrt(n), n)


@dataclass(frozen=True)
class Direction:
    """One difference that was reported: of `variant` to `other` in one measured number.

    Attributes:
        variant: Whose number is higher, lower or the same.
        other: Than whose.
        measured: Name of the number.
        expected: "higher", "lower", or "same": within `margin`.
        source: Who reported it.
        margin: How much still counts as the same.
    """

    variant: str
    other: str
    measured: str
    expected: Literal["higher", "lower", "same"]
    source: str
    margin: float = 0.0

    def judge(self, difference: Interval) -> Literal["confirmed", "refuted", "not decided"]:
        """Return what an interval of the paired difference says: decided only if all of it lies on one side."""
        low, high = difference.mean - difference.half, difference.mean + difference.half
        if self.expected == "same":
            inside, outside = -self.margin <= low and high <= self.margin, low > self.margin or high < -self.margin
            return "confirmed" if inside else "refuted" if outside else "not decided"
        above = self.expected == "higher"
        if low > 0:
            return "confirmed" if above else "refuted"
        if high < 0:
            return "refuted" if above else "confirmed"
        return "not decided"


DIRECTIONS = (
    Direction("window", "full", "recall@32", "same", "Beltagy et al. 2020, arXiv:2004.05150", margin=0.02),
    Direction("window", "full", "recall@1024", "lower", "Beltagy et al. 2020, arXiv:2004.05150, section 3"),
    Direction("window", "full", "loss@128", "same", "Beltagy et al. 2020, arXiv:2004.05150, table 3", margin=0.03),
    Direction("alternating", "window", "recall@1024", "higher", "Gemma Team 2024, arXiv:2408.00118"),
    Direction("alternating", "full", "loss@128", "same", "Gemma Team 2024, arXiv:2408.00118, table 10", margin=0.03),
    Direction("blocks", "window", "recall@1024", "higher", "Zaheer et al. 2020, arXiv:2007.14062"),
    Direction("linear", "full", "recall@256", "lower", "Arora et al. 2023, arXiv:2312.04927"),
    Direction("linear", "full", "copy@24", "lower", "Jelassi et al. 2024, arXiv:2402.01032"),
    Direction("linear", "full", "loss@128", "higher", "Schlag et al. 2021, arXiv:2102.11174, table 2"),
    Direction("multi-query", "full", "loss@128", "higher", "Shazeer 2019, arXiv:1911.02150, table 1"),
    Direction("shaw", "sinusoidal", "loss@128", "lower", "Shaw et al. 2018, arXiv:1803.02155, table 1"),
    Direction("full", "sinusoidal", "loss@128", "lower", "Su et al. 2021, arXiv:2104.09864"),
    Direction("none", "sinusoidal", "loss@128", "same", "Haviv et al. 2022, arXiv:2203.16634", margin=0.05),
    Direction("alibi", "sinusoidal", "loss@512", "lower", "Press et al. 2021, arXiv:2108.12409, figure 1"),
    Direction("alibi", "full", "loss@512", "lower", "Press et al. 2021, arXiv:2108.12409, figure 1"),
    Direction("relative", "full", "loss@512", "lower", "Press et al. 2021, arXiv:2108.12409, figure 1"),
    Direction("alibi", "full", "recall@1024", "lower", "Chi et al. 2022, arXiv:2212.10356"),
    Direction("none", "full", "copy@96", "higher", "Kazemnejad et al. 2023, arXiv:2305.19466"),
    Direction("none", "alibi", "copy@96", "higher", "Kazemnejad et al. 2023, arXiv:2305.19466"),
)
"""`full` has rotary positions. Shares of right answers are better when higher, losses when lower."""


def difference(results: Sequence[Result], direction: Direction) -> Interval | None:
    """Return the paired difference of a direction over the seeds that both variants have; None if there is none."""
    values = {
        (result.variant, result.seed): result.values[direction.measured]
        for result in results
        if direction.measured in result.values
    }
    seeds = [seed for variant, seed in values if variant == direction.variant and (direction.other, seed) in values]
    pairs = [values[direction.variant, seed] - values[direction.other, seed] for seed in seeds]
    return Interval.of(pairs) if pairs else None


def summary(results: Sequence[Result]) -> Mapping[tuple[str, str], Interval]:
    """Return the interval of every number of every variant, by (variant, number)."""
    found: dict[tuple[str, str], list[float]] = {}
    for result in results:
        for name, value in result.values.items():
            found.setdefault((result.variant, name), []).append(value)
    return {key: Interval.of(values) for key, values in found.items()}
