"""What is called a norm is one, and stands in front of queries, keys and values alike."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from glassformer.diagnosis.flow import Passed
from glassformer.diagnosis.model.findings import failed
from glassformer.diagnosis.structure import norms_among
from glassformer.diagnosis.verdict import Finding

TIMES = 8.0
"""What a norm is given is made so much larger, and nothing may come of it."""
OFFSETS = ("bias", "beta", "shift", "offset")
"""What is added is called so; else the gain comes first."""
CLOSE = 1e-2
"""Of what a norm returns: what its epsilon may do."""


def wrong_norm(calls: Sequence[Passed]) -> Finding | None:
    """Return what is wrong with a norm, whoever wrote it; None if nothing is.

    Args:
        calls: Of every module in one run.
    """
    norms = [call for call in norms_among(calls) if _called_norm(call)]
    for call in norms:
        found = _no_norm(call)
        if found is not None:
            return found
    return _of_queries_alone(calls, norms)


def _called_norm(call: Passed) -> bool:
    """Whether a module is a norm by its class, or by its own name if it learns: an identity may stand in for one."""
    own = call.name.rpartition(".")[2]
    return "norm" in type(call.module).__name__.lower() or (
        "norm" in own.lower() and any(True for _ in call.module.parameters())
    )


def silent_norm(model: nn.Module) -> Finding | None:
    """Return that a norm begins with gains of zero, so that nothing passes it; None if none does.

    Args:
        model: As it was given.
    """
    for name, module in model.named_modules():
        gains = [parameter for parameter in module.parameters(recurse=False) if parameter.ndim == 1]
        if "norm" not in type(module).__name__.lower() or len(gains) != 1 or list(module.children()):
            continue
        if bool((gains[0] == 0).all()) and gains[0].numel() > 1:
            generator = torch.Generator().manual_seed(0)
            x = torch.randn(2, 3, gains[0].numel(), generator=generator).to(gains[0])
            try:
                with torch.no_grad():
                    out = module(x)
            except Exception:  # of the subject's own code, which wants something else
                continue
            if not bool(out.any()):
                return failed("norm.silent", where=name, fault="norm.silent")
    return None


def _no_norm(call: Passed) -> Finding | None:
    """A norm returns the same for what is some times as large, and with gains of one, numbers of size one."""
    module, x = call.module, call.first
    if list(module.buffers()) or x is None or len(call.inputs) > 1:
        return None  # a norm by numbers of other batches, or of something else
    x = x / x.double().pow(2).mean().sqrt().clamp(min=1e-30).to(x)
    gains = [parameter for parameter in module.parameters() if parameter.shape == x.shape[-1:]]
    kept = [parameter.detach().clone() for parameter in module.parameters()]
    learned = dict(module.named_parameters())
    gain = next((name for name in learned if not any(word in name for word in OFFSETS)), None)
    with torch.no_grad():
        for name, parameter in learned.items():
            parameter.fill_(float(name == gain))
        one, other = module(x), module(TIMES * x)
        for parameter, value in zip(module.parameters(), kept, strict=True):
            parameter.copy_(value)
    size = float(one.double().pow(2).mean().sqrt())
    if float((one - other).double().abs().max()) > CLOSE * max(size, 1e-30) * TIMES:
        return failed("norm.none", where=call.name, fault="norm.none", times=TIMES)
    rows = one.double().pow(2).mean(-1).sqrt()
    if float(rows.max() - rows.min()) > 0.1 * size and not isinstance(module, nn.GroupNorm):
        return failed("norm.uneven", where=call.name, fault="norm.none", low=float(rows.min()), high=float(rows.max()))
    width = x.shape[-1]
    if gains and abs(size * width**0.5 - 1) < CLOSE and width > 2:
        return failed("norm.sum", where=call.name, fault="norm.sum", size=size)
    return None


def _of_queries_alone(calls: Sequence[Passed], norms: Sequence[Passed]) -> Finding | None:
    """An attention whose keys and values come from what stands in front of the norm of its queries."""
    for call in calls:
        if len(call.inputs) < 3 or not any(True for _ in call.module.parameters()):
            continue
        query, key, value = call.inputs[:3]
        if query.shape != key.shape or query is key or not query.is_floating_point():
            continue
        if any(query is each.result and key is each.first and value is each.first for each in norms):
            return failed("norm.query", where=call.name, fault="norm.query")
    return None
