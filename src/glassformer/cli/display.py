"""Training as it happens: a live panel on a terminal, plain lines when piped."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from glassformer.cli.words import clock, counted, metrics_line, named
from glassformer.core.metric import Measured
from glassformer.training.callback import Callback, Interval

if TYPE_CHECKING:
    from glassformer.training.trainer import Trainer, Update

LINE_EVERY_SECONDS = 2.0
"""When piped, lines come no more often than this: a log is to be read."""

NARROW = 70
"""Columns below which the numbers are a line of text: a table would cut them."""


class TrainingDisplay(Callback):
    """What is seen of a training.

    Attributes:
        folder: The run folder, to be named before the first update.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.folder = Path()

    def started(self, trainer: Trainer) -> None:
        """Say what is about to happen and what to expect of it."""
        for name, text in introduction(trainer, self.folder):
            self.say(named(name, text, self.console.width if self.console.is_terminal else None))

    def mark(self, trainer: Trainer, better: bool) -> str:
        """What is said of the model that is kept; kept as the last one it need not be the best."""
        return "  best so far" if better and trainer.config.select_by != "last" else ""

    def say(self, text: str, style: str | None = None) -> None:
        """Print a line that stays."""
        self.console.print(text, style=style, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def interrupted(self, now: bool) -> None:
        """Say that the signal was heard: the update or evaluation that is going on may take a while."""
        after = "stopping after this update; press Ctrl-C again to stop now and lose it"
        self.say("stopping; the update that was being compiled will be made again" if now else after)

    def told(self, trainer: Trainer, step: int, text: str) -> None:
        """Say what was decided."""
        self.say(f"{step:>7,}  {text}")

    def close(self) -> None:
        """Leave nothing behind but the lines that stay."""


@contextmanager
def display() -> Iterator[TrainingDisplay]:
    """Yield the display that fits where the output goes; it is there before torch is, which takes seconds to load."""
    console = Console()
    terminal = sys.stdout is not None and sys.stdout.isatty() and not console.is_dumb_terminal
    shown = LiveDisplay(console) if terminal else PlainDisplay(console)
    try:
        yield shown
    finally:
        shown.close()


def introduction(trainer: Trainer, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what is to be known before the first update, each with its name."""
    import torch

    config, data = trainer.config, trainer.data
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    vocab_size = data.tokenizer.vocab_size
    size = f"{config.batch_size:,}" if config.batch_tokens is None else f"{config.batch_tokens:,} tokens"
    a_batch = f"batches of {size}" + (f" x {config.accumulate:,}" if config.accumulate > 1 else "")
    kind = trainer.model.config.kind.replace("_", "-")
    yield "run", str(folder)
    yield "model", f"{kind}, {parameters:,} parameters, vocabulary {vocab_size:,}"
    yield (
        "training",
        f"{counted(config.max_steps, 'update')}, {a_batch}, {counted(len(trainer.order), 'batch')} an epoch",
    )
    yield "device", f"{trainer.model.device.type}, {trainer.precision.name}: {trainer.precision.reason}"
    if config.threads == "auto" and trainer.model.device.type == "cpu":
        yield "threads", f"{torch.get_num_threads()}, by measurement"
    if trainer.compiling.plan is not None:
        yield "compile", trainer.compiling.plan
    if trainer.progress.step:
        yield "resumed", f"after update {trainer.progress.step:,}"
    elif trainer.start is not None:
        yield "from", trainer.start
    else:
        choices = vocab_size if data.classes is None else len(data.classes)
        what = "tokens" if data.classes is None else "labels"
        chance = f"ln {choices:,} = {math.log(choices):.2f}"
        yield "expect", f"a loss near {chance} at the start: all {what} equally likely"
    if config.label_smoothing:
        yield "loss", "that of training is for smoothed labels, that of validation is not"
    for note in data.notes:
        yield "data", note


def alone(trainer: Trainer, update: Update) -> Interval:
    """Return what one update was, as an interval of its own."""
    speed = update.tokens / max(update.seconds, 1e-9)
    return Interval(update.step, update.loss, update.lr, update.grad_norm, speed, trainer.progress.seconds)


class PlainDisplay(TrainingDisplay):
    """A line for what matters, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.last_line = -math.inf

    def logged(self, trainer: Trainer, interval: Interval) -> None:
        """Print an interval, unless the last line is fresh."""
        if interval.seconds - self.last_line < LINE_EVERY_SECONDS and interval.step < trainer.config.max_steps:
            return
        self.last_line = interval.seconds
        self.say(
            f"{interval.step:>7,}  loss {interval.loss:.4f}  lr {interval.lr:.2e}  grad {interval.grad_norm:.3f}  "
            f"{interval.targets_per_second:,.0f} {trainer.unit}/s  {clock(interval.seconds)}"
        )

    def evaluated(self, trainer: Trainer, split: str, metrics: Measured, better: bool) -> None:
        """Print an evaluation."""
        self.say(f"{trainer.progress.step:>7,}  {split}  {metrics_line(metrics)}{self.mark(trainer, better)}")

    def warned(self, trainer: Trainer, step: int, text: str) -> None:
        """Print a warning."""
        self.say(f"{step:>7,}  warning: {text}")

    def updated(self, trainer: Trainer, update: Update) -> None:
        """Print the very first update: that there is a loss, and which, is good to know at once."""
        if self.last_line == -math.inf:
            self.logged(trainer, alone(trainer, update))


class LiveDisplay(TrainingDisplay):
    """A panel that is redrawn: progress, the newest numbers, and the norm of every layer."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.bar = Progress(
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f} %"),
            _TimeLeft(),
            console=console,
            expand=True,
        )
        self.task = self.bar.add_task("", total=None, per_update=None, at=0.0)
        self.began, self.first = time.perf_counter(), 0
        self.interval: Interval | None = None
        self.is_logged = False
        self.unit = "tokens"
        self.layers: Mapping[str, float] = {}
        self.judged = ""
        self.live = Live(_busy("preparing"), console=console, refresh_per_second=8, transient=True)
        self.live.start()

    def started(self, trainer: Trainer) -> None:
        """Introduce the run and open the panel."""
        super().started(trainer)
        self.unit = trainer.unit
        self.began, self.first = time.perf_counter(), trainer.progress.step
        self.bar.update(self.task, total=trainer.config.max_steps, completed=self.first)
        self._redraw()

    def logged(self, trainer: Trainer, interval: Interval) -> None:
        """Redraw with an interval's numbers."""
        self.interval, self.is_logged = interval, True
        self._redraw()

    def norms(self, trainer: Trainer, step: int, norms: Mapping[str, float]) -> None:
        """Redraw with the layers' norms."""
        self.layers = norms
        self._redraw()

    def evaluated(self, trainer: Trainer, split: str, metrics: Measured, better: bool) -> None:
        """Redraw with an evaluation."""
        self.judged = f"{split} at {trainer.progress.step:,}: {metrics_line(metrics)}{self.mark(trainer, better)}"
        self._redraw()

    def warned(self, trainer: Trainer, step: int, text: str) -> None:
        """Print a warning above the panel, where it stays."""
        self.say(f"warning after update {step:,}: {text}", style="yellow")

    def updated(self, trainer: Trainer, update: Update) -> None:
        """Move the bar, also while no numbers are due; before the first ones, show those of the update."""
        now = time.perf_counter()
        done = max(1, update.step - self.first)
        self.bar.update(self.task, completed=update.step, per_update=(now - self.began) / done, at=now)
        if not self.is_logged:
            self.interval = alone(trainer, update)
            self._redraw()

    def ended(self, trainer: Trainer) -> None:
        """Put a line for what follows in the place of the panel."""
        self.live.update(
            _busy("measuring the result and writing the report" if trainer.progress.finished else "saving")
        )

    def close(self) -> None:
        """Take the panel away."""
        self.live.stop()

    def _redraw(self) -> None:
        self.live.update(Group(self.bar, *self._numbers(), *self._layer_lines(), Text(self.judged)))

    def _numbers(self) -> Iterator[RenderableType]:
        now = self.interval
        if now is None:
            return
        shown = {
            "update": f"{now.step:,}",
            "loss": f"{now.loss:.4f}",
            "learning rate": f"{now.lr:.2e}",
            "gradient": f"{now.grad_norm:.3f}",
            f"{self.unit}/s": f"{now.targets_per_second:,.0f}",
            "time": clock(now.seconds),
        }
        if self.console.width < NARROW:
            yield Text("  ".join(f"{name} {value}" for name, value in shown.items()))
            return
        table = Table.grid(padding=(0, 3))
        table.add_row(*shown, style="dim")
        table.add_row(*shown.values())
        yield table

    def _layer_lines(self) -> Iterator[Text]:
        """The norm of every layer as a bar against the largest; of a deep model a third of the rows of the terminal."""
        if not self.layers:
            return
        yield Text("residual stream after each layer, root mean square", style="dim", no_wrap=True)
        largest = max(self.layers.values(), default=0.0)
        chosen = spread(len(self.layers), max(4, self.console.height // 3))
        longest = max(4, min(24, self.console.width - 24))
        block = "#" if self.console.options.ascii_only else "█"
        names = list(self.layers)
        for name in (names[index] for index in chosen):
            norm = self.layers[name]
            width = round(longest * norm / largest) if math.isfinite(largest) and largest > 0 else 0
            short = name.replace(".blocks.", " ")
            yield Text.assemble((f"{short:<14}", "dim"), block * width, f" {norm:.3g}", no_wrap=True)
        if len(chosen) < len(names):
            yield Text(f"{len(chosen)} of {len(names)} layers; metrics.jsonl has all", style="dim", no_wrap=True)


class _TimeLeft(ProgressColumn):
    """How long the updates that are left will take, at the mean pace of this session; worked out at every refresh."""

    def render(self, task: Task) -> Text:
        per_update = task.fields["per_update"]
        if per_update is None or task.total is None:
            return Text("")
        since = min(time.perf_counter() - task.fields["at"], per_update)
        left = (task.total - task.completed) * per_update - since
        return Text(f"{clock(max(0.0, left))} left")


def spread(number: int, room: int) -> list[int]:
    """Return as many of 0 .. number - 1 as there is room for, evenly spread, the first and the last among them."""
    if number <= room:
        return list(range(number))
    return [round(index * (number - 1) / (room - 1)) for index in range(room)]


def _busy(what: str) -> Spinner:
    return Spinner("line", text=what)
