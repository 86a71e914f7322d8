"""Every causal family goes one path: however its rows are put together, a token's numbers are those of its row alone.

The tiny preset of every family is taken from the registry; architectures beyond it are listed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.core.call import Memory
from glassformer.core.config import TransformerConfig
from glassformer.core.places import Places
from glassformer.core.position_config import RotaryConfig, YarnScaling
from glassformer.families.registry import FAMILIES, preset
from glassformer.models.arguments import AttentionArguments
from glassformer.models.transformer import Transformer

from .tiny import VOCAB_SIZE, drawn


def changed(name: str, **changes: Any) -> TransformerConfig:
    return preset(name).model_copy(update=changes).resolve(VOCAB_SIZE)


MORE: list[tuple[str, TransformerConfig]] = [
    ("gpt2-untied-unscaled", changed("gpt2-tiny", tied=False, attention=AttentionArguments(scale="none"))),
    ("gpt-neox-in-turn", changed("gpt-neox-tiny", parallel=False, parallel_norms=1)),
    ("qwen3-window-by-layer", changed("qwen3-tiny", attention=AttentionArguments(window=3, window_layers=(1,)))),
    ("llama-yarn", changed("llama-tiny", rotary=RotaryConfig(scaling=YarnScaling(factor=4.0, original_positions=8)))),
]
"""Switches of a family that its tiny preset does not show."""

CAUSAL = [
    *(
        (name, size.arguments.resolve(VOCAB_SIZE))
        for family in FAMILIES
        for name, size in family.presets.items()
        if name.endswith("-tiny") and size.arguments.kind != "encoder"
    ),
    *MORE,
]

ROWS = ([5, 6, 7, 8, 9, 2, 4], [7, 3], [2, 2, 5, 2])
SOURCES = ([20, 21, 2], [22, 23, 24, 25, 2], [26, 2])
PAD = 2

every = pytest.mark.parametrize("config", [pytest.param(config, id=name) for name, config in CAUSAL])


def laid(rows: Sequence[Sequence[int]], side: str) -> tuple[Tensor, Places]:
    """Rows padded on one side, one slot wider than the longest."""
    width = max(map(len, rows)) + 1
    padded = [[*row, *[PAD] * (width - len(row))] if side == "right" else [*[PAD] * (width - len(row)), *row]
              for row in rows]  # fmt: skip
    return torch.tensor(padded), Places.from_lengths([len(row) for row in rows], width, side=side)


def memory_of(model: Transformer, rows: Sequence[int], side: str = "right") -> Memory | None:
    if model.encoder is None:
        return None
    tokens, places = laid([SOURCES[row] for row in rows], side)
    return model.encode(tokens, places=places)


def alone(model: Transformer, row: int, tokens: Sequence[int]) -> Tensor:
    """The logits of one row without any padding, (T, V)."""
    logits: Tensor = model(torch.tensor([list(tokens)]), memory=memory_of(model, [row]))[0]
    return logits


def assert_close(found: Tensor, expected: Tensor) -> None:
    """At most 1e-5, of logits as large as the largest."""
    size = float(expected.abs().max()) if len(expected) else 1.0
    torch.testing.assert_close(found, expected, atol=1e-5 * max(1.0, size), rtol=0)


@every
@pytest.mark.parametrize("side", ["right", "left"])
@torch.no_grad()
def test_o01_padded_rows_equal_rows_alone(config, side):
    model = drawn(config)
    for order in ([0, 1, 2], [2, 0], [1]):
        tokens, places = laid([ROWS[row] for row in order], side)
        logits = model(tokens, places=places, memory=memory_of(model, order, side))
        for at, row in enumerate(order):
            assert_close(logits[at, places.is_token[at]], alone(model, row, ROWS[row]))


@every
@pytest.mark.parametrize("chunks", [[8, 1], [1] * 9, [3, 4, 1, 1]], ids=["prompt", "single", "chunks"])
@pytest.mark.parametrize("slots", [9, 64])
@torch.no_grad()
def test_o03_cache_reproduces_the_full_forward(config, chunks, slots):
    model = drawn(config)
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5]])
    memory = memory_of(model, [0])
    full = model(tokens, memory=memory)
    cache, parts = model.new_cache(1, slots), []
    for chunk in tokens.split(chunks, dim=1):
        parts.append(model(chunk, memory=memory, cache=cache))
        cache.advance([chunk.shape[1]])
    cached = torch.cat(parts, dim=1)
    assert_close(cached, full)
    assert torch.equal(cached.argmax(-1), full.argmax(-1))
    assert cache.extent == 9


@every
@pytest.mark.parametrize("side", ["right", "left"])
@torch.no_grad()
def test_o03_cache_of_unequal_rows_reproduces_rows_alone(config, side):
    """Prompts of different lengths in two chunks, then single tokens; a row that has ended is given none."""
    model = drawn(config)
    expected = [alone(model, row, tokens) for row, tokens in enumerate(ROWS)]
    memory, cache, done = memory_of(model, range(3), side), model.new_cache(3, 8), [0, 0, 0]
    for counts in ([3, 1, 2], [2, 1, 1], [1, 0, 1], [1, 0, 0]):
        chunks = [ROWS[row][done[row] : done[row] + counts[row]] for row in range(3)]
        tokens, _ = laid(chunks, side)
        places = Places.from_lengths(counts, tokens.shape[1], side=side, start=done)
        logits = model(tokens, places=places, memory=memory, cache=cache)
        cache.advance(counts)
        for row, count in enumerate(counts):
            assert_close(logits[row, places.is_token[row]], expected[row][done[row] : done[row] + count])
            done[row] += count
    assert done == [7, 2, 4]


@every
@torch.no_grad()
def test_o31_reordered_cache_goes_on_from_the_named_rows(config):
    """Two beams swap their parents and both go on from the second; the sentence they look at stays."""
    model = drawn(config)
    memory = memory_of(model, [0, 0])
    cache = model.new_cache(2, 8)
    model(torch.tensor([[5, 6, 7], [8, 9, 10]]), memory=memory, cache=cache)
    cache.advance([3, 3])
    cache.reorder([1, 1])
    got = model(torch.tensor([[1], [2]]), memory=memory, cache=cache)
    for row, tokens in enumerate(([8, 9, 10, 1], [8, 9, 10, 2])):
        assert_close(got[row, 0], alone(model, 0, tokens)[-1])
