"""Whole models with windows, patterns and soft caps: how attention is computed changes no number and no gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from glassformer.core.call import Sight
from glassformer.core.places import Places
from glassformer.core.tape import Patch, Tape
from glassformer.kernels import registry
from glassformer.models.transformer import Transformer

LONG = 512
SPARSE = {
    "window": {"window": 20},
    "window-capped": {"window": 20, "soft_cap": 2.0},
    "pattern": {"pattern": {"block": 32, "near": 0, "first": 1, "random": 1}},
    "pattern-capped": {"pattern": {"block": 32, "near": 1}, "soft_cap": 2.0},
    "every": {"pattern": {"block": 32, "near": 0, "every": 8}},
    "one-layer": {"window": 20, "window_layers": (1,)},
}


def tokens(length: int, rows: int = 1) -> torch.Tensor:
    return torch.randint(5, 32, (rows, length), generator=torch.Generator().manual_seed(5))


def step(model: Transformer, inputs: torch.Tensor) -> list[torch.Tensor]:
    """The loss before one step of gradient descent, and every parameter after it."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(inputs, labels=inputs.roll(-1, 1)).mean
    loss.backward()
    optimizer.step()
    return [loss.detach(), *(parameter.detach() for parameter in model.parameters())]


class Taken:
    """Which kernels were chosen."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: set[str] = set()
        for kernel in registry.KERNELS["softmax"]:
            monkeypatch.setattr(type(kernel), "attend", self._counted(kernel.name, type(kernel).attend))

    def _counted(self, name: str, attend: Any) -> Any:
        def counted(*args: Any, **given: Any) -> torch.Tensor:
            self.names.add(name)
            result: torch.Tensor = attend(*args, **given)
            return result

        return counted


@pytest.mark.parametrize("positions", ["rotary", "learned"])
@pytest.mark.parametrize("kv_heads", [2, 1])
@pytest.mark.parametrize("name", SPARSE)
def test_trained_step_is_the_same_by_the_equation_and_by_choice(tiny, monkeypatch, name, kv_heads, positions):
    taken, results = Taken(monkeypatch), []
    for kernel in ("reference", "auto"):
        taken.names.clear()
        attention = {**SPARSE[name], "kernel": kernel}
        model = tiny(attention=attention, n_kv_heads=kv_heads, positions=positions, max_positions=LONG, n_layers=2)
        results.append(step(model.double().train(), tokens(LONG)))
    fast = "windowed" if "window" in SPARSE[name] else "blocks"
    assert taken.names == ({fast, "sdpa"} if name == "one-layer" else {fast})
    for got, expected in zip(*results, strict=True):
        torch.testing.assert_close(got, expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(
    "attention",
    [
        {"window": 5, "kernel": "windowed"},
        {"pattern": {"block": 4, "first": 1, "random": 1}, "kernel": "blocks"},
    ],
    ids=["windowed", "blocks"],
)
def test_stack_that_is_not_causal_sees_both_sides(tiny, attention):
    """Explicitly also where it does not pay, for texts of any length."""
    for length in (6, 13, 70):
        results = []
        for kernel in (attention["kernel"], "reference"):
            model = tiny(causal=False, attention=attention | {"kernel": kernel})
            out = model(tokens(length, 2))
            results.append([out, *torch.autograd.grad(out.sum(), list(model.parameters()))])
        for got, expected in zip(*results, strict=True):
            torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["window", "pattern"])
def test_compiled_step_equals_eager(tiny, name):
    """One graph without breaks, with gradients, where the choice falls on a sparse kernel."""
    torch._dynamo.reset()
    model = tiny(attention=SPARSE[name], n_layers=1).train()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    inputs, results = tokens(LONG), []
    for forward in (model, compiled):
        loss = forward(inputs, labels=inputs).sum
        results.append([loss, *torch.autograd.grad(loss, list(model.parameters()))])
    for got, expected in zip(*results, strict=True):
        torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("attention", [{}, {"window": 3}, {"pattern": {"block": 2}}], ids=["full", "window", "pattern"])
@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_soft_cap_is_on_every_path(tiny, attention, positions):
    """Recorded, patched, cached, packed, and by every kernel that can: the same scores, none above the cap."""
    cap, inputs = 0.5, tokens(9)
    model = tiny(attention=attention | {"soft_cap": cap}, positions=positions, n_layers=1)
    site, plain = "decoder.blocks.0.attention.", model(inputs)
    tape = Tape(model, f"{site}scores", f"{site}weights")
    torch.testing.assert_close(model(inputs, tape=tape), plain, atol=1e-5, rtol=1e-5)
    free = tiny(attention=attention, positions=positions, n_layers=1)
    free_tape = Tape(free, f"{site}scores")
    assert not torch.allclose(free(inputs, tape=free_tape), plain, atol=1e-3)
    scores = tape[f"{site}scores"]
    if positions == "rotary":  # else a penalty of distance comes on top
        expected = cap * torch.tanh(free_tape[f"{site}scores"] / cap)
        torch.testing.assert_close(scores, expected, atol=1e-6, rtol=1e-5)
        assert scores.abs().max() < cap
    patched = Tape(model, patches=[Patch(f"{site}weights", lambda weights: weights)])
    torch.testing.assert_close(model(inputs, tape=patched), plain, atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        cache, out = model.new_cache(1, 16), []
        for begin, end in ((0, 4), (4, 7), (7, 8), (8, 9)):
            out.append(model(inputs[:, begin:end], cache=cache))
            cache.advance([end - begin])
    torch.testing.assert_close(torch.cat(out, 1), plain, atol=1e-5, rtol=1e-5)
    packed = model(torch.cat((inputs, inputs), 1), places=Places.packed([[9, 9]]))
    torch.testing.assert_close(packed[:, 9:], plain, atol=1e-5, rtol=1e-5)


def test_sight_of_a_sparse_layer_makes_no_mask(tiny, monkeypatch):
    """Nothing of size T x T is there, not even the mask."""

    def refuse(self: Sight) -> torch.Tensor:
        raise AssertionError("a mask was made")

    monkeypatch.setattr(Sight, "dense", refuse)
    for attention in SPARSE.values():
        model = tiny(attention=attention if "window_layers" not in attention else {"window": 20})
        assert model(tokens(LONG)).isfinite().all()
