"""Passes with a cache: what goes in, what is held, and the same logits as in one pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from glassformer.core.errors import DataError, UnsupportedError
from glassformer.families.registry import PRESETS
from glassformer.inspection.trace_generation import trace_generation
from glassformer.models.arguments import ModelArguments
from glassformer.models.transformer import Transformer

Make = Callable[..., Transformer]


def test_each_pass_takes_the_new_token_alone(tiny: Make):
    """Two layers, two heads of 8 numbers, keys and values in float32: 2 * 2 * 2 * 8 * 4 = 256 bytes a token."""
    model = tiny()
    found = trace_generation(model, [1, 2, 3], 4)
    assert [len(each.read) for each in found.passes] == [3, 1, 1, 1]
    assert [(each.before, each.after) for each in found.passes] == [(0, 3), (3, 4), (4, 5), (5, 6)]
    assert [(each.bytes_before, each.bytes_after) for each in found.passes] == [
        (0, 768), (768, 1024), (1024, 1280), (1280, 1536),
    ]  # fmt: skip
    assert found.positions == 6
    assert not found.ended
    assert found.passes[1].read == (found.passes[0].written,)


def test_written_tokens_are_the_greedy_ones(tiny: Make):
    model, tokens = tiny(), [1, 2, 3]
    written = [each.written for each in trace_generation(model, tokens, 3).passes]
    for token in written:
        with torch.no_grad():
            assert int(model(torch.tensor([tokens]))[0, -1].argmax()) == int(token)
        tokens.append(int(token))


@pytest.mark.parametrize(
    "arguments",
    [
        {"positions": "rotary", "n_kv_heads": 1},
        {"attention": {"window": 2}},
        {"attention": {"type": "linear"}},
        {"attention": {"type": "shaw", "max_distance": 2}},
        {"kind": "encoder_decoder", "positions": "relative"},
    ],
    ids=lambda arguments: "-".join(map(str, arguments.values())),
)
def test_o03_passes_give_the_logits_of_one_pass(tiny: Make, arguments: dict[str, Any]):
    model = tiny(**arguments)
    sources = [5, 6, 7] if model.encoder is not None else None
    found = trace_generation(model, [1, 2], 5, sources=sources)
    assert 0 <= found.difference < 1e-4
    assert len(found.passes) == 5


@pytest.mark.parametrize("name", sorted(name for name in PRESETS if name.endswith("-tiny")))
def test_o03_every_family_that_writes_agrees_with_one_pass(name):
    arguments = PRESETS[name]
    if arguments.kind == "encoder":
        pytest.skip("it does not write")
    model = Transformer(arguments.resolve(32)).eval()
    sources = [5, 6, 7] if model.encoder is not None else None
    found = trace_generation(model, [1, 2], 3, sources=sources)
    assert found.difference < 1e-4


def test_linear_attention_holds_the_same_at_every_token(tiny: Make):
    """Sums of 8 x 8 and 8 numbers for each of 2 heads in 2 layers."""
    passes = trace_generation(tiny(attention={"type": "linear"}), [1, 2, 3], 3).passes
    assert {each.bytes_after for each in passes} == {2 * 2 * (8 * 8 + 8) * 4}


def test_memory_is_held_from_the_first_pass_on(tiny: Make):
    """Of 3 source tokens, as much as of 3 of one's own."""
    passes = trace_generation(tiny(kind="encoder_decoder"), [1], 2, sources=[5, 6, 7]).passes
    assert (passes[0].bytes_before, passes[0].bytes_after) == (0, 256 + 3 * 256)


def test_text_that_ends_stops(tiny: Make):
    model = tiny()
    first = int(trace_generation(model, [1, 2, 3], 1).passes[0].written)
    found = trace_generation(model, [1, 2, 3], 4, ends=[first])
    assert len(found.passes) == 1
    assert found.ended


def test_what_does_not_write_or_fit_is_refused(tiny: Make):
    with pytest.raises(UnsupportedError, match="does not write"):
        trace_generation(tiny(kind="encoder"), [1], 2)
    labelling = ModelArguments(kind="decoder", d_model=16, n_layers=1, n_heads=2).resolve(32, classes=("a", "b"))
    with pytest.raises(UnsupportedError, match="does not write"):
        trace_generation(Transformer(labelling), [1], 2)
    short = tiny(positions="learned", max_positions=4)
    with pytest.raises(DataError, match=r"context of 4; write at most 2: --generate 2"):
        trace_generation(short, [1, 2, 3], 3)
    assert len(trace_generation(short, [1, 2, 3], 2).passes) == 2
    with pytest.raises(DataError, match="nothing to go on from"):
        trace_generation(short, [], 2)
