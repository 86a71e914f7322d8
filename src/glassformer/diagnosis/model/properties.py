"""Every property of a whole model, causes before what follows from them."""

from __future__ import annotations

from glassformer.diagnosis.model import attention, basics, cache, cross, layers, loss, order, padding, weights
from glassformer.diagnosis.model.wording import MESSAGES
from glassformer.diagnosis.property import Property
from glassformer.diagnosis.subject import ModelSubject

_ROOT = ("shapes", "determinism")
_MIXED = (*_ROOT, "position_wise", "heads", "softmax_axis")
_SEEN = (*_MIXED, "causality", "padding", "position")

MODEL_PROPERTIES: tuple[Property[ModelSubject], ...] = (
    Property("shapes", MESSAGES, basics.shapes),
    Property("determinism", MESSAGES, basics.determinism, after=("shapes",)),
    Property("position_wise", MESSAGES, layers.position_wise, after=_ROOT),
    Property("heads", MESSAGES, attention.heads, attention.seen_attention, after=(*_ROOT, "position_wise")),
    Property("softmax_axis", MESSAGES, attention.softmax_axis, attention.seen_attention, after=(*_ROOT, "heads")),
    Property("finite", MESSAGES, basics.finite, after=_MIXED),
    Property("scale", MESSAGES, attention.scale, attention.seen_attention, after=_ROOT),
    Property("own_values", MESSAGES, attention.own_values, attention.seen_attention, after=_ROOT),
    Property("cross_attention", MESSAGES, cross.cross_attention, cross.crosses, after=(*_MIXED, "padding")),
    Property("causality", MESSAGES, order.causality, after=(*_MIXED, "cross_attention")),
    Property("padding", MESSAGES, padding.padding, padding.can_pad, after=(*_MIXED, "label_shift", "position")),
    Property("position", MESSAGES, order.position, order.knows_order, after=(*_MIXED, "cross_attention")),
    Property("batch_mates", MESSAGES, basics.batch_mates, after=(*_MIXED, "position")),
    Property("cache", MESSAGES, cache.cache, cache.has_cache, after=_SEEN),
    Property("feed_forward", MESSAGES, layers.feed_forward, after=_ROOT),
    Property("layers", MESSAGES, layers.layers, layers.has_layers, after=(*_ROOT, "cross_attention")),
    Property("residual", MESSAGES, layers.residual, layers.has_layers, after=(*_ROOT, "layers")),
    Property("norm", MESSAGES, layers.norm, layers.has_layers, after=(*_ROOT, "residual")),
    Property(
        "gradient",
        MESSAGES,
        weights.gradient,
        after=("shapes", "layers", "own_values", "cross_attention", "position"),
    ),
    Property("tied", MESSAGES, weights.tied),
    Property("dropout", MESSAGES, basics.dropout, after=("shapes", "determinism", "causality")),
    Property("label_shift", MESSAGES, loss.label_shift, loss.shifts, after=_ROOT),
    Property("loss_padding", MESSAGES, loss.loss_padding, loss.has_loss, after=(*_ROOT, "label_shift")),
    Property(
        "accumulation",
        MESSAGES,
        loss.accumulation,
        loss.has_loss,
        after=(*_ROOT, "position_wise", "position", "batch_mates", "loss_padding"),
    ),
    Property("initial_loss", MESSAGES, weights.initial_loss, weights.scores_tokens, after=("shapes",)),
    Property(
        "memorise",
        MESSAGES,
        weights.memorise,
        weights.has_tokens,
        after=(*_SEEN, "residual", "layers", "gradient", "scale", "initial_loss", "cross_attention"),
    ),
)
"""By `check`, in this order; `after` names what explains a failure."""
