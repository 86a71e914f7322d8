"""Training as it happens: a live panel on a terminal, plain lines when piped."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from glassformer.training.callback import Callback, Interval
from glassformer.training.trainer import Trainer

LINE_EVERY_SECONDS = 2.0
"""When piped, lines come no more often than this: a log is to be read."""


@contextmanager
def display(folder: Path) -> Iterator[Callback]:
    """Yield the display that fits where the output goes.

    Args:
        folder: The run folder, to be named before training.
    """
    console = Console()
    if not console.is_terminal:
        yield PlainDisplay(console, folder)
        return
    live = LiveDisplay(console, folder)
    try:
        yield live
    finally:
        live.close()


def introduce(trainer: Trainer, folder: Path, console: Console) -> None:
    """Say, before the first update, what is about to happen and what to expect of it."""
    config, data = trainer.config, trainer.data
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    vocab_size = data.tokenizer.vocab_size
    a_batch = f"batches of {config.batch_size}" + (f" x {config.accumulate}" if config.accumulate > 1 else "")
    lines = [
        ("run", str(folder)),
        (
            "model",
            f"{trainer.model.config.kind.replace('_', '-')}, {parameters:,} parameters, vocabulary {vocab_size:,}",
        ),
        ("training", f"{config.max_steps:,} updates, {a_batch}, {len(trainer.order):,} batches an epoch"),
        ("device", f"{trainer.model.device.type}, {trainer.precision.name}: {trainer.precision.reason}"),
        (
            "expect",
            f"a loss near ln {vocab_size:,} = {math.log(vocab_size):.2f} at the start: all tokens equally likely",
        ),
        *(("data", note) for note in data.notes),
    ]
    if trainer.progress.step:
        lines.append(("resumed", f"after update {trainer.progress.step:,}"))
    for name, text in lines:
        console.print(f"{name:9}{text}", highlight=False, markup=False, soft_wrap=True)


class PlainDisplay(Callback):
    """A line for what matters, for logs and pipes."""

    def __init__(self, console: Console, folder: Path) -> None:
        self.console, self.folder = console, folder
        self.last_line = -math.inf

    def started(self, trainer: Trainer) -> None:
        """Introduce the run."""
        introduce(trainer, self.folder, self.console)

    def logged(self, trainer: Trainer, interval: Interval) -> None:
        """Print an interval, unless the last line is fresh."""
        if interval.seconds - self.last_line < LINE_EVERY_SECONDS and interval.step < trainer.config.max_steps:
            return
        self.last_line = interval.seconds
        self._line(
            f"{interval.step:>7,}  loss {interval.loss:.4f}  lr {interval.lr:.2e}  grad {interval.grad_norm:.3f}  "
            f"{interval.tokens_per_second:,.0f} tokens/s  {interval.seconds:.0f} s"
        )

    def evaluated(self, trainer: Trainer, split: str, metrics: Mapping[str, float], better: bool) -> None:
        """Print an evaluation."""
        self._line(f"{trainer.progress.step:>7,}  {split}  {metrics_line(metrics)}{'  best so far' if better else ''}")

    def warned(self, trainer: Trainer, step: int, text: str) -> None:
        """Print a warning."""
        self._line(f"{step:>7,}  warning: {text}")

    def _line(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


class LiveDisplay(Callback):
    """A panel that is redrawn: progress, the newest numbers, and the norm of every layer."""

    def __init__(self, console: Console, folder: Path) -> None:
        self.console, self.folder = console, folder
        self.bar = Progress(
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f} %  {task.fields[left]}"),
            console=console,
            expand=True,
        )
        self.task = self.bar.add_task("", total=None, left="")
        self.interval: Interval | None = None
        self.layers: Mapping[str, float] = {}
        self.judged = ""
        self.live: Live | None = None

    def started(self, trainer: Trainer) -> None:
        """Introduce the run and open the panel."""
        introduce(trainer, self.folder, self.console)
        self.bar.update(self.task, total=trainer.config.max_steps, completed=trainer.progress.step)
        self.live = Live(self._panel(), console=self.console, refresh_per_second=4, transient=True)
        self.live.start()

    def logged(self, trainer: Trainer, interval: Interval) -> None:
        """Redraw with an interval's numbers."""
        self.interval = interval
        left = (trainer.config.max_steps - interval.step) * interval.seconds / max(1, interval.step)
        self.bar.update(self.task, completed=interval.step, left=f"{clock(left)} left")
        self._redraw()

    def norms(self, trainer: Trainer, step: int, norms: Mapping[str, float]) -> None:
        """Redraw with the layers' norms."""
        self.layers = norms
        self._redraw()

    def evaluated(self, trainer: Trainer, split: str, metrics: Mapping[str, float], better: bool) -> None:
        """Redraw with an evaluation."""
        self.judged = (
            f"{split} after {trainer.progress.step:,}: {metrics_line(metrics)}{'  (best so far)' if better else ''}"
        )
        self._redraw()

    def warned(self, trainer: Trainer, step: int, text: str) -> None:
        """Print a warning above the panel, where it stays."""
        self.console.print(f"warning after update {step:,}: {text}", style="yellow", highlight=False, markup=False)

    def close(self) -> None:
        """Take the panel away."""
        if self.live is not None:
            self.live.stop()
            self.live = None

    def ended(self, trainer: Trainer) -> None:
        """Take the panel away; the last numbers stay."""
        self.close()
        if self.judged:
            self.console.print(self.judged, highlight=False, markup=False)

    def _redraw(self) -> None:
        if self.live is not None:
            self.live.update(self._panel())

    def _panel(self) -> Group:
        numbers = Table.grid(padding=(0, 3))
        if self.interval is not None:
            now = self.interval
            numbers.add_row("loss", "learning rate", "gradient", "tokens/s", "time", style="dim")
            numbers.add_row(
                f"{now.loss:.4f}",
                f"{now.lr:.2e}",
                f"{now.grad_norm:.3f}",
                f"{now.tokens_per_second:,.0f}",
                clock(now.seconds),
            )
        return Group(self.bar, numbers, *self._layer_lines(), Text(self.judged))

    def _layer_lines(self) -> Iterator[Text]:
        """The norm of every layer as a bar against the largest; deep models show as many as fit."""
        largest = max(self.layers.values(), default=0.0)
        for name, norm in list(self.layers.items())[: max(4, self.console.height - 12)]:
            width = round(24 * norm / largest) if math.isfinite(largest) and largest > 0 else 0
            short = name.replace(".blocks.", " ").removesuffix(".residual")
            yield Text.assemble((f"{short:<14}", "dim"), "█" * width, f" {norm:.3g}")


def metrics_line(metrics: Mapping[str, float]) -> str:
    """Return metrics as a person reads them: shares as percentages, counts without decimals."""
    shown = []
    for name, value in metrics.items():
        if name == "tokens":
            continue
        shown.append(
            f"{name.replace('_', ' ')} {100 * value:.1f} %" if name == "exact_match" else f"{name} {value:.4f}"
        )
    return "  ".join(shown)


def clock(seconds: float) -> str:
    """Return a duration as minutes and seconds, or hours and minutes."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600}:{whole % 3600 // 60:02} h"
    return f"{whole // 60}:{whole % 60:02}"
