"""How far a run is: plain numbers, saved with the weights so that stopping costs nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from glassformer.core.errors import CheckpointError


@dataclass
class Progress:
    """Counters of a run; all that a resumed run needs besides tensors.

    Attributes:
        step: Updates made.
        epoch: Epoch the next batch belongs to.
        batch: Batches of that epoch already used.
        tokens: Target tokens trained on.
        seconds: Time spent, over all sessions.
        busy_seconds: Time spent in updates alone, without what it took to compile them.
        logged_loss: Sum of the losses since the last line of metrics, in nats.
        logged_tokens: Target tokens since then.
        logged_seconds: Time spent in updates since then.
        best: The best value of `select_by` so far.
        best_step: When it was reached.
        stale: Evaluations since then.
        skipped: Updates that were left out because fp16 gradients overflowed.
        finished: Whether the run has reached its end.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    tokens: int = 0
    seconds: float = 0.0
    busy_seconds: float = 0.0
    logged_loss: float = 0.0
    logged_tokens: int = 0
    logged_seconds: float = 0.0
    best: float | None = None
    best_step: int = 0
    stale: int = 0
    skipped: int = 0
    finished: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the counters by name."""
        return asdict(self)

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Progress:
        """Return the counters that `to_dict` gave.

        Raises:
            CheckpointError: A counter is missing or unknown.
        """
        names = {field.name for field in fields(Progress)}
        if set(values) != names:
            raise CheckpointError(
                f"the saved progress has other counters than this version: {sorted(set(values) ^ names)}"
            )
        return Progress(**values)
