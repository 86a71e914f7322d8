"""From a batch to scores or a loss: the one place where training and evaluation call the model."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Float
from torch import Tensor

from glassformer.core.call import Memory
from glassformer.core.tape import Tape
from glassformer.data.batch import Batch
from glassformer.models.output import Loss
from glassformer.models.transformer import Transformer


def objective(model: Transformer, batch: Batch, *, label_smoothing: float = 0.0, tape: Tape | None = None) -> Loss:
    """Return the cross-entropy of a batch's labels: the source is encoded first, where there is one.

    Args:
        model: Any kind that fits the batch; with a pooled head each row has one label, else each token.
        batch: Tokens, lengths, labels.
        label_smoothing: Mass of the target that is spread over all tokens or classes.
        tape: What is recorded and changed.
    """
    loss: Loss = model(
        batch.inputs,
        places=batch.places,
        memory=_memory(model, batch, tape),
        labels=batch.labels,
        label_smoothing=label_smoothing,
        tape=tape,
    )
    return loss


def logits_of(model: Transformer, batch: Batch) -> Float[Tensor, "batch *places scores"]:
    """Return the scores of a batch: of every token at every position, or with a pooled head of every class.

    Args:
        model: Any kind that fits the batch.
        batch: Tokens and lengths.

    Returns:
        *Shape:* (B, T, V), or (B, C) with a pooled head.
    """
    logits: Tensor = model(batch.inputs, places=batch.places, memory=_memory(model, batch, None))
    return logits


def unit(model: Transformer) -> Literal["texts", "tokens"]:
    """Return what each label of a batch is for, and so what losses are divided by."""
    return "texts" if model.config.pools else "tokens"


def _memory(model: Transformer, batch: Batch, tape: Tape | None) -> Memory | None:
    if batch.source is None:
        return None
    return model.encode(batch.source, places=batch.source_places, tape=tape)
