"""Where the time of training goes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.profiler import ProfilerActivity, profile

from glassformer.checkpoint.whole_folder import PROFILE_FILE
from glassformer.core.files import write_json
from glassformer.training.callback import Callback

if TYPE_CHECKING:
    from glassformer.training.trainer import Trainer, Update

WARM, TIMED, TRACED = 5, 10, 3
"""Updates that are let pass, that are timed by phase and part, and whose operators are traced, which slows them."""

PHASES = ("data", "forward", "backward", "optimizer")

PARTS = ("Input", "Attention", "FeedForward", "LayerNorm", "RMSNorm", "Head")
"""Parts of a forward pass by class; what is in none of them is the loss and what joins parts."""

OPERATORS = 12


class Profile(Callback):
    """Times updates 6 to 15, traces three more, writes profile.json and hands it to whoever shows it.

    A run that ends before is profiled as far as it went, from update 6 on. Times are those of the program: on a GPU,
    which works on by itself, they are when work was handed over. Timing does not change what is learned.

    Args:
        folder: The run folder.
        show: Told of what was found.
    """

    def __init__(self, folder: Path, show: Callable[[Mapping[str, Any]], None]) -> None:
        self.folder, self.show = folder, show
        self._made = 0
        self._watch: _Stopwatch | None = None
        self._wall: list[float] = []
        self._tracer: Any = None
        self._traced: list[float] = []

    def updated(self, trainer: Trainer, update: Update) -> None:
        """Begin, go on or end, by how many updates this session has made."""
        self._made += 1
        if self._made == WARM:
            self._watch = _Stopwatch(trainer)
        elif self._watch is not None and self._tracer is None and self._wall_of(update) == TIMED:
            self._watch.close()
            self._tracer = profile(activities=[ProfilerActivity.CPU])
            self._tracer.__enter__()
        elif self._tracer is not None:
            self._traced.append(update.seconds)
            if len(self._traced) == TRACED:
                self._finish(trainer)

    def ended(self, trainer: Trainer) -> None:
        """Write what there is of a run that ends before all is measured."""
        if self._watch is not None:
            self._watch.close()
            self._finish(trainer)

    def _wall_of(self, update: Update) -> int:
        self._wall.append(update.seconds)
        return len(self._wall)

    def _finish(self, trainer: Trainer) -> None:
        assert self._watch is not None, "begun before"
        watch, self._watch = self._watch, None
        operators: list[tuple[str, float, int]] = []
        if self._tracer is not None:
            self._tracer.__exit__(None, None, None)
            operators = _operators(self._tracer, self._traced)
            self._tracer = None
        found = summary(watch.seconds, self._wall, operators)
        write_json(self.folder / PROFILE_FILE, found)
        self.show(found)


def summary(
    laps: Mapping[str, Sequence[float]], updates: Sequence[float], operators: Sequence[tuple[str, float, int]]
) -> dict[str, Any]:
    """Return milliseconds of an update, by what they were spent on.

    Args:
        laps: Seconds of each lap, by phase or part.
        updates: Seconds of each timed update, its data not included.
        operators: Name, share of an update and calls in it of each operator of torch.
    """
    n = max(1, len(updates))
    per_update = {name: 1000 * sum(seconds) / n for name, seconds in laps.items()}
    whole = 1000 * sum(updates) / n
    phases = {name: per_update.get(name, 0.0) for name in PHASES}
    parts = {name: per_update[name] for name in PARTS if name in per_update}
    inside = sum(share for _, share, _ in operators)
    return {
        "updates": len(updates),
        "milliseconds": {"data": phases["data"], "update": whole, "median": 1000 * median(updates or [0.0])},
        "phases": {**phases, "rest": max(0.0, whole - sum(phases.values()) + phases["data"])},
        "forward": {**parts, "loss and rest": max(0.0, phases["forward"] - sum(parts.values()))} if parts else {},
        # outside of torch's operators: Python, torch's own bookkeeping, and the code of a compiled graph
        "overhead": whole * max(0.0, 1.0 - inside) if operators else None,
        "operators": [
            {"name": name, "milliseconds": whole * share, "calls": calls}
            for name, share, calls in operators[:OPERATORS]
        ],
    }


class _Stopwatch:
    """Times the phases of a trainer and, where nothing is compiled, the parts of its forward pass."""

    def __init__(self, trainer: Trainer) -> None:
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)
        self._trainer, self._before, self._phase = trainer, trainer.timed, ""
        self._began: dict[nn.Module, float] = {}
        trainer.timed = self._lap
        self._handles = [] if trainer.compiling.compiles else list(self._hooked(trainer.model))

    def close(self) -> None:
        """Leave the trainer as it was."""
        self._trainer.timed = self._before
        for handle in self._handles:
            handle.remove()
        self._handles = []

    @contextmanager
    def _lap(self, name: str) -> Iterator[None]:
        began, self._phase = time.perf_counter(), name
        try:
            yield
        finally:
            self._phase = ""
            self.seconds[name].append(time.perf_counter() - began)

    def _hooked(self, model: nn.Module) -> Iterator[Any]:
        inner = {child for module in _parts(model) for child in module.modules() if child is not module}
        for module in _parts(model):
            if module not in inner:  # a norm inside attention is attention
                yield module.register_forward_pre_hook(self._begin)
                yield module.register_forward_hook(self._end)

    def _begin(self, module: nn.Module, inputs: object) -> None:
        self._began[module] = time.perf_counter()

    def _end(self, module: nn.Module, inputs: object, output: object) -> None:
        if self._phase == "forward":
            self.seconds[type(module).__name__].append(time.perf_counter() - self._began[module])


def _parts(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if type(module).__name__ in PARTS]


def _operators(tracer: profile, updates: Sequence[float]) -> list[tuple[str, float, int]]:
    """Name, own share of the updates' seconds and calls in one of each operator, the longest first; none if none."""
    if not updates:
        return []
    seconds = max(sum(updates), 1e-9)
    found = [
        (event.key.removeprefix("aten::"), event.self_cpu_time_total / 1e6 / seconds, round(event.count / len(updates)))
        for event in tracer.key_averages()
        if event.key.startswith(("aten::", "glassformer::"))
    ]
    return sorted(found, key=lambda row: -row[1])
