"""Writing in 8 bits: batches and rows alone, with a cache and without, beams that change places."""

from __future__ import annotations

from typing import Any

import pytest

from glassformer.generation.config import GenerationConfig
from glassformer.generation.stream import generate
from glassformer.models.quantise import quantise_model

from .test_beam import MODELS, assert_equal, oracle, search
from .tiny import POSITIONS, Letters, build, naive

PROMPTS = [[5, 6], [5, 6, 7, 8, 9], [7]]
SOURCES = [[9, 8, 7, 6], [5], [6, 7, 10, 11, 12, 13]]
ORDERS = ([0], [1], [2], [0, 1], [0, 1, 2], [2, 0, 1])


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
def test_o01_o03_a_batch_in_8_bits_writes_what_its_rows_write_alone(kind: str, positions: str) -> None:
    model, config = quantise_model(build(kind, positions)), {"max_new_tokens": 8}
    sources = SOURCES if kind == "encoder_decoder" else None
    expected = [tuple(naive(model, [1, *prompt], 8, sources and sources[row])) for row, prompt in enumerate(PROMPTS)]
    assert len(set(expected)) == 3, "rows that differ show a mix-up"
    for rows in ORDERS:
        for use_cache in (True, False):
            written = generate(
                model,
                [PROMPTS[row] for row in rows],
                GenerationConfig(use_cache=use_cache, **config),
                tokenizer=Letters(eos=None),
                sources=sources and [sources[row] for row in rows],
            )
            assert [one.tokens for one in written] == [expected[row] for row in rows]


@pytest.mark.parametrize("arguments", MODELS)
def test_o01_o31_beams_in_8_bits_are_those_of_each_sentence_computed_anew(arguments: dict[str, Any]) -> None:
    """Other order, with and without a cache; beams do change places."""
    model = quantise_model(build(**arguments))
    oracles = [oracle(model, row) for row in range(3)]
    expected = [one.search(beam=3, limit=6, n_best=3) for one in oracles]
    assert any(one.swapped for one in oracles)
    for rows, use_cache in (([0], True), ([0, 1, 2], False), ([2, 0, 1], True)):
        found = search(
            model,
            [PROMPTS[row] for row in rows],
            sources=[SOURCES[row] for row in rows] if model.encoder is not None else None,
            beam=3,
            n_best=3,
            max_new_tokens=6,
            use_cache=use_cache,
        )
        for row, hypotheses in zip(rows, found, strict=True):
            assert_equal(hypotheses, expected[row])
