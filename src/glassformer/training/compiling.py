"""Forward and backward pass as one compiled graph, where that pays."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from statistics import median
from typing import Any

import torch
from torch import Tensor

from glassformer.core.compilers import is_compiler_error, no_compiler, own_code, reason_of, without_logs
from glassformer.core.errors import GlassformerError
from glassformer.core.places import Places
from glassformer.data.batch import Batch
from glassformer.models.output import Loss
from glassformer.models.transformer import Transformer
from glassformer.training.config import TrainingConfig
from glassformer.training.objective import objective

BACKEND = "inductor"

OPTIONS: dict[str, str | int | bool | Callable[..., Any]] | None = {"cpp_wrapper": True}
"""Of the graph of one shape: what calls its kernels is compiled, too."""

MEASURED, WARM = 20, 5
"""Updates whose time counts, without and with a graph; and those before them, in which the graph is made."""

WORTH = 300.0
"""Seconds of updates still to come below which "auto" does not try: a graph takes up to a minute to make."""

MARGIN = 0.97
"""Share of the plain time that a graph must stay below to be kept."""


class Compiling:
    """The objective of a run: plain, compiled, or what a measurement says.

    Args:
        model: What is trained.
        config: Says whether a graph is wanted, and the smoothing of labels.
    """

    def __init__(self, model: Transformer, config: TrainingConfig) -> None:
        self.model, self.smoothing = model, config.label_smoothing
        self.variable = config.batch_tokens is not None or model.config.kind == "encoder_decoder"
        self.state = {"auto": "plain pace", "on": "on", "off": "off"}[config.compile]
        self._graph: Callable[[Batch], Loss] | None = None
        self._made = True
        self._paces: list[float] = []
        self._plain_pace = 0.0
        self._said: str | None = None
        if config.compile == "auto" and model.device.type != "cpu":
            self._decide("off", "not compiled: that is measured on processors only; training.compile=on asks for it")
        elif self.state != "off" and (problem := no_compiler()) is not None:
            self._decide("off", f"not compiled: {problem}")

    @property
    def compiles(self) -> bool:
        """Whether the next batch goes through a graph."""
        return self.state in ("on", "graph pace")

    def objective(self, batch: Batch) -> Loss:
        """Return the loss of a batch.

        Args:
            batch: On the model's device.

        Raises:
            Exception: Whatever a compiler raises, here or in the backward pass; ask `gives_up`.
        """
        if self.compiles:
            return self._compiled(batch)
        return objective(self.model, batch, label_smoothing=self.smoothing)

    def gives_up(self, error: Exception) -> bool:
        """Return whether a batch is to be computed again, from here on plainly, since no graph came about.

        Args:
            error: What ended its forward or backward pass. A backward pass is compiled when it is first gone through.
        """
        new = is_compiler_error(error) or not self._made  # what ran once has another trouble
        if not self.compiles or not new or isinstance(error, GlassformerError):
            return False
        self._decide("off", f"not compiled: {reason_of(error)}")
        return True

    def measured(self, seconds: float, tokens: int, left: int) -> None:
        """Take note of an update, in which a graph may have been made; "auto" decides by it.

        Args:
            seconds: What it took.
            tokens: What was learned from.
            left: Updates still to come.
        """
        if self._graph is not None and not self._made:
            self._made, self._said = True, f"compiled: this update took {seconds:.0f} seconds with it"
        if self.state not in ("plain pace", "graph pace"):
            return
        self._paces.append(seconds / tokens)
        if len(self._paces) < WARM + MEASURED:
            return
        pace, self._paces = median(self._paces[WARM:]), []
        coming = left * pace * tokens
        if self.state == "graph pace":
            ratio = pace / self._plain_pace
            if ratio < MARGIN:
                self._decide("on", f"compiled: an update takes {ratio:.0%} of the time it took before")
            else:
                self._decide("off", f"not compiled: an update would take {ratio:.0%} of the time it takes without")
        elif coming < WORTH:
            self._decide("off", f"not compiled: with {coming:.0f} seconds to come it would not pay")
        else:
            self._plain_pace, self.state = pace, "graph pace"
            self._said = "compiling, to see whether it pays: the next update may take a minute"

    def said(self) -> str | None:
        """Return what was decided since the last question, in one line."""
        said, self._said = self._said, None
        return said

    def go_on(self, state: str) -> None:
        """Take over what a saved run had decided; one that was measuring measures anew."""
        if self.state == "plain pace" and state in ("on", "off"):
            self.state = state

    def _decide(self, state: str, said: str) -> None:
        self.state, self._said = state, said
        if state == "off":
            self._graph = None

    def _compiled(self, batch: Batch) -> Loss:
        if self._graph is None:
            self._made = False
            self._graph = compiled_objective(self.model, self.smoothing, variable=self.variable)
        with nullcontext() if self._made else without_logs():
            return self._graph(batch)


def compiled_objective(model: Transformer, label_smoothing: float, *, variable: bool) -> Callable[[Batch], Loss]:
    """Return `objective` of a batch as one graph; it is made when it is first called.

    Args:
        model: Any kind.
        label_smoothing: Mass of the target that is spread over the vocabulary.
        variable: Whether batches have many shapes: one graph then serves them all.
    """

    def loss(inputs: Tensor, places: Places, labels: Tensor, source: Tensor | None, sources: Places | None) -> Loss:
        memory = None if source is None else model.encode(source, places=sources)
        found: Loss = model(inputs, places=places, memory=memory, labels=labels, label_smoothing=label_smoothing)
        return found

    options = None if variable else OPTIONS
    own = own_code(loss, f"loss_{id(model):x}")
    graph = torch.compile(own, fullgraph=True, dynamic=True if variable else None, backend=BACKEND, options=options)

    def of_batch(batch: Batch) -> Loss:
        places, sources = _places(batch.places), None if batch.source is None else _places(batch.source_places)
        found: Loss = graph(batch.inputs, places, batch.labels, batch.source, sources)
        return found

    return of_batch


def _places(places: Places) -> Places:
    """The same places for a graph: a number of this batch alone would make it another graph."""
    return replace(places, highest=None)
