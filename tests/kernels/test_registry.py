from __future__ import annotations

import pytest

from glassformer.core.call import Sight
from glassformer.core.errors import ConfigError, UnsupportedError
from glassformer.core.mask import Mask, Structure
from glassformer.core.pattern import Blocks
from glassformer.core.places import Places
from glassformer.kernels.registry import KERNELS, choose_kernel, known_kernel

PADDED = Places.from_lengths([5000, 1])
SIGHTS = {
    "full": (Mask(), Places.full(5000)),
    "causal": (Mask(causal=True), Places.full(5000)),
    "newest": (Mask(causal=True), Places.full(5000), Places.full(100, begin=4900)),
    "windowed": (Mask(causal=True, window=9), Places.full(5000)),
    "blocks": (Mask(causal=True, patterns=(Blocks(64),)), Places.full(5000)),
    "padded": (Mask(), PADDED),
    "padded_window": (Mask(window=9), PADDED),
    "padded_blocks": (Mask(patterns=(Blocks(64),)), PADDED),
}


def sight(name: str) -> Sight:
    mask, keys, *queries = SIGHTS[name]
    return Sight.of(mask, queries[0] if queries else keys, keys)


@pytest.mark.parametrize(
    ("name", "kernel", "capped", "biased"),
    [
        ("full", "sdpa", "reference", "sdpa"),
        ("causal", "sdpa", "reference", "sdpa"),
        ("newest", "sdpa", "reference", "sdpa"),
        ("windowed", "windowed", "windowed", "sdpa"),
        ("blocks", "blocks", "blocks", "sdpa"),
        ("padded", "sdpa", "reference", "sdpa"),
        ("padded_window", "sdpa", "reference", "sdpa"),
        ("padded_blocks", "sdpa", "reference", "sdpa"),
    ],
)
def test_auto_takes_the_first_that_gains_and_does_not_refuse(name, kernel, capped, biased):
    assert choose_kernel("auto", sight(name)).name == kernel
    assert choose_kernel("auto", sight(name), soft_cap=True).name == capped
    assert choose_kernel("auto", sight(name), bias=True).name == biased
    assert choose_kernel("auto", sight(name), soft_cap=True, bias=True).name == "reference"


def test_named_kernel_is_taken_also_where_it_does_not_gain():
    short = Places.full(10)
    assert choose_kernel("windowed", Sight.of(Mask(window=2), short, short)).name == "windowed"
    assert choose_kernel("blocks", Sight.of(Mask(patterns=(Blocks(4),)), short, short)).name == "blocks"
    assert choose_kernel("auto", Sight.of(Mask(window=2), short, short)).name == "sdpa"


def test_named_kernel_is_taken_or_says_why_not():
    assert choose_kernel("reference", sight("full")).name == "reference"
    with pytest.raises(UnsupportedError, match=r"kernel=sdpa cannot do this: .*soft cap; use attention.kernel=auto"):
        choose_kernel("sdpa", sight("full"), soft_cap=True)
    with pytest.raises(UnsupportedError, match=r"kernel=windowed cannot do this: it is for a window"):
        choose_kernel("windowed", sight("blocks"))


@pytest.mark.parametrize("ask", [known_kernel, lambda name: choose_kernel(name, sight("full"))])
def test_unknown_kernel_is_refused_with_a_near_name(ask):
    with pytest.raises(ConfigError, match="unknown kernel 'spda' of softmax attention; did you mean 'sdpa'"):
        ask("spda")


@pytest.mark.parametrize("of", KERNELS)
def test_the_last_kernel_of_a_type_is_its_equation(of):
    """So that "auto" always finds one, whatever the structure."""
    last = KERNELS[of][-1]
    assert last.name == "reference"
    for name in SIGHTS:
        assert last.gains(sight(name))
        assert last.never(sight(name).mask, soft_cap=False, bias=False) is None
        assert last.refuses(sight(name)) is None
    assert {structure.value for structure in Structure} == {sight(name).structure.value for name in SIGHTS}
