"""The compiled step: rows padded and alone, texts computed anew, beams that change places, half precision."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.core.places import Places
from glassformer.generation import fast as fast_module
from glassformer.generation.config import GenerationConfig
from glassformer.generation.fast import compiled, step
from glassformer.generation.stream import generate
from glassformer.models.quantise import quantise_model
from glassformer.models.transformer import Transformer

from .tiny import Letters, build, naive

PROMPTS = [[5, 6], [5, 6, 7, 8, 9], [7]]
ONE_LAYER: dict[str, Any] = {"n_layers": 1}
"""Tracing takes a second or two a layer."""


@dataclass
class Graph:
    """A compiled function that counts how often it ran."""

    run: Callable[..., Tensor]
    runs: int = 0

    def __call__(self, *given: Any) -> Tensor:
        self.runs += 1
        return self.run(*given)


@pytest.fixture
def as_is(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Graphs are made as always, and run by torch's own operators."""
    torch._dynamo.reset()
    logging.getLogger("torch.__trace").addFilter(nothing)  # else pytest catches a line for each step of tracing
    graph = Graph(torch.compile(step, backend="eager", fullgraph=True))
    monkeypatch.setattr(fast_module, "compiled", lambda function: graph)
    yield graph
    torch._dynamo.reset()
    logging.getLogger("torch.__trace").removeFilter(nothing)


def nothing(record: logging.LogRecord) -> bool:
    return False


def write_in_orders(model: Transformer, graph: Graph, *orders: list[int]) -> None:
    """Rows of other lengths, in other orders, always write what the equation says of each alone."""
    expected = [tuple(naive(model, [1, *prompt], 8)) for prompt in PROMPTS]
    assert len(set(expected)) == 3, "rows that differ show a mix-up"
    for rows in orders:
        before = graph.runs
        written = generate(
            model,
            [PROMPTS[row] for row in rows],
            GenerationConfig(max_new_tokens=8, fast="on"),
            tokenizer=Letters(eos=None),
        )
        assert [one.tokens for one in written] == [expected[row] for row in rows]
        assert graph.runs == before + 7


@pytest.mark.parametrize("quantised", [False, True], ids=["float32", "8 bits"])
def test_o01_compiled_steps_of_a_batch_write_what_its_rows_write_alone(as_is: Graph, quantised: bool) -> None:
    model = build("decoder", "rotary", **ONE_LAYER)
    alone = [] if quantised else [[0], [2]]  # a graph in 8 bits takes longest
    write_in_orders(quantise_model(model) if quantised else model, as_is, [2, 0, 1], [0, 1, 2], *alone)


def follow(model: Transformer, graph: Graph, tolerance: float = 1e-5) -> None:
    """Two sentences of other lengths, of two beams each, which swap, die and double between compiled steps."""
    texts = [[5, 6, 7, 8, 9]] * 2 + [[10, 11]] * 2
    sources = torch.tensor([[5, 6, 7], [8, 9, 10]]).repeat_interleave(2, 0)
    with torch.no_grad():
        memory = None if model.encoder is None else model.encode(sources)
        cache, places = model.new_cache(4, 64), Places.from_lengths([5, 5, 2, 2], side="left")
        prompt = torch.tensor([[0] * (5 - len(text)) + text for text in texts])
        model(prompt, places=places, memory=memory, cache=cache)
        cache.advance([5, 5, 2, 2])
        for at, rows in enumerate(([0, 1, 2, 3], [1, 0, 2, 3], [0, 0, 3, 2], [1, 1, 2, 2], [0, 1, 3, 3])):
            cache.reorder(rows)
            texts = [[*texts[row], 12 + 4 * at + new] for new, row in enumerate(rows)]
            got = graph(model, torch.tensor([[text[-1]] for text in texts]), memory, cache)
            cache.advance([1] * 4)
            for row, text in enumerate(texts):
                alone = None if model.encoder is None else model.encode(sources[row, None])
                expected = model(torch.tensor([text]), memory=alone, outputs="last")[0]
                torch.testing.assert_close(got[row], expected, atol=tolerance, rtol=tolerance)
                assert got[row].argmax() == expected.argmax()


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"positions": "rotary", "n_kv_heads": 1, "norm": "rms", "gated": True}, id="rotary"),
        pytest.param({"kind": "encoder_decoder", "positions": "relative"}, id="encoder_decoder"),
        pytest.param({"positions": "rotary", "attention": {"window": 3}}, id="window"),
    ],
)
def test_o03_o31_compiled_steps_reproduce_the_full_forward_of_beams_that_change_places(
    as_is: Graph, arguments: dict[str, Any]
) -> None:
    follow(build(**(ONE_LAYER | arguments)), as_is)


def test_o03_o31_compiled_steps_in_8_bits_reproduce_the_full_forward(as_is: Graph) -> None:
    """In float64: of these texts one has a number so near the edge between two levels that a last digit of float32
    decides, with a graph and without."""
    follow(quantise_model(build("decoder", "rotary", **ONE_LAYER)).double(), as_is, 1e-10)


@pytest.mark.parametrize(("dtype", "quantised"), [(torch.float16, False), (torch.bfloat16, True)])
@torch.no_grad()
def test_o13_compiled_steps_of_half_precision_are_the_readable_ones(
    as_is: Graph, dtype: torch.dtype, quantised: bool
) -> None:
    """The same operators in the same types: the same numbers, behind padding and beside a row that was empty."""
    model = build("decoder", "rotary", **ONE_LAYER).to(dtype)
    model = quantise_model(model) if quantised else model
    results = []
    for forward in (as_is, step):
        cache = model.new_cache(3, 64)
        model(torch.tensor(3 * [[5, 6, 7]]), places=Places.from_lengths([3, 1, 0], side="left"), cache=cache)
        cache.advance([3, 1, 0])
        logits = []
        for token in (8, 9):
            logits.append(forward(model, torch.tensor([[token]] * 3), None, cache))
            cache.advance([1] * 3)
        results.append(torch.cat(logits))
    assert results[0].dtype == dtype
    assert results[0].isfinite().all()
    assert torch.equal(*results)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's own, when it loads its compiler
def test_o01_o03_o31_steps_through_the_c_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one case through inductor."""
    torch._dynamo.reset()
    graph = Graph(compiled(step))
    monkeypatch.setattr(fast_module, "compiled", lambda function: graph)
    model = build("decoder", "rotary")
    write_in_orders(model, graph, [0], [2, 0, 1])
    follow(model, graph)
