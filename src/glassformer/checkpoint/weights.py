"""A model's parameters by name: exact in, exact out, ties kept."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from glassformer.core.errors import CheckpointError

WRAPPERS = ("_orig_mod.", "module.")
"""What compiling and data-parallel wrappers put before a name; accepted when read, never written."""


def aliases(model: nn.Module) -> dict[str, str]:
    """Return, for every name of a parameter or buffer, the first name of the same tensor.

    A tied head and its embedding are one parameter with two names.
    """
    first: dict[int, str] = {}
    names = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        names[name] = first.setdefault(id(tensor), name)
    return {bare_name(name): bare_name(of) for name, of in names.items()}


def bare_name(name: str) -> str:
    """Return a parameter's name without the prefixes that wrappers add."""
    stripped = True
    while stripped:
        stripped = False
        for wrapper in WRAPPERS:
            if name.startswith(wrapper):
                name, stripped = name.removeprefix(wrapper), True
    return name


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return every parameter and buffer once, contiguous, under its first bare name."""
    names = aliases(model)
    tensors = {bare_name(name): tensor for name, tensor in model.state_dict().items()}
    return {name: tensor.contiguous() for name, tensor in tensors.items() if names[name] == name}


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], source: str) -> None:
    """Copy tensors into a model, or change nothing at all.

    Args:
        model: Bare or wrapped.
        tensors: By name, with or without wrappers' prefixes; a tied tensor may come under either of its names or both.
        source: What to call the tensors in an error.

    Raises:
        CheckpointError: A name is missing or unexpected, a shape is wrong, whole numbers stand where others belong or
            the other way round, or two tensors that are tied in the model differ; all of it in one message.
    """
    names = aliases(model)
    targets = {bare_name(name): tensor for name, tensor in model.state_dict().items()}
    problems = []
    chosen: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        first = names.get(bare_name(name))
        if first is None:
            problems.append(f"unexpected {name}")
            continue
        if tensor.shape != targets[first].shape:
            problems.append(f"{name} has shape {tuple(tensor.shape)}, the model needs {tuple(targets[first].shape)}")
        elif not _same_kind(tensor.dtype, targets[first].dtype):
            problems.append(f"{name} is in {_said(tensor.dtype)}, the model needs {_said(targets[first].dtype)}")
        elif first in chosen and not torch.equal(chosen[first], tensor):
            problems.append(f"{name} differs from {first}, but in the model they are one tensor")
        chosen.setdefault(first, tensor)
    problems += [f"missing {name}" for name in dict.fromkeys(names.values()) if name not in chosen]
    if problems:
        raise CheckpointError(f"{source} does not fit the model:\n  " + "\n  ".join(problems))
    with torch.no_grad():
        for name, tensor in chosen.items():
            targets[name].copy_(tensor)


def _same_kind(one: torch.dtype, other: torch.dtype) -> bool:
    """True for two kinds of floating-point numbers; whole numbers and truth values have to be the same."""
    return one == other or (one.is_floating_point and other.is_floating_point)


def _said(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
