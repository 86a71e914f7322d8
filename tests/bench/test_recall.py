"""Each key that is asked for stood before, once, with the value that is asked for."""

from __future__ import annotations

import pytest
import torch

from glassformer.bench.recall import DISTANCES, LENGTH, NEAREST, Recall, at_distance


def _distances(rows) -> list[int]:
    """Of every question, how far back its key stands; made sure of: once, with that value."""
    found = []
    for row, here in (rows.labels >= 0).nonzero().tolist():
        assert rows.types[row, here] == 0
        before = (rows.tokens[row, :here] == rows.tokens[row, here]).nonzero().flatten().tolist()
        assert len(before) == 1
        assert rows.types[row, before[0]] == rows.labels[row, here] + 1
        found.append(here - before[0])
    return found


@pytest.mark.parametrize("distance", DISTANCES)
def test_rows_at_a_distance_ask_for_keys_exactly_there(distance: int) -> None:
    rows = at_distance(distance, rows=2)
    assert set(_distances(rows)) == {distance}
    assert (rows.labels[:, : LENGTH - 128] == -100).all()
    assert (rows.labels >= 0).sum() >= 128  # at least every second of the last 128 tokens, in two rows


def test_rows_of_training_ask_near_and_far() -> None:
    rows = Recall().rows(Recall.steps, torch.Generator().manual_seed(0))
    distances = _distances(rows)
    assert rows.tokens.shape == (4, LENGTH)
    assert min(distances) >= NEAREST
    assert sum(d < 64 for d in distances) > 100
    assert sum(d > 256 for d in distances) > 100


def test_rows_are_equal_for_equal_seeds() -> None:
    first, again = (Recall().rows(1, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first.tokens, again.tokens)
    assert torch.equal(first.labels, again.labels)
