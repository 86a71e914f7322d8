from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
import torch

from glassformer.core.tape import Tape
from glassformer.generation import fast as fast_module
from glassformer.generation.config import GenerationConfig
from glassformer.generation.stream import generate
from glassformer.models.quantise import quantise_model
from glassformer.models.quick import quick_copy
from glassformer.models.transformer import Transformer

from .tiny import Letters, build

PROMPTS = ([5, 6, 7, 8, 9], [10, 11], [7])


class Counted:
    """In the place of the compiler to machine code: counts graphs, and runs them as they are."""

    def __init__(self) -> None:
        self.graphs = 0
        self.runs = 0

    def __call__(self, function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        return torch.compile(function, backend=self._count, fullgraph=True)

    def _count(self, graph: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        self.graphs += 1

        def run(*given: object) -> object:
            self.runs += 1
            return graph.forward(*given)

        return run


@pytest.fixture
def counted(monkeypatch):
    torch._dynamo.reset()
    counter = Counted()
    monkeypatch.setattr(fast_module, "compiled", counter)
    yield counter
    torch._dynamo.reset()


def written(model, prompts, sources=None, **settings):
    config = GenerationConfig(**({"max_new_tokens": 20, "min_new_tokens": 20} | settings))
    return [each.tokens for each in generate(model, prompts, config, tokenizer=Letters(), sources=sources)]


@pytest.mark.parametrize("rows", [1, 3])
def test_o37_compiled_writing_makes_one_graph_for_all_steps(counted, rows):
    """One for the first step and one for all others; another prompt of other length adds at most one."""
    model = build("decoder", "rotary", n_layers=1)
    for session, length in enumerate((5, 9)):
        prompts = [list(range(5 + row, 5 + row + length)) for row in range(rows)]
        settings = {"max_new_tokens": 50, "min_new_tokens": 50}
        assert written(model, prompts, fast="on", **settings) == written(model, prompts, fast="off", **settings)
        assert counted.graphs <= 2 + session
        assert counted.runs == 49 * (session + 1)


@pytest.mark.parametrize("positions", ["rotary", "learned", "alibi", "relative", "sinusoidal"])
def test_o01_compiled_writing_equals_the_readable(counted, positions):
    """Rows of unequal length, which end at different times; the ones that are left go on the readable way."""
    model = build("decoder", positions, n_layers=1)
    settings = {"min_new_tokens": 0, "max_new_tokens": 30}
    assert written(model, PROMPTS, fast="on", **settings) == written(model, PROMPTS, fast="off", **settings)
    assert counted.runs > 0


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"attention": {"window": 4}}, id="window"),
        pytest.param({"attention": {"type": "linear"}, "positions": "none"}, id="linear"),
        pytest.param({"attention": {"window": 4, "window_layers": (0,)}, "n_layers": 2}, id="window in one layer"),
    ],
)
def test_o37_compiled_writing_of_other_attention_equals_the_readable(counted, arguments):
    model = build("decoder", **({"positions": "rotary", "n_layers": 1} | arguments))
    assert written(model, PROMPTS, fast="on") == written(model, PROMPTS, fast="off")
    assert counted.graphs <= 3
    assert counted.runs > 0


def test_o37_every_number_of_rows_is_compiled_in_one_process(counted):
    """torch makes 8 graphs of one piece of code; models of one kind share theirs."""
    for rows in range(1, 7):
        for _ in range(2):
            model = build("decoder", "rotary", n_layers=1)
            assert written(model, [[5]] * rows, fast="on") == written(model, [[5]] * rows, fast="off")
        assert counted.graphs == 2 * rows


def test_o37_a_second_model_of_other_shape_is_compiled_in_one_process(counted):
    """Its number of heads is no number that varies between steps of one model."""
    for number, arguments in enumerate(({}, {"n_kv_heads": 1}, {"d_model": 32, "n_heads": 4}), 1):
        model = build("decoder", "rotary", n_layers=1, **arguments)
        assert written(model, PROMPTS, fast="on") == written(model, PROMPTS, fast="off")
        assert counted.graphs == 2 * number


def test_o37_the_limit_of_graphs_is_told_in_one_line(counted, capfd):
    model = build("decoder", "rotary", n_layers=1)
    with (
        torch._dynamo.config.patch(recompile_limit=1),
        pytest.warns(UserWarning, match=r"^not compiled, .*: torch makes no more graphs of this model"),
    ):
        on = written(model, [[5]], fast="on")
    assert on == written(model, [[5]], fast="off")
    assert counted.graphs == 1
    assert capfd.readouterr().err == ""


