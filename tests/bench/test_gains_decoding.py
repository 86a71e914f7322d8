from __future__ import annotations

import pytest
import torch

from glassformer.bench.gains import decoding_gains


def test_each_gain_gives_equal_results(monkeypatch):
    """In 8 bits numbers are rounded; the others differ in the order of sums only."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    found = {gain.name: gain for gain in decoding_gains()}
    assert len(found) == 6
    for name, gain in found.items():
        allowed = 1.0 if name == "matrices in 8 bits" else 1e-5
        assert gain.differ() == pytest.approx(0, abs=allowed), name
        assert gain.changed
