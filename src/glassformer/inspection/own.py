"""The attention that a user's own model lets be seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.models.inference import inference
from glassformer.models.own import OwnTransformer


def own_attention(
    model: OwnTransformer,
    tokens: Tensor | Sequence[int],
    sources: Tensor | Sequence[int] | None,
    pattern: str = "*",
) -> dict[str, Float[Tensor, "head query key"]]:
    """Return who looks at whom in one sample, as far as the model's modules return it.

    Seen is every module that returns a tuple with weights (B, H, T, S) behind its output, and every
    torch.nn.MultiheadAttention, which is asked for them. Which of them is whose is told by a second sample with a
    source and a target of different lengths: the weights of an encoder are square in the one, those of a decoder in the
    other, those of cross-attention in neither.

    Args:
        model: An encoder-decoder of the user's.
        tokens: What its decoder reads. *Shape:* (T).
        sources: What its encoder reads. *Shape:* (S).
        pattern: Which of them, by their names.

    Returns:
        By a name such as "decoder.blocks.0.cross_attention.weights", in the order of the forward pass. Each of
        *Shape:* (H, T, S).
    """
    assert sources is not None, "an encoder-decoder is given a source"
    shapes = [(each.shape[-2], each.shape[-1]) for each in _seen(model, [0] * READ, [0] * WRITTEN)]
    found: dict[str, Tensor] = {}
    counts: dict[str, int] = {}
    for shape, weights in zip(shapes, _seen(model, _ids(sources), _ids(tokens)), strict=True):
        part = PARTS.get(shape)
        if part is None:
            continue
        layer = counts.get(part, 0)
        counts[part] = layer + 1
        stack, _, kind = part.partition(".")
        found[f"{stack}.blocks.{layer}.{kind}.weights"] = weights
    return {name: weights for name, weights in found.items() if fnmatchcase(name, pattern)}


READ, WRITTEN = 5, 3
"""Lengths of the source and target by which the kinds of attention are told."""

PARTS = {
    (READ, READ): "encoder.attention",
    (WRITTEN, WRITTEN): "decoder.attention",
    (WRITTEN, READ): "decoder.cross_attention",
}


def _ids(tokens: Tensor | Sequence[int]) -> list[int]:
    return [int(token) for token in tokens]


def _seen(model: OwnTransformer, sources: Sequence[int], tokens: Sequence[int]) -> list[Tensor]:
    """The weights of each attention, in the order in which they are computed. *Shape:* (H, T, S) each."""
    kept: list[Tensor] = []

    def look(module: nn.Module, given: Any, output: Any) -> None:
        for each in output[1:] if isinstance(output, (tuple, list)) else ():
            if not isinstance(each, Tensor) or each.ndim != 4 or not each.is_floating_point():
                continue
            if any(each is one for one in kept):
                continue  # handed on by a module around it
            if bool((each >= 0).all()) and float(each.sum(-1).max()) < 1.001:
                kept.append(each)

    source, target = (torch.tensor([list(ids)], device=model.device) for ids in (sources, tokens))
    with inference(model.modules()), _watched(model, look):
        model(target, memory=model.encode(source))
    return [each[0].to("cpu", torch.float32) for each in kept]


def _ask(module: nn.Module, given: tuple[Any, ...], options: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """torch's own attention returns its weights only if it is asked to."""
    return given, {**options, "need_weights": True, "average_attn_weights": False}


@contextmanager
def _watched(model: nn.Module, look: Any) -> Iterator[None]:
    hooks = [module.register_forward_hook(look) for module in model.modules()]
    hooks += [
        module.register_forward_pre_hook(_ask, with_kwargs=True)
        for module in model.modules()
        if isinstance(module, nn.MultiheadAttention)
    ]
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # it computes a whole layer at once and shows nothing
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for hook in hooks:
            hook.remove()
