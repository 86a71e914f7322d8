"""Attention as a function, on the cases that users of other tools stumbled over."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.mask import Mask, mask_from
from glassformer.core.pattern import Blocks
from glassformer.core.places import Places
from glassformer.kernels.attend import attend, score_factor

KERNELS = pytest.mark.parametrize("kernel", ["reference", "sdpa", "auto"])


def equal_scores(queries: int, values: list[float]) -> tuple[Tensor, Tensor, Tensor]:
    """One head whose scores are all equal, so that the output is the mean of the visible values."""
    keys = len(values)
    return torch.zeros(1, 1, queries, 2), torch.zeros(1, 1, keys, 2), torch.tensor(values)[None, None, :, None]


def mean(out: Tensor) -> list[float]:
    return out[0, 0, :, 0].tolist()


@KERNELS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("form", ["places", "bool", "additive"])
def test_o04_empty_row_gives_zeros_and_changes_nothing_else(kernel, dtype, form):
    """Row lengths [3, 0], as places, as a boolean mask and as an additive one of -inf."""
    q, k, v = (torch.randn(2, 2, 3, 4).to(dtype).requires_grad_() for _ in range(3))
    places = Places.from_lengths([3, 0], 3)
    if form == "places":
        given = {"queries": places, "keys": places}
    else:
        allow = torch.tensor([True, False])[:, None, None].expand(2, 3, 3)
        if form == "additive":
            allow = mask_from(torch.zeros(2, 3, 3).masked_fill(~allow, -torch.inf))
        given = {"mask": Mask(allow=allow)}
    out = attend(q, k, v, **given, kernel=kernel)
    assert out[1].eq(0).all()
    alone = attend(q[:1], k[:1], v[:1], kernel=kernel)
    torch.testing.assert_close(out[:1], alone, atol=1e-5 if dtype == torch.float32 else 2e-3, rtol=1e-3)
    for gradient in torch.autograd.grad(out.float().sum(), (q, k, v)):
        assert gradient.isfinite().all()
        assert gradient[1].eq(0).all()


@KERNELS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_o04_causal_with_left_padding_has_an_empty_first_query(kernel, dtype):
    q, k, v = (torch.randn(1, 2, 3, 4).to(dtype) for _ in range(3))
    places = Places.from_lengths([2], 3, side="left")
    out = attend(q, k, v, mask=Mask(causal=True), queries=places, keys=places, kernel=kernel)
    assert out[:, :, 0].eq(0).all()
    alone = attend(q[:, :, 1:], k[:, :, 1:], v[:, :, 1:], mask=Mask(causal=True), kernel=kernel)
    torch.testing.assert_close(out[:, :, 1:], alone, atol=1e-5 if dtype == torch.float32 else 2e-3, rtol=1e-3)


@KERNELS
def test_o05_true_means_attend(kernel):
    """Values 1, 2, 3 and a mask [T, T, F]: 1.5; read the other way round it would be 3."""
    q, k, v = equal_scores(1, [1.0, 2.0, 3.0])
    infinity = float("inf")
    for values in ([[True, True, False]], [[1, 1, 0]], [[0.0, 0.0, -infinity]]):
        mask = Mask(allow=mask_from(torch.tensor(values)))
        assert mean(attend(q, k, v, mask=mask, kernel=kernel)) == [1.5]
    keep = torch.tensor([[True, True, False]])
    assert mean(attend(q, k, v, keys=Places.from_keep(keep), kernel=kernel)) == [1.5]


@KERNELS
def test_o05_mask_of_another_length_is_refused_with_both_shapes(kernel):
    """A padding mask for four keys where there are three, however it is given."""
    q, k, v = (torch.zeros(2, 1, 3, 2) for _ in range(3))
    keep = torch.ones(2, 4, dtype=torch.bool)
    with pytest.raises(DataError, match=r"keys has shape \(2, 4\); here it must be \(2, 3\)"):
        attend(q, k, v, keys=Places.from_keep(keep), kernel=kernel)
    with pytest.raises(DataError, match=r"queries has shape \(2, 4\); here it must be \(2, 3\)"):
        attend(q, k, v, queries=Places.from_keep(keep), kernel=kernel)
    with pytest.raises(DataError, match=r"allow has shape \(2, 4\); here it must be \(3, 3\)"):
        attend(q, k, v, mask=Mask(allow=keep), kernel=kernel)
    with pytest.raises(DataError, match=r"allow has shape \(3, 3, 3\); here it must be \(2, 3, 3\)"):
        attend(q, k, v, mask=Mask(allow=torch.ones(3, 3, 3, dtype=torch.bool)), kernel=kernel)
    with pytest.raises(DataError, match=r"bias has shape \(1, 2, 3, 3\); here it must be \(2, 1, 3, 3\)"):
        attend(q, k, v, bias=torch.zeros(1, 2, 3, 3), kernel=kernel)


@KERNELS
def test_o15_causality_compares_positions_not_corners(kernel):
    """(a) the last 2 of 5 see 4 and 5 keys: 2.5 and 3; (b) the last one sees all: 3."""
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    for queries, expected in ((2, [2.5, 3.0]), (1, [3.0])):
        q, k, v = equal_scores(queries, values)
        assert mean(attend(q, k, v, mask=Mask(causal=True), kernel=kernel)) == expected


@KERNELS
def test_o15_masks_are_always_intersected(kernel):
    """(c) causal, and key 0 hidden from query 2: its weights are [0, .5, .5]."""
    q, k, _ = equal_scores(3, [0.0] * 3)
    hidden = torch.ones(3, 3, dtype=torch.bool)
    hidden[2, 0] = False
    for mask in (Mask(causal=True) & Mask(allow=hidden), Mask(causal=True, allow=hidden)):
        weights = attend(q, k, torch.eye(3)[None, None], mask=mask, kernel=kernel)
        assert weights[0, 0].tolist() == [[1, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]]


@KERNELS
def test_o15_more_queries_than_keys_need_their_positions(kernel):
    """(d) refused, unless the queries' positions are given."""
    q, k, v = equal_scores(5, [1.0, 2.0])
    for mask in (Mask(causal=True), Mask(window=2)):
        with pytest.raises(DataError, match="5 queries cannot be the last of 2 keys"):
            attend(q, k, v, mask=mask, kernel=kernel)
    given = attend(q, k, v, mask=Mask(causal=True), queries=Places.full(5), kernel=kernel)
    assert mean(given) == [1.0, 1.5, 1.5, 1.5, 1.5]
    assert mean(attend(q, k, v, kernel=kernel)) == [1.5] * 5


