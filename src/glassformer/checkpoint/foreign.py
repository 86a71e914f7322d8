"""Models of other libraries' checkpoints: their tensors in, ours out, and back, every one accounted for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.checkpoint.weights import aliases
from glassformer.core.errors import CheckpointError
from glassformer.families.family import Family
from glassformer.families.weights import Rule, Weights
from glassformer.models.transformer import Transformer


def from_foreign(
    family: Family,
    settings: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
) -> Transformer:
    """Return the model that a foreign checkpoint holds, in eval mode.

    A tensor that is stored as the parameter needs it becomes the parameter: of one that is mapped from a file, only
    the pages that are looked at are ever read, and none is copied before it is written to.

    Args:
        family: Which family it is of.
        settings: Its config.json.
        tensors: Its tensors by name; each is asked for once and may be read only then.
        device: Where to put the parameters.
        dtype: Of the parameters; None = that of the first of them.

    Raises:
        CheckpointError: Settings that are not known or cannot be done, all of them in one message; or tensors that are
            missing, not known, of a wrong shape or type, or tied to another and different, all of them in one message.
    """
    config = family.read(settings, tensors.keys())
    weights = family.weights_of(config, settings, tensors.keys())
    with torch.device("meta"):
        model = Transformer(config)
    tied = aliases(model)

    def adopt(name: str, tensor: Tensor) -> None:
        nonlocal dtype
        dtype = dtype or tensor.dtype
        adopted = nn.Parameter(tensor.to(device=device, dtype=dtype).contiguous())
        for alias in [alias for alias, of in tied.items() if of == tied[name]]:
            module, _, parameter = alias.rpartition(".")
            setattr(model.get_submodule(module), parameter, adopted)

    fill(model, weights, tensors, adopt)
    return model.to(device).eval()


def fill(
    model: nn.Module,
    weights: Weights,
    tensors: Mapping[str, Tensor],
    put: Callable[[str, Tensor], None] | None = None,
) -> None:
    """Give a model a foreign checkpoint's tensors.

    Args:
        model: The model.
        weights: Where each of its parameters is.
        tensors: Their tensors by name.
        put: Gives a parameter, by its name, its value; copied into it when None.

    Raises:
        CheckpointError: They do not fit, in any way; all of it in one message. The model is then partly filled.
    """
    names, targets = aliases(model), dict(model.named_parameters(remove_duplicate=False))
    tensors = _Respelled(weights, tensors)
    expected = {name for rule in weights.rules for name in rule.theirs} | weights.copies.keys() | weights.unused
    unknown = (name for name in tensors if name not in expected)
    problems = [f"unexpected {name}" for name in unknown if not name.endswith(weights.derived)]
    filled = set()
    for rule in weights.rules:
        problems += _fill(rule, targets[rule.ours], tensors, put)
        filled.add(rule.ours)
    for copy, of in weights.copies.items():
        if copy in tensors and of in tensors and not torch.equal(tensors[copy], tensors[of]):
            problems.append(f"{copy} differs from {of}, but the config says that they are one (tie_word_embeddings)")
    reached = {names[name] for name in filled}
    problems += [f"nothing fills {name}" for name in dict.fromkeys(names.values()) if name not in reached]
    if problems:
        raise CheckpointError("the tensors do not fit the config:\n  " + "\n  ".join(problems))


class _Respelled(Mapping[str, Tensor]):
    """Tensors by the names of today, and by the name of the original where only its copy is there."""

    def __init__(self, weights: Weights, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = tensors
        self.stored = {weights.spelling(name): name for name in tensors}
        for copy, of in weights.copies.items():
            if copy in self.stored and of not in self.stored:
                self.stored[of] = self.stored.pop(copy)

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[self.stored[name]]

    def __contains__(self, name: object) -> bool:  # the inherited one would read the tensor
        return name in self.stored

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)


def _fill(
    rule: Rule, target: Tensor, tensors: Mapping[str, Tensor], put: Callable[[str, Tensor], None] | None
) -> list[str]:
    missing = [f"missing {name}" for name in rule.theirs if name not in tensors]
    if missing:
        return missing
    theirs = [tensors[name] for name in rule.theirs]
    shapes = [tuple(t.shape) for t in rule.layout.to_theirs(torch.empty(target.shape, device="meta"))]
    wrong = [
        f"{name} has shape {tuple(found.shape)}, the config needs {shape}"
        for name, found, shape in zip(rule.theirs, theirs, shapes, strict=True)
        if tuple(found.shape) != shape
    ]
    wrong += [
        f"{name} is of {found.dtype}: numbers that are quantised are not read"
        for name, found in zip(rule.theirs, theirs, strict=True)
        if not found.is_floating_point()
    ]
    if not wrong and put is not None:
        put(rule.ours, rule.layout.to_ours(theirs))
    elif not wrong:
        with torch.no_grad():
            target.copy_(rule.layout.to_ours(theirs))
    return wrong


def to_foreign(model: Transformer, family: Family) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the config.json and the tensors of a checkpoint that the other library loads.

    Args:
        model: The model.
        family: Which family it is written as.

    Raises:
        UnsupportedError: The family cannot hold it; the message says what differs.
    """
    settings = family.write(model.config)
    weights = family.weights_of(model.config, settings)
    ours = {name: tensor.detach() for name, tensor in model.named_parameters(remove_duplicate=False)}
    tensors: dict[str, Tensor] = {}
    for rule in weights.rules:
        for name, tensor in zip(rule.theirs, rule.layout.to_theirs(ours[rule.ours]), strict=True):
            tensors[name] = tensor.contiguous()
    tensors |= {copy: tensors[weights.copies[copy]].clone() for copy in weights.repeated}
    settings["dtype"] = str(next(iter(ours.values())).dtype).removeprefix("torch.")
    return settings, tensors
