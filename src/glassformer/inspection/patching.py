"""An intervention: what becomes of a model's answer when a value inside it is another one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.tape import Patch, Tape
from glassformer.inspection.sample import Judge, Kind, Sample, said
from glassformer.models.inference import inference
from glassformer.models.transformer import Transformer
from glassformer.parts.attention import Attention

HEADS = re.compile(r"\[(\d+(?:\s*,\s*\d+)*)\]$")
"""At the end of a site: which heads, as in "decoder.blocks.0.attention.heads[0,3]"."""

FILES = (".npy", ".safetensors", ".json")

LIMIT_BYTES = 512 * 2**20
"""What the attention of all layers may need, before and after: 12 layers of 12 heads over 512 tokens need 288 MiB."""

MOST_SCORES = 2**25
"""Scores of all positions, before and after, that are compared at once: 128 MiB of float32 each; later ones if more."""


@dataclass(frozen=True, eq=False)
class Intervention:
    """What is put in place of the values at some sites.

    Attributes:
        said: As the user wrote it.
        pattern: Site names, with wildcards.
        heads: Which heads, where a value has them; empty = all.
        value: "zero"; "mean" over the positions, which leaves what is the same everywhere; or the values themselves.
    """

    said: str
    pattern: str
    heads: tuple[int, ...]
    value: str | Tensor

    @staticmethod
    def parse(text: str) -> Intervention:
        """Return what "SITE=zero", "SITE=mean" or "SITE=FILE" says; SITE may end in heads: "SITE[0,3]".

        Raises:
            ConfigError: It has no such form.
            DataError: The file cannot be read, or does not hold numbers.
        """
        site, equals, value = text.partition("=")
        if not equals or not site or not value:
            raise ConfigError(f"{text!r} is no patch; write SITE=zero, SITE=mean or SITE=FILE ({', '.join(FILES)})")
        found = HEADS.search(site)
        if found is None and site.endswith("]") and "[" in site:
            raise ConfigError(f"{text!r}: heads are numbers from 0 with commas between, such as [0,3]")
        heads = tuple(int(number) for number in found[1].split(",")) if found else ()
        pattern = site[: found.start()] if found else site
        return Intervention(text, pattern, heads, value if value in ("zero", "mean") else _read(Path(value)))

    def patches(self, model: Transformer) -> tuple[dict[str, str], list[Patch]]:
        """Return the sites that it changes, each with its shape, and the patches.

        Raises:
            ConfigError: No site matches, or one that does has no such heads.
        """
        shapes = {site.name: site.shape for site in model.sites()}
        sites = {name: shapes[name] for name in Tape(model, self.pattern).recorded}
        sites = {name: shape for name, shape in shapes.items() if name in sites}
        for name, shape in sites.items():
            if self.heads and shape.split()[1] not in ("H", "K"):
                raise ConfigError(f"{name} has no heads: it is ({', '.join(shape.split())}); leave out [...]")
        return sites, [Patch(name, self._change(name, shape.split())) for name, shape in sites.items()]

    def _change(self, site: str, shape: Sequence[str]) -> Callable[[Tensor], Tensor]:
        def change(old: Tensor) -> Tensor:
            count = old.shape[1]
            if self.heads and max(self.heads) >= count:
                raise ConfigError(f"{self.said}: head {max(self.heads)} is not in 0..{count - 1}, the heads of {site}")
            part = old[:, list(self.heads)] if self.heads else old
            new = self._new(part, shape)
            if not self.heads:
                return new
            whole = old.clone()
            whole[:, list(self.heads)] = new
            return whole

        return change

    def _new(self, old: Tensor, shape: Sequence[str]) -> Tensor:
        if isinstance(self.value, Tensor):
            given = self.value.to(old.device, old.dtype)
            if tuple(given.shape) not in (tuple(old.shape), tuple(old.shape[1:])):
                raise ConfigError(
                    f"{self.said}: the file holds numbers of shape {tuple(given.shape)}; here stand "
                    f"{tuple(old.shape[1:])} ({', '.join(shape[1:])})"
                )
            return given.expand_as(old)
        if self.value == "zero":
            return torch.zeros_like(old)
        if shape[-1] == "S":  # weights: evenly over all that is seen; scores: so that weights become so
            seen = old != 0
            even = old.sum(-1, keepdim=True) / seen.sum(-1, keepdim=True).clamp(min=1)
            return torch.where(seen, even.to(old.dtype), old)  # of a mask, the mask
        return old.mean(-2, keepdim=True).expand_as(old)


@dataclass(frozen=True)
class Changed:
    """What an intervention did to one position.

    Attributes:
        position: Which one; 0 of a model that says something of a text as a whole.
        divergence: How far the answer moved: KL(before || after) in nats; of a vector 1 - cosine.
        before: The most probable answers and their probabilities, the most probable first; empty for a vector.
        after: The same, changed.
    """

    position: int
    divergence: float
    before: tuple[tuple[int, float], ...]
    after: tuple[tuple[int, float], ...]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What an intervention did.

    Attributes:
        interventions: What was changed, as the user wrote it.
        sites: The values that were changed.
        kind: What the model says; see `Judge`.
        loss: Before and after; see `Judge`.
        positions: Of every position that was compared, the first one first.
        attention: By layer of attention, how far a row of its weights moved, in mean over heads and rows: half the sum
            of |after - before|, 0 = not at all, 1 = to other tokens altogether. Empty where the text is too long.
    """

    interventions: tuple[str, ...]
    sites: tuple[str, ...]
    kind: Kind
    loss: tuple[float, float]
    positions: tuple[Changed, ...]
    attention: dict[str, float]

    @property
    def divergence(self) -> float:
        """Mean over the positions."""
        return sum(each.divergence for each in self.positions) / len(self.positions)

    @property
    def other_answers(self) -> int:
        """Number of positions whose most probable answer is another one now."""
        return sum(each.before[:1] != () and each.before[0][0] != each.after[0][0] for each in self.positions)


