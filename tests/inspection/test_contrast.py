from __future__ import annotations

import pytest
import torch

from glassformer.core.errors import DataError
from glassformer.inspection.contrast import contrast, shared_positions

FIRST, SECOND = [1, 2, 3, 4, 9], [1, 2, 3, 4, 7, 8]


def weights(row, size, heads=2):
    """Head 1 looks from token 3 as `row` says, and everything else at itself."""
    made = torch.eye(size).repeat(heads, 1, 1)
    made[1, 3] = torch.tensor(row)
    return {"encoder.blocks.0.attention.weights": made}


def test_shared_positions_are_those_of_equal_tokens_in_order():
    assert shared_positions(FIRST, SECOND) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert shared_positions([1, 5, 2], [5, 6, 2]) == [(1, 0), (2, 2)]


def test_the_head_that_turns_is_found_with_its_numbers():
    first, second = weights([0, 0.7, 0.1, 0, 0.2], 5), weights([0, 0.1, 0.5, 0, 0.3, 0.1], 6)
    found = contrast(first, second, (FIRST, SECOND), most_rows=1)
    assert found.rows == ((3, 3),)
    assert not found.named
    best = found.moves[0]
    assert (best.site, best.head) == ("encoder.blocks.0.attention.weights", 1)
    assert best.change == pytest.approx((0.6 + 0.4) / 2), "the tokens of one text alone do not count"
    assert (best.leaves, best.gains) == ((1, 1), (2, 2))
    assert (best.left, best.gained) == (pytest.approx((0.7, 0.1)), pytest.approx((0.1, 0.5)))
    assert best.turns
    assert best.moved == pytest.approx(0.4)
    assert found.turning == (best,)
    other = found.moves[1]
    assert (other.head, other.change, other.turns, other.moved) == (0, 0, False, 0)
    assert other.leaves is other.gains is None


def test_a_named_token_is_looked_at_and_special_ones_are_no_answer():
    first, second = weights([0.7, 0.1, 0.1, 0, 0.1], 5), weights([0.2, 0.2, 0.2, 0.2, 0.1, 0.1], 6)
    named = contrast(first, second, (FIRST, SECOND), rows=[(0, 0)])
    assert (named.rows, named.named, named.moves[0].change) == (((0, 0),), True, 0)
    found = contrast(first, second, (FIRST, SECOND), skipped=[1], most_rows=1)
    assert found.moves[0].leaves is None, "it leaves the special token"
    assert found.moves[0].gains == (3, 3)


def test_texts_that_cannot_be_compared():
    with pytest.raises(DataError, match="the same tokens"):
        contrast({}, {}, (FIRST, FIRST))
    with pytest.raises(DataError, match="no token in common"):
        contrast({}, {}, ([1], [2]))
