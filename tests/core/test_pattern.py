"""A pattern is a rule over blocks of positions; the oracle reads its definition out loud, one pair at a time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from glassformer.core.errors import ConfigError
from glassformer.core.mask import Mask, Structure
from glassformer.core.pattern import Blocks
from glassformer.core.places import Places


def drawn(pattern: Blocks, block: int, draw: int) -> int:
    return int(pattern.drawn(torch.tensor(block), draw))


def oracle(pattern: Blocks, query: int, key: int) -> bool:
    """Whether the token at position `query` sees that at `key`."""
    i, j = query // pattern.size, key // pattern.size
    return (
        abs(i - j) <= pattern.near
        or i < pattern.first
        or j < pattern.first
        or (pattern.every is not None and j % pattern.every == pattern.every - 1)
        or any(drawn(pattern, i, draw) == j or drawn(pattern, j, draw) == i for draw in range(pattern.random))
    )


patterns = st.builds(
    Blocks,
    size=st.integers(1, 4),
    near=st.integers(0, 2),
    first=st.integers(0, 2),
    every=st.sampled_from([None, 1, 2, 3]),
    random=st.integers(0, 2),
    seed=st.integers(0, 9),
)


def picture(mask: Mask, length: int) -> list[str]:
    places = Places.full(length)
    return ["".join("x" if seen else "." for seen in row) for row in mask.dense(places, places)[0, 0].tolist()]


@given(pattern=patterns, causal=st.booleans(), window=st.sampled_from([None, 3]), length=st.integers(1, 12))
def test_dense_mask_is_the_definition(pattern, causal, window, length):
    places = Places.full(length)
    dense = Mask(causal, window, patterns=(pattern,)).dense(places, places)[0, 0]
    for query in range(length):
        for key in range(length):
            near = window is None or abs(query - key) < window
            expected = oracle(pattern, query, key) and (key <= query or not causal) and near
            assert bool(dense[query, key]) == expected


@given(a=patterns, b=patterns)
def test_two_patterns_show_what_both_show(a, b):
    places = Places.full(9)
    both = (Mask(patterns=(a,)) & Mask(patterns=(b,))).dense(places, places)
    assert torch.equal(both, Mask(patterns=(a,)).dense(places, places) & Mask(patterns=(b,)).dense(places, places))


@pytest.mark.parametrize(
    ("pattern", "causal", "expected"),
    [
        (Blocks(2, near=0), False, ["xx....", "xx....", "..xx..", "..xx..", "....xx", "....xx"]),
        (Blocks(2, near=1), True, ["x.....", "xx....", "xxx...", "xxxx..", "..xxx.", "..xxxx"]),
        (Blocks(1, near=0, first=1), False, ["xxxx", "xx..", "x.x.", "x..x"]),
        (Blocks(1, near=0, first=1), True, ["x...", "xx..", "x.x.", "x..x"]),
        (Blocks(1, near=0, every=2), False, ["xx.x", ".x.x", ".xxx", ".x.x"]),
        (Blocks(2, near=0, every=2), True, ["x....", "xx...", "..x..", "..xx.", "..xxx"]),
    ],
    ids=["alone", "near", "first", "first-causal", "every", "every-causal"],
)
def test_patterns_by_hand(pattern, causal, expected):
    assert picture(Mask(causal, patterns=(pattern,)), len(expected)) == expected


def draws(pattern: Blocks, blocks: int) -> Tensor:
    return torch.stack([pattern.drawn(torch.arange(blocks), draw) for draw in range(pattern.random)])


def test_random_blocks_are_drawn_among_those_before_and_cover_them():
    blocks = 400
    chosen = draws(Blocks(random=3), blocks)
    assert chosen.ge(0).all()
    assert (chosen <= torch.arange(blocks)).all()
    share = (chosen + 0.5) / (torch.arange(blocks) + 1)
    # 1,200 even draws: a tenth holds 120, give or take four times their deviation of 10.4.
    assert all(abs(int(count) - 120) < 42 for count in torch.histc(share.flatten(), 10, 0, 1))


def test_random_blocks_are_the_same_at_every_length():
    pattern = Blocks(2, near=0, random=2)
    places, longer = Places.full(20), Places.full(64)
    mask = Mask(patterns=(pattern,))
    assert torch.equal(mask.dense(places, places), mask.dense(longer, longer)[..., :20, :20])


def test_random_blocks_depend_on_the_seed_and_on_the_draw():
    seeds = [draws(Blocks(random=2, seed=seed), 200) for seed in (0, 1, 10**30)]
    apart = [seeds[0][0], seeds[0][1], *(chosen[0] for chosen in seeds[1:])]
    for i, one in enumerate(apart):
        for other in apart[:i]:
            assert float((one == other).float().mean()) < 0.1
    assert torch.equal(draws(Blocks(random=2, seed=10**30), 200), seeds[2])


def test_random_blocks_see_each_other():
    pattern = Blocks(1, near=0, random=1)
    places = Places.full(30)
    dense = Mask(patterns=(pattern,)).dense(places, places)
    assert torch.equal(dense, dense.transpose(-2, -1))


def test_patterns_compare_positions_not_slots():
    """A padded and a packed row see what each text sees alone."""
    mask, length = Mask(causal=True, patterns=(Blocks(2, near=0, first=1, random=1),)), 7
    alone = mask.dense(Places.full(length), Places.full(length))[0, 0]
    left = Places.from_lengths([length], 10, side="left")
    assert torch.equal(mask.dense(left, left)[0, 0, 3:, 3:], alone)
    packed = Places.packed([[3, length]])
    dense = mask.dense(packed, packed)[0, 0]
    assert torch.equal(dense[3:, 3:], alone)
    assert torch.equal(dense[:3, :3], alone[:3, :3])
    assert not dense[3:, :3].any()


def test_structure_is_blocks_only_where_one_pattern_is_all_there_is():
    plain, padded, pattern = Places.full(6), Places.from_lengths([6, 4]), Blocks(2)
    for mask in (Mask(patterns=(pattern,)), Mask(True, patterns=(pattern,)), Mask(True, 6, patterns=(pattern,))):
        assert mask.structure(plain, plain) is Structure.BLOCKS
        assert mask.structure(padded, padded) is Structure.GENERAL
        assert mask.structure(plain, Places.full(8)) is Structure.GENERAL
        assert mask.structure(Places.full(6, begin=2), Places.full(6, begin=2)) is Structure.GENERAL
    for mask in (Mask(window=3, patterns=(pattern,)), Mask(patterns=(pattern, Blocks(3)))):
        assert mask.structure(plain, plain) is Structure.GENERAL


def test_settings_of_a_pattern_have_limits():
    from glassformer.core.attention_config import PatternConfig

    for settings in ({"block": 0}, {"near": -1}, {"first": -1}, {"every": 0}, {"random": -1}, {"seed": -1}):
        with pytest.raises(ConfigError, match=next(iter(settings))):
            PatternConfig(**settings)
