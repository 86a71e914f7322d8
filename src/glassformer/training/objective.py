"""From a batch to a loss: the one place where training and evaluation call the model."""

from __future__ import annotations

from glassformer.core.tape import Tape
from glassformer.data.batch import Batch
from glassformer.models.output import Loss
from glassformer.models.transformer import Transformer


def objective(model: Transformer, batch: Batch, *, label_smoothing: float = 0.0, tape: Tape | None = None) -> Loss:
    """Return the cross-entropy of a batch's labels: the source is encoded first, where there is one.

    Args:
        model: Any kind that fits the batch.
        batch: Tokens, lengths, labels.
        label_smoothing: Mass of the target that is spread over the vocabulary.
        tape: What is recorded and changed.
    """
    memory = None
    if batch.source is not None:
        memory = model.encode(batch.source, places=batch.source_places, tape=tape)
    loss: Loss = model(
        batch.inputs,
        places=batch.places,
        memory=memory,
        labels=batch.labels,
        label_smoothing=label_smoothing,
        tape=tape,
    )
    return loss
