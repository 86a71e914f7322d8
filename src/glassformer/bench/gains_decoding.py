"""What each optimisation of writing bought, and how equal its results are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.bench.numbers import Numbers
from glassformer.bench.workloads import WORK, Decoding
from glassformer.generation.config import GenerationConfig
from glassformer.generation.fast import Fast, Packed
from glassformer.generation.stream import generate
from glassformer.models.quantise import quantise_model
from glassformer.models.transformer import Transformer


@dataclass(frozen=True)
class Gain:
    """One optimisation, with the two ways to do the same.

    Attributes:
        name: In a few words.
        changed: What is done in place of what.
        slow: Does a piece of work as it was.
        fast: Does the same piece as it is now; what is made once, such as a compiled graph, is made at its first call.
        differ: Returns how far the results are apart: the largest difference over the largest number, or, of what is
            written, the share of tokens that are not the same.
    """

    name: str
    changed: str
    slow: Callable[[], object]
    fast: Callable[[], object]
    differ: Callable[[], float]


def decoding_gains() -> tuple[Gain, ...]:
    """Return the optimisations of writing, on a small model; building it takes a moment."""
    one, eight = (work for work in WORK["decode"]["small"] if isinstance(work, Decoding))
    model = one.build().eval()
    small = quantise_model(deepcopy(model))
    prompt = torch.tensor(one.prompts() * 8).reshape(1, -1)
    weight, rows = torch.randn(2048, 768), torch.randn(8, 768)
    return (
        _of_writing(
            "key-value cache",
            "keys and values of earlier tokens are kept, not computed again",
            lambda: _write(model, one, use_cache=False),
            lambda: _write(model, one),
        ),
        _of_numbers(
            "scores of the last token only",
            "of a prompt of 128 tokens one row is scored, not all",
            lambda: _scored(model(prompt)[:, -1]),
            lambda: _scored(model(prompt, outputs="last")),
        ),
        _of_writing(
            "one compiled graph for a step",
            "steps of one token go through torch.compile (--fast on)",
            lambda: _write(model, one),
            lambda: _write(model, one, fast="on"),
        ),
        _of_numbers(
            "packed matrices",
            "a product of 8 rows reads a copy in the order that the processor likes (--fast auto)",
            lambda: F.linear(rows, weight),
            _packed(rows, weight),
        ),
        _of_writing(
            "matrices in 8 bits",
            "a quarter of the bytes is read for a token (convert --quantize int8)",
            lambda: _write(model, one),
            lambda: _write(small, one),
        ),
        _of_writing(
            "rows side by side",
            "8 texts share every reading of the matrices",
            lambda: [_write(model, eight, only=row)[0] for row in range(eight.rows)],
            lambda: _write(model, eight),
        ),
    )


def _write(
    model: Transformer, work: Decoding, *, use_cache: bool = True, fast: Fast = "off", only: int | None = None
) -> list[Sequence[int]]:
    prompts = work.prompts() if only is None else [work.prompts()[only]]
    config = GenerationConfig(max_new_tokens=work.new, use_cache=use_cache, fast=fast)
    return [each.tokens for each in generate(model, prompts, config, tokenizer=Numbers(work.vocab_size))]


def _scored(scores: Tensor) -> Tensor:
    return scores.detach()


def _packed(rows: Tensor, weight: Tensor) -> Callable[[], Tensor]:
    packed = Packed()

    def product() -> Tensor:
        with packed:
            return F.linear(rows, weight)

    return product


def _of_writing(
    name: str, changed: str, slow: Callable[[], list[Sequence[int]]], fast: Callable[[], list[Sequence[int]]]
) -> Gain:
    def differ() -> float:
        pairs = [pair for one, other in zip(slow(), fast(), strict=True) for pair in zip(one, other, strict=True)]
        return sum(a != b for a, b in pairs) / len(pairs)

    return Gain(name, changed, slow, fast, differ)


def _of_numbers(name: str, changed: str, slow: Callable[[], Tensor], fast: Callable[[], Tensor]) -> Gain:
    def differ() -> float:
        one, other = slow(), fast()
        return float((one - other).abs().max() / one.abs().max())

    return Gain(name, changed, slow, fast, differ)
