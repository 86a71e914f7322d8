from __future__ import annotations

import math

import pytest
import torch

from glassformer.core.errors import DataError
from glassformer.inspection.attention import attention_weights
from glassformer.inspection.roles import entropies, head_roles, induction_on_random

from .induction import induction_model


def matrix(places: list[int], size: int | None = None) -> torch.Tensor:
    """One head whose query t looks at `places[t]` alone."""
    return torch.eye(size or len(places))[places].unsqueeze(0)


@pytest.mark.parametrize(
    ("places", "ids", "causal", "role", "share"),
    [
        ([0, 0, 1, 2], [1, 2, 3, 4], True, "previous", 1.0),
        ([1, 2, 3, 3], [1, 2, 3, 4], False, "next", 1.0),
        ([0, 1, 2, 3], [1, 2, 3, 4], True, "itself", 1.0),
        ([0, 0, 0, 0], [1, 2, 3, 4], True, "first", 1.0),
        ([3, 3, 3, 3], [1, 2, 3, 4], False, "last", 1.0),
        ([0, 1, 0, 1], [1, 2, 1, 2], True, "same", 1.0),
        ([2, 3, 0, 1], [1, 2, 1, 2], False, "same", 1.0),
        ([0, 0, 1, 2, 1, 2], [1, 2, 3, 4, 1, 2], True, "induction", 1.0),
    ],
)
def test_a_head_made_by_hand_has_its_role(places, ids, causal, role, share):
    (found,) = head_roles(matrix(places), ids, ids, causal=causal)
    assert found.shares[role] == share
    assert found.role == role


def test_shares_are_means_over_the_queries_that_they_make_sense_for():
    weights = torch.tensor([[[1.0, 0, 0, 0], [0.25, 0.75, 0, 0], [0.5, 0.3, 0.2, 0], [0.1, 0.6, 0.2, 0.1]]])
    (found,) = head_roles(weights, [7, 8, 9, 7], [7, 8, 9, 7], causal=True)
    assert found.shares == pytest.approx(
        {
            "previous": (0.25 + 0.3 + 0.2) / 3,  # query 0 has nobody before it
            "itself": (1 + 0.75 + 0.2 + 0.1) / 4,
            "first": (0.5 + 0.1) / 2,  # to query 1 the first token is the previous one
            "same": 0.1,  # query 3 alone has an earlier 7
            "induction": 0.6,  # behind that 7 stands token 1
        }
    )
    assert found.distance == pytest.approx((0 + 0.25 + (2 * 0.5 + 0.3) + (3 * 0.1 + 2 * 0.6 + 0.2)) / 4)


def test_chunks_give_what_the_whole_gives(monkeypatch):
    weights = torch.rand(3, 9, 9).tril()
    weights /= weights.sum(-1, keepdim=True)
    ids = [1, 2, 3, 1, 2, 3, 1, 1, 5]
    whole = head_roles(weights, ids, ids, causal=True)
    monkeypatch.setattr("glassformer.inspection.roles.CHUNK_NUMBERS", 18)
    for one, other in zip(head_roles(weights, ids, ids, causal=True), whole, strict=True):
        assert one.shares == pytest.approx(other.shares)
        assert one.distance == pytest.approx(other.distance)


def test_cross_attention_may_run_along_the_diagonal():
    along, end = matrix([0, 1, 1, 2], 3), matrix([2, 2, 2, 2], 3)
    found = head_roles(torch.cat([along, end]), [4, 5, 6, 7], [1, 2, 3], cross=True)
    assert [head.role for head in found] == ["diagonal", "last"]
    assert found[0].distance is None
    assert "previous" not in found[0].shares


def test_entropy_is_that_of_the_keys_a_query_sees():
    weights = torch.tensor([[[1.0, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]], [[1.0, 0, 0], [1, 0, 0], [0, 0, 1]]])
    entropy, spread = entropies(weights)
    half, three = math.log(2), 0.5 * math.log(4) + 0.5 * math.log(2)
    assert entropy.tolist() == pytest.approx([(half + three) / 3, 0])
    assert spread.tolist() == pytest.approx([(1 + three / math.log(3)) / 2, 0])  # query 0 has no choice
    blind = torch.zeros(1, 2, 2)
    assert [float(each) for each in entropies(blind)] == [0, 0]


def test_a_head_without_a_role_is_broad_or_mixed():
    flat = torch.full((1, 6, 6), 1 / 6)
    assert head_roles(flat, range(6), range(6))[0].role == "broad"
    three = torch.zeros(1, 6, 6)
    three[0, :, [1, 2, 4]] = 1 / 3
    three[0, :, [0, 3, 5]] = 1e-9  # seen, but not looked at
    assert head_roles(three, range(6), range(6))[0].role == "mixed"


def test_a_model_of_induction_is_found_to_be_one():
    model = induction_model()
    text = [0, 3, 5, 1, 0, 3, 5]
    first, second = attention_weights(model, text).values()
    assert head_roles(first, text, text, causal=True)[0].role == "previous"
    found = head_roles(second, text, text, causal=True)[0]
    assert found.shares["induction"] == pytest.approx(1.0)
    assert found.role == "induction"
    random = induction_on_random(model)
    assert random["decoder.blocks.1.attention.weights"] == pytest.approx([1.0])
    assert random["decoder.blocks.0.attention.weights"] == pytest.approx([0.0], abs=1e-6)


def test_induction_needs_a_causal_stack_and_room_to_repeat(tiny):
    assert induction_on_random(tiny(kind="encoder")) == {}
    assert induction_on_random(tiny(max_positions=3, positions="learned")) == {}
    assert set(induction_on_random(tiny(max_positions=5, positions="learned"), [1])) == {
        "decoder.blocks.0.attention.weights",
        "decoder.blocks.1.attention.weights",
    }
    with pytest.raises(DataError):
        attention_weights(tiny(max_positions=3, positions="learned"), [1, 2, 3, 4])
