"""Forward and backward pass as one compiled graph, where that pays."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from glassformer.core.compilers import (
    equal_sizes_apart,
    graphs_noticed,
    is_compiler_error,
    no_compiler,
    own_code,
    reason_of,
    without_logs,
)
from glassformer.core.errors import GlassformerError
from glassformer.core.places import Places
from glassformer.data.batch import Batch
from glassformer.data.source import HasLengths, Source
from glassformer.models.output import Loss
from glassformer.models.transformer import Transformer
from glassformer.training.config import TrainingConfig
from glassformer.training.objective import objective

BACKEND = "inductor"

OPTIONS: dict[str, str | int | bool | Callable[..., Any]] | None = {"cpp_wrapper": True}
"""Of the graph of one shape: what calls its kernels is compiled, too."""

MEASURED, WARM = 20, 5
"""Updates of either way whose time counts; and the plain ones before them."""

LAYER_SECONDS, SHARE = 15.0, 0.1
"""What a graph takes to make, a layer, by experience; and of the time to come, the most that "auto" spends on it."""

MARGIN = 0.97
"""Share of the plain time that a graph must stay below to be kept."""


class Compiling:
    """The objective of a run: plain, compiled, or what a measurement says.

    One graph serves a run. A batch that it cannot serve is computed plainly, always, so that a resumed run computes
    what an uninterrupted one does: the short one at the end of an epoch where all others have one shape, and one with
    a side of length 1 where shapes vary.

    "auto" looks at plain updates first. A graph is tried only if it will take at most a tenth of the time to come, at
    15 seconds a layer; then compiled and plain updates take turns, and the fastest quarter of each says which way
    stays.

    Args:
        model: What is trained.
        config: Says whether a graph is wanted, and the smoothing of labels.
        source: What is learned from: it says whether all batches have one shape.

    Attributes:
        plan: What is to be expected, in one line; None = nothing is said.
        making: Whether a graph is made in the forward and backward pass that are going on.
        tell: Called with one line when a graph is begun, done or decided on.
    """

    def __init__(self, model: Transformer, config: TrainingConfig, source: Source) -> None:
        self.model, self.smoothing = model, config.label_smoothing
        self.rows, self.longest = min(config.batch_size, len(source)), source.longest
        even = isinstance(source, HasLengths) and {*source.lengths[:-1]} <= {source.longest}  # the last may be a rest
        self.variable = config.batch_tokens is not None or not even
        self.auto = config.compile == "auto"
        self.state = {"auto": "plain pace", "on": "on", "off": "off"}[config.compile]
        self.plan = {
            "auto": "where it is measured to pay",
            "on": "forward and backward pass become one graph at the first update: a minute or two",
            "off": None,
        }[config.compile]
        self.making = False
        self.tell: Callable[[str], object] = lambda text: None
        self._graph: Callable[[Batch], Loss] | None = None
        self._made = True
        self._began = self._spent = 0.0
        self._ways: set[bool] = set()
        self._plain: list[float] = []
        self._paces: dict[bool, list[float]] = {False: [], True: []}
        problem = None if self.state == "off" else no_compiler()
        if self.auto and model.device.type != "cpu":
            problem = "that is measured on processors only; training.compile=on asks for it"
        if problem is not None:
            self.state, self.plan = "off", f"no: {problem}"

    @property
    def compiles(self) -> bool:
        """Whether the next batch goes through a graph, if that can serve it."""
        return self.state == "on" or (self.state == "turns" and len(self._paces[True]) <= len(self._paces[False]))

    def objective(self, batch: Batch) -> Loss:
        """Return the loss of a batch.

        Args:
            batch: On the model's device.

        Raises:
            Exception: Whatever a compiler raises, here or in the backward pass; ask `gives_up`.
        """
        compiled = self.compiles and self._serves(batch)
        self._ways.add(compiled)
        if compiled:
            return self._compiled(batch)
        return objective(self.model, batch, label_smoothing=self.smoothing)

    @contextmanager
    def noticed(self) -> Iterator[None]:
        """Tell of graphs that are made in a forward and backward pass, and take their time."""
        try:
            with graphs_noticed(self._begin, self._end) if self.compiles else nullcontext():
                yield
        finally:
            self.making = False

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

    def spent(self) -> float:
        """Return the seconds that graphs took to make since the last question."""
        spent, self._spent = self._spent, 0.0
        self._made = self._made or self._graph is not None
        if spent and self._graph is not None:
            self.tell(f"compiled in {spent:.0f} seconds")
        return spent

    def measured(self, seconds: float, tokens: int, left: int) -> None:
        """Take note of an update in which no graph was made; "auto" decides by it.

        Args:
            seconds: What it took.
            tokens: What was learned from.
            left: Updates still to come.
        """
        ways, self._ways = self._ways, set()
        if self.state == "plain pace":
            self._plain.append(seconds)
            if len(self._plain) == WARM + MEASURED:
                self._try(left * fmean(self._plain[WARM:]))
        elif self.state == "turns" and len(ways) == 1:
            self._paces[ways.pop()].append(seconds / tokens)
            if all(len(paces) >= MEASURED for paces in self._paces.values()):
                self._choose(_fastest(self._paces[True]) / _fastest(self._paces[False]))

    def go_on(self, state: str) -> None:
        """Take over what a saved run had decided; one that was measuring measures anew."""
        if self.state == "plain pace" and state in ("on", "off"):
            self.state = state
            self.plan = {"on": "yes, as was decided before", "off": "no, as was decided before"}[state]

    def _try(self, coming: float) -> None:
        stacks = (self.model.encoder, self.model.decoder)
        cost = LAYER_SECONDS * sum(len(stack.blocks) for stack in stacks if stack is not None)
        if cost > SHARE * coming:
            with_it = f"it takes about {cost:.0f} seconds, which {coming:.0f} seconds to come would not make up for"
            self._decide("off", f"not compiled: {with_it}")
        else:
            self.state = "turns"

    def _choose(self, ratio: float) -> None:
        if ratio < MARGIN:
            self._decide("on", f"compiled: an update takes {ratio:.0%} of the time it takes without")
        else:
            self._decide("off", f"not compiled: an update would take {ratio:.0%} of the time it takes without")

    def _decide(self, state: str, said: str) -> None:
        self.state = state
        if state == "off":
            self._graph = None
        self.tell(said)

    def _serves(self, batch: Batch) -> bool:
        """Whether the graph serves a batch; torch makes another one for a size of 1."""
        sides = (0 if batch.source is None else batch.source.shape[1], batch.inputs.shape[1])
        if self.variable:
            return len(batch) > 1 and all(
                side > 1 or longest <= 1 for side, longest in zip(sides, self.longest, strict=True)
            )
        whole = {*batch.source_lengths} <= {sides[0]} and {*batch.lengths} <= {sides[1]}
        return (len(batch), sides) == (self.rows, self.longest) and whole

    def _compiled(self, batch: Batch) -> Loss:
        if self._graph is None:
            self._made = False
            self._graph = compiled_objective(self.model, self.smoothing, variable=self.variable)
        if not self._made:
            with without_logs():
                return self._graph(batch)
        # "auto" has reckoned with one graph
        with torch.compiler.set_stance("eager_on_recompile") if self.auto else nullcontext():
            return self._graph(batch)

    def _begin(self) -> None:
        known, self.making, self._began = self.making, True, time.perf_counter()
        if not known:
            self.tell("compiling one more graph" if self._made else "compiling: a minute or two")

    def _end(self) -> None:
        self._spent += time.perf_counter() - self._began


def _fastest(paces: list[float]) -> float:
    """The mean of the fastest quarter: what else the machine does only ever adds."""
    return fmean(sorted(paces)[: len(paces) // 4])


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
        places = _places(batch.places, len(batch), variable)
        sources = None if batch.source is None else _places(batch.source_places, len(batch), variable)
        with equal_sizes_apart() if variable else nullcontext():
            found: Loss = graph(batch.inputs, places, batch.labels, batch.source, sources)
        return found

    return of_batch


def _places(places: Places, rows: int, variable: bool) -> Places:
    """The same places for a graph: what is so in this batch alone would make it another graph."""
    if not variable:
        return replace(places, highest=None)
    dense = torch.contiguous_format  # and a copy always: torch also looks at what a tensor is a view of
    position, segment = (each.expand(rows, -1).clone(memory_format=dense) for each in (places.position, places.segment))
    return Places(position, segment, single=places.single)
