from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.generation.hypothesis import normalised


@pytest.mark.parametrize(
    ("alpha", "score"), [(0.0, -6.0), (0.5, -3.0), (1.0, -1.5), (2.0, -0.375)], ids=["sum", "root", "mean", "square"]
)
def test_normalised_divides_by_a_power_of_the_length(alpha: float, score: float) -> None:
    assert normalised(-6.0, 4, alpha) == score
    assert normalised(0.0, 0, alpha) == 0.0


@given(
    logprob=st.floats(-500, 0),
    more=st.lists(st.floats(-20, 0), max_size=20),
    length=st.integers(1, 30),
    room=st.integers(0, 10),
    alpha=st.floats(0, 10),
)
def test_normalised_at_the_largest_length_bounds_all_that_follows(
    logprob: float, more: list[float], length: int, room: int, alpha: float
) -> None:
    bound = normalised(logprob, length + len(more) + room, alpha)
    assert normalised(math.fsum([logprob, *more]), length + len(more), alpha) <= bound
