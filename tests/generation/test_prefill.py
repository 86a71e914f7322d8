"""A prompt that is read in chunks is the prompt that is read at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn

from glassformer.core.attention_config import PatternConfig
from glassformer.core.tape import Tape
from glassformer.generation import fast as fast_module
from glassformer.generation.beam import beam_search
from glassformer.generation.config import BeamConfig, GenerationConfig
from glassformer.generation.stream import Generation, generate
from glassformer.models.quantise import quantise_model
from glassformer.models.transformer import Transformer

from .tiny import POSITIONS, Letters, build

SOURCES = [[9, 8, 7, 6], [5], [6, 7, 10], [11]]

FAMILIES = [
    *(pytest.param({"kind": kind, "positions": positions}, id=f"{kind}-{positions}")
      for kind in ("decoder", "encoder_decoder") for positions in POSITIONS),
    *(pytest.param({"kind": kind, "positions": "rotary", **arguments}, id=f"{kind}-{name}")
      for kind in ("decoder", "encoder_decoder")
      for name, arguments in {
        "linear": {"attention": {"type": "linear"}, "n_kv_heads": 1},
        "window": {"attention": {"window": 3}},
        "window_in_a_layer": {"attention": {"window": 2, "window_layers": (1,)}, "n_kv_heads": 1},
        "shaw": {"attention": {"type": "shaw", "max_distance": 2}},
        "soft_cap": {"attention": {"soft_cap": 2.0}},
        "pattern": {"attention": {"pattern": PatternConfig(block=2, near=0, first=1)}},
        "reference": {"attention": {"kernel": "reference"}},
        "not_causal": {"causal": False},
    }.items()),
]  # fmt: skip


def prompts_for(model: Transformer) -> list[list[int]]:
    """The longest is longer than a window keeps, where positions allow it; one is the begin token alone."""
    longest = 150 if model.max_positions is None else 40
    return [[5 + (i * (row + 3)) % 20 for i in range(n)] for row, n in enumerate((2, longest, 0, longest // 2))]


def sources_for(model: Transformer) -> list[list[int]] | None:
    return SOURCES if model.encoder is not None else None


def write(model: Transformer, chunk: int | None, tape: Tape | None = None, **settings: Any) -> list[Generation]:
    config = GenerationConfig(**{"max_new_tokens": 4, "top": 8, "prefill_chunk": chunk, **settings})
    sources = sources_for(model)
    return generate(model, prompts_for(model), config, tokenizer=Letters(eos=None), sources=sources, tape=tape)


def assert_equal(found: Sequence[Generation], expected: Sequence[Generation], within: float = 1e-5) -> None:
    for one, other in zip(found, expected, strict=True):
        assert (one.tokens, one.text, one.stop_reason) == (other.tokens, other.text, other.stop_reason)
        assert one.logprobs == pytest.approx(other.logprobs, abs=within)
        for got, wanted in zip(one.top, other.top, strict=True):
            assert dict(got) == pytest.approx(dict(wanted), abs=within)


class Passes:
    """The width of each forward pass, and what was asked of it."""

    def __init__(self, model: Transformer) -> None:
        self.seen: list[tuple[int, str]] = []
        model.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, module: nn.Module, given: tuple[torch.Tensor], named: dict[str, Any]) -> None:
        self.seen.append((given[0].shape[1], named["outputs"]))


@pytest.mark.parametrize("arguments", FAMILIES)
def test_chunks_write_what_the_whole_writes(arguments: dict[str, Any]) -> None:
    """Of rows that begin later, or are too short for a chunk; scores of all tokens at all steps."""
    model = build(**arguments)
    expected = write(model, 0)
    assert len({row.top[0] for row in expected}) == 4, "rows that differ show a mix-up"
    assert_equal(write(model, 0, use_cache=False), expected)
    for chunk in (9, 40):
        assert_equal(write(model, chunk), expected)


@pytest.mark.parametrize("arguments", FAMILIES)
def test_chunks_give_a_search_what_the_whole_gives(arguments: dict[str, Any]) -> None:
    model = build(**arguments)

    def search(chunk: int) -> list[Any]:
        config = BeamConfig(beam=3, n_best=2, max_new_tokens=5, prefill_chunk=chunk)
        found = beam_search(model, prompts_for(model), config, tokenizer=Letters(), sources=sources_for(model))
        return [(each.tokens, pytest.approx(each.logprob, abs=1e-4)) for row in found for each in row]

    expected = search(0)
    assert search(16) == expected


@pytest.mark.parametrize("fast", ["off", "auto", "on"])
@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
def test_every_way_of_writing_reads_in_chunks(monkeypatch: pytest.MonkeyPatch, kind: str, fast: str) -> None:
    monkeypatch.setattr(fast_module, "compiled", lambda function: function)
    model = build(kind, "rotary")
    expected = write(model, 0, fast="off")
    passes = Passes(model)
    assert_equal(write(model, 16, fast=fast), expected)
    reading = [(151 - 9 * 16, "hidden"), *[(16, "hidden")] * 8, (16, "last")]
    assert passes.seen == [*reading, *[(1, "last")] * 3], "the odd piece first, and no scores before the end"


def test_a_search_reads_in_chunks() -> None:
    model = build()
    passes = Passes(model)
    config = BeamConfig(beam=2, max_new_tokens=3, prefill_chunk=20)
    beam_search(model, prompts_for(model), config, tokenizer=Letters(eos=None))
    assert passes.seen == [(1, "hidden"), (20, "hidden"), (20, "last"), (1, "last"), (1, "last")]


@pytest.mark.parametrize("settings", [{"chunk": 0}, {"chunk": None}, {"chunk": 41}, {"chunk": 4, "use_cache": False}])
def test_a_prompt_is_read_at_once(settings: dict[str, Any]) -> None:
    """Where that is asked for, where it is no longer than a chunk, and where nothing is kept."""
    model = build()
    passes = Passes(model)
    write(model, max_new_tokens=1, **settings)
    assert passes.seen == [(41, "last")]


def test_a_prompt_is_read_at_once_where_later_tokens_change_earlier_ones() -> None:
    model = build(causal=False)
    passes = Passes(model)
    write(model, 4, max_new_tokens=1)
    assert passes.seen == [(41, "last")]


def test_rows_of_one_length_are_read_at_once_under_a_pattern() -> None:
    """Else they would lose the kernel that skips what the pattern hides."""
    model = build("decoder", "rotary", attention={"pattern": PatternConfig(block=2, near=0, first=1)})
    for prompts, reading in (([[5] * 8, [6] * 8], [9]), ([[5] * 8, [6]], [1, 4, 4])):
        passes = Passes(model)
        generate(model, prompts, GenerationConfig(max_new_tokens=1, prefill_chunk=4), tokenizer=Letters())
        assert [width for width, _ in passes.seen] == reading


def test_a_tape_sees_a_prompt_whole() -> None:
    model = build()
    tape = Tape(model, "decoder.blocks.0.attention.weights", keep="all")
    write(model, 4, tape, max_new_tokens=2)
    assert [weights.shape[2] for weights in tape.all("decoder.blocks.0.attention.weights")] == [41, 1]


@pytest.mark.parametrize("attention", [{}, {"window": 3}, {"type": "linear"}])
def test_what_is_left_of_a_full_context_is_read_in_chunks(attention: dict[str, Any]) -> None:
    """Rows slide at different steps: the others go on by a token meanwhile."""
    model = build("decoder", "learned", max_positions=42, attention=attention)
    settings = {"max_new_tokens": 70, "when_full": "slide"}
    expected = write(model, 0, **settings)
    passes = Passes(model)
    assert_equal(write(model, 8, **settings), expected)
    assert max(width for width, _ in passes.seen) == 8
    assert sum(asked == "last" for _, asked in passes.seen) == 70


@pytest.mark.parametrize("fast", ["off", "auto"])
def test_a_model_in_8_bits_reads_in_chunks(fast: str) -> None:
    """Each token is rounded by itself; where the last bit of a product falls otherwise, to another level."""
    model = quantise_model(build("decoder", "rotary", d_model=32, n_heads=4))
    assert_equal(write(model, 16, fast=fast), write(model, 0, fast=fast), within=1e-2)


def test_half_precision_reads_in_chunks() -> None:
    """Next tokens may differ by rounding, so only the first scores are compared."""
    model = build("decoder", "rotary").to(torch.bfloat16)
    for one, other in zip(write(model, 16, max_new_tokens=1), write(model, 0, max_new_tokens=1), strict=True):
        assert dict(one.top[0]) == pytest.approx(dict(other.top[0]), abs=3e-2)
