"""The parameters: each is reached, ties are ties, and the model can learn."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from glassformer.diagnosis.model.findings import failed, passed, reason, skipped
from glassformer.diagnosis.subject import Given, ModelSubject, quietly
from glassformer.diagnosis.verdict import Finding, Said

PRODUCTS = {"linear", "matmul", "__matmul__", "__rmatmul__", "einsum", "mm", "bmm", "addmm"}

STEPS = 120
BOUND = 0.5
SHOWN = 4


def gradient(subject: ModelSubject) -> Finding:
    """Every parameter is registered and gets a gradient."""
    lost = list(_unregistered(subject.model))
    if lost:
        return failed("gradient.unregistered", where=lost[0], fault="gradient.unregistered", names=", ".join(lost))
    model = subject.model
    whole = sum(not parameter.is_floating_point() for parameter in model.parameters())
    if whole and not any(parameter.requires_grad for parameter in model.parameters()):
        return skipped("memorise.whole")
    given = subject.fitted(subject.draw(), model)
    generator = torch.Generator().manual_seed(7)
    with quietly(model), _Detached(model) as seen:
        outputs = subject.caller.everything(model, given)
    if seen.found is not None:
        return failed("gradient.detached", where=seen.found, fault="gradient.cut")
    total = sum((_weighted(out, generator) for out in outputs if out.requires_grad), torch.zeros(()))
    if not total.requires_grad:
        return failed("gradient.none", fault="gradient.cut")
    model.zero_grad()
    total.backward()
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    dead = [name for name, p in named if p.grad is None or (p.ndim >= 2 and float(p.grad.abs().max()) < 1e-12)]
    count = sum(p.numel() for name, p in named if name in dead)
    model.zero_grad()
    if not dead and whole:
        return passed("gradient.whole", count=len(named), whole=whole)
    if not dead:
        return passed("gradient.seen", count=len(named))
    names = ", ".join(dead[:SHOWN]) + (f", ... ({len(dead)})" if len(dead) > SHOWN else "")
    return failed("gradient.dead", where=dead[0], names=names, count=count)


def _weighted(out: Tensor, generator: torch.Generator) -> Tensor:
    return (out * torch.randn(out.shape, generator=generator).to(out)).sum()


def _unregistered(model: nn.Module) -> Iterator[str]:
    """Modules and parameters that stand in plain lists or mappings, where no optimizer sees them."""
    known = {id(parameter) for parameter in model.parameters()}
    for name, module in model.named_modules():
        for attribute, value in vars(module).items():
            if attribute.startswith("_") or not isinstance(value, (dict, list, tuple)):
                continue
            if any(each.requires_grad and id(each) not in known for each in _parameters_in(value)):
                yield f"{name}.{attribute}" if name else attribute


def _parameters_in(value: Any) -> Iterator[nn.Parameter]:
    if isinstance(value, nn.Parameter):
        yield value
    elif isinstance(value, nn.Module):
        yield from value.parameters()
    elif isinstance(value, (dict, list, tuple)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _parameters_in(each)


class _Detached(TorchFunctionMode):
    """Sees products with the numbers of a parameter that no gradient leads back to."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad and p.ndim >= 2]
        self._names = {parameter.untyped_storage().data_ptr(): name for name, parameter in named}
        self.found: str | None = None

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func.__name__ in PRODUCTS and torch.is_grad_enabled():
            for each in args:
                if isinstance(each, Tensor) and not each.requires_grad and each.is_floating_point():
                    self.found = self.found or self._names.get(each.untyped_storage().data_ptr())
        return func(*args, **dict(kwargs or {}))


def tied(subject: ModelSubject) -> Finding:
    """Where the head's weight equals the embedding's, it is the embedding's."""
    named = [(name, p) for name, p in subject.original.named_parameters() if p.ndim == 2 and p.numel() >= 16]
    sizes = {subject.caller.vocab, subject.caller.source_vocab}
    tables = {
        f"{name}.weight"
        for name, part in subject.original.named_modules()
        if isinstance(part, nn.Embedding) and part.num_embeddings in sizes
    }
    for name, table in named:
        if name not in tables or float(table.detach().std()) == 0.0:
            continue
        for other, weight in named:
            if other == name or weight.shape != table.shape or weight.data_ptr() == table.data_ptr():
                continue
            if torch.equal(weight, table):
                return failed("tied.copy", where=other, one=name, other=other)
    shared = _shared(subject.original)
    return passed("tied.seen", names=" = ".join(shared)) if shared else passed("tied.none")


