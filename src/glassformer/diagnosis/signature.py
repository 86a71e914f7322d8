"""What the arguments of a foreign model's `forward` are for, as far as their names say it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

Role = Literal["content", "mask", "labels", "cache", "use_cache", "offset", "segments", "other"]
Side = Literal["source", "target", "either"]


@dataclass(frozen=True)
class Argument:
    """One argument of a `forward`.

    Attributes:
        name: Its name.
        role: What it seems to be for.
        side: Which text it belongs to, in an encoder-decoder.
        pads: Of a mask: True if its name says that True means padding, False if it says "a token", None if neither.
        required: Whether it has no default.
        counts: Of a mask: whether it is the number of tokens of each text.
    """

    name: str
    role: Role
    side: Side
    pads: bool | None
    required: bool
    counts: bool = False


def arguments_of(model: nn.Module) -> list[Argument]:
    """Return the arguments of a model's `forward`, in order."""
    return [
        _argument(name, each.default is inspect.Parameter.empty)
        for name, each in inspect.signature(model.forward).parameters.items()
        if each.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    ]


def _argument(name: str, required: bool) -> Argument:
    low = name.lower()
    counts = bool(re.search(r"(^|_)(lens?|lengths?)$", low)) and not re.search(r"max|cache|past", low)
    role: Role = "content"
    if low == "use_cache":
        role = "use_cache"
    elif re.search(r"cache|past|^kvs?$|^state$", low) and "position" not in low:
        role = "cache"
    elif counts or (re.search(r"mask|keep|valid|pad(?!ding_idx)", low) and not re.search(r"head|logits", low)):
        role = "mask"
    elif re.search(r"^labels?$|^lm_labels$", low) or (low in ("targets", "y") and not required):
        role = "labels"
    elif re.search(r"offset|start_pos|^start$", low):
        role = "offset"
    elif re.search(r"token_type|segment", low) and not required:
        role = "segments"
    elif not required and not re.search(
        r"^(input_ids|decoder_input_ids|idx|ids|tokens?|x|src|tgt|source|target)$", low
    ):
        role = "other"
    pads = True if "pad" in low else False if re.search(r"keep|valid|attention_mask", low) else None
    return Argument(name, role, _side(low), pads, required, counts)


def _side(low: str) -> Side:
    if re.search(r"tgt|target|trg|dec", low):
        return "target"
    if re.search(r"src|source|enc|memory", low):
        return "source"
    return "either"


def outputs_in(result: Any, axes: int = 1) -> list[Tensor]:
    """Return the tensors with numbers that a call returned, what the next layer or the user wants first.

    Args:
        result: Of the call.
        axes: What has fewer is left out, unless it is the whole result.
    """
    if isinstance(result, Tensor):
        return [result]
    return [t for t in _numbers_in(result) if t.ndim >= axes]


def _numbers_in(result: Any) -> list[Tensor]:
    if isinstance(result, Mapping):
        first = [result[name] for name in ("logits", "last_hidden_state") if name in result]
        rest = [value for name, value in result.items() if name not in ("logits", "last_hidden_state", "loss")]
        return [t for t in (*first, *rest) if isinstance(t, Tensor) and t.is_floating_point()]
    if isinstance(result, Sequence):
        return [t for t in result if isinstance(t, Tensor) and t.is_floating_point()]
    return _numbers_in(_fields(result)) if _fields(result) else []


def loss_in(result: Any) -> Tensor | None:
    """Return the loss that a call returned, if it did."""
    if isinstance(result, Mapping):
        found = result.get("loss")
        return found if isinstance(found, Tensor) else None
    if isinstance(result, Tensor):
        return result if result.ndim == 0 else None
    if isinstance(result, Sequence):
        return next((t for t in result if isinstance(t, Tensor) and t.ndim == 0 and t.is_floating_point()), None)
    return loss_in(_fields(result)) if _fields(result) else None


def cache_in(result: Any) -> Any:
    """Return what is to be handed in with the next tokens, if a call returned something of the kind."""
    if isinstance(result, Mapping):
        return next((value for name, value in result.items() if re.search(r"cache|past", name)), None)
    if isinstance(result, Sequence) and not isinstance(result, str):
        return next((value for value in result if value is not None and not isinstance(value, Tensor)), None)
    return cache_in(_fields(result)) if _fields(result) else None


def _fields(result: Any) -> dict[str, Any]:
    """The values of an object that a model returned; none of what has no attributes of its own."""
    try:
        return dict(vars(result))
    except TypeError:
        return {}
