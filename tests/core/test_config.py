"""Settings are strict and frozen, and say what is wrong in the words of whoever wrote them."""

from __future__ import annotations

import json

import pytest
from pydantic import Field

from glassformer.core.attention_config import AttentionConfig
from glassformer.core.config import (
    BlockConfig,
    FeedForwardConfig,
    HeadConfig,
    InitConfig,
    InitRule,
    InputConfig,
    StackConfig,
    TransformerConfig,
)
from glassformer.core.errors import ConfigError
from glassformer.core.norm_config import NormConfig
from glassformer.core.position_config import PositionConfig, RotaryConfig
from glassformer.core.settings import Config

ATTENTION = AttentionConfig(n_heads=2, n_kv_heads=1, d_head=4)


def a_stack(*, cross: bool = False, d_model: int = 8, vocab_size: int = 10, blocks: int = 1) -> StackConfig:
    block = BlockConfig(
        attention=ATTENTION,
        cross_attention=ATTENTION if cross else None,
        feed_forward=FeedForwardConfig(d_ff=16),
    )
    return StackConfig(input=InputConfig(vocab_size=vocab_size, d_model=d_model), blocks=(block,) * blocks, causal=True)


@pytest.mark.parametrize(
    ("settings", "name", "near"),
    [
        ({"decodr": {}}, "decodr", "decoder"),
        ({"decoder": {"finalnorm": {}}}, "decoder.finalnorm", "final_norm"),
        ({"decoder": {"input": {"vocabsize": "3"}}}, "decoder.input.vocabsize", "vocab_size"),
        ({"decoder": {"input": {"positions": {"knd": "x"}}}}, "decoder.input.positions.knd", "kind"),
        ({"decoder": {"final_norm": {"epsilon": "1"}}}, "decoder.final_norm.epsilon", "eps"),
        ({"decoder": {"blocks": [{"norms": "1"}]}}, "decoder.blocks.0.norms", "norm"),
        (
            {"decoder": {"blocks": [{"attention": {"rotary": {"tetha": "1"}}}]}},
            "decoder.blocks.0.attention.rotary.tetha",
            "theta",
        ),
        ({"init": {"head": {"stdd": "1"}}}, "init.head.stdd", "std"),
    ],
)
def test_unknown_setting_names_the_nearest_at_every_depth(settings, name, near):
    with pytest.raises(ConfigError) as error:
        TransformerConfig.parse(settings)
    line = next(line for line in str(error.value).splitlines() if line.startswith(f"{name} is not a setting"))
    assert line.endswith(f"; did you mean {near!r}?")


def test_unknown_setting_from_python_names_the_nearest():
    with pytest.raises(ConfigError, match=r"^ep is not a setting; did you mean 'eps'"):
        NormConfig(ep=1e-6)


@pytest.mark.parametrize(
    ("scaling", "lines"),
    [
        ({"kind": "ntk"}, ["kind is 'ntk'; it must be 'linear', 'llama3' or 'yarn'"]),
        ({"kind": ["yarn"]}, ["kind is ['yarn']; it must be 'linear', 'llama3' or 'yarn'"]),
        ({"factor": "3"}, ["kind is missing; it must be 'linear', 'llama3' or 'yarn'"]),
        (
            {"factr": "3"},
            [
                "kind is missing; it must be 'linear', 'llama3' or 'yarn'",
                "factr is not a setting; did you mean 'factor'?",
            ],
        ),
        (
            {"kind": "linear", "factr": "3"},
            ["factor is missing", "factr is not a setting; did you mean 'factor'?"],
        ),
        ({"kind": "linear", "factor": "x"}, ["factor is 'x': input should be a valid number"]),
    ],
)
def test_settings_of_several_kinds_are_explained_by_their_kind(scaling, lines):
    with pytest.raises(ConfigError) as error:
        RotaryConfig.parse({"scaling": scaling}, "model.rotary")
    told = str(error.value).splitlines()
    assert len(told) == len(lines)
    for line, expected in zip(told, lines, strict=True):
        assert line.startswith(f"model.rotary.scaling.{expected}")


def test_word_in_place_of_settings_of_several_kinds_is_explained():
    with pytest.raises(ConfigError, match=r"^scaling is 'yarn', but it holds settings of its own: set scaling.KEY"):
        RotaryConfig.parse({"scaling": "yarn"})
    with pytest.raises(ConfigError, match=r"^position_bias.kind is 'x'; it must be 'relative' or 'alibi'"):
        StackConfig.parse(a_stack().model_dump() | {"position_bias": {"kind": "x"}})


