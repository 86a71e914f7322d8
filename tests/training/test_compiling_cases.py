"""The compiled objective: rows padded and alone, and half precision."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from torch import Tensor

from glassformer.core.places import IGNORED
from glassformer.data.batch import Batch
from glassformer.models import loss as loss_module
from glassformer.models.output import Loss
from glassformer.models.transformer import Transformer
from glassformer.training import compiling
from glassformer.training.compiling import compiled_objective
from glassformer.training.objective import objective

Tiny = Callable[..., Transformer]
ROWS = [[5, 6], [5, 6, 7, 8, 9], [7]]


@pytest.fixture(autouse=True)
def _traced_only(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Graphs of the forward and the backward pass are made as always, and run by torch's own operators."""
    torch._dynamo.reset()
    monkeypatch.setattr(compiling, "BACKEND", "aot_eager")
    logging.getLogger("torch.__trace").addFilter(nothing)  # else pytest catches a line for each step of tracing
    yield
    torch._dynamo.reset()
    logging.getLogger("torch.__trace").removeFilter(nothing)


def nothing(record: logging.LogRecord) -> bool:
    return False


def padded(rows: list[list[int]], filler: int) -> Tensor:
    width = max(len(row) for row in rows)
    return torch.tensor([row + [filler] * (width - len(row)) for row in rows])


def batch_of(rows: list[int], filler: int = 0) -> Batch:
    """Some of the rows, each of which is to say itself backwards; an empty row beside them, and padding."""
    inputs = [*(ROWS[row] for row in rows), []]
    labels = padded([row[::-1] for row in inputs], IGNORED)
    return Batch(padded(inputs, filler), tuple(len(row) for row in inputs), labels, (*rows, 3))


def plainly(model: Transformer) -> Callable[[Batch], Loss]:
    return partial(objective, model, label_smoothing=0.1)


def learned(model: Transformer, loss: Loss) -> list[Tensor]:
    gradients = torch.autograd.grad(loss.sum, list(model.parameters()), allow_unused=True)
    return [loss.sum.detach(), *(gradient for gradient in gradients if gradient is not None)]


def rows_together_and_alone(model: Transformer) -> None:
    graph = compiled_objective(model, 0.1, variable=True)
    alone = [learned(model, plainly(model)(batch_of([row]))) for row in range(3)]
    for rows, filler in (([0, 1, 2], 0), ([2, 0, 1], 30), ([1, 0], 0)):
        loss = graph(batch_of(rows, filler))
        assert int(loss.count) == sum(len(ROWS[row]) for row in rows)
        for got, *parts in zip(learned(model, loss), *(alone[row] for row in rows), strict=True):
            torch.testing.assert_close(got, sum(parts), atol=1e-5, rtol=1e-5)


def test_o01_a_padded_batch_through_a_graph_is_learned_as_its_rows_alone(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another order, whatever stands in the padding, with the loss of a large vocabulary."""
    monkeypatch.setattr(loss_module, "PLAIN_LIMIT", 0)
    rows_together_and_alone(tiny(n_layers=1, positions="rotary"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_o13_a_graph_under_autocast_learns_what_the_plain_pass_does(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    """Beside padding and an empty row, with scores that are far apart: as near to float32 as the plain pass is.

    Not equal: the graph of the backward pass is made of other operators, which round elsewhere.
    """
    monkeypatch.setattr(loss_module, "PLAIN_LIMIT", 0)
    model = tiny(n_layers=1, positions="rotary")
    with torch.no_grad():
        model.decoder.blocks[0].attention.qkv.weight.mul_(20.0)
    graph, results = compiled_objective(model, 0.1, variable=False), []
    for forward, autocast in ((graph, True), (plainly(model), True), (plainly(model), False)):
        with torch.autocast("cpu", dtype, enabled=autocast):
            loss = forward(batch_of([0, 1, 2], 30))
        assert loss.sum.dtype == torch.float32
        results.append(learned(model, loss))
    for got, plain, exact in zip(*results, strict=True):
        assert got.dtype == torch.float32
        assert got.isfinite().all()
        assert (got - exact).norm() <= 2 * (plain - exact).norm() + torch.finfo(dtype).eps * exact.norm()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's own, when it loads its compiler
def test_o01_a_padded_batch_through_the_c_compiler(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one case through inductor."""
    monkeypatch.setattr(compiling, "BACKEND", "inductor")
    monkeypatch.setattr(loss_module, "PLAIN_LIMIT", 0)
    rows_together_and_alone(tiny(n_layers=1, positions="rotary"))
