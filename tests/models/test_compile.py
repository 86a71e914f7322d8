"""One graph without breaks, and the same numbers; how many graphs a user pays for is counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from glassformer.core.places import Places
from glassformer.core.tape import Patch, Tape
from glassformer.models import loss as loss_module
from glassformer.models.arguments import ModelArguments
from glassformer.models.transformer import Transformer
from glassformer.parts.pooling import pool

TOKENS = torch.tensor([[5, 6, 7, 8, 9], [10, 11, 12, 2, 2]])


class Counted:
    """A model under torch.compile that counts its graphs; a graph break is an error."""

    def __init__(self, model: nn.Module) -> None:
        torch._dynamo.reset()
        self.graphs = 0
        self.model = torch.compile(model, backend=self._count, fullgraph=True)

    def _count(self, graph: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        self.graphs += 1
        return graph.forward

    def __call__(self, *args: object, **given: object) -> torch.Tensor:
        return self.model(*args, **given)


class Pooled(nn.Module):
    def forward(self, x: torch.Tensor, places: Places, how: str) -> torch.Tensor:
        return pool(x, places, how)


@pytest.mark.parametrize(
    "arguments",
    [
        {"kind": "decoder", "positions": "rotary", "norm_place": "pre", "norm": "rms", "gated": True, "n_kv_heads": 1},
        {"kind": "decoder", "positions": "learned", "max_positions": 16, "attention": {"kernel": "reference"}},
        {"kind": "encoder_decoder", "attention": {"window": 2}},
        {"kind": "decoder", "positions": "alibi"},
        {"kind": "encoder_decoder", "positions": "relative"},
        {"kind": "decoder", "attention": {"type": "shaw", "max_distance": 2}},
        {"kind": "decoder", "attention": {"soft_cap": 1.0}},
    ],
    ids=[
        "rotary",
        "learned-reference",
        "encoder_decoder-window",
        "alibi",
        "encoder_decoder-relative",
        "shaw",
        "soft_cap",
    ],
)
def test_compiled_forward_equals_eager(tiny, arguments):
    """One graph plain, one more for padded and packed together, one more for each set of sites on a tape."""
    model = tiny(**(arguments | {"n_layers": 1}))
    compiled = Counted(model)
    layouts = [
        Places.from_lengths([5, 3]),
        Places.from_lengths([4, 1], 5, side="left"),
        Places.packed([[2, 3], [4]]),
    ]
    with torch.no_grad():
        given = {"memory": model.encode(TOKENS)} if model.encoder is not None else {}
        for graphs, places in [(1, None), *((2, places) for places in layouts)]:
            torch.testing.assert_close(compiled(TOKENS, places=places, **given), model(TOKENS, places=places, **given))
            assert compiled.graphs == graphs
        compiled(TOKENS, **given)
        assert compiled.graphs == 2
        for _ in range(2):
            tape, eager = Tape(model, "*.weights", "*.residual"), Tape(model, "*.weights", "*.residual")
            out = compiled(TOKENS, tape=tape, **given)
            torch.testing.assert_close(out, model(TOKENS, tape=eager, **given))
            assert set(tape) == set(eager)
            for site in eager:
                torch.testing.assert_close(tape[site], eager[site])
        assert compiled.graphs == 3


def test_compiled_linear_attention_equals_eager(tiny):
    """One graph plain, one for padded rows, one for packed ones, which the equation computes."""
    model = tiny(n_layers=1, attention={"type": "linear"}, positions="rotary")
    compiled = Counted(model)
    layouts = [
        (1, None),
        (2, Places.from_lengths([5, 3])),
        (2, Places.from_lengths([4, 1], 5, side="left")),
        (3, Places.packed([[2, 3], [4]])),
    ]
    for graphs, places in layouts:
        results = []
        for forward in (compiled, model):
            loss = forward(TOKENS, places=places, labels=TOKENS)
            results.append([loss.sum, *torch.autograd.grad(loss.sum, list(model.parameters()))])
        for a, b in zip(*results, strict=True):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
        assert compiled.graphs == graphs


def test_compiled_patch_and_loss_equal_eager(tiny, monkeypatch):
    model = tiny(n_layers=1).train()
    compiled = Counted(model)
    patch = Patch("decoder.blocks.0.attention.output", lambda value: 2 * value)
    with torch.no_grad():
        tapes = [Tape(model, patches=[patch]) for _ in range(2)]
        torch.testing.assert_close(compiled(TOKENS, tape=tapes[0]), model(TOKENS, tape=tapes[1]))
    for limit in (loss_module.PLAIN_LIMIT, 64):
        monkeypatch.setattr(loss_module, "PLAIN_LIMIT", limit)
        results = []
        for forward in (compiled, model):
            loss = forward(TOKENS, labels=TOKENS, label_smoothing=0.1)
            results.append([loss.sum, loss.count, *torch.autograd.grad(loss.sum, list(model.parameters()))])
        for a, b in zip(*results, strict=True):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_compiled_classifier_equals_eager():
    """One graph plain and one padded, on either side."""
    arguments = ModelArguments(kind="encoder", d_model=16, n_layers=1, n_heads=2, dropout=0.0)
    model = Transformer(arguments.resolve(32, classes=tuple("abc")))
    compiled, labels = Counted(model), torch.tensor([2, 0])
    sides = [Places.from_lengths([5, 3]), Places.from_lengths([4, 1], 5, side="left")]
    for graphs, places in [(1, None), *((2, places) for places in sides)]:
        results = []
        for forward in (compiled, model):
            loss = forward(TOKENS, places=places, labels=labels, label_smoothing=0.1)
            results.append([loss.sum, loss.count, *torch.autograd.grad(loss.sum, list(model.parameters()))])
        for a, b in zip(*results, strict=True):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
        assert compiled.graphs == graphs


@pytest.mark.parametrize("how", ["mean", "first", "last"])
def test_compiled_pooling_equals_eager(how):
    compiled = Counted(Pooled())
    x = torch.randn(2, 5, 4)
    for places in (Places.full(5), Places.from_lengths([0, 3], 5), Places.from_lengths([4, 1], 5, side="left")):
        torch.testing.assert_close(compiled(x, places, how), pool(x, places, how))
    assert compiled.graphs == 2


@pytest.mark.parametrize(
    ("kind", "attention", "n_steps"),
    [
        pytest.param("decoder", {}, 12, id="decoder"),
        pytest.param("encoder_decoder", {}, 12, id="encoder_decoder"),
        pytest.param("decoder", {"window": 3}, 150, id="window"),
        pytest.param("decoder", {"window": 3, "window_layers": (0,)}, 12, id="mixed"),
        pytest.param("decoder", {"type": "linear"}, 12, id="linear"),
    ],
)
def test_o37_compiled_decoding_does_not_recompile_for_every_token(tiny, kind, attention, n_steps):
    """One graph for a prompt, one for a step; a second session with another prompt adds one."""
    model = tiny(kind=kind, n_layers=2 if "window_layers" in attention else 1, attention=attention)
    compiled = Counted(model)
    with torch.no_grad():
        memory = model.encode(TOKENS) if model.encoder is not None else None
        for session, prompt in enumerate((TOKENS, TOKENS[:, :3])):
            caches = model.new_cache(2, 160), model.new_cache(2, 160)
            for step in range(n_steps if session == 0 else 12):
                tokens = prompt if step == 0 else TOKENS[:, step % 5, None]
                got, expected = (
                    forward(tokens, memory=memory, cache=cache)
                    for forward, cache in zip((compiled, model), caches, strict=True)
                )
                torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)
                for cache in caches:
                    cache.advance([tokens.shape[1]] * 2)
            assert compiled.graphs <= 2 + session


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_compiled_chunks_that_are_longer_than_a_window_keeps(tiny, mode):
    """Storage that grows inside the graph, and shrinks when the chunk is final."""
    model = tiny(n_layers=1, attention={"window": 3})
    compiled = Counted(model)
    with mode():
        caches = model.new_cache(2, None), model.new_cache(2, None)
        for length in (150, 1, 140, 1, 1):
            tokens = torch.randint(3, 32, (2, length))
            got, expected = (
                forward(tokens, cache=cache) for forward, cache in zip((compiled, model), caches, strict=True)
            )
            torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)
            for cache in caches:
                cache.advance([length] * 2)
