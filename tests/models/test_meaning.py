"""Tensors that fit are not yet of the same model."""

from __future__ import annotations

import pytest

from glassformer.models.arguments import ModelArguments
from glassformer.models.meaning import other_meaning

SMALL = {"kind": "decoder", "d_model": 16, "n_heads": 4, "n_layers": 12}
ROTARY = {"positions": "rotary"}


def said(learned: dict[str, object], asked: dict[str, object], **how: object) -> str:
    one, other = (ModelArguments.parse(SMALL | each).resolve(9) for each in (learned, asked))
    return other_meaning(one, other, **how)


@pytest.mark.parametrize(
    ("learned", "asked", "line"),
    [
        ({}, {"attention": {"type": "linear"}}, "decoder.blocks.*.attention.type is linear, and was softmax"),
        ({"positions": "rotary"}, {"positions": "none"}, "decoder.blocks.*.attention.rotary is none, and was set"),
        ({"positions": "alibi"}, {"positions": "relative"}, "decoder.position_bias is relative, and was alibi"),
        ({}, {"attention": {"soft_cap": 2.0}}, "decoder.blocks.*.attention.soft_cap is 2.0, and was none"),
        ({"attention": {"window": 3}}, {}, "decoder.blocks.*.attention.window is none, and was 3"),
        ({}, {"attention": {"qk_norm": True}}, "decoder.blocks.*.attention.qk_norm is layer, and was none"),
        ({}, {"causal": False}, "decoder.causal is false, and was true"),
        ({}, {"n_layers": 3}, "decoder.blocks is 3 of them, and was 12 of them"),
        (ROTARY, ROTARY | {"rotary": {"theta": 5}}, "decoder.blocks.*.attention.rotary.theta is 5.0, and was 10000.0"),
    ],
)
def test_other_meaning_is_one_line_for_all_layers(learned, asked, line):
    assert said(learned, asked).endswith(line)
    assert "\n" not in said(learned, asked)
    assert said(learned, asked, narrower=True) == said(learned, asked)


def test_what_no_parameter_knows_of_is_free():
    free = {
        "dropout": 0.5,
        "inner_dropout": 0.1,
        "max_positions": 99,
        "init": {"linear": {"gain": 2.0}},
        "attention": {"kernel": "reference", "dropout": 0.2},
    }
    assert said({}, free) == ""
    assert said({}, {"head_bias": True}, free=("head",)) == ""
    assert said({}, {"head_bias": True}) == "head.bias is true, and was false"


def test_attention_may_see_less_where_that_is_free():
    wide, near, nearest = ({"attention": {"window": window}} for window in ("none", 5, 3))
    pattern = {"attention": {"pattern": {"block": 2}}}
    for learned, asked in ((wide, near), (near, nearest), (wide, pattern)):
        assert said(learned, asked, narrower=True) == ""
        assert said(learned, asked) != ""
        assert said(asked, learned, narrower=True) != ""


def test_many_differences_are_cut():
    other = {"attention": {"type": "shaw", "max_distance": 2, "scale": "d_k", "soft_cap": 3}, "causal": False}
    other |= {"activation": "silu", "gated": True, "norm": "rms", "norm_place": "pre", "embedding_scale": False}
    lines = said({}, other).split("\n  ")
    assert len(lines) == 9
    assert lines[-1].endswith("more")
