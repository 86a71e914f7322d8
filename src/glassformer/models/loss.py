"""Cross-entropy over the vocabulary, or over classes."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.places import IGNORED
from glassformer.models.fused_loss import fused_head_loss
from glassformer.models.output import Loss
from glassformer.parts.head import Head

PLAIN_LIMIT = 262_144
"""Number of logits (1 MiB of float32) up to which they are held at once."""


def cross_entropy(
    logits: Float[Tensor, "*batch vocab"], labels: Int[Tensor, "*batch"], label_smoothing: float = 0.0
) -> Loss:
    """Return the loss of scores against labels.

    loss(t) = -(1 - eps) log p(label_t) - eps/V sum_v log p(v), for every t whose label is not -100.

    The smoothing mass eps is spread over ALL V tokens, the right one included. An ignored position counts
    neither in the sum nor in the number of targets, and its scores get a gradient of exactly 0.

    Args:
        logits: Scores; the loss is taken in float32 at least. *Shape:* (..., V).
        labels: Token ids or classes, -100 = ignore. *Shape:* (...).
        label_smoothing: eps, from 0 to 1.

    Source: Szegedy et al. 2015, arXiv:1512.00567, section 7; Vaswani et al. 2017, section 5.4.
    """
    exact = torch.promote_types(logits.dtype, torch.float32)
    total = F.cross_entropy(
        logits.flatten(0, -2).to(exact),
        labels.flatten().long(),
        ignore_index=IGNORED,
        reduction="sum",
        label_smoothing=label_smoothing,
    )
    return Loss(total, (labels != IGNORED).sum())


def head_loss(
    head: Head,
    x: Float[Tensor, "batch length d_model"],
    labels: Int[Tensor, "batch length"],
    label_smoothing: float,
) -> Loss:
    """Return the loss of the states x under the head, without ever holding a large tensor of logits.

    Up to `PLAIN_LIMIT` logits they are made at once; above, a chunk at a time, together with their gradient, in a
    compiled graph, too.

    Args:
        head: Makes the scores.
        x: States. *Shape:* (B, T, D).
        labels: *Shape:* (B, T).
        label_smoothing: See `cross_entropy`.
    """
    assert head.weight is not None, "a head that pools nothing has scores"
    whole = head.step is not None  # in 8 bits nothing learns
    if whole or labels.numel() * head.weight.shape[0] <= PLAIN_LIMIT:
        return cross_entropy(head(x), labels, label_smoothing)
    total = fused_head_loss(head.scored(x).flatten(0, 1), head.weight, head.bias, labels.flatten(), label_smoothing)
    return Loss(total, (labels != IGNORED).sum())
