from __future__ import annotations

import pytest
import torch

from glassformer.bench.gains_decoding import gains
from glassformer.kernels.operators import has_operators

needs_compiler = pytest.mark.skipif(not has_operators(), reason="there is no C++ compiler")


@pytest.fixture(scope="module")
def made():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "compile", lambda function, **_: function)
        yield {gain.name: gain for gain in gains()}


@pytest.mark.parametrize(
    ("name", "most"),
    [
        pytest.param("cache", 0, id="ids"),
        pytest.param("logits of the last token", 1e-5, id="numbers"),
        pytest.param("prompts in chunks", 0, id="chunks"),
        pytest.param("rows side by side", 0, id="rows"),
        pytest.param("8 bits", 0.05, id="rounded"),
        pytest.param("products of few rows", 0, id="few rows", marks=needs_compiler),
        pytest.param("products in 8 bits", 0.05, id="own int8", marks=needs_compiler),
        pytest.param("softmax of a search", 0, id="search", marks=needs_compiler),
        pytest.param("compiled step", 0, id="compiled"),
        pytest.param("compiled step in 8 bits", 0, id="both"),
    ],
)
def test_gain_of_writing_keeps_the_results(made, name, most):
    """In 8 bits numbers are rounded; all others differ in the order of sums at most."""
    assert made[name].differ() <= most


def test_gains_of_writing_fit_80_columns(made):
    assert len(made) == (10 if has_operators() else 7)
    for name, gain in made.items():
        assert len(name) < 26
        assert len(gain.changed) <= 76
