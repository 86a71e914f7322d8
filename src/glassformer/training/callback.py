"""What may be done beside the loop: metrics, checkpoints, display, diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from glassformer.core.metric import Measured

if TYPE_CHECKING:
    from glassformer.training.trainer import Trainer, Update


@dataclass(frozen=True)
class Interval:
    """What the updates since the last line of metrics were, together.

    Attributes:
        step: The newest update.
        loss: Nats per target, over all of them.
        lr: Of the newest update.
        grad_norm: Of the newest update.
        targets_per_second: Tokens, or labelled texts, learned from per second of updating.
        seconds: Of the run.
    """

    step: int
    loss: float
    lr: float
    grad_norm: float
    targets_per_second: float
    seconds: float


class Callback:
    """Does nothing at every occasion; override the occasions that matter."""

    def started(self, trainer: Trainer) -> None:
        """The first update is about to be made."""

    def logged(self, trainer: Trainer, interval: Interval) -> None:
        """`log_every` updates were made."""

    def norms(self, trainer: Trainer, step: int, norms: Mapping[str, float]) -> None:
        """The norm of every layer was looked at."""

    def warned(self, trainer: Trainer, step: int, text: str) -> None:
        """Something looks wrong, but training goes on."""

    def told(self, trainer: Trainer, step: int, text: str) -> None:
        """Something about how the run computes was decided."""

    def evaluated(self, trainer: Trainer, split: str, metrics: Measured, better: bool) -> None:
        """The model was judged; `better` = it is the one to keep."""

    def updated(self, trainer: Trainer, update: Update) -> None:
        """An update was made, and all that was due after it is done: what is saved now, a resume goes on from."""

    def interrupted(self, now: bool) -> None:
        """A signal asks for an end, which comes after the update or evaluation that is going on, or now.

        This is called in a thread of its own.
        """

    def ended(self, trainer: Trainer) -> None:
        """No more updates: finished, interrupted, or stopped early."""
