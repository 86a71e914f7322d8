"""metrics.jsonl: what happened, a line at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.core.files import append_text, to_json, write_text
from glassformer.core.metric import Measured
from glassformer.training.callback import Callback, Interval
from glassformer.training.trainer import Trainer


class MetricsLog(Callback):
    """Appends a line for every interval, evaluation and look at the norms.

    A resumed run first drops the lines of updates that it will make again.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def started(self, trainer: Trainer) -> None:
        """Keep the lines up to the update the run goes on from."""
        kept = [row for row in read_metrics(self.path) if row["step"] <= trainer.progress.step]
        write_text(self.path, "".join(_line(row) for row in kept))

    def logged(self, trainer: Trainer, interval: Interval) -> None:
        """Write a "train" line."""
        self._append(
            {
                "step": interval.step,
                "split": "train",
                "seconds": round(interval.seconds, 2),
                "loss": interval.loss,
                "lr": interval.lr,
                "grad_norm": interval.grad_norm,
                f"{trainer.unit}_per_second": round(interval.targets_per_second),
            }
        )

    def norms(self, trainer: Trainer, step: int, norms: Mapping[str, float]) -> None:
        """Write a "norms" line: the root mean square of the stream after every block."""
        self._append(
            {
                "step": step,
                "split": "norms",
                "seconds": round(trainer.progress.seconds, 2),
                "norms": dict(norms),
            }
        )

    def evaluated(self, trainer: Trainer, split: str, metrics: Measured, better: bool) -> None:
        """Write the line of an evaluation."""
        progress = trainer.progress
        self._append({"step": progress.step, "split": split, "seconds": round(progress.seconds, 2), **metrics})

    def _append(self, row: Mapping[str, Any]) -> None:
        append_text(self.path, _line(row))


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a metrics file; a last line that a crash cut short is left out."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def _line(row: Mapping[str, Any]) -> str:
    return to_json(row) + "\n"
