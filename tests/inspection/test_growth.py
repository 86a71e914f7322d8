from __future__ import annotations

from collections.abc import Sequence

import pytest

from glassformer.inspection.growth import GrowthWatch

HEALTHY = {
    "drawn with 0.02": [0.03, 0.06, 0.12, 0.20, 0.27, 0.33, 0.34, 0.37, 0.35, 0.31, 0.32, 0.34, 0.37, 0.40, 0.45],
    "drawn with 0.02, rotary": [0.02, 0.05, 0.14, 0.5, 1.12, 2.56, 3.49, 4.37, 6.66, 7.88, 9.91, 11.16, 11.64],
    "pre-norm without warm-up": [2.13, 4.9, 9.8, 14.2, 17.1, 18.43, 17.9, 13.82, 9.13, 5.82, 3.0, 2.37],
    "pre-norm, twice the rate": [1.74, 3.9, 7.2, 10.4, 13.1, 15.2, 16.23, 15.9, 13.5, 10.09, 6.2, 3.06],
    "post-norm": [1.0, 0.99, 0.99, 0.98, 0.97, 0.96, 0.96, 0.95, 0.95, 0.96],
    "a percent at a time": [1.5 * 1.01**step for step in range(400)],
}


def said(norms: Sequence[float], watch: GrowthWatch | None = None) -> list[tuple[int, str]]:
    watch = watch or GrowthWatch()
    answers = [
        (index, watch.observe(10 * index, {"decoder.blocks.0": 1.0, "decoder.blocks.1": norm}))
        for index, norm in enumerate(norms)
    ]
    return [(index, answer) for index, answer in answers if answer is not None]


@pytest.mark.parametrize("norms", HEALTHY.values(), ids=HEALTHY.keys())
def test_healthy_training_is_not_warned_of(norms: Sequence[float]):
    assert said(norms) == []


def test_growth_without_end_is_warned_of_once_and_named():
    """Recorded from a run whose learning rate rose until it broke."""
    norms = [1.74, 4.7, 10.04, 11.97, 8.63, 12.19, 16.0, 21.0, 26.4, 34.76, 60.0, 125.47, 502.06, 1387.36, 8894.46]
    answers = said(norms)
    assert len(answers) == 1
    index, message = answers[0]
    assert norms[index] < 100, "long before the end"
    for part in ("decoder.blocks.1", "1.74", f"{norms[index]:.3g}", f"step {10 * index}"):
        assert part in message


def test_growth_of_a_stream_that_starts_small_counts_from_one():
    norms = [0.03 * 1.6**step for step in range(30)]
    (index, _), *_ = said(norms)
    assert norms[index - 1] <= 20 < norms[index]


def test_leap_that_settles_is_no_growth():
    assert said([1.0, 1.1, 170.0, 160.0, 165.0, 150.0, 155.0, 140.0, 142.0, 139.0]) == []


def test_layer_that_grew_most_is_named():
    watch = GrowthWatch()
    answers = [watch.observe(step, {"a": 2.0**step, "b": 3.0**step}) for step in range(8)]
    message = next(answer for answer in answers if answer)
    assert "after b keeps" in message


def test_nan_is_left_to_others():
    assert said([1.0, float("nan"), float("nan"), float("nan"), float("nan"), float("nan"), float("nan")]) == []
