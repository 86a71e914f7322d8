"""What is kept of a run on disk while it goes on."""

from __future__ import annotations

from pathlib import Path

from glassformer.checkpoint.native import MODEL_FILE, save_model
from glassformer.checkpoint.whole_folder import STATE_FOLDER
from glassformer.core.errors import DivergenceError
from glassformer.core.metric import Measured
from glassformer.training.callback import Callback
from glassformer.training.state import save_state
from glassformer.training.trainer import Trainer, Update


class Checkpoints(Callback):
    """Saves the state for an exact resume, and the model that is best so far (the newest, until one was judged).

    A state with a parameter that is not finite is never saved: the last good one stays.

    Args:
        folder: The run folder.
        every: Updates between saved states; None = only when evaluated and at the end.
    """

    def __init__(self, folder: Path, every: int | None) -> None:
        self.folder, self.every = folder, every
        self.judged = False

    def evaluated(self, trainer: Trainer, split: str, metrics: Measured, better: bool) -> None:
        """Keep the better model; the state that knows of it follows when the update is done with."""
        self.judged = True
        if better:
            self._check(trainer)
            save_model(trainer.model, self.folder / MODEL_FILE)

    def updated(self, trainer: Trainer, update: Update) -> None:
        """Save when it is time to."""
        if self.judged or (self.every is not None and update.step % self.every == 0):
            self._save(trainer)

    def ended(self, trainer: Trainer) -> None:
        """Save where the run stopped; the flag that it is finished must be in the file."""
        self._save(trainer)

    def _save(self, trainer: Trainer) -> None:
        self._check(trainer)
        if trainer.progress.best is None:
            with trainer.average.applied():
                save_model(trainer.model, self.folder / MODEL_FILE)
        save_state(trainer, self.folder / STATE_FOLDER)
        self.judged = False

    def _check(self, trainer: Trainer) -> None:
        if broken := trainer.why_not_finite():
            raise DivergenceError(f"{broken}\nnothing is saved of that; the last good state is kept")
