"""The training loop that any user of torch writes, for models of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from importlib.util import find_spec
from itertools import cycle

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.bench.contest import Answer
from glassformer.bench.workloads import PairTraining, Training, tokens_of
from glassformer.core.compilers import no_compiler
from glassformer.data.batch import Batch

EXTRA = "pip install 'glassformer[bench]'"


def missing(package: str) -> str | None:
    """Return that a package is not installed, and how to get it; None if it is there."""
    return None if find_spec(package) is not None else f"{package} is not installed; {EXTRA} brings it"


class PlainTraining:
    """Updates of a peer's model, with what costs least: a fused optimizer, and nothing waited for.

    Args:
        name: The peer.
        package: What must be installed.
        work: On what.
        numbers: "float32" or "bf16" by autocast.
        compiled: Whether model and loss go through `torch.compile`.
        build: Returns the model; `forward` takes inputs (B, T), and with pairs a source (B, S) and where it has
            tokens (B, S), and returns logits (B, T, V).
    """

    def __init__(
        self,
        name: str,
        package: str,
        work: Training | PairTraining,
        numbers: str,
        *,
        compiled: bool,
        build: Callable[[Training | PairTraining], nn.Module],
    ) -> None:
        self.name, self.numbers, self.setting = name, numbers, "compiled" if compiled else ""
        self.work = work
        self._package, self._compiled, self._build = package, compiled, build

    def unavailable(self) -> str | None:
        """Say what is not installed."""
        return missing(self._package) or (no_compiler() if self._compiled else None)

    def prepare(self) -> None:
        """Build model and optimizer."""
        torch.manual_seed(0)
        self.model = self._build(self.work).train()
        self._loss = torch.compile(self._eager_loss) if self._compiled else self._eager_loss
        self._optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=3e-4, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True
        )
        self._batches = cycle([(*_arguments(batch), tokens_of(batch)) for batch in self.work.batches()])

    def turn(self) -> int:
        """Make an update; return the tokens of both sides."""
        arguments, labels, tokens = next(self._batches)
        self._optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16) if self.numbers == "bf16" else nullcontext():
            loss = self._loss(arguments, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._optimizer.step()
        return tokens

    def answer(self) -> Answer | None:
        """Nothing: its weights are its own."""
        return None

    def _eager_loss(self, arguments: tuple[Tensor, ...], labels: Tensor) -> Tensor:
        return F.cross_entropy(self.model(*arguments).flatten(0, 1), labels.flatten())


def _arguments(batch: Batch) -> tuple[tuple[Tensor, ...], Tensor]:
    """What a model is called with, and its labels."""
    if batch.source is None:
        return (batch.inputs,), batch.labels
    there = torch.arange(batch.source.shape[1]) < torch.tensor(batch.source_lengths).unsqueeze(1)
    return (batch.inputs, batch.source, there), batch.labels
