from __future__ import annotations

import torch

from glassformer.core.cache import KVCache, LayerShape
from glassformer.core.call import Call, Sight
from glassformer.core.mask import Mask, Structure
from glassformer.core.pattern import Blocks
from glassformer.core.places import Places


def a_call() -> Call:
    return Call(Places.full(3), Mask(causal=True), Places.from_lengths([2, 0], 2))


def test_view_of_a_layer_leaves_the_call_alone_and_shares_what_was_made():
    call = a_call()
    second = call.at(1)
    assert (call.layer, second.layer) == (-1, 1)
    assert second.sight(Mask(causal=True)) is call.at(0).sight(Mask(causal=True))
    assert second.once("table", lambda: torch.zeros(1)) is call.once("table", lambda: torch.ones(1))


def test_sight_is_made_once_for_each_rule():
    call = a_call()
    allow = torch.ones(3, 3, dtype=torch.bool)
    plain, windowed = call.sight(Mask(causal=True)), call.sight(Mask(causal=True, window=2))
    assert plain is not windowed
    assert call.sight(Mask(causal=True) & Mask(window=2)) is windowed
    assert call.sight(Mask(allow=allow)) is call.sight(Mask(allow=allow))
    assert call.sight(Mask(allow=allow)) is not call.sight(Mask(allow=allow.clone()))


def test_memory_and_self_are_seen_apart_under_the_same_rule():
    call = a_call()
    assert call.sight(Mask()).keys is call.places
    assert call.memory_sight(Mask()).keys is call.memory
    assert call.sight(Mask()) is not call.memory_sight(Mask())


def test_beams_look_at_a_memory_side_by_side():
    places = Places.from_lengths([3, 3, 2, 1], 3, start=[4, 4, 4, 4])
    call = Call(places, Mask(causal=True), Places.from_lengths([2, 1], 2))
    shared = call.at(1).memory_sight(Mask(), 2)
    assert shared.queries.position.tolist() == [[4, 5, 6, 4, 5, 6], [4, 5, 0, 4, 0, 0]]
    assert shared.dense().shape == (2, 1, 6, 2)
    assert shared.blind().flatten(1).tolist() == [[False] * 6, [False, False, True, False, True, True]]
    assert call.memory_sight(Mask(), 2) is shared
    assert call.sight(Mask()).queries is places


def test_sight_makes_its_tensors_once():
    sight = Sight.of(Mask(), Places.full(3), Places.from_lengths([2, 0], 2))
    assert sight.structure is Structure.GENERAL
    assert sight.dense() is sight.dense()
    assert sight.blind() is sight.blind()
    assert sight.blind().flatten().tolist() == [False, False, False, True, True, True]


def test_sight_by_rows_leaves_out_padding_and_nothing_else():
    padded, packed, allow = (
        Places.from_lengths([2, 3]),
        Places.packed([[2, 1], [3]]),
        torch.ones(3, 3, dtype=torch.bool),
    )
    for mask, queries, keys in ((Mask(), padded, Places.full(4)), (Mask(causal=True), padded, padded)):
        assert Sight.of(mask, queries, keys).by_rows
    for mask, queries, keys in (
        (Mask(), padded, packed),
        (Mask(causal=True), packed, packed),
        (Mask(causal=True), padded, Places.full(3)),
        (Mask(window=2), padded, padded),
        (Mask(allow=allow), padded, padded),
        (Mask(patterns=(Blocks(size=2),)), padded, padded),
    ):
        assert not Sight.of(mask, queries, keys).by_rows


def test_layers_of_several_windows_see_keys_of_their_own():
    cache = KVCache([LayerShape(1, 1), LayerShape(1, 1, window=2), LayerShape(1, 1, recurrent=True)], 1, 8)
    for _ in range(4):
        plan = cache.plan(None, 1)
        call = Call(plan.queries, Mask(causal=True), cache=cache, plan=plan)
        cache.advance([1])
    assert [call.at(layer).keys.position.tolist() for layer in range(3)] == [[[0, 1, 2, 3]], [[2, 3]], [[3]]]
    assert call.key_places == (call.at(0).keys, call.at(1).keys)
    assert call.at(0).sight(call.mask) is call.at(0).sight(call.mask)
    assert call.at(0).sight(call.mask) is not call.at(1).sight(call.mask)
    assert call.at(2).slots is None


def test_call_without_a_tape_changes_nothing():
    class Part:
        site = "somewhere"

    value = torch.ones(2)
    call = a_call()
    assert call.note(Part(), "value", value) is value
    assert not call.wants(Part(), "value")
    assert not call.changes(Part(), "value")
