"""Several rows of a decoder that look at one row of a memory see what they would see in copies of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from glassformer.core.call import Memory
from glassformer.core.errors import DataError, UnsupportedError
from glassformer.core.places import Places
from glassformer.core.tape import Tape

SOURCES = torch.tensor([[5, 6, 7, 8], [9, 10, 2, 2]])
TARGETS = torch.tensor([[5, 6, 7], [8, 9, 2], [6, 6, 6], [7, 2, 2], [11, 12, 13], [14, 2, 2]])
LENGTHS = [3, 2, 3, 1, 3, 1]
BEAMS = 3


def copied(memory: Memory) -> Memory:
    rows = torch.arange(len(SOURCES)).repeat_interleave(BEAMS)
    places = memory.places
    if not places.plain:
        places = Places(places.position[rows], places.segment[rows])
    return Memory(memory.states[rows], places)


@pytest.mark.parametrize("n_kv_heads", [1, 2])
@pytest.mark.parametrize("lengths", [[4, 2], [4, 4], [4, 0]])
@pytest.mark.parametrize("kernel", ["sdpa", "reference"])
@pytest.mark.parametrize("window", [None, 2])
def test_beams_that_share_a_memory_equal_copies(tiny, n_kv_heads, lengths, kernel, window):
    model = tiny(
        kind="encoder_decoder", n_kv_heads=n_kv_heads, attention={"kernel": kernel, "window": window}, n_layers=1
    )
    for places in (None, Places.from_lengths(LENGTHS), Places.from_lengths(LENGTHS, 3, side="left")):
        memory = model.encode(SOURCES, places=Places.from_lengths(lengths, 4))
        expected = model(TARGETS, places=places, memory=copied(memory))
        got = model(TARGETS, places=places, memory=replace(memory, beams=BEAMS))
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


def test_o03_a_cache_with_a_shared_memory_reproduces_the_full_forward(tiny):
    """One row a sentence first; then three, of which the memory's keys stay one."""
    model = tiny(kind="encoder_decoder")
    memory = model.encode(SOURCES, places=Places.from_lengths([4, 2]))
    tokens = torch.cat([torch.tensor([[5, 6]] * 3 + [[8, 9]] * 3), TARGETS], dim=1)
    with torch.no_grad():
        expected = model(tokens, memory=copied(memory))
        cache = model.new_cache(2, 64)
        first = model(tokens[::BEAMS, :2], memory=memory, cache=cache)
        cache.advance([2, 2])
        cache.select([0, 0, 0, 1, 1, 1], [0, 1])
        shared = replace(memory, beams=BEAMS)
        second = model(tokens[:, 2:4], memory=shared, cache=cache)
        cache.advance([2] * 6)
        third = model(tokens[:, 4:], memory=shared, cache=cache)
    torch.testing.assert_close(first, expected[::BEAMS, :2], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(second, expected[:, 2:4], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(third, expected[:, 4:], atol=1e-5, rtol=1e-5)
    assert all(layer.cross[0].shape[0] == 2 for layer in cache.layers)


def test_beams_that_do_not_fit_or_are_looked_at_are_refused(tiny):
    model = tiny(kind="encoder_decoder")
    memory = model.encode(SOURCES)
    with pytest.raises(DataError, match="memory has 2 rows, the inputs 6; give one memory row for each input row"):
        model(TARGETS, memory=memory)
    with pytest.raises(DataError, match="memory has 2 rows, the inputs 6; give one memory row for every 2 input rows"):
        model(TARGETS, memory=replace(memory, beams=2))
    shared = replace(memory, beams=BEAMS)
    with pytest.raises(UnsupportedError, match="a tape cannot look at 3 beams that share a memory row"):
        model(TARGETS, memory=shared, tape=Tape(model, "*"))