def intervene(
    model: Transformer,
    sample: Sample,
    interventions: Sequence[Intervention],
    *,
    top: int = 5,
    limit_bytes: int = LIMIT_BYTES,
) -> Outcome:
    """Run a sample as it is and changed, and return the difference.

    Args:
        model: Any Transformer, in any mode; it is left in it.
        sample: What it reads.
        interventions: What is changed, in this order.
        top: Answers that are kept of each position.
        limit_bytes: Memory that attention may need, before and after; above it, it is not compared.

    Raises:
        ConfigError: An intervention that matches no site, or whose values do not fit.
    """
    sites: dict[str, str] = {}
    patches: list[Patch] = []
    for intervention in interventions:
        found, made = intervention.patches(model)
        sites |= found
        patches += made
    looked_at = ["*.weights"] if _attention_bytes(model, sample) <= limit_bytes else []
    moved: dict[str, float] = {}
    with inference(model.modules()):
        judge = Judge(model, sample)
        plain = Tape(model, *looked_at)
        before = sample.states(model, plain)
        changed = Tape(model, *looked_at, patches=patches)
        after = sample.states(model, changed)
        losses = judge.loss, float(judge.losses(after)[0])
        for site in plain:
            moved[site.removesuffix(".weights")] = float(
                (changed[site].float() - plain[site].float()).abs().sum(-1).mean() / 2
            )
        positions = _compared(judge, before, after, top)
    return Outcome(tuple(each.said for each in interventions), tuple(sites), judge.kind, losses, positions, moved)


def _attention_bytes(model: Transformer, sample: Sample) -> int:
    """Of the weights of all layers, before and after."""
    longest = max(len(sample.tokens), len(sample.sources or ()))
    attentions = (module for module in model.modules() if isinstance(module, Attention))
    return 2 * 4 * longest * longest * sum(attention.config.n_heads for attention in attentions)


def _compared(judge: Judge, before: Tensor, after: Tensor, top: int) -> tuple[Changed, ...]:
    model, first = judge.model, 0
    if judge.kind in ("next", "same"):
        assert model.head is not None
        assert model.head.weight is not None, "what says tokens has a head"
        first = max(0, before.shape[1] - MOST_SCORES // len(model.head.weight))
        before, after = before[:, first:], after[:, first:]
    old, new = said(model, before)[0], said(model, after)[0]
    if judge.kind == "vector":
        return (Changed(0, float(1 - (old * new).sum()), (), ()),)
    divergence = (old.exp() * (old - new)).sum(-1).clamp(min=0).tolist()
    return tuple(
        Changed(first + position, far, _best(old[position], top), _best(new[position], top))
        for position, far in enumerate(divergence)
    )


def _best(logprobs: Float[Tensor, " value"], top: int) -> tuple[tuple[int, float], ...]:
    found = logprobs.exp().topk(min(top, len(logprobs)))
    return tuple(zip(found.indices.tolist(), found.values.tolist(), strict=True))


def _read(path: Path) -> Tensor:
    """The numbers of a file."""
    if path.suffix not in FILES:
        raise ConfigError(f"{path} is neither zero, nor mean, nor a file that ends in {', '.join(FILES)}")
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    numbers = _numbers(path)
    if numbers.is_complex() or bool(numbers.isnan().any()):
        raise DataError(f"{path} holds {'complex numbers' if numbers.is_complex() else 'a NaN'}; a patch needs numbers")
    return numbers.float()


def _numbers(path: Path) -> Tensor:
    try:
        if path.suffix == ".npy":
            return torch.from_numpy(np.load(path, allow_pickle=False))
        if path.suffix == ".json":
            return torch.tensor(json.loads(path.read_text("utf-8")), dtype=torch.float32)
        from safetensors.torch import load_file

        tensors = load_file(path)
    except (ValueError, TypeError, OSError) as error:
        raise DataError(f"{path} holds no array of numbers: {error}") from error
    except Exception as error:  # safetensors has a kind of its own
        raise DataError(f"{path} is damaged: {error}") from error
    if len(tensors) != 1:
        raise DataError(f"{path} holds {len(tensors)} tensors ({', '.join(sorted(tensors)[:5])}); a patch needs one")
    return next(iter(tensors.values()))