def test_where_is_put_before_every_name():
    with pytest.raises(ConfigError, match=r"^training.norm.knd is not a setting"):
        NormConfig.parse({"knd": "layer"}, "training.norm")


class Everything(Config):
    count: int | None = Field(3, ge=1)
    share: float = 0.0
    flag: bool = False
    word: str = ""
    choice: str | None = None
    factor: float | None = None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ({"count": "12"}, {"count": 12}),
        ({"count": "none"}, {"count": None}),
        ({"count": "null"}, {"count": None}),
        ({"share": "1e-3"}, {"share": 0.001}),
        ({"share": "2"}, {"share": 2.0}),
        ({"flag": "no"}, {"flag": False}),
        ({"flag": "yes"}, {"flag": True}),
        ({"flag": "true"}, {"flag": True}),
        ({"word": "no"}, {"word": "no"}),
        ({"word": "none"}, {"word": "none"}),
        ({"word": "12"}, {"word": "12"}),
        ({"choice": "none"}, {"choice": None}),
        ({"factor": "null"}, {"factor": None}),
    ],
)
def test_parse_lets_the_field_decide_what_a_text_means(text, expected):
    assert Everything.parse(text) == Everything(**expected)


def test_parse_keeps_none_where_it_is_a_choice_of_its_own():
    assert AttentionConfig.parse({"n_heads": "2", "n_kv_heads": "2", "d_head": "4", "scale": "none"}).scale == "none"
    assert NormConfig.parse({"kind": "none"}).kind == "none"
    assert AttentionConfig.parse({"n_heads": "2", "n_kv_heads": "2", "d_head": "4", "scale": "0.5"}).scale == 0.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"count": "12x"}, "count is '12x': input should be a valid integer"),
        ({"count": "0"}, "count is '0': input should be greater than or equal to 1"),
        ({"share": "nan"}, "share is 'nan': input should be a finite number"),
        ({"flag": "maybe"}, "flag is 'maybe': input should be a valid boolean"),
    ],
)
def test_parse_names_setting_and_value(settings, message):
    with pytest.raises(ConfigError, match=f"^{message}"):
        Everything.parse(settings)


def test_parse_of_a_wrong_alternative_does_not_speak_of_types_of_the_program():
    with pytest.raises(ConfigError) as error:
        AttentionConfig.parse({"n_heads": "2", "n_kv_heads": "2", "d_head": "4", "scale": "bogus"})
    assert {line.split(":")[0] for line in str(error.value).splitlines()} == {"scale is 'bogus'"}
    assert "'sqrt', 'd_k' or 'none'" in str(error.value)


def test_parse_of_something_that_is_no_settings_at_all_says_so():
    with pytest.raises(ConfigError, match=r"^NormConfig is 'layer': input should be a valid dictionary"):
        NormConfig.parse("layer")


def test_parse_reports_all_mistakes_at_once():
    with pytest.raises(ConfigError) as error:
        Everything.parse({"count": "x", "share": "y", "cout": "1"})
    assert len(str(error.value).splitlines()) == 3


@pytest.mark.parametrize("settings", [{"count": "3"}, {"count": 3.0}, {"share": "1"}, {"flag": 1}, {"share": True}])
def test_settings_from_python_are_not_converted(settings):
    (name,) = settings
    with pytest.raises(ConfigError, match=f"^{name} is "):
        Everything(**settings)


def test_blocks_from_python_are_a_tuple():
    stack = a_stack()
    with pytest.raises(ConfigError, match=r"^blocks is "):
        StackConfig(input=stack.input, blocks=list(stack.blocks))


def test_settings_are_frozen_and_hashable():
    norm = NormConfig()
    with pytest.raises(ValueError, match="frozen"):
        norm.eps = 1.0
    assert hash(norm) == hash(NormConfig())


def test_whole_config_survives_text():
    config = TransformerConfig(encoder=a_stack(), decoder=a_stack(cross=True), head=HeadConfig(vocab_size=10))
    assert TransformerConfig.parse(json.loads(config.model_dump_json())) == config


def test_head_that_pools_survives_text_and_none_is_no_pooling():
    config = TransformerConfig(decoder=a_stack(), head=HeadConfig(vocab_size=3, pooling="last", tied=False))
    assert TransformerConfig.parse(json.loads(config.model_dump_json())) == config
    assert HeadConfig.parse({"vocab_size": "3", "pooling": "none"}) == HeadConfig(vocab_size=3)


