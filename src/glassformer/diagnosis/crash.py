"""What a crash of the subject says: which tensor came to which module in which shape, and what it wanted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType, TracebackType

import torch
from torch import Tensor, nn

from glassformer.core.errors import GlassformerError
from glassformer.diagnosis.verdict import Finding, Said
from glassformer.diagnosis.wording import MESSAGES

TORCH = str(Path(torch.__file__).parent)


def crash_of(error: Exception, modules: Sequence[nn.Module]) -> Finding:
    """Return the finding that a crash is.

    Args:
        error: What was raised, with its traceback.
        modules: What the subject is made of; places are named by their paths in it.
    """
    frames = list(_frames(error.__traceback__))
    names = {part: name for module in modules for name, part in module.named_modules()}
    where = ""
    for frame, _ in frames:
        owner = frame.f_locals.get("self")
        if isinstance(owner, nn.Module) and owner in names:
            where = names[owner] or type(owner).__name__
    line = next((f"{Path(f.f_code.co_filename).name}:{n}" for f, n in reversed(frames) if _of_user(f)), "")
    found = _unmerged(frames) or _refused(frames)
    if found is not None:
        key, values = found
        return Finding("error", Said(MESSAGES, key, {**values, "where": where, "line": line}), where, key)
    shapes = _shapes(frames)
    message = str(error).strip().partition("\n")[0] or type(error).__name__
    values = {"error": type(error).__name__, "message": message, "line": line, "shapes": shapes}
    key = "crash_outside" if not line else "crash" if shapes else "crash_plain"
    return Finding("error", Said(MESSAGES, key, values), where)


def _frames(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def _of_user(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return not file.startswith((TORCH, "<")) and f"glassformer{Path('/')}diagnosis" not in file


def _unmerged(frames: Sequence[tuple[FrameType, int]]) -> tuple[str, dict[str, object]] | None:
    """A linear layer that wants D = H * E was given heads of width E."""
    layer, x = _linear_call(frames)
    if layer is None or x is None or x.ndim < 4 or x.shape[-1] == layer.in_features:
        return None
    wanted = layer.in_features
    heads = [size for size in x.shape[1:-1] if size * x.shape[-1] == wanted]
    if not heads:
        return None
    return "heads_unmerged", {"shape": tuple(x.shape), "wanted": wanted, "heads": heads[0], "width": x.shape[-1]}


def _refused(frames: Sequence[tuple[FrameType, int]]) -> tuple[str, dict[str, object]] | None:
    layer, x = _linear_call(frames)
    if layer is None or x is None or x.shape[-1] == layer.in_features:
        return None
    return "wrong_width", {"shape": tuple(x.shape), "wanted": layer.in_features}


def _linear_call(frames: Sequence[tuple[FrameType, int]]) -> tuple[nn.Linear | None, Tensor | None]:
    for frame, _ in reversed(frames):
        owner, x = frame.f_locals.get("self"), frame.f_locals.get("input")
        if isinstance(owner, nn.Linear) and isinstance(x, Tensor):
            return owner, x
    return None, None


def _shapes(frames: Sequence[tuple[FrameType, int]]) -> str:
    """The tensors by their names in the innermost code that is not torch's."""
    for frame, _ in reversed(frames):
        if _of_user(frame):
            tensors = {name: value for name, value in frame.f_locals.items() if isinstance(value, Tensor)}
            return ", ".join(f"{name} {tuple(value.shape)}" for name, value in list(tensors.items())[:6])
    return ""


def is_refusal(error: Exception) -> bool:
    """True for an error with which code refuses what it was given, rather than breaks."""
    return isinstance(error, (GlassformerError, NotImplementedError))
