"""A model in 8 bits: rows padded and alone, cached and whole, beams that change places, half precision.

What comes into a matrix is rounded too, so the last digit of a float32 number may decide between two levels. That is
no fault, and rare: of these small models no number falls on such an edge, and the limits are those of float32. Where
many are computed some do; in float64 they are 1e8 times rarer, and a fault would stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.core.places import Places
from glassformer.models.quantise import quantise_model
from glassformer.models.transformer import Transformer

from .architectures import ARCHITECTURES, TOKENS

Tiny = Callable[..., Transformer]
ROWS = [[5, 6], [5, 6, 7, 8, 9], [7]]


def alone(model: Transformer, row: Sequence[int]) -> Tensor:
    tokens = torch.tensor([row])
    logits: Tensor = model(tokens, memory=None if model.encoder is None else model.encode(tokens))[0]
    return logits


def padded(rows: Sequence[Sequence[int]], side: str, filler: int = 0) -> tuple[Tensor, Places]:
    width = max(len(row) for row in rows)
    places = Places.from_lengths([len(row) for row in rows], width, side=side)
    inputs = torch.full((len(rows), width), filler)
    for row, tokens in enumerate(rows):
        inputs[row, places.is_token[row]] = torch.tensor(tokens, dtype=torch.long)
    return inputs, places


@pytest.mark.parametrize("arguments", ARCHITECTURES)
@torch.no_grad()
def test_o01_rows_in_8_bits_are_what_each_is_alone(tiny: Tiny, arguments: dict[str, Any]) -> None:
    """Padded on either side, in any order, one, two or three of them."""
    model = quantise_model(tiny(**arguments))
    expected = [alone(model, row) for row in ROWS]
    for order in ([0, 1, 2], [2, 0, 1], [1, 0]):
        for side in ("left", "right"):
            inputs, places = padded([ROWS[row] for row in order], side, filler=30)
            memory = None if model.encoder is None else model.encode(inputs, places=places)
            logits = model(inputs, places=places, memory=memory)
            for at, row in enumerate(order):
                got = logits[at, places.is_token[at]]
                torch.testing.assert_close(got, expected[row], atol=1e-5, rtol=1e-5)
                assert torch.equal(got.argmax(-1), expected[row].argmax(-1))


def in_chunks(model: Transformer, tokens: Tensor, chunks: Sequence[int], slots: int, source: Tensor) -> Tensor:
    memory = None if model.encoder is None else model.encode(source)
    cache, parts = model.new_cache(1, slots), []
    for chunk in tokens.split(list(chunks), dim=1):
        parts.append(model(chunk, memory=memory, cache=cache))
        cache.advance([chunk.shape[1]])
    assert cache.extent == tokens.shape[1]
    return torch.cat(parts, dim=1)


@pytest.mark.parametrize("arguments", ARCHITECTURES)
@torch.no_grad()
def test_o03_cache_in_8_bits_reproduces_the_full_forward(tiny: Tiny, arguments: dict[str, Any]) -> None:
    model = quantise_model(tiny(**arguments))
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5]])
    full = model(tokens, memory=None if model.encoder is None else model.encode(TOKENS[:1]))
    for chunks in ([8, 1], [1] * 9, [3, 4, 1, 1]):
        for slots in (9, 64):
            got = in_chunks(model, tokens, chunks, slots, TOKENS[:1])
            torch.testing.assert_close(got, full, atol=1e-5, rtol=1e-5)
            assert torch.equal(got.argmax(-1), full.argmax(-1))


@torch.no_grad()
def test_o03_only_numbers_on_an_edge_between_levels_tell_a_cache_from_the_full_forward(tiny: Tiny) -> None:
    """In float32 one of 150 tokens may be off, by less than 8 bits cost anyway; in float64 none is."""
    model = tiny(200, d_model=128, n_layers=4, n_heads=4, d_ff=512, positions="rotary")
    tokens, chunks = torch.randint(0, 200, (1, 150)), [100, *[1] * 50]
    plain = model(tokens)
    full = quantise_model(model)(tokens)
    off = (in_chunks(model, tokens, chunks, 150, TOKENS) - full).abs().max()
    assert off < (full - plain).abs().max()
    model.double()
    torch.testing.assert_close(in_chunks(model, tokens, chunks, 150, TOKENS), model(tokens), atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("arguments", [each for each in ARCHITECTURES if each["kind"] == "encoder_decoder"])
@torch.no_grad()
def test_o31_reordered_cache_in_8_bits_goes_on_from_the_named_rows(tiny: Tiny, arguments: dict[str, Any]) -> None:
    """Two sentences of two beams, which change places, die and double; each step against the whole text."""
    model = quantise_model(tiny(**arguments))
    sources = torch.tensor([[5, 6, 7], [8, 9, 10]]).repeat_interleave(2, 0)
    memory, cache = model.encode(sources), model.new_cache(4, 16)
    texts = [[3, 4], [3, 5], [6, 7], [6, 8]]
    model(torch.tensor(texts), memory=memory, cache=cache)
    cache.advance([2] * 4)
    for step, rows in enumerate(([1, 0, 2, 3], [0, 0, 3, 2], [1, 1, 2, 2], [0, 1, 3, 3])):
        cache.reorder(rows)
        texts = [[*texts[row], 11 + 4 * step + at] for at, row in enumerate(rows)]
        got = model(torch.tensor([[text[-1]] for text in texts]), memory=memory, cache=cache)
        cache.advance([1] * 4)
        expected = model(torch.tensor(texts), memory=memory)[:, -1:]
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("arguments", ARCHITECTURES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@torch.no_grad()
def test_o13_half_precision_in_8_bits_is_float32_but_for_rounding(
    tiny: Tiny, arguments: dict[str, Any], dtype: torch.dtype
) -> None:
    """Beside padding and an empty row, whichever was rounded first. A last digit may move a number to the next level,
    1/127 of the largest of its row, as wide as a unit of bfloat16; two layers of such numbers are within some of them.
    """
    models = quantise_model(tiny(**arguments).to(dtype)), quantise_model(tiny(**arguments)).to(dtype)
    exact = quantise_model(tiny(**arguments).to(dtype)).float()
    inputs, places = padded([ROWS[1], [], ROWS[0]], "left")
    for model in models:
        memory = None if model.encoder is None else model.encode(inputs, places=places)
        logits = model(inputs, places=places, memory=memory)
        assert logits.dtype == dtype
        assert logits.isfinite().all()
        for at, row in ((0, 1), (2, 0)):
            expected = alone(exact, ROWS[row])
            allowed = 8 / 127 * float(expected.abs().max())
            torch.testing.assert_close(logits[at, places.is_token[at]].float(), expected, atol=allowed, rtol=0)
