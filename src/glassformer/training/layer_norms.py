"""The size of every layer's output while training goes on."""

from __future__ import annotations

from dataclasses import replace

from glassformer.core.tape import Tape
from glassformer.data.batch import Batch
from glassformer.inspection.layer_norms import layer_norms, rms
from glassformer.models.inference import inference
from glassformer.models.transformer import Transformer
from glassformer.training.objective import objective

ROWS = 4
"""Sequences that are looked at: a norm over more hardly changes, and training waits meanwhile."""


def norms_on(model: Transformer, batch: Batch) -> dict[str, float]:
    """Return the root mean square of the residual stream after every block, on a few rows of a batch.

    It is the same forward pass as training's, without dropout and without updating anything.

    Args:
        model: Its mode is put back afterwards.
        batch: Tokens to look at.
    """
    few = replace(
        batch,
        inputs=batch.inputs[:ROWS],
        labels=batch.labels[:ROWS],
        lengths=batch.lengths[:ROWS],
        items=batch.items[:ROWS],
        source=None if batch.source is None else batch.source[:ROWS],
        source_lengths=batch.source_lengths[:ROWS],
        documents=None if batch.documents is None else batch.documents[:ROWS],
    ).to(model.device)
    tape = Tape(model, "*.residual", reduce=rms)
    with inference(model.modules()):
        objective(model, few, tape=tape)
    places = {"encoder": few.source_places} if few.source is not None else {}
    return layer_norms(tape, {**places, model.output_stack.site: few.places})
