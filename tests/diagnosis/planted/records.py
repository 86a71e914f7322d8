"""What is written down of a planted bug and of the healthy code it was made from.

`factory()` takes no argument and returns a fresh model, part or function. Build from one seed to compare a bug with its
twin: `torch.manual_seed(0); record.factory()`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

PROPERTIES = (
    "causality",
    "padding",
    "batch_mates",
    "loss_padding",
    "position",
    "cache",
    "determinism",
    "scale",
    "softmax_axis",
    "own_values",
    "heads",
    "position_wise",
    "residual",
    "norm",
    "gradient",
    "tied",
    "label_shift",
    "accumulation",
    "initial_loss",
    "memorise",
    "cross_attention",
    "shapes",
    "mask",
    "schedule",
)

KINDS = (
    "model.decoder",
    "model.encoder",
    "model.encoder_decoder",
    "part.attention",
    "part.multi_head",
    "part.position",
    "part.encoder_layer",
    "part.decoder_layer",
    "part.schedule",
)

Factory = Callable[[], Any]
Shows = Literal["output", "training", "initialisation", "raises"]


@dataclass(frozen=True)
class Healthy:
    name: str
    kind: str
    factory: Factory


@dataclass(frozen=True)
class Planted:
    """One bug.

    property: what it breaks, the best word first; any of them is a right answer.
    twin: the name of the healthy record it was made from.
    shows: where it differs from its twin: in the output with equal weights, only after a training step, only in the
        weights it starts with, or by raising.
    where: the submodule at fault, if it is one layer and not all.
    """

    name: str
    kind: str
    factory: Factory
    property: tuple[str, ...]
    twin: str
    shows: Shows
    where: str | None


def of_function(function: Callable[..., Any]) -> Factory:
    """A factory that returns the function itself."""
    return lambda: function
