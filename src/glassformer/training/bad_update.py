"""Why a parameter is not finite although its gradients were."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.inspection.nonfinite import Finding, first_true, is_finite, largest_finite, said_of
from glassformer.parts.embedding import Embedding
from glassformer.text.tokenizer import TextTokenizer


@dataclass(frozen=True)
class Made:
    """What there is to know of the newest update.

    Attributes:
        step: Its number.
        grad_norm: Norm of its gradient, before clipping; finite, unless it was left out.
        clip: What that was clipped to.
        items: What it learned from.
        epoch: In which epoch.
    """

    step: int
    grad_norm: float
    clip: float | None
    items: tuple[int, ...]
    epoch: int


def describe_bad_parameters(
    model: nn.Module, optimizer: torch.optim.Optimizer, made: Made | None, tokenizer: TextTokenizer
) -> str | None:
    """Return which parameter is not finite, its largest update and the optimizer's state; None if all are finite.

    Args:
        model: Whose parameters.
        optimizer: As its last step left it: what it keeps tells what it did.
        made: The newest update; None before the first.
        tokenizer: Names the token of a bad row in a table of tokens.
    """
    bad = [name for name, parameter in model.named_parameters() if not is_finite(parameter)]
    if not bad:
        return None
    name, parameter = bad[0], model.get_parameter(bad[0])
    place = first_true(~torch.isfinite(parameter.detach()))
    said = said_of(float(parameter.detach()[place]), parameter.dtype, place, tuple(parameter.shape))
    owner = model.get_submodule(name.rpartition(".")[0])
    if isinstance(owner, Embedding | nn.Embedding) and len(parameter) == tokenizer.vocab_size:
        said += f", the vector of the token {tokenizer.label(place[0])!r}"
    others = f" So are {len(bad) - 1} more of {len(list(model.parameters()))} parameters." if len(bad) > 1 else ""
    if made is None:
        return f"{name} is not finite before the first update: {said}.{others} Training began with it."
    finite = (
        "Its gradients were finite" if math.isfinite(made.grad_norm) else "Its gradients overflowed; it was left out"
    )
    norm = f"norm {made.grad_norm:.4g}" + ("" if made.clip is None else f", clipped to {made.clip:g}")
    return (
        f"{name} is not finite after update {made.step}: {said}.{others}\n"
        f"Update {made.step} learned from {items_of(made.items)} of epoch {made.epoch}. {finite} ({norm})\n"
        f"Optimizer: {_optimizer(optimizer, parameter, place, made)}"
    )


def describe_weight(
    model: nn.Module, optimizer: torch.optim.Optimizer, made: Made | None, found: Finding
) -> str | None:
    """Return how large the largest parameter of a module is whose output is not finite, and how it came to be.

    Args:
        model: Whose module.
        optimizer: As its last step left it.
        made: The newest update; None before the first.
        found: Where the forward pass went wrong.
    """
    owner = model if found.site == "model" or found.kind != "output" else model.get_submodule(found.site)
    sizes = {name: largest_finite(parameter) or 0.0 for name, parameter in owner.named_parameters()}
    if found.kind != "output" or not sizes:
        return None
    name = max(sizes, key=lambda name: sizes[name])
    moved = None if made is None else largest_update(optimizer, owner.get_parameter(name), made)
    told = f"Its {name} is up to {sizes[name]:.6g} in size"
    # A usual update is a small part of a weight.
    grown = made is not None and moved is not None and moved > sizes[name] / 2
    return told + (f"; update {made.step} moved it by up to {moved:.4g}" if made is not None and grown else "")


def items_of(items: tuple[int, ...]) -> str:
    """Return numbers of items, the first eight of them."""
    return "items " + ", ".join(map(str, items[:8])) + (", ..." if len(items) > 8 else "")


def largest_update(optimizer: torch.optim.Optimizer, parameter: Tensor, made: Made) -> float | None:
    """Return how far, at most, the optimizer's last step moved a number of a parameter, as far as that is finite.

    adam, adamw: lr m^ / (sqrt(v^) + eps);  sgd: lr m, or without momentum lr times the gradient's norm, which no number
    of it exceeds; from what was kept of that step, without weight decay. None where that is too little to tell: the
    matrices of muon.
    """
    direction, group = _direction(optimizer, parameter), _group(optimizer, parameter)
    if group is None:
        return None
    if direction is None:
        bound = min(made.grad_norm, made.clip or made.grad_norm)
        return None if optimizer.state.get(parameter) else float(group["lr"]) * bound
    size = largest_finite(direction)
    # In Python's numbers: the product of a rate and a float32 may be more than float32 holds.
    return None if size is None else float(group["lr"]) * size


def _direction(optimizer: torch.optim.Optimizer, parameter: Tensor) -> Tensor | None:
    """What is multiplied by the learning rate, in the parameter's own numbers: an eps that is 0 in these is 0."""
    state, group = optimizer.state.get(parameter, {}), _group(optimizer, parameter)
    if group is not None and "exp_avg_sq" in state:
        beta1, beta2 = group["betas"]
        step = float(state["step"])
        spread = (state["exp_avg_sq"] / (1 - beta2**step)).sqrt() + group["eps"]
        moved: Tensor = state["exp_avg"] / (1 - beta1**step) / spread
        return moved
    buffer = state.get("momentum_buffer")
    return buffer if isinstance(buffer, Tensor) else None


def _optimizer(optimizer: torch.optim.Optimizer, parameter: nn.Parameter, place: tuple[int, ...], made: Made) -> str:
    """The rate, the state at the bad place, the largest update, and which of them explains what happened."""
    group = _group(optimizer, parameter)
    if group is None:
        return "it does not learn this parameter; something else wrote to it"
    rate, limit = float(group["lr"]), torch.finfo(parameter.dtype).max
    kept = {
        name: value
        for name, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor) and value.shape == parameter.shape
    }
    there = ", ".join(f"{name} {float(value[place]):.4g}" for name, value in kept.items())
    parts = [f"{type(optimizer).__name__}, learning rate {rate:g}", f"{there} at that place" if there else "no state"]
    spoilt = [name for name, value in kept.items() if not is_finite(value)]
    if spoilt:
        return "; ".join([*parts, f"not finite in its state: {', '.join(spoilt)}"])
    direction, size = _direction(optimizer, parameter), largest_update(optimizer, parameter, made)
    if size is not None:
        parts.append(f"it moved it by up to {size:.4g}" + (f", above {limit:.4g}" if size > limit else ""))
    if direction is not None and "exp_avg" in kept:
        step = int(optimizer.state[parameter]["step"])
        corrected = rate / (1 - group["betas"][0] ** step)
        if corrected > limit >= rate:
            parts.append(f"the rate over 1 - beta1^{step} is {corrected:.4g}, above {limit:.4g}")
    if direction is not None and not is_finite(direction):
        eps = float(torch.tensor(group["eps"], dtype=parameter.dtype))
        parts.append(f"0 is divided by 0 + eps: raise training.eps, for {group['eps']:g} is {eps:g} in these numbers")
    elif size is not None and size + rate * group["weight_decay"] < 1e6:
        parts.append("so it was not the optimizer; something else wrote to the parameter")
    return "; ".join(parts)


def _group(optimizer: torch.optim.Optimizer, parameter: Tensor) -> dict[str, Any] | None:
    """The group that a parameter is learned in; None if it is not."""
    groups = (group for group in optimizer.param_groups if any(each is parameter for each in group["params"]))
    return next(groups, None)