def test_o37_compiled_writing_draws_the_same_tokens(counted):
    model = build("decoder", "rotary", n_layers=1)
    settings = {"temperature": 1.0, "top_k": 8, "seed": 3, "repetition_penalty": 1.2}
    assert written(model, PROMPTS, fast="on", **settings) == written(model, PROMPTS, fast="off", **settings)
    assert counted.runs > 0


def test_o37_compiled_writing_slides(counted):
    model = build("decoder", "learned", n_layers=1, max_positions=16)
    settings = {"max_new_tokens": 40, "min_new_tokens": 40, "when_full": "slide"}
    assert written(model, [[5, 6]], fast="on", **settings) == written(model, [[5, 6]], fast="off", **settings)
    assert counted.graphs <= 3
    assert counted.runs > 30


def test_o37_compiled_writing_of_an_encoder_decoder_equals_the_readable(counted):
    model = build("encoder_decoder", n_layers=1)
    sources = [[5, 6, 7], [8, 9]]
    assert written(model, [[], []], sources, fast="on") == written(model, [[], []], sources, fast="off")
    assert counted.graphs <= 2
    assert counted.runs > 0


def test_o40_quantised_model_is_compiled_too(counted):
    model = quantise_model(build("decoder", "rotary", n_layers=1))
    assert written(model, PROMPTS, fast="on") == written(model, PROMPTS, fast="off")
    assert counted.graphs <= 2
    assert counted.runs > 0


@pytest.mark.parametrize("fault", ["no compiler", "a compiler that fails", "no folder for it"])
def test_o37_where_nothing_can_be_compiled_one_warning_is_given(monkeypatch, fault):
    def fails(function):
        if fault == "no folder for it":
            raise FileNotFoundError(2, "No such file or directory", "/proc/nope")

        def run(*_):
            raise RuntimeError("the backend raised:\nld returned 1 exit status\n\nand more")

        return run

    if fault == "no compiler":
        monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(fast_module, "compiled", fails)
    model = build("decoder")
    with pytest.warns(UserWarning, match=r"not compiled.*(there is none|exit status|directory: /proc/nope)$") as given:
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
    ("steps", "compiled"),
    [
        pytest.param(30, 20, id="half of it is still to come"),
        pytest.param(19, 0, id="too short to pay for a graph"),
    ],
)
def test_auto_compiles_once_it_pays(counted, monkeypatch, steps, compiled):
    monkeypatch.setattr(fast_module, "PAYS", 10)
    model = build("decoder", "rotary", n_layers=1)
    settings = {"max_new_tokens": steps, "min_new_tokens": steps}
    assert written(model, [[5]], fast="auto", **settings) == written(model, [[5]], fast="off", **settings)
    assert counted.runs == compiled


def test_models_of_one_kind_share_graphs_and_others_do_not():
    model = build("decoder", "rotary", n_layers=1)
    kind = fast_module.kind_of(quick_copy(model))
    assert fast_module.kind_of(quick_copy(model)) == kind
    assert fast_module.kind_of(quick_copy(build("decoder", "rotary", n_layers=1, seed=7))) == kind

    def changed(change: Callable[[Transformer], object]) -> str:
        other = build("decoder", "rotary", n_layers=1)
        change(other)
        return fast_module.kind_of(quick_copy(other))

    attention = "decoder.blocks.0.attention"
    changes: list[Callable[[Transformer], object]] = [
        lambda other: setattr(other.get_submodule(attention), "scale", 0.5),
        lambda other: other.get_submodule(attention).register_forward_hook(lambda *given: None),
        lambda other: other.half(),
        lambda other: setattr(other.get_submodule(attention).qkv, "bias", None),
        quantise_in_place,
        lambda other: setattr(other.decoder.blocks[0].attention_norm, "weight", other.decoder.final_norm.weight),
    ]
    assert len({kind, *(changed(change) for change in changes)}) == 1 + len(changes)


def quantise_in_place(model: Transformer) -> None:
    model.decoder = quantise_model(model).decoder


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler")
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's own, when it loads its compiler
def test_what_is_changed_in_a_model_is_seen_by_the_next_generation():
    """Steps ask nothing about the model, so what it is must be asked before the first."""
    torch._dynamo.reset()
    model = build("decoder", "rotary", n_layers=1)
    for scale in (model.decoder.blocks[0].attention.scale, 3.0):
        model.decoder.blocks[0].attention.scale = scale
        assert written(model, PROMPTS[:1], fast="on") == written(model, PROMPTS[:1], fast="off")
    torch._dynamo.reset()


def test_guards_about_the_model_are_left_out():
    class Guard:
        def __init__(self, name: str) -> None:
            self.name = name

    names = ["model._modules['head']", "cache.layers", "", "tokens"]
    assert fast_module.may_change([Guard(name) for name in names]) == [False, True, True, True]
