"""What a part is: told by the names of its arguments, and by what it does when it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.core.errors import ConfigError, did_you_mean
from glassformer.diagnosis.parts import (
    attention,
    beams,
    cached,
    layers,
    mask_function,
    multi_head,
    position,
    positioning,
    schedule,
)
from glassformer.diagnosis.parts.calling import difference, influence, tensors_in
from glassformer.diagnosis.parts.making import Thing, asked_in, parameters_of, required_of
from glassformer.diagnosis.parts.sequence import MEMORY_NAMES, MOVED, SequenceSubject, open_sequence
from glassformer.diagnosis.property import Property
from glassformer.diagnosis.stream import without_matrices


@dataclass(frozen=True)
class PartKind:
    """A kind of part.

    Attributes:
        name: As after `--as`.
        open: Finds out how one is called.
        properties: What it is examined for.
        call: How it is called, for those who write one.
        gates: How many of the first properties must hold before the others can be asked: that it runs, and that it
            is not random.
    """

    name: str
    open: Callable[[Thing], Any]
    properties: tuple[Property[Any], ...]
    call: str
    gates: int = 1


KINDS: Mapping[str, PartKind] = {
    kind.name: kind
    for kind in (
        PartKind("attention", attention.open_attention, attention.PROPERTIES, "attention(q, k, v, mask=None)", 2),
        PartKind("multi_head", multi_head.open_multi_head, multi_head.PROPERTIES, "module(x, mask=None)", 2),
        PartKind("mask", mask_function.open_mask, mask_function.PROPERTIES, "mask(n), or mask(tokens, pad)"),
        PartKind("position", positioning.open_position, position.PROPERTIES, "positions(n, d_model), or module(x)"),
        PartKind("encoder_layer", layers.open_encoder_layer, layers.ENCODER, "module(x, mask=None)", 2),
        PartKind(
            "decoder_layer", layers.open_decoder_layer, layers.DECODER, "module(x, memory, tgt_mask, src_mask)", 2
        ),
        PartKind("feed_forward", layers.open_feed_forward, layers.FEED_FORWARD, "module(x)", 2),
        PartKind("schedule", schedule.open_schedule, schedule.PROPERTIES, "rate(step), or scheduler(optimizer)"),
        PartKind("cache", cached.open_cached, cached.PROPERTIES, "module(x, cache=None) -> (y, cache)"),
        PartKind("beam", beams.open_beam, beams.PROPERTIES, "search(next_log_probs, begin, end, width, max_new)"),
    )
}
"""By name."""


def kind_named(name: str) -> PartKind:
    """Return a kind of part.

    Raises:
        ConfigError: There is none of that name.
    """
    if name not in KINDS:
        raise ConfigError(f"there is no kind of part {name!r}{did_you_mean(name, KINDS)}")
    return KINDS[name]


def told_by_names(thing: Thing) -> PartKind | None:
    """Return what kind of part something is by the names of its arguments; None if they do not tell.

    Args:
        thing: What the user named.
    """
    target = thing.instance if thing.instance is not None else thing.value
    names = [name.lower() for name in parameters_of(target)]
    required = [name.lower() for name in required_of(target)]
    if thing.instance is None:  # it could not be made: its constructor and its name are all there is
        forward = getattr(thing.value, "forward", None)
        names = [name.lower() for name in parameters_of(forward)][1:] if forward is not None else names
        required = names
    found = _by_names(thing, names, required)
    return None if found is None else KINDS[found]


def _by_names(thing: Thing, names: list[str], required: list[str]) -> str | None:
    learns = bool(thing.parameters) or (thing.instance is None and isinstance(thing.value, type))
    module = isinstance(thing.instance, nn.Module)
    if any("optim" in name for name in names) or schedule.rate_method(thing.instance) is not None:
        return "schedule"
    if any(name in beams.MEANINGS["width"][:5] for name in names) and any(
        name in beams.MEANINGS["model"] for name in names
    ):
        return "beam"
    if any("cache" in name or name in ("past", "past_kv", "layer_past") for name in names):
        return "cache"
    if asked_in(thing.instance if thing.instance is not None else getattr(thing.value, "forward", thing.value)):
        return "multi_head" if learns else "attention"
    three = names[:3]
    if three[:2] in (["q", "k"], ["xq", "xk"], ["query", "key"]) and "v" not in names:
        return "position"
    if thing.value is torch.nn.functional.scaled_dot_product_attention:
        return "attention"
    if len(names) > 1 and (names[1] in MEMORY_NAMES or names[0] in ("memory", "enc_output")) and module:
        return "multi_head" if _is_bare(thing) else "decoder_layer"
    if not module and required[:1] and required[0] in schedule.STEPS and required[0] not in ("n", "t", "i"):
        return "schedule"
    return None


def told_by_trying(thing: Thing) -> PartKind | None:
    """Return what kind of part something seems to be by what it does; None if nothing tells.

    Args:
        thing: What the user named.
    """
    if thing.instance is None or not callable(thing.instance):
        return None
    if not isinstance(thing.instance, nn.Module):
        return _function(thing)
    if _adds(thing):
        return KINDS["position"]
    with torch.no_grad():
        subject = open_sequence(thing, ("x",))
        if subject.error is None:
            torch.manual_seed(0)
            moved = influence(subject, subject.drawn())
            if not bool(((moved - torch.diag(moved.diagonal())) > MOVED).any()):
                if thing.parameters and any(_is_of_attention(name) for name in parameters_of(thing.instance)):
                    layer = _has_feed_forward(thing, subject.d_model)
                    return KINDS["encoder_layer" if layer else "multi_head"]  # one that looks at nothing
                return KINDS["feed_forward"] if thing.parameters else KINDS["position"]
            return KINDS["encoder_layer" if _has_feed_forward(thing, subject.d_model) else "multi_head"]
    inside = [name.lower() for name in required_of(thing.instance) if "mask" not in name.lower()]
    if len(inside) == 3:
        return KINDS["multi_head" if thing.parameters else "attention"]
    if len(inside) == 2:
        return KINDS["decoder_layer"]
    if positioning.open_position(thing).error is None:
        return KINDS["position"]
    names = [type(part).__name__ for part in thing.module.modules()] if thing.module is not None else []
    if any("Norm" in name for name in names):
        return KINDS["encoder_layer"]
    return KINDS["multi_head"] if len(thing.parameters) >= 3 else None


def _is_bare(thing: Thing) -> bool:
    """Whether nothing in it can be a norm, and nothing of what goes in comes out where every matrix is zero."""
    if any("norm" in type(part).__name__.lower() for part in _parts(thing)):
        return False
    if any(each.ndim == 1 and not _of_matrix(thing, each) for each in thing.parameters):
        return False
    subject = multi_head.open_multi_head(thing)
    if subject.error is not None or thing.module is None:
        return False
    with without_matrices(thing.module):
        return difference(subject(subject.drawn()), subject(subject.drawn())) == 0


def _is_of_attention(name: str) -> bool:
    return any(word in name.lower() for word in ("mask", "causal", "keep", "head"))


def _adds(thing: Thing) -> bool:
    found = positioning.open_position(thing)
    if found.kind == "bias":
        return True
    if found.error is not None or found.kind != "added":
        return found.error is None and not thing.parameters
    x = torch.randn(2, 4, found.d_model)
    moved = found.call(2 * x) - found.call(x)
    more = found.call(3 * x) - found.call(2 * x)
    steady = bool((moved - more).abs().max() < 1e-4)
    return steady and not any(isinstance(part, nn.Linear) for part in _parts(thing))


def _parts(thing: Thing) -> list[nn.Module]:
    return [] if thing.module is None else list(thing.module.modules())


def _has_feed_forward(thing: Thing, d_model: int) -> bool:
    shapes = {tuple(parameter.shape) for parameter in thing.parameters if parameter.ndim == 2}
    inner = any(b == d_model != a and (b, a) in shapes for a, b in shapes)
    norms = any(each.ndim == 1 and not _of_matrix(thing, each) for each in thing.parameters)
    return inner or norms


def _of_matrix(thing: Thing, vector: nn.Parameter) -> bool:
    for part in _parts(thing):
        own = list(part.parameters(recurse=False))
        if any(each is vector for each in own):
            return any(each.ndim > 1 for each in own)
    return False


def _function(thing: Thing) -> PartKind | None:
    required = required_of(thing.instance)
    try:
        torch.manual_seed(0)
        found = thing.instance(4) if len(required) <= 1 else None
    except Exception:
        found = None
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        return KINDS["schedule"]
    tensors = tensors_in(found)
    if tensors:
        return KINDS["mask" if _is_mask(tensors[0]) else "position"]
    masks = mask_function.open_mask(thing)
    if masks.error is None and _is_mask(masks.call()):
        return KINDS["mask"]
    if positioning.open_position(thing).error is None:
        return KINDS["position"]
    opened = schedule.open_schedule(thing)
    if opened.error is None:
        return KINDS["schedule"]
    return KINDS["attention"] if len(required) == 3 else None


def _is_mask(tensor: Tensor) -> bool:
    if tensor.dtype == torch.bool:
        return True
    return bool(((tensor == 0) | (tensor == 1) | (tensor < -1e3)).all())


def opened(kind: PartKind, thing: Thing, expect: str | None, *, told: bool = False) -> Any:
    """Return the subject of an examination.

    Args:
        kind: What it is examined as.
        thing: What the user named.
        expect: What the user says of it besides; None = nothing.
        told: Whether the kind is the user's word, and no guess.

    Raises:
        ConfigError: Nothing of the kind can be expected of it.
    """
    subject = kind.open(thing)
    subject = replace(subject, told=told) if isinstance(subject, SequenceSubject) else subject
    if expect is None:
        return subject
    known = EXPECTED.get(kind.name, ())
    if expect not in known:
        raise ConfigError(
            f"of a part of kind {kind.name} nothing like {expect!r} can be expected"
            f"{did_you_mean(expect, known) if known else ''}"
        )
    return replace(subject, expect=expect)


EXPECTED: Mapping[str, tuple[str, ...]] = {
    "attention": ("safe",),
    "encoder_layer": ("pre", "post"),
    "decoder_layer": ("pre", "post"),
    "position": ("paper", "time_first"),
    "schedule": ("paper", "inverse_sqrt", "cosine", "linear", "constant"),
}
"""What may be said of a part of each kind."""