def test_first_token_is_pooled_where_it_has_seen_everything():
    head = HeadConfig(vocab_size=3, pooling="first", tied=False)
    seeing = a_stack().model_copy(update={"causal": False})
    for stacks in ({"encoder": seeing}, {"decoder": seeing}, {"encoder": seeing, "decoder": a_stack(cross=True)}):
        assert TransformerConfig(**stacks, head=head).head == head


def test_o18_rotary_of_an_odd_head_is_refused():
    with pytest.raises(ConfigError, match=r"d_head is 5.*must be even"):
        AttentionConfig(n_heads=2, n_kv_heads=2, d_head=5, rotary=RotaryConfig())


def test_o18_heads_that_cannot_be_shared_out_are_refused():
    with pytest.raises(ConfigError, match=r"n_heads is 6 and n_kv_heads 4.*one of \[1, 2, 3, 6\]"):
        AttentionConfig(n_heads=6, n_kv_heads=4, d_head=8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PositionConfig(kind="learned"), "need max_positions"),
        (lambda: StackConfig(input=a_stack().input, blocks=()), "blocks is empty.*at least one"),
        (
            lambda: BlockConfig(attention=ATTENTION, feed_forward=FeedForwardConfig(d_ff=4), parallel=True),
            "norm_place=post and no cross-attention.*needs norm_place=pre",
        ),
        (
            lambda: BlockConfig(
                attention=ATTENTION,
                cross_attention=ATTENTION,
                feed_forward=FeedForwardConfig(d_ff=4),
                norm_place="pre",
                parallel=True,
            ),
            "norm_place=pre and a cross-attention.*no cross-attention",
        ),
        (lambda: TransformerConfig(), "needs an encoder, a decoder, or both"),
        (lambda: TransformerConfig(decoder=a_stack(cross=True)), "if and only if there is an encoder"),
        (lambda: TransformerConfig(encoder=a_stack(), decoder=a_stack()), "if and only if there is an encoder"),
        (lambda: TransformerConfig(encoder=a_stack(cross=True)), "an encoder has no cross-attention"),
        (
            lambda: TransformerConfig(encoder=a_stack(d_model=6), decoder=a_stack(cross=True)),
            "encoder's d_model is 6, the decoder's 8",
        ),
        (
            lambda: TransformerConfig(
                encoder=a_stack(vocab_size=9), decoder=a_stack(cross=True), share_embeddings=True
            ),
            "vocab_size is 9, the decoder's 10.*share_embeddings=false",
        ),
        (
            lambda: TransformerConfig(decoder=a_stack(), head=HeadConfig(vocab_size=11)),
            "head's vocab_size is 11, its embedding's 10.*tied=false",
        ),
        (lambda: HeadConfig(vocab_size=3, pooling="mean"), "pooling is mean in a tied head.*set tied=false"),
        (lambda: HeadConfig(vocab_size=3, dropout=0.1), "dropout is 0.1 in a head that does not pool.*set pooling"),
        (lambda: HeadConfig(vocab_size=3, pooling="max", tied=False), "pooling is 'max'.*'mean', 'first' or 'last'"),
        (
            lambda: TransformerConfig(decoder=a_stack(), head=HeadConfig(vocab_size=3, pooling="first", tied=False)),
            "pooling is first in a causal stack.*nothing but itself.*pooling=last.*or mean",
        ),
        (lambda: InitConfig(head=InitRule(depth_scaled=True)), "depth_scaled.*linear or residual"),
        (lambda: InitConfig(embedding=InitRule(depth_scaled=True)), "depth_scaled.*linear or residual"),
        (lambda: InitRule(std=-0.1), "std is -0.1"),
    ],
)
def test_impossible_settings_are_refused_with_a_way_out(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_impossible_setting_deep_inside_is_named_by_its_path():
    with pytest.raises(ConfigError, match=r"^decoder.blocks.1.attention: n_heads is 3 and n_kv_heads 2"):
        TransformerConfig.parse(
            {
                "decoder": {
                    "input": {"vocab_size": "4", "d_model": "6"},
                    "blocks": [
                        {
                            "attention": {"n_heads": "3", "n_kv_heads": kv_heads, "d_head": "2"},
                            "feed_forward": {"d_ff": "4"},
                        }
                        for kv_heads in ("3", "2")
                    ],
                }
            }
        )


def test_layers_may_differ():
    small, large = a_stack().blocks[0], a_stack(blocks=2).blocks[0].model_copy(update={"dropout": 0.5})
    stack = StackConfig(input=a_stack().input, blocks=(small, large))
    assert [block.dropout for block in stack.blocks] == [0.0, 0.5]
