"""What makes writing faster, each beside what it replaces."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from glassformer.bench.gain import Gain
from glassformer.bench.numbers import Numbers
from glassformer.bench.workloads import LLAMA_110M, WORK, Decoding
from glassformer.core.compilers import no_compiler
from glassformer.generation.beam import beam_search
from glassformer.generation.config import PREFILL_CHUNK, BeamConfig, GenerationConfig
from glassformer.generation.fast import Fast
from glassformer.generation.stream import generate
from glassformer.kernels.operators import has_operators
from glassformer.models.quantise import quantise_model
from glassformer.models.transformer import Transformer

Ids = list[tuple[int, ...]]


WIDE = LLAMA_110M.model_copy(update={"n_layers": 2})
"""Of a width at which a step waits for memory, not for Python."""


def gains() -> tuple[Gain, ...]:
    """Return them all; making them draws three models, and what is compiled is so at its first call."""
    one, eight = (work for work in WORK["decode"]["small"] if isinstance(work, Decoding))
    wide = Decoding("wide", WIDE, 8000, rows=1, prompt=16, new=24)
    model, large = one.build().eval(), wide.build().eval()
    small = quantise_model(deepcopy(large))
    made = [_cache(model, one), _last(large, wide), _chunks(one), _rows(model, eight), _int8(large, small, wide)]
    if has_operators():
        made += [_own(large, replace(wide, rows=8)), _own_int8(small, wide), _own_beam(eight)]
    if no_compiler() is None:
        made += [_compiled(model, one), _both(large, small, wide)]
    return tuple(made)


def _cache(model: Transformer, work: Decoding) -> Gain:
    return _of_ids(
        "cache", "keys and values of earlier tokens are kept, not computed again",
        lambda: _write(model, work, use_cache=False), lambda: _write(model, work),
    )  # fmt: skip


def _last(model: Transformer, work: Decoding) -> Gain:
    prompt = torch.tensor(work.prompts() * 8).reshape(1, -1)

    @torch.no_grad()
    def whole() -> Tensor:
        scores: Tensor = model(prompt)[:, -1]
        return scores

    @torch.no_grad()
    def last() -> Tensor:
        scores: Tensor = model(prompt, outputs="last")
        return scores

    changed = f"of a prompt of {prompt.shape[1]} tokens only the last one is scored"
    return Gain("logits of the last token", changed, whole, last, lambda: _apart(last(), whole()))


def _chunks(work: Decoding) -> Gain:
    endless = work.arguments.model_copy(update={"max_positions": None})
    work = replace(work, arguments=endless, rows=2, prompt=2048, new=1)
    model, prompts = work.build().eval(), work.prompts()
    prompts[1] = prompts[1][:100]
    return _of_ids(
        "prompts in chunks", f"of 2,048 and 100 tokens, {PREFILL_CHUNK:,} at a time: masks are smaller",
        lambda: _write(model, work, prompts, prefill_chunk=0), lambda: _write(model, work, prompts),
    )  # fmt: skip


def _rows(model: Transformer, work: Decoding) -> Gain:
    prompts = work.prompts()
    return _of_ids(
        "rows side by side", f"{work.rows} texts share each reading of a matrix",
        lambda: [_write(model, work, [prompt])[0] for prompt in prompts], lambda: _write(model, work, prompts),
    )  # fmt: skip


def _int8(model: Transformer, small: Transformer, work: Decoding) -> Gain:
    prompt = torch.tensor(work.prompts())

    @torch.no_grad()
    def differ() -> float:
        return _apart(small(prompt, outputs="last"), model(prompt, outputs="last"))

    return Gain(
        "8 bits", "convert --quantize int8: a quarter of the bytes; numbers are rounded",
        lambda: _write(model, work), lambda: _write(small, work), differ,
    )  # fmt: skip


def _own(model: Transformer, work: Decoding) -> Gain:
    return _of_ids(
        "products of few rows", f"{work.rows} rows: products and attention by C++ of our own",
        lambda: _write(model, work), lambda: _write(model, work, fast="auto"),
    )  # fmt: skip


def _own_int8(small: Transformer, work: Decoding) -> Gain:
    return _of_ids(
        "products in 8 bits", "rounding, whole numbers, scaling in one go; beside 8 bits alone",
        lambda: _write(small, work), lambda: _write(small, work, fast="auto"),
    )  # fmt: skip


def _own_beam(work: Decoding) -> Gain:
    model = work.build().eval()

    def search(fast: Literal["auto", "off"]) -> Ids:
        config = BeamConfig(beam=5, max_new_tokens=work.new, min_new_tokens=work.new, fast=fast)
        found = beam_search(model, work.prompts(), config, tokenizer=Numbers(work.vocab_size))
        return [row[0].tokens for row in found]

    changed = "attention and log-probabilities of a search by C++ of our own"
    return _of_ids("softmax of a search", changed, lambda: search("off"), lambda: search("auto"))


def _compiled(model: Transformer, work: Decoding) -> Gain:
    return _of_ids(
        "compiled step", "generate --fast on: one graph for all steps of one token",
        lambda: _write(model, work), lambda: _write(model, work, fast="on"), compiles=True,
    )  # fmt: skip


def _both(model: Transformer, small: Transformer, work: Decoding) -> Gain:
    of_small = _of_ids("", "", lambda: _write(small, work), lambda: _write(small, work, fast="on"))
    changed = "both together, beside neither (the difference: beside 8 bits alone)"
    return Gain("compiled step in 8 bits", changed, lambda: _write(model, work), of_small.fast, of_small.differ, True)


def _write(
    model: Transformer,
    work: Decoding,
    prompts: list[list[int]] | None = None,
    *,
    use_cache: bool = True,
    prefill_chunk: int = PREFILL_CHUNK,
    fast: Fast = "off",
) -> Ids:
    config = GenerationConfig(max_new_tokens=work.new, use_cache=use_cache, prefill_chunk=prefill_chunk, fast=fast)
    found = generate(model, prompts or work.prompts(), config, tokenizer=Numbers(work.vocab_size))
    return [each.tokens for each in found]


def _of_ids(
    name: str, changed: str, slow: Callable[[], Ids], fast: Callable[[], Ids], *, compiles: bool = False
) -> Gain:
    """Of what is written, the difference is the share of tokens that are others."""

    def differ() -> float:
        pairs = [pair for rows in zip(slow(), fast(), strict=True) for pair in zip(*rows, strict=True)]
        return sum(one != other for one, other in pairs) / len(pairs)

    return Gain(name, changed, slow, fast, differ, compiles)


def _apart(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max() / other.abs().max())
