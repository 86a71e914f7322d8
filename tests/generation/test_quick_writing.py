"""Writing runs a quick copy of the model, unless it is told not to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from glassformer.core.errors import DataError
from glassformer.generation.answer import answer_texts
from glassformer.generation.beam import beam_search
from glassformer.generation.config import BeamConfig, GenerationConfig
from glassformer.generation.embed import embed_texts
from glassformer.generation.score import score
from glassformer.generation.stream import generate
from glassformer.kernels.operators import has_operators
from glassformer.models import quick as quick_module
from glassformer.models.quantise import quantise_model
from glassformer.parts.product import QuickLinear

from .tiny import Letters, build

PROMPTS = [[5, 6], [5, 6, 7, 8, 9], [7]]

pytestmark = pytest.mark.skipif(not has_operators(), reason="there is no C++ compiler")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A number for each projection that a quick copy ran."""
    made: list[int] = []
    plain = QuickLinear.forward

    def forward(self: QuickLinear, input: torch.Tensor) -> torch.Tensor:
        made.append(1)
        return plain(self, input)

    monkeypatch.setattr(QuickLinear, "forward", forward)
    return made


@pytest.mark.parametrize("least", [0, 6])
@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
def test_texts_are_those_of_the_model_as_it_is_written(calls: list[int], kind: str, least: int) -> None:
    model, tokenizer = build(kind), Letters()
    sources: Any = PROMPTS if kind == "encoder_decoder" else None

    def write(fast: Any) -> list[tuple[int, ...]]:
        found = generate(
            model,
            PROMPTS,
            GenerationConfig(max_new_tokens=8, min_new_tokens=least, fast=fast),
            tokenizer=tokenizer,
            sources=sources,
        )
        return [row.tokens for row in found]

    def search(fast: Any) -> list[tuple[int, ...]]:
        config = BeamConfig(beam=3, max_new_tokens=8, min_new_tokens=least, fast=fast)
        return [row[0].tokens for row in beam_search(model, PROMPTS, config, tokenizer=tokenizer, sources=sources)]

    for way in (write, search):
        expected = way("off")
        assert not calls
        assert way("auto") == expected
        assert calls
        calls.clear()


def test_answers_hand_on_what_they_are_told(calls: list[int]) -> None:
    loaded = SimpleNamespace(model=build("encoder_decoder"), tokenizer=Letters())
    for beam in (1, 2):
        expected = answer_texts(loaded, ["abc"], BeamConfig(beam=beam, max_new_tokens=5, fast="off"))
        assert not calls
        found = answer_texts(loaded, ["abc"], BeamConfig(beam=beam, max_new_tokens=5))
        assert found[0][0].tokens == expected[0][0].tokens
        assert calls
        calls.clear()


@pytest.mark.parametrize("quantised", [False, True])
def test_o16_damaged_weights_are_no_text_in_a_quick_copy_either(quantised: bool) -> None:
    """In 8 bits, NaN is no level; and no attention takes it for nothing to see."""
    model = build(n_layers=1)
    model = quantise_model(model) if quantised else model
    with torch.no_grad():
        model.decoder.blocks[0].attention_norm.weight[3] = torch.nan
    for prompt in ([5], list(range(3, 29))):
        with pytest.raises(DataError, match="row 0: the score of token 0 is nan"):
            generate(model, [prompt], GenerationConfig(max_new_tokens=2), tokenizer=Letters())
        with pytest.raises(DataError, match="row 0: the score of token 0 is nan"):
            beam_search(model, [prompt], BeamConfig(beam=2, max_new_tokens=2), tokenizer=Letters())


@pytest.mark.parametrize("quantised", [False, True])
def test_scores_and_vectors_are_read_by_a_quick_copy_too(
    calls: list[int], quantised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build()
    model = quantise_model(model) if quantised else model
    loaded = SimpleNamespace(model=model, tokenizer=Letters(bos=None))

    def read() -> torch.Tensor:
        scored = score(model, [5, 6, 7, 8, 9], tokenizer=Letters())
        vectors = embed_texts(loaded, ["abc", "hello world"])
        return torch.cat((torch.tensor(scored.logprobs), vectors.flatten()))

    quick = read()
    assert calls
    calls.clear()
    monkeypatch.setattr(quick_module, "has_operators", lambda: False)
    torch.testing.assert_close(quick, read(), atol=1e-5, rtol=1e-5)
    assert not calls
