"""What each head is worth: how much worse the model gets without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from glassformer.core.errors import ConfigError
from glassformer.core.tape import Patch, Tape
from glassformer.inspection.sample import Judge, Kind, Sample, kind_of
from glassformer.inspection.summary import summarise
from glassformer.models.inference import inference
from glassformer.models.transformer import Transformer
from glassformer.parts.attention import Attention

Value = Literal["zero", "mean"]

MOST_FLOPS = 3e11
"""What taking heads away one by one may cost; a laptop's processor does about 10^11 in a second."""

BATCH_TOKENS = 1024
"""Tokens of the rows that are run side by side, each without another head."""


@dataclass(frozen=True)
class Effect:
    """What one head is worth.

    Attributes:
        site: Of the attention ("decoder.blocks.0.attention").
        head: Its number, from 0.
        loss: The loss without it minus the loss with it: above 0, the head helps. None where it is not known.
        exact: Whether it was taken away; else `loss` is the estimate of `estimated_effects`.
    """

    site: str
    head: int
    loss: float | None
    exact: bool


@dataclass(frozen=True, eq=False)
class Ablation:
    """What every head is worth.

    Attributes:
        kind: What the loss is of; see `Judge`.
        loss: With all heads.
        answered: Answers that it is a mean of; 0 = there is nothing to judge heads by.
        value: What the heads' output was set to.
        effects: Of every head, in the order of the forward pass.
    """

    kind: Kind
    loss: float
    answered: int
    value: Value
    effects: tuple[Effect, ...]

    @property
    def n_exact(self) -> int:
        """Number of heads that were taken away."""
        return sum(effect.exact for effect in self.effects)


def ablate_heads(
    model: Transformer,
    sample: Sample,
    *,
    value: Value = "zero",
    most_heads: int | None = None,
    most_flops: float = MOST_FLOPS,
    advanced: Callable[[int, int], None] = lambda done, total: None,
) -> Ablation:
    """Take each head away in turn, and return how much worse the model gets.

    effect(h) = loss(heads_h = 0, or its mean over the positions) - loss

    heads_h, of the site "attention.heads", is what head h brings to the output projection.

    H heads in L layers cost H L forward passes. Where that is more than `most_flops`, all heads are estimated from one
    backward pass, and only those with the largest estimates are taken away.

    Args:
        model: Any Transformer, in any mode; it is left in it.
        sample: What it reads and is to say.
        value: "zero", or "mean": the head says the same at every position.
        most_heads: Heads that are taken away; None = as many as `most_flops` are enough for.
        most_flops: Floating-point operations that may be spent.
        advanced: Called with (done, total) heads.

    Raises:
        ConfigError: `value` is neither word.
    """
    if value not in ("zero", "mean"):
        raise ConfigError(f"a head's output is set to 'zero' or 'mean', not to {value!r}")
    every = [
        (site.name, head)
        for site in model.sites()
        if site.name.endswith("attention.heads")
        for head in range(_attention(model, site.name).config.n_heads)
    ]
    if most_heads is None:
        length = max(len(sample.tokens), len(sample.sources or ()))
        most_heads = int(most_flops // summarise(model, length).total.flops)
    # At its own vector, a cosine has no slope to estimate anything by.
    guesses = most_heads < len(every) and kind_of(model) != "vector"
    estimates: dict[tuple[str, int], float] = {}
    with inference(model.modules()):
        if guesses:
            judge, estimates = _estimates(model, sample, value)
            every_first = sorted(every, key=lambda each: -abs(estimates[each]))
        else:
            judge, every_first = Judge(model, sample), every
        order = every_first[:most_heads] if judge.answered else []
        exact = _taken_away(judge, order, value, advanced)
    known = (estimates | exact) if judge.answered else {}
    effects = (
        Effect(site.removesuffix(".heads"), head, known.get((site, head)), (site, head) in exact)
        for site, head in every
    )
    return Ablation(judge.kind, judge.loss, judge.answered, value, tuple(effects))


def estimated_effects(model: Transformer, sample: Sample, value: Value = "zero") -> dict[tuple[str, int], float]:
    """Return what heads are worth to first order, from one backward pass: (new - heads_h) . dloss / dheads_h.

    Args:
        model: One that says tokens or labels.
        sample: What it reads and is to say.
        value: See `ablate_heads`.

    Returns:
        By site ("decoder.blocks.0.attention.heads") and head.

    Source: Michel et al. 2019, arXiv:1905.10650, equation 2, without the absolute value.
    """
    with inference(model.modules()):
        return _estimates(model, sample, value)[1]


def _estimates(model: Transformer, sample: Sample, value: Value) -> tuple[Judge, dict[tuple[str, int], float]]:
    """The judge of the unchanged sample, and what each head is worth to first order, from one forward pass."""
    tape = Tape(model, "*attention.heads", detach=False)
    with torch.enable_grad():
        states = sample.states(model, tape)
        with torch.no_grad():
            judge = Judge(model, sample, states.detach())
        sites = list(tape)
        if not judge.answered:
            return judge, {(site, head): 0.0 for site in sites for head in range(tape[site].shape[1])}
        slopes = torch.autograd.grad(judge.losses(states).sum(), [tape[site] for site in sites])
    found: dict[tuple[str, int], float] = {}
    for site, slope in zip(sites, slopes, strict=True):
        heads = tape[site].detach()
        change = ((_changed(heads, value) - heads) * slope).float().sum((0, 2, 3))
        found |= {(site, head): each for head, each in enumerate(change.tolist())}
    return judge, found


def _taken_away(
    judge: Judge, heads: Sequence[tuple[str, int]], value: Value, advanced: Callable[[int, int], None]
) -> dict[tuple[str, int], float]:
    longest = max(len(judge.sample.tokens), len(judge.sample.sources or ()))
    size = max(1, BATCH_TOKENS // longest)
    found: dict[tuple[str, int], float] = {}
    for first in range(0, len(heads), size):
        group = heads[first : first + size]
        patches = [
            Patch(site, _without([(row, head) for row, (at, head) in enumerate(group) if at == site], value))
            for site in dict.fromkeys(site for site, _ in group)
        ]
        states = judge.sample.states(judge.model, Tape(judge.model, patches=patches), len(group))
        found |= zip(group, (judge.losses(states) - judge.loss).tolist(), strict=True)
        advanced(len(found), len(heads))
    return found


def _without(rows: Sequence[tuple[int, int]], value: Value) -> Callable[[Tensor], Tensor]:
    """Set one head of each of these rows."""

    def change(heads: Tensor) -> Tensor:
        new = heads.clone()
        for row, head in rows:
            new[row, head] = _changed(heads[row : row + 1, head : head + 1], value)[0, 0]
        return new

    return change


def _changed(heads: Tensor, value: Value) -> Tensor:
    return torch.zeros_like(heads) if value == "zero" else heads.mean(2, keepdim=True).expand_as(heads)


def _attention(model: Transformer, site: str) -> Attention:
    attention = model.get_submodule(site.removesuffix(".heads"))
    assert isinstance(attention, Attention), "only attention has heads"
    return attention