def _shared(model: nn.Module) -> list[str]:
    by_tensor: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        by_tensor.setdefault(id(parameter), []).append(name)
    return next((names[:3] for names in by_tensor.values() if len(names) > 1), [])


def scores_tokens(subject: ModelSubject) -> Said | None:
    """Why a loss over tokens cannot be computed."""
    width = subject.run(subject.draw(1)).shape[-1]
    if subject.caller.pooled or subject.caller.vocab is None or width < 2:
        return reason("initial_loss.states")
    return None if width == subject.caller.vocab else reason("initial_loss.states")


def initial_loss(subject: ModelSubject) -> Finding:
    """A model that has learned nothing is as surprised as one that guesses: ln V."""
    if not _fresh(subject.original):
        return skipped("initial_loss.trained")
    given = subject.draw(8)
    logits = subject.run(given, model=subject.original).double()
    generator = torch.Generator().manual_seed(11)
    labels = torch.randint(logits.shape[-1], logits.shape[:2], generator=generator).to(logits.device)
    loss = float(F.cross_entropy(logits.flatten(0, 1), labels.flatten()))
    guess = math.log(logits.shape[-1])
    if loss > guess + max(1.0, 0.5 * guess):
        return failed("initial_loss.high", loss=loss, guess=guess, spread=float(logits.std()))
    return passed("initial_loss.seen", loss=loss, guess=guess)


def _fresh(model: nn.Module) -> bool:
    """Training leaves no gain at one and no offset at its first value: gains that are all equal were never trained."""
    gains = [
        part.weight
        for part in model.modules()
        if not isinstance(part, (nn.Linear, nn.Embedding, nn.MultiheadAttention))
        and isinstance(vars(part).get("_parameters", {}).get("weight"), nn.Parameter)
    ]
    flat = [gain for gain in gains if isinstance(gain, Tensor) and gain.ndim == 1 and gain.numel() > 1]
    return bool(flat) and all(bool((gain == gain[0]).all()) for gain in flat)


def has_tokens(subject: ModelSubject) -> Said | None:
    """Why it cannot be asked what a model learns of each token."""
    return reason("pooled") if subject.caller.pooled else None


def memorise(subject: ModelSubject) -> Finding:
    """A copy of the model learns one small batch by heart."""
    if not all(parameter.is_floating_point() for parameter in subject.original.parameters()):
        return skipped("memorise.whole")
    model = copy.deepcopy(subject.original).float().eval()  # without dropout
    given = subject.fitted(subject.draw(4, min(subject.length, 8)), model)
    learned = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(learned, lr=3e-3 if sum(p.numel() for p in learned) < 2_000_000 else 1e-3)
    labels, first, loss = _targets(subject, given), math.inf, math.inf
    for step in range(STEPS):
        with quietly(model, seed=step):
            logits = subject.caller.outputs(model, given).float()
        value = F.cross_entropy(logits[:, : labels.shape[1]].flatten(0, 1), labels.flatten() % logits.shape[-1])
        loss = float(value.detach())
        first = loss if step == 0 else first
        if not math.isfinite(loss):
            return failed("memorise.infinite", step=step)
        if loss < 0.1 * first:
            return passed("memorise.seen", first=first, loss=loss, steps=step)
        optimizer.zero_grad()
        if not value.requires_grad:
            return failed("memorise.stuck", first=first, loss=loss, steps=step)
        value.backward()
        optimizer.step()
    if loss <= BOUND * first:
        return passed("memorise.seen", first=first, loss=loss, steps=STEPS)
    return failed("memorise.stuck", first=first, loss=loss, steps=STEPS)


def _targets(subject: ModelSubject, given: Given) -> Tensor:
    """The next token of a decoder; in others, another text."""
    if subject.kind == "decoder" and not given.inputs.is_floating_point():
        return given.inputs[:, 1:]
    generator = torch.Generator().manual_seed(13)
    return torch.randint(10_000, given.inputs.shape[:2], generator=generator).to(given.inputs.device)
