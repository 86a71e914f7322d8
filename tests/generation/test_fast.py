from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from itertools import count

import pytest
import torch
from torch.nn import functional as F

from glassformer.core.tape import Tape
from glassformer.generation import fast as fast_module
from glassformer.generation.config import GenerationConfig
from glassformer.generation.fast import Forward, Packed
from glassformer.generation.stream import generate
from glassformer.models.quantise import quantise_model

from .tiny import Letters, build

PROMPTS = ([5, 6, 7, 8, 9], [10, 11], [7])


class Counted:
    """In the place of the compiler to machine code: counts graphs, and runs them as they are."""

    def __init__(self) -> None:
        torch._dynamo.reset()
        self.graphs = 0

    def __call__(self, function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        return torch.compile(function, backend=self._count, fullgraph=True)

    def _count(self, graph: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        self.graphs += 1
        return graph.forward


@pytest.fixture
def counted(monkeypatch):
    counter = Counted()
    monkeypatch.setattr(fast_module, "compiled", counter)
    return counter


def written(model, prompts, **settings):
    config = GenerationConfig(**({"max_new_tokens": 20, "min_new_tokens": 20} | settings))
    return [each.tokens for each in generate(model, prompts, config, tokenizer=Letters())]


def test_o37_compiled_writing_makes_one_graph_for_all_steps(counted):
    """One for the first step and one for all others; another prompt of other length adds at most one."""
    model = build("decoder", "rotary", n_layers=1)
    for rows in (1, 3):
        counted.graphs = 0
        torch._dynamo.reset()
        for session, length in enumerate((5, 9)):
            prompts = [list(range(5 + row, 5 + row + length)) for row in range(rows)]
            settings = {"max_new_tokens": 50, "min_new_tokens": 50}
            assert written(model, prompts, fast="on", **settings) == written(model, prompts, fast="off", **settings)
            assert counted.graphs <= 2 + session


@pytest.mark.parametrize("positions", ["rotary", "learned", "alibi", "relative", "sinusoidal"])
def test_o01_compiled_writing_equals_the_readable(counted, positions):
    """Rows of unequal length, which end at different times; the ones that are left go on the readable way."""
    model = build("decoder", positions, n_layers=1)
    settings = {"min_new_tokens": 0, "max_new_tokens": 30}
    assert written(model, PROMPTS, fast="on", **settings) == written(model, PROMPTS, fast="off", **settings)
    assert counted.graphs >= 1


def test_compiled_writing_of_an_encoder_decoder_equals_the_readable(counted):
    model = build("encoder_decoder", n_layers=1)
    config = [GenerationConfig(max_new_tokens=12, min_new_tokens=12, fast=fast) for fast in ("on", "off")]
    on, off = (
        [each.tokens for each in generate(model, [[], []], each, tokenizer=Letters(), sources=[[5, 6, 7], [8, 9]])]
        for each in config
    )
    assert on == off
    assert counted.graphs == 2


def test_o40_quantised_model_is_compiled_too(counted):
    model = quantise_model(build("decoder", "rotary", n_layers=1))
    assert written(model, PROMPTS, fast="on") == written(model, PROMPTS, fast="off")
    assert counted.graphs == 2


@pytest.mark.parametrize("fault", ["no compiler", "a compiler that fails"])
def test_o37_where_nothing_can_be_compiled_one_warning_is_given(monkeypatch, fault):
    def fails(function):
        def run(*_):
            raise RuntimeError("ld returned 1 exit status\nand more")

        return run

    if fault == "no compiler":
        monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(fast_module, "compiled", fails)
    model = build("decoder")
    with pytest.warns(UserWarning, match=r"nothing is compiled.*(there is none|exit status)$") as given:
        on = written(model, PROMPTS, fast="on")
    assert len(given) == 1
    assert on == written(model, PROMPTS, fast="off")


def test_what_is_unusual_goes_the_readable_way(counted):
    model = build("decoder")
    written(model, PROMPTS, fast="on", use_cache=False)
    tape = Tape(model, "head.logits")
    list(generate(model, PROMPTS, GenerationConfig(max_new_tokens=4, fast="on"), tokenizer=Letters(), tape=tape))
    written(model, PROMPTS, fast="off")
    written(model, PROMPTS, fast="auto")
    assert counted.graphs == 0


@pytest.mark.parametrize(
    ("readable", "quick", "steps", "compiles"),
    [
        pytest.param(1.0, 0.5, 1000, 992, id="pays"),  # all steps but the eight that are timed first
        pytest.param(1.0, 0.5, 40, 0, id="too short"),  # 32 steps of a second, of which a fifth is saved
        pytest.param(1.0, 1.5, 1000, 9, id="slower"),  # given up when eight steps after the first say so
    ],
)
def test_auto_compiles_what_pays_and_gives_up_what_is_slower(readable, quick, steps, compiles):
    model, now, ran = build("decoder", "none", n_layers=1, d_model=2, n_heads=1), [0.0], []

    def compiler(function):
        def run(*given):
            ran.append(1)
            now[0] += quick
            return function(*given)

        return run

    forward = Forward(model, "auto", steps, clock=lambda: now[0], compiler=compiler)
    plain = model.forward

    def slow(*given, **settings):
        now[0] += 0 if len(ran) and settings.get("places") is None else readable
        return plain(*given, **settings)

    model.forward = slow
    cache = model.new_cache(1, steps + 1)
    with torch.no_grad():
        for _ in range(steps):
            forward(torch.tensor([[5]]), _places(cache), memory=None, cache=cache, tape=None)
            cache.advance([1])
    assert len(ran) == compiles


def _places(cache):
    return cache._following(1)


def test_packed_products_are_those_of_the_matrices(monkeypatch):
    monkeypatch.setattr(fast_module, "LEAST_NUMBERS", 0)
    x, weight, bias = torch.randn(4, 1, 24), torch.nn.Parameter(torch.randn(40, 24)), torch.randn(40)
    with torch.no_grad(), Packed() as packed:
        torch.testing.assert_close(F.linear(x, weight, bias), x @ weight.t() + bias, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(F.linear(x, weight), x @ weight.t(), atol=1e-5, rtol=1e-5)
        assert len(packed._copies) == 1
        weight.mul_(2)  # a copy of what it was is no longer used
        torch.testing.assert_close(F.linear(x, weight), x @ weight.t(), atol=1e-5, rtol=1e-5)
        half = F.linear(x.bfloat16(), weight.bfloat16())
        assert half.dtype == torch.bfloat16
        assert len(packed._copies) == 1


def test_o01_writing_through_packed_matrices_equals_the_readable(monkeypatch):
    used = count()
    product = Packed._linear
    monkeypatch.setattr(Packed, "_linear", lambda *given: (next(used), product(*given))[1])
    monkeypatch.setattr(fast_module, "LEAST_NUMBERS", 0)
    model = build("decoder", "rotary")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert written(model, PROMPTS, fast="auto") == written(model, PROMPTS, fast="off")
    assert next(used) > 0
