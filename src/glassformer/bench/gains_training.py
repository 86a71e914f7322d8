"""What makes training faster, each beside what it replaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.bench.gain import Gain
from glassformer.bench.workloads import Training, work
from glassformer.core.compilers import no_compiler
from glassformer.core.places import IGNORED
from glassformer.kernels.draws import keep_some
from glassformer.kernels.dropping import attend_dropping
from glassformer.models.fused_loss import fused_head_loss
from glassformer.parts.dropout import dropout
from glassformer.training.compiling import compiled_objective
from glassformer.training.objective import objective


def gains() -> tuple[Gain, ...]:
    """Return them all; making them draws their inputs, and compiles one model where there is a compiler."""
    made = (_attention(), _dropout(), _head(), _padding(), _optimizer())
    return made if no_compiler() is not None else (*made, _compiled())


def _attention() -> Gain:
    q, k, v = (_drawn(4, 6, 256, 64) for _ in range(3))
    back = torch.randn(4, 6, 256, 64)

    def plain(share: float = 0.2) -> list[Tensor]:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.125, dropout_p=share)
        return [out, *torch.autograd.grad(out, (q, k, v), back)]

    def ours(share: float = 0.2) -> list[Tensor]:
        out = attend_dropping(q, k, v, causal=True, mask=None, scale=0.125, dropout=share)
        return [out, *torch.autograd.grad(out, (q, k, v), back)]

    return Gain(
        "attention with dropout", "a few queries go all the way at once, and no key after all of them is scored",
        plain, ours, lambda: _apart(ours(0.0), plain(0.0)),
    )  # fmt: skip


def _dropout() -> Gain:
    x = _drawn(4096, 384)

    def ours() -> Tensor:
        return dropout(x, 0.2, training=True)

    def same_draws() -> float:
        state = torch.get_rng_state()
        out = ours()
        torch.set_rng_state(state)
        keep, scale = keep_some(x, 0.2)
        return _apart([out], [x * scale * keep])

    return Gain("dropout", "four numbers share one draw", lambda: F.dropout(x, 0.2), ours, same_draws)


def _head() -> Gain:
    x, weight, labels = _drawn(1024, 256), _drawn(8000, 256), torch.randint(8000, (1024,))
    plain, ours = _losses(x, weight, labels)
    return Gain(
        "loss over the vocabulary", "a few tokens at a time: for the memory of all logits, not for time",
        plain, ours, lambda: _apart(ours(), plain()),
    )  # fmt: skip


def _padding() -> Gain:
    x, weight, labels = _drawn(1024, 256), _drawn(8000, 256), torch.randint(8000, (1024,))
    padded = labels.where(torch.arange(1024) % 64 < 48, IGNORED)  # a quarter, as in batches of unequal rows
    _, ours = _losses(x, weight, padded)
    _, whole = _losses(x, weight, labels)
    plain, _ = _losses(x, weight, padded)
    return Gain(
        "no logits of padding", "a place that predicts nothing meets no matrix (a quarter of them here)",
        whole, ours, lambda: _apart(ours(), plain()),
    )  # fmt: skip


def _losses(x: Tensor, weight: Tensor, labels: Tensor) -> tuple[Callable[[], list[Tensor]], Callable[[], list[Tensor]]]:
    def plain() -> list[Tensor]:
        total = F.cross_entropy(F.linear(x, weight), labels, ignore_index=IGNORED, reduction="sum")
        return [total, *torch.autograd.grad(total, (x, weight))]

    def ours() -> list[Tensor]:
        total = fused_head_loss(x, weight, None, labels, 0.0)
        return [total, *torch.autograd.grad(total, (x, weight))]

    return plain, ours


def _optimizer() -> Gain:
    shapes = [(384, 384)] * 24 + [(384,)] * 48
    start = [torch.randn(shape) for shape in shapes]

    def stepping(fused: bool) -> tuple[list[torch.nn.Parameter], torch.optim.AdamW]:
        parameters = [torch.nn.Parameter(value.clone()) for value in start]
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        return parameters, torch.optim.AdamW(parameters, fused=fused, foreach=False)

    def differ() -> float:
        (slow, step_slow), (fast, step_fast) = stepping(fused=False), stepping(fused=True)
        step_slow.step()
        step_fast.step()
        return _apart(fast, slow)

    (_, slow), (_, fast) = stepping(fused=False), stepping(fused=True)
    return Gain("optimizer", "one pass over each parameter and its moments", slow.step, fast.step, differ)


def _compiled() -> Gain:
    job = work("train", "small", ["4x128"])[0]
    assert isinstance(job, Training), "asked for by its name"
    model, batch = job.build().train(), job.batches()[0]
    graph = compiled_objective(model, 0.0, variable=False)
    parameters = list(model.parameters())

    def plain() -> list[Tensor]:
        loss = objective(model, batch).sum
        return [loss, *torch.autograd.grad(loss, parameters)]

    def compiled() -> list[Tensor]:
        loss = graph(batch).sum
        return [loss, *torch.autograd.grad(loss, parameters)]

    return Gain(
        "compiled", "training.compile=on: forward and backward pass of a GPT 4 x 128 as one graph",
        plain, compiled, lambda: _apart(compiled(), plain()), compiles=True,
    )  # fmt: skip


def _drawn(*shape: int) -> Tensor:
    return torch.randn(shape, requires_grad=True)


def _apart(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """The largest difference of any two tensors, as a share of the largest number of the second."""
    with torch.no_grad():
        pairs = zip(one, other, strict=True)
        return max(float((a - b).abs().max() / b.abs().max().clamp(min=1e-30)) for a, b in pairs)
