"""What every kernel promises, whatever its type and rule; see `AttentionKernel`."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from glassformer.core.call import Sight
from glassformer.core.errors import UnsupportedError
from glassformer.core.mask import Mask, mask_from
from glassformer.core.places import Places
from glassformer.kernels.registry import KERNELS, choose_kernel

from .rules import BLOCKS, CASES, Case

T, S = 3, 9
WHOLE, LEFT, RIGHT = Places.full(S), Places.from_lengths([6, 0], S, side="left"), Places.from_lengths([6, 0], S)
PACKED = Places.packed([[4, 3], [9]])
LAST, CHUNK = Places.full(1, begin=S - 1), Places.full(T, begin=S - T)
OTHER = Places.from_lengths([5, 0])
ROWS = {
    "whole": (WHOLE, WHOLE),
    "left": (LEFT, LEFT),
    "right": (RIGHT, RIGHT),
    "packed": (PACKED, PACKED),
    "last": (LAST, WHOLE),
    "chunk": (CHUNK, WHOLE),
    "other": (WHOLE, OTHER),
}
"""Where queries and keys stand: padded rows have an empty one beside them."""

NEAR = BLOCKS.sees(torch.arange(S).unsqueeze(1), torch.arange(S)).tolist()


def sight_of(case: Case, rows: str, causal: bool) -> Sight:
    return Sight.of(Mask(causal=causal) & case.mask, *ROWS[rows])


ALL = {
    f"{name}-{rows}-{'causal' if causal else 'two_sided'}": (case, rows, causal)
    for name, case in CASES.items()
    for rows in ROWS
    for causal in (True, False)
}
DONE = {name: what for name, what in ALL.items() if what[0].kernel.refuses(sight_of(*what)) is None}
"""What the kernels say that they can compute."""

EVERY = pytest.mark.parametrize(("case", "rows", "causal"), DONE.values(), ids=DONE)
CAUSAL = pytest.mark.parametrize(
    ("case", "rows"),
    [(case, rows) for case, rows, causal in DONE.values() if causal],
    ids=[name for name, what in DONE.items() if what[2]],
)
HALF = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])


def visible(case: Case, rows: str, causal: bool) -> list[list[list[int]]]:
    """For each row and query the slots of the keys it sees, as the rule is said: by segments and positions."""
    mask = case.mask
    queries, keys = ROWS[rows]
    at = [[x.expand(2, -1).tolist() for x in (places.segment, places.position)] for places in (queries, keys)]
    (of_query, of_key), (where_query, where_key) = zip(*at, strict=True)

    def sees(row: int, t: int, s: int) -> bool:
        one, other = where_query[row][t], where_key[row][s]
        near = mask.window is None or abs(one - other) < mask.window
        blocks = not mask.patterns or NEAR[one // 2][other // 2]
        same = of_query[row][t] == of_key[row][s] != -1
        return same and near and blocks and (other <= one or not causal)

    return [[[s for s in range(keys.length) if sees(row, t, s)] for t in range(queries.length)] for row in range(2)]


def draw(rows: str, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    queries, keys = ROWS[rows]
    generator = torch.Generator().manual_seed(3)
    sizes = ((2, 4, queries.length, 8), (2, 2, keys.length, 8), (2, 2, keys.length, 5))
    return [torch.randn(size, generator=generator).to(dtype) for size in sizes]


def test_every_kernel_has_something_to_compute() -> None:
    assert {(case.type, case.kernel.name) for case in CASES.values()} == {
        (of, kernel.name) for of, kernels in KERNELS.items() for kernel in kernels
    }
    assert {name for name in ALL if "-whole-" in name} <= DONE.keys()


@pytest.mark.parametrize("name", sorted(ALL.keys() - DONE.keys()))
def test_rows_that_a_kernel_refuses_are_left_to_another_one(name: str) -> None:
    case, rows, causal = ALL[name]
    sight = sight_of(case, rows, causal)
    with pytest.raises(UnsupportedError, match=rf"kernel={case.kernel.name} cannot do this: it is for|its sums run"):
        choose_kernel(case.kernel.name, sight, of=case.type)
    assert choose_kernel(case.kernel.name, sight, of=case.type, must=False) is choose_kernel(
        "auto", sight, of=case.type
    )


@EVERY
def test_o04_o05_o15_equal_scores_give_the_mean_of_what_is_seen(case: Case, rows: str, causal: bool) -> None:
    """Position s has the value s: who sees the keys 2, 3 and 4 gets 3, and who sees none 0."""
    sight = sight_of(case, rows, causal)
    q, k, v = draw(rows)
    values = torch.arange(1.0, v.shape[2] + 1).expand(2, 2, -1).unsqueeze(-1)
    out = case.kernel.attend(torch.zeros_like(q), torch.zeros_like(k), values, sight)
    for row, queries in enumerate(visible(case, rows, causal)):
        expected = [sum(s + 1 for s in keys) / len(keys) if keys else 0.0 for keys in queries]
        torch.testing.assert_close(out[row, :, :, 0], torch.tensor(expected).expand(4, -1), atol=1e-5, rtol=1e-6)
        for t, keys in enumerate(queries):
            assert keys or out[row, :, t].eq(0).all()


@EVERY
def test_o04_o15_numbers_and_gradients_are_those_of_the_equation(case: Case, rows: str, causal: bool) -> None:
    sight, results = sight_of(case, rows, causal), []
    for kernel in (case.kernel, case.equation):
        leaves = [x.requires_grad_() for x in draw(rows)]
        out = kernel.attend(*leaves, sight, scale=0.5)
        results.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
    for got, expected in zip(*results, strict=True):
        assert got.isfinite().all()
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


@EVERY
def test_o04_o13_what_is_hidden_weighs_exactly_nothing(case: Case, rows: str, causal: bool) -> None:
    """The values are the rows of an identity, so that the outputs are the weights: 0 on hidden keys, also in float16,
    and a sum of 1, or of 0 for a query that sees none."""
    sight = sight_of(case, rows, causal)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        q, k, _ = draw(rows, dtype)
        identity = torch.eye(k.shape[2], dtype=dtype).expand(2, 2, -1, -1)
        weights = case.kernel.attend(8 * q, k, identity, sight).float()
        for row, queries in enumerate(visible(case, rows, causal)):
            for t, keys in enumerate(queries):
                hidden = [s for s in range(k.shape[2]) if s not in keys]
                assert weights[row, :, t, hidden].eq(0).all()
                total = weights[row, :, t].sum(-1)
                torch.testing.assert_close(total, torch.full((4,), float(bool(keys))), atol=1e-2, rtol=0)


@pytest.mark.parametrize("name", CASES)
def test_o05_o15_restriction_and_rule_both_hold(name: str) -> None:
    """Causal, and key 0 hidden from all: the second query sees itself alone, the first one nothing."""
    case = CASES[name]
    allow = mask_from(torch.ones(S, S, dtype=torch.long).index_fill(1, torch.tensor(0), 0))
    sight = Sight.of(Mask(causal=True, allow=allow) & case.mask, WHOLE, WHOLE)
    q, k, _ = draw("whole")
    identity = torch.eye(S).expand(2, 2, -1, -1)
    kernel = choose_kernel(case.kernel.name, sight, of=case.type, must=False)
    weights = kernel.attend(q, k, identity, sight)
    assert weights[:, :, 0].eq(0).all()
    assert weights[..., 0].eq(0).all()
    torch.testing.assert_close(weights[:, :, 1], identity[:, :1, 1].expand(-1, 4, -1))


@CAUSAL
@HALF
def test_o13_half_precision_is_float32_but_for_the_last_digits(case: Case, rows: str, dtype: torch.dtype) -> None:
    """Of the same rounded numbers. A fused kernel rounds the weights as well: one unit of values near 1."""
    sight, unit = sight_of(case, rows, True), torch.finfo(dtype).eps
    given = draw(rows, dtype)
    got = case.kernel.attend(*given, sight, scale=0.35)
    expected = case.equation.attend(*(x.float() for x in given), sight, scale=0.35)
    assert got.dtype == dtype
    torch.testing.assert_close(got.float(), expected, atol=max(2e-3, unit), rtol=unit)


@CAUSAL
@HALF
def test_o13_product_beyond_half_precision_stays_finite(case: Case, rows: str, dtype: torch.dtype) -> None:
    """q.k = 8 * 300 * 300 = 720,000 > 65,504, and all of them equal: the mean of what is seen."""
    sight = sight_of(case, rows, True)
    q, k, v = (torch.full_like(x, 300.0) for x in draw(rows, dtype))
    out = case.kernel.attend(q, k, torch.ones_like(v), sight)
    seen = torch.tensor([[bool(keys) for keys in queries] for queries in visible(case, rows, True)])
    assert torch.equal(out, seen[:, None, :, None].expand(out.shape).to(dtype))
