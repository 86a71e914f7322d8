"""A mask is a rule over places; the oracle is a loop over every batch row, query and key."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.mask import Mask, Structure, mask_from, mask_from_ignored
from glassformer.core.pattern import Blocks
from glassformer.core.places import Places

B, T, S = 2, 3, 4


def oracle(mask: Mask, queries: Places, keys: Places) -> Tensor:
    """The definition, read out loud, for masks without heads."""
    seen = torch.zeros(B, T, S, dtype=torch.bool)
    allow = torch.ones(B, T, S, dtype=torch.bool) if mask.allow is None else mask.allow.expand(B, T, S)
    q_position, q_segment = queries.position.expand(B, -1), queries.segment.expand(B, -1)
    k_position, k_segment = keys.position.expand(B, -1), keys.segment.expand(B, -1)
    for b in range(B):
        for t in range(T):
            for s in range(S):
                query, key = int(q_position[b, t]), int(k_position[b, s])
                seen[b, t, s] = (
                    int(q_segment[b, t]) == int(k_segment[b, s]) != -1
                    and (not mask.causal or key <= query)
                    and (mask.window is None or abs(query - key) < mask.window)
                    and bool(allow[b, t, s])
                )
    return seen


@st.composite
def places(draw: st.DrawFn, length: int) -> Places:
    if draw(st.booleans()):
        return Places.full(length)
    rows = st.lists(st.integers(-1, 2), min_size=length, max_size=length)
    segment = torch.tensor(draw(st.lists(rows, min_size=B, max_size=B)))
    position = torch.tensor(draw(st.lists(rows, min_size=B, max_size=B))).clamp(min=0)
    return Places(position, segment)


@st.composite
def masks(draw: st.DrawFn) -> Mask:
    allow = None
    if draw(st.booleans()):
        shape = draw(st.sampled_from([(T, S), (1, T, S), (B, T, S)]))
        seed = draw(st.integers(0, 99))
        allow = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.7
    return Mask(draw(st.booleans()), draw(st.sampled_from([None, 1, 2, 3])), allow)


@given(mask=masks(), queries=places(T), keys=places(S))
def test_dense_mask_is_the_definition(mask, queries, keys):
    dense = mask.dense(queries, keys)
    assert dense.shape[1:] == (1, T, S)
    assert torch.equal(dense.expand(B, 1, T, S)[:, 0], oracle(mask, queries, keys))


@given(a=masks(), b=masks(), queries=places(T), keys=places(S))
def test_and_shows_what_both_show(a, b, queries, keys):
    both = (a & b).dense(queries, keys)
    assert torch.equal(both.expand(B, 1, T, S), (a.dense(queries, keys) & b.dense(queries, keys)).expand(B, 1, T, S))


@given(mask=masks())
def test_structure_that_is_claimed_is_true(mask):
    """What a kernel may rely on without looking: all keys, the lower triangle, or the band of a window."""
    square = Places.full(T)
    mask = Mask(mask.causal, mask.window)
    structure = mask.structure(square, square)
    dense = mask.dense(square, square)[0, 0]
    if structure is Structure.FULL:
        assert dense.all()
    elif structure is Structure.CAUSAL:
        assert torch.equal(dense, torch.ones(T, T, dtype=torch.bool).tril())
    else:
        assert structure is Structure.WINDOWED
        assert mask.window is not None
        distance = torch.arange(T)[:, None] - torch.arange(T)[None, :]
        band = (distance.abs() < mask.window) & (distance >= 0 if mask.causal else torch.ones_like(dense))
        assert torch.equal(dense, band)


def test_structure_is_general_unless_everything_is_known():
    plain, padded = Places.full(3), Places.from_lengths([3, 2])
    allow = torch.ones(3, 3, dtype=torch.bool)
    assert Mask().structure(plain, plain) is Structure.FULL
    assert Mask().structure(plain, Places.full(5)) is Structure.FULL
    assert Mask(causal=True).structure(plain, plain) is Structure.CAUSAL
    assert Mask(causal=True, window=2).structure(plain, plain) is Structure.WINDOWED
    assert Mask(window=2).structure(plain, plain) is Structure.WINDOWED
    later = Places.full(3, begin=4)
    assert Mask().structure(later, plain) is Structure.FULL
    assert Mask(causal=True).structure(later, later) is Structure.CAUSAL
    assert Mask(causal=True, window=2).structure(later, later) is Structure.WINDOWED
    for mask, queries, keys in (
        (Mask(causal=True), plain, Places.full(5)),
        (Mask(causal=True), later, plain),
        (Mask(causal=True, patterns=(Blocks(size=2),)), later, later),
        (Mask(), padded, padded),
        (Mask(), plain, padded),
        (Mask(causal=True), padded, plain),
        (Mask(allow=allow), plain, plain),
    ):
        assert mask.structure(queries, keys) is Structure.GENERAL


def test_and_keeps_a_single_restriction_as_it_is():
    """Masks are known again by the tensor, so a layer without a restriction of its own makes no new one."""
    allow = torch.ones(3, 3, dtype=torch.bool)
    assert (Mask(allow=allow) & Mask(causal=True)).allow is allow
    assert (Mask(causal=True) & Mask(allow=allow)).allow is allow
    assert (Mask(allow=allow) & Mask()).same_as(Mask(allow=allow))
    assert not Mask(allow=allow).same_as(Mask(allow=allow.clone()))


def test_and_takes_the_narrower_window():
    assert (Mask(window=3) & Mask(window=2)).window == 2
    assert (Mask(window=3) & Mask()).window == 3
    assert (Mask(causal=True) & Mask()).causal


def test_mask_per_head_keeps_its_heads():
    allow = torch.rand(B, 2, T, S) < 0.5
    dense = Mask(allow=allow).dense(Places.full(T), Places.full(S))
    assert torch.equal(dense, allow)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Mask(window=0), ConfigError, r"window is 0.*>= 1"),
        (lambda: Mask(allow=torch.ones(2, 2)), DataError, r"float32 and shape \(2, 2\).*mask_from"),
        (lambda: Mask(allow=torch.ones(2, dtype=torch.bool)), DataError, r"shape \(2,\)"),
        (
            lambda: Mask(allow=torch.ones(T, S, dtype=torch.bool)) & Mask(allow=torch.ones(T, S + 1, dtype=torch.bool)),
            DataError,
            r"\(3, 4\) and \(3, 5\)",
        ),
    ],
)
def test_masks_that_cannot_be_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("shape", [(T, S + 1), (B + 1, T, S), (B, T, S + 1), (B, 1, T + 1, S)])
def test_o05_mask_of_another_shape_is_refused_with_both_shapes(shape):
    keys = Places.from_lengths([S, 1], S)
    with pytest.raises(DataError) as error:
        Mask(allow=torch.ones(shape, dtype=torch.bool)).dense(Places.full(T), keys)
    assert str(shape) in str(error.value)
    assert f"the batch is {B}, the queries {T} and the keys {S}" in str(error.value)


def test_o05_foreign_masks_have_one_meaning_or_are_refused():
    expected = [True, True, False]
    infinity = float("inf")
    assert mask_from(torch.tensor([True, True, False])).tolist() == expected
    assert mask_from(torch.tensor([1, 1, 0])).tolist() == expected
    assert mask_from(torch.tensor([0.0, 0.0, -infinity])).tolist() == expected
    assert mask_from(torch.tensor([0.0, 0.0, torch.finfo(torch.float32).min])).tolist() == expected
    assert mask_from(torch.tensor([0.0, 0.0, -infinity]).half()).tolist() == expected
    assert mask_from_ignored(torch.tensor([False, False, True])).tolist() == expected


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (torch.tensor([1.0, 1.0, 0.0]), "1.0"),
        (torch.tensor([-float("inf"), 0.0, 1.0]), "1.0"),
        (torch.tensor([0.0, -1e9]), "-1000000000.0"),
        (torch.tensor([0.0, float("nan")]), "nan"),
        (torch.tensor([0, 1, 2]), "2"),
        (torch.tensor([0, -1]), "-1"),
    ],
)
def test_o05_numbers_that_are_no_mask_are_refused_by_name(values, found):
    with pytest.raises(DataError, match=f"it holds {found}"):
        mask_from(values)


def test_ignored_mask_must_be_boolean():
    with pytest.raises(DataError, match="only a bool mask"):
        mask_from_ignored(torch.tensor([0, 1]))


@pytest.mark.parametrize(
    ("mask", "begin", "length", "expected"),
    [
        (Mask(causal=True), 4, 1, Structure.FULL),
        (Mask(causal=True), 3, 2, Structure.NEWEST),
        (Mask(causal=True), 3, 1, Structure.GENERAL),
        (Mask(causal=True), 2, 2, Structure.GENERAL),
        (Mask(causal=True, window=5), 3, 2, Structure.NEWEST),
        (Mask(causal=True, window=4), 3, 2, Structure.GENERAL),
        (Mask(causal=True), 2, 1, Structure.GENERAL),
        (Mask(causal=True, window=5), 4, 1, Structure.FULL),
        (Mask(causal=True, window=4), 4, 1, Structure.GENERAL),
        (Mask(), 3, 2, Structure.FULL),
        (Mask(window=3), 4, 1, Structure.GENERAL),
    ],
)
def test_last_queries_of_plain_keys_need_no_mask(mask, begin, length, expected):
    """Five keys at 0 to 4; a query at 4 is the last of them, and all are fewer than 5 positions away."""
    queries, keys = Places.full(length, begin=begin), Places.full(5)
    assert mask.structure(queries, keys) == expected
    if expected == Structure.FULL:
        assert mask.dense(queries, keys).all()
    if expected == Structure.NEWEST:
        assert torch.equal(mask.dense(queries, keys)[0, 0], torch.ones(2, 5, dtype=torch.bool).tril(3))


def test_queries_before_the_first_key_are_none_of_the_newest():
    assert Mask(causal=True).structure(Places.full(5), Places.full(2, begin=3)) is Structure.GENERAL
