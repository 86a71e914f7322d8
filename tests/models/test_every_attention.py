"""Every kernel with every kind of positions: a model gives a token the same numbers whichever way it gets there.

Positions are the words that `ModelArguments` knows, kernels those that are registered: a new one is tested by being
there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from glassformer.core.places import Places
from glassformer.core.position_config import RelativeBiasConfig
from glassformer.core.tape import Tape
from glassformer.models.arguments import ModelArguments
from glassformer.models.transformer import Transformer
from kernels.rules import CASES

POSITIONS = get_args(ModelArguments.model_fields["positions"].annotation)
BIASES = ("relative", "alibi")
TOKENS = torch.tensor([[5, 6, 7, 8, 9, 10, 11, 12, 13]])
HEADS = "decoder.blocks.*.attention.heads"


def fits(name: str, positions: str) -> bool:
    case = CASES[name]
    return case.kernel.never(case.mask, soft_cap=False, bias=positions in BIASES) is None


TABLE = pytest.mark.parametrize(
    ("name", "positions"),
    [(name, positions) for name in CASES for positions in POSITIONS if fits(name, positions)],
)
Tiny = Callable[..., Transformer]


def make(tiny: Tiny, name: str, positions: str, **arguments: Any) -> Transformer:
    relative = RelativeBiasConfig(n_buckets=8, max_distance=7)
    given = {"positions": positions, "max_positions": 12, "relative": relative, "attention": CASES[name].settings}
    return tiny(**given, n_kv_heads=1, **arguments)


def in_steps(model: Transformer, tokens: Tensor, steps: list[int], capacity: int = 9) -> Tensor:
    cache, parts = model.new_cache(1, capacity), []
    for chunk in tokens.split(steps, dim=1):
        parts.append(model(chunk, cache=cache))
        cache.advance([chunk.shape[1]])
    assert cache.lengths == [tokens.shape[1]]
    return torch.cat(parts, dim=1)


@TABLE
@torch.no_grad()
def test_o03_o15_cache_reproduces_the_full_forward(tiny: Tiny, name: str, positions: str) -> None:
    """8 and 1; 1 and 8 x 1; 3, 4 and 2 x 1: also chunks whose queries are the last of more keys."""
    model = make(tiny, name, positions)
    expected = model(TOKENS)
    for steps in ([8, 1], [1] * 9, [3, 4, 1, 1]):
        for capacity in (9, 64):
            got = in_steps(model, TOKENS, steps, capacity)
            torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)
            assert torch.equal(got.argmax(-1), expected.argmax(-1))


@TABLE
@torch.no_grad()
def test_o04_o05_padding_is_not_seen_and_an_empty_row_is_zero(tiny: Tiny, name: str, positions: str) -> None:
    """Rows of 9, 4 and 0 tokens, padded on either side, against each row alone; what stands in the padding is no
    matter."""
    model, lengths = make(tiny, name, positions), [9, 4, 0]
    alone = [model(TOKENS[:, :length])[0] for length in lengths[:2]]
    for side in ("left", "right"):
        places = Places.from_lengths(lengths, 10, side=side)
        inputs = torch.full((3, 10), 2)
        for row, length in enumerate(lengths):
            inputs[row, places.is_token[row]] = TOKENS[0, :length]
        tape = Tape(model, HEADS)
        for given in (inputs, inputs.masked_fill(~places.is_token, 30)):
            logits = model(given, places=places, tape=tape)
            assert logits.isfinite().all()
            for row, expected in enumerate(alone):
                torch.testing.assert_close(logits[row, places.is_token[row]], expected, atol=1e-5, rtol=1e-5)
            for layer in range(2):
                heads = tape[f"decoder.blocks.{layer}.attention.heads"].transpose(1, 2)
                assert heads[~places.is_token].eq(0).all()


@TABLE
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@torch.no_grad()
def test_o13_half_precision_is_float32_but_for_rounding(
    tiny: Tiny, name: str, positions: str, dtype: torch.dtype
) -> None:
    """Each way: whole, in steps, and beside an empty row. Two layers of rounded numbers are within some units."""
    model = make(tiny, name, positions).to(dtype)
    rounded = make(tiny, name, positions).to(dtype).float()
    expected, places = rounded(TOKENS)[0], Places.from_lengths([9, 0], 10, side="left")
    padded = model(torch.cat((TOKENS[:, :1], TOKENS), dim=1).expand(2, -1), places=places)
    assert padded.isfinite().all()
    allowed = 16 * torch.finfo(dtype).eps * float(expected.abs().max())
    for got in (model(TOKENS)[0], in_steps(model, TOKENS, [3, 4, 1, 1])[0], padded[0, 1:]):
        assert got.dtype == dtype
        torch.testing.assert_close(got.float(), expected, atol=allowed, rtol=0)
