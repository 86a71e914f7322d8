"""A direction is decided only where the whole interval says so."""

from __future__ import annotations

import math

import pytest

from glassformer.bench.directions import DIRECTIONS, Direction, Interval, difference, summary
from glassformer.bench.quality import Result
from glassformer.bench.variants import VARIANTS


def _results(variant: str, *values: float) -> list[Result]:
    return [Result("recall", variant, seed, 1, 1, 1.0, {"recall@32": value}) for seed, value in enumerate(values)]


def test_interval_is_students() -> None:
    interval = Interval.of([1.0, 2.0, 3.0])
    assert interval.mean == 2.0
    assert interval.half == pytest.approx(4.303 * 1.0 / math.sqrt(3))
    assert Interval.of([1.0]).half == math.inf


@pytest.mark.parametrize(
    ("expected", "mean", "half", "verdict"),
    [
        ("higher", 0.2, 0.1, "confirmed"),
        ("higher", -0.2, 0.1, "refuted"),
        ("higher", 0.05, 0.1, "not decided"),
        ("lower", -0.2, 0.1, "confirmed"),
        ("lower", 0.2, 0.1, "refuted"),
        ("same", 0.01, 0.02, "confirmed"),
        ("same", 0.02, 0.04, "not decided"),
        ("same", 0.2, 0.1, "refuted"),
        ("higher", 0.2, math.inf, "not decided"),
    ],
)
def test_direction_is_judged_by_the_interval(expected: str, mean: float, half: float, verdict: str) -> None:
    direction = Direction("a", "b", "recall@32", expected, "", margin=0.03)
    assert direction.judge(Interval(mean, half, 3)) == verdict


def test_difference_is_paired_by_seed() -> None:
    """Seeds differ much, the pairs little: unpaired, nothing could be said."""
    results = _results("window", 0.1, 0.5, 0.9) + _results("full", 0.2, 0.6, 1.0)
    found = difference(results, Direction("window", "full", "recall@32", "lower", ""))
    assert found is not None
    assert found.mean == pytest.approx(-0.1)
    assert found.half == pytest.approx(0.0, abs=1e-12)
    assert summary(results)["window", "recall@32"].half > 0.9
    assert difference(results, Direction("linear", "full", "recall@32", "lower", "")) is None


def test_directions_name_variants_that_are_measured() -> None:
    names = {variant.name for variant in VARIANTS}
    assert {direction.variant for direction in DIRECTIONS} | {direction.other for direction in DIRECTIONS} <= names