@KERNELS
def test_queries_without_places_stand_with_the_last_keys(kernel):
    """Padded keys [pad, a, b]: under a causal mask the queries stand where the keys do, not at 0, 1, 2."""
    q, k, v = equal_scores(3, [9.0, 1.0, 3.0])
    keys = Places.from_lengths([2], 3, side="left")
    assert mean(attend(q, k, v, mask=Mask(causal=True), keys=keys, kernel=kernel)) == [0.0, 1.0, 2.0]
    last = attend(q[:, :, 1:], k, v, mask=Mask(causal=True), keys=keys, kernel=kernel)
    assert mean(last) == [1.0, 2.0]
    # Without an order every query sees every token.
    assert mean(attend(q, k, v, keys=keys, kernel=kernel)) == [2.0, 2.0, 2.0]


@KERNELS
def test_window_counts_the_query_itself(kernel):
    q, k, v = equal_scores(3, [1.0, 2.0, 4.0])
    assert mean(attend(q, k, v, mask=Mask(window=1), kernel=kernel)) == [1.0, 2.0, 4.0]
    assert mean(attend(q, k, v, mask=Mask(causal=True, window=2), kernel=kernel)) == [1.0, 1.5, 3.0]


@KERNELS
def test_one_query_one_key_gives_the_value(kernel):
    q, k, v = equal_scores(1, [7.0])
    for mask in (None, Mask(causal=True), Mask(window=1)):
        assert mean(attend(q, k, v, mask=mask, kernel=kernel)) == [7.0]


@pytest.mark.parametrize(
    ("kernel", "mask"),
    [
        ("reference", None),
        ("auto", None),
        ("windowed", Mask(window=2)),
        ("auto", Mask(window=2)),
        ("blocks", Mask(patterns=(Blocks(2, near=0),))),
        ("auto", Mask(patterns=(Blocks(2, near=0),))),
    ],
)
@pytest.mark.parametrize(("soft_cap", "expected"), [(None, 0.982014), (2.0, 0.873033)])
def test_soft_cap_bends_scores_on_every_path(kernel, mask, soft_cap, expected):
    """Scores 4 and 0, values 1 and 0: exp(4) / (exp(4) + 1) = 0.982014; capped at 2, 2 tanh(4 / 2) = 1.928055 and
    exp(1.928055) / (exp(1.928055) + 1) = 0.873033. The third key, of another block, is out of the first query's sight.
    """
    q, v = torch.tensor([4.0, 0.0, 0.0])[None, None, :, None], torch.tensor([1.0, 0.0, 9.0])[None, None, :, None]
    k = torch.tensor([1.0, 0.0, -9.0])[None, None, :, None]
    if mask is None:
        mask = Mask(allow=torch.tensor([[True, True, False]] * 3))
    out = attend(q, k, v, mask=mask, scale="none", soft_cap=soft_cap, kernel=kernel)
    assert mean(out)[0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("scale", "factor"), [("sqrt", 0.25), ("d_k", 0.0625), ("none", 1.0), (0.3, 0.3), (2, 2.0)])
def test_scale_by_name_or_number(scale, factor):
    assert score_factor(scale, 16) == factor


def test_unknown_scale_is_refused():
    with pytest.raises(ConfigError, match="scale is 'sqr'; it must be 'sqrt', 'd_k', 'none' or a number"):
        score_factor("sqr", 16)


@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 4, 3, 8), (1, 4, 3, 8), (1, 4, 3, 8)),
        ((2, 4, 3, 8), (2, 3, 3, 8), (2, 3, 3, 8)),
        ((2, 4, 3, 8), (2, 4, 3, 6), (2, 4, 3, 6)),
        ((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 3, 8)),
        ((2, 4, 3, 8), (2, 2, 3, 8), (2, 4, 3, 8)),
        ((4, 3, 8), (4, 3, 8), (4, 3, 8)),
    ],
)
def test_shapes_that_do_not_fit_are_refused_by_name(shapes):
    q, k, v = (torch.zeros(shape) for shape in shapes)
    with pytest.raises(DataError) as error:
        attend(q, k, v)
    assert all(str(shape) in str(error.value) for shape in shapes)
