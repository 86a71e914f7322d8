"""The layers: residual, norm, position-wise parts, and that each counts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.diagnosis.flow import Passed, record
from glassformer.diagnosis.model.attention import mixed_before
from glassformer.diagnosis.model.findings import failed, passed, reason, skipped
from glassformer.diagnosis.model.norms import silent_norm, wrong_norm
from glassformer.diagnosis.parts.recording import recorded, straight
from glassformer.diagnosis.stream import doubled, dropped, without_matrices
from glassformer.diagnosis.structure import (
    blocks_among,
    chains_among,
    feed_forwards_among,
    norm_place_said,
    norms_among,
)
from glassformer.diagnosis.subject import ModelSubject, quietly
from glassformer.diagnosis.verdict import Finding, Said
from glassformer.models.transformer import Transformer


def _calls(subject: ModelSubject) -> list[Passed]:
    given = subject.draw()
    return record(subject.model, lambda: subject.run(given))


def _again(call: Passed, x: Tensor) -> Tensor:
    """What a module returns for something else in the place of its first tensor, wherever that one goes in."""

    def swap(value: Any) -> Any:
        return x if isinstance(value, Tensor) and value is call.first else value

    args = tuple(swap(value) for value in call.args)
    kwargs = {name: swap(value) for name, value in call.kwargs.items()}
    with torch.no_grad(), quietly(call.module):
        out = call.module(*args, **kwargs)
    result = Passed(call.name, call.module, args, kwargs, out).result
    assert result is not None, "it returned numbers before"
    return result


def has_layers(subject: ModelSubject) -> Said | None:
    """Why the layers cannot be examined."""
    return None if blocks_among(subject.model, _calls(subject)) else reason("layers.unseen")


def position_wise(subject: ModelSubject) -> Finding:
    """Feed-forward networks and norms work on every position, and every row, for itself."""
    calls = _calls(subject)
    forwards, norms = feed_forwards_among(calls), norms_among(calls)
    lengths = {subject.length, subject.source_length}
    for call in (*forwards, *norms):
        x = call.first
        assert x is not None
        axis = next((axis for axis in (1, 0, 2) if x.shape[axis] in lengths), None)
        if axis is None:
            continue
        for training in (False, True) if call in norms else (False,):
            call.module.train(training)
            fault = _mixes(subject, call, x, axis)
            call.module.eval()
            if fault is not None:
                known = "norm" if fault == "positions" and call in norms else fault
                return failed(f"position_wise.{fault}", where=call.name, fault=f"position_wise.{known}")
    reached = mixed_before(subject)
    if reached in (
        subject.length,
        subject.source_length,
    ):  # and not only its neighbours, as a convolution of words does
        return failed("position_wise.before", fault="position_wise.before")
    if not forwards and not norms:
        return skipped("position_wise.unseen")
    names = sorted({call.name for call in forwards})
    return passed("position_wise.seen", count=len(names), norms=len({call.name for call in norms}))


def _mixes(subject: ModelSubject, call: Passed, x: Tensor, axis: int) -> str | None:
    base = _again(call, x)
    middle = x.shape[axis] // 2
    for kind, along, index in (("positions", axis, middle), ("rows", 1 if axis == 0 else 0, 0)):
        other = x.clone()
        other.select(along, index).copy_(other.select(along, index).flip(-1) * 1.7 + 0.3)
        out = _again(call, other)
        rest = [i for i in range(x.shape[along]) if i != index]
        still = torch.tensor(rest, device=x.device)
        gap = subject.differs(base.index_select(along, still), out.index_select(along, still))
        if gap > subject.tolerance:
            return kind
    return None


def feed_forward(subject: ModelSubject) -> Finding:
    """Between the two matrices of a feed-forward network stands an activation."""
    given = subject.draw()
    products = recorded(lambda: subject.run(given), [subject.model]).products
    pairs = [(product.x, product.y) for product in products]
    width = max((y.shape[-1] for (_, y), (x, _) in pairwise(pairs) if x.shape[-1] == y.shape[-1]), default=0)
    if straight(pairs):
        return failed("feed_forward.straight", width=width)
    return passed("feed_forward.seen") if width else skipped("position_wise.unseen")


def residual(subject: ModelSubject) -> Finding:
    """With its matrices at zero a layer hands on what came in, as it is or normed, once."""
    places = _measured(subject)
    if not places:
        return skipped("layers.unseen")
    for name, place in places.items():
        if place in ("none", "normed", "twice", "dropped"):
            return failed(f"residual.{place}", where=name, fault=f"residual.{place}")
    kinds = sorted(set(places.values()))
    return passed(f"residual.{kinds[0]}" if len(kinds) == 1 else "residual.mixed", count=len(places))


def _measured(subject: ModelSubject) -> dict[str, str]:
    """For each layer "pre", "post", "none" (no residual) or "normed" (a residual of what was normed)."""
    found: dict[str, str] = {}
    calls = _calls(subject)
    for call in chains_among(subject.model, calls):
        if call.name not in found:
            found[call.name] = _place(subject, call, calls)
    return found


def _place(subject: ModelSubject, call: Passed, calls: Sequence[Passed]) -> str:
    x, result = call.first, call.result
    assert x is not None
    assert result is not None
    inner = [each for each in norms_among(calls) if each.name.startswith(f"{call.name}.")]
    last = any(each.result is not None and torch.equal(each.result, result) for each in inner)
    generator = torch.Generator().manual_seed(5)
    moved = x + torch.randn(x.shape, generator=generator).to(x)
    with without_matrices(call.module):
        one, other = _again(call, x), _again(call, moved)
    if subject.differs(one, other) <= subject.tolerance:
        return "none"
    if doubled(call.module, lambda given: _again(call, given), x):
        return "twice"
    if dropped(call.module, lambda: _again(call, x)):
        return "dropped"
    step, gone = (moved - x).double().flatten(), (other - one).double().flatten()
    share = float(step @ gone / (step @ step))
    if float((gone - share * step).abs().max()) <= 1e-4 * float(step.abs().max()):
        return "pre"
    return "post" if last or not inner else "normed"


def norm(subject: ModelSubject) -> Finding:
    """The norm stands where the model says that it does."""
    wrong = silent_norm(subject.original) or wrong_norm(_calls(subject))
    if wrong is not None:
        return wrong
    places = _measured(subject)
    stated = _stated(subject.model, places)
    if not stated:
        kinds = sorted(set(places.values()) & {"pre", "post"})
        return skipped("norm.unstated", found=" / ".join(kinds) or "?")
    for name, wanted in stated.items():
        if places[name] in ("pre", "post") and places[name] != wanted:
            return failed("norm.other", where=name, wanted=wanted, found=places[name])
    return passed("norm.seen", found=" / ".join(sorted(set(stated.values()))))


def _stated(model: nn.Module, places: dict[str, str]) -> dict[str, str]:
    """Where each layer's norm is said to be: by our config, or by an attribute such as torch's `norm_first`."""
    if isinstance(model, Transformer):
        found: dict[str, str] = {}
        for stack, config in (("encoder", model.config.encoder), ("decoder", model.config.decoder)):
            for number, block in enumerate(config.blocks if config is not None else ()):
                name = f"{stack}.blocks.{number}"
                if name in places and block.norm.kind != "none" and block.residual:
                    found[name] = block.norm_place
        return found
    said = {name: norm_place_said(model.get_submodule(name)) or norm_place_said(model) for name in places}
    return {name: place for name, place in said.items() if place is not None}


def layers(subject: ModelSubject) -> Finding:
    """Every layer is a layer of its own, and the output depends on it."""
    for name, module in subject.model.named_modules():
        if isinstance(module, (nn.ModuleList, nn.Sequential)):
            members = [part for part in module if any(True for _ in part.parameters())]
            owned = [frozenset(id(each) for each in part.parameters()) for part in members]
            if len(set(owned)) < len(members):
                return failed("layers.same", where=name, fault="layers.same", count=len(members))
    given = subject.draw()
    base = subject.run(given)
    blocks = list(dict.fromkeys(call.name for call in blocks_among(subject.model, _calls(subject))))
    for name in blocks:
        handle = subject.model.get_submodule(name).register_forward_hook(_skip, with_kwargs=True)
        try:
            gap = subject.differs(base, subject.run(given))
        finally:
            handle.remove()
        if gap <= subject.tolerance:
            return failed("layers.idle", where=name)
    return passed("layers.seen", count=len(blocks))


def _skip(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
    """The layer hands on what it was given."""
    x = Passed("", module, args, kwargs).first
    if isinstance(output, Tensor):
        return x
    return (x, *output[1:]) if isinstance(output, tuple) else output
