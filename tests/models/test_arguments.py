from __future__ import annotations

import pytest

from glassformer.core.config import HeadConfig
from glassformer.core.errors import ConfigError
from glassformer.models.arguments import ModelArguments
from glassformer.models.brief import Brief


def test_arguments_spell_out_the_whole_architecture():
    arguments = ModelArguments(d_model=8, n_heads=2, n_layers=3, positions="rotary", norm_place="pre", norm="rms")
    config = arguments.resolve(20, 30)
    assert (config.encoder.input.vocab_size, config.decoder.input.vocab_size) == (30, 20)
    assert not config.share_embeddings
    assert len(config.decoder.blocks) == 3
    block = config.decoder.blocks[0]
    assert (block.attention.d_head, block.attention.n_kv_heads, block.feed_forward.d_ff) == (4, 2, 32)
    assert block.attention.rotary is not None
    assert block.cross_attention.rotary is None
    assert config.decoder.input.positions.kind == "none"
    assert config.decoder.final_norm.kind == "rms"
    assert config.decoder.causal
    assert not config.encoder.causal


def test_kinds_have_the_stacks_their_names_say():
    for kind, stacks in (("encoder", (True, False)), ("decoder", (False, True)), ("encoder_decoder", (True, True))):
        config = ModelArguments(kind=kind).resolve(10)
        assert (config.encoder is not None, config.decoder is not None) == stacks


def test_o18_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ConfigError) as error:
        ModelArguments(d_model=1600, n_heads=48)
    text = str(error.value)
    assert "d_model 1600" in text
    assert "n_heads 48" in text
    assert "give d_head" in text
    assert "25, 32, 40, 50, 64" in text
    assert ModelArguments(d_model=1600, n_heads=48, d_head=64).resolve(10).decoder.blocks[0].attention.d_head == 64


def test_o18_key_value_heads_that_do_not_divide_the_heads_are_refused():
    with pytest.raises(ConfigError, match=r"n_heads is 6 and n_kv_heads 4"):
        ModelArguments(d_model=12, n_heads=6, n_kv_heads=4).resolve(10)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"positions": "learned"}, "need max_positions"),
        ({"parallel": True, "kind": "decoder"}, "needs norm_place=pre"),
        ({"parallel": True, "norm_place": "pre"}, "no cross-attention"),
        ({"positions": "rotary", "d_model": 6, "n_heads": 2}, "d_head is 3"),
    ],
)
def test_arguments_that_cannot_be_together_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        ModelArguments(**settings).resolve(10)


@pytest.mark.parametrize(
    ("kind", "pooling", "expected"),
    [
        ("encoder", "auto", "mean"),
        ("encoder", "first", "first"),
        ("encoder", "last", "last"),
        ("decoder", "auto", "last"),
        ("decoder", "mean", "mean"),
        ("encoder_decoder", "auto", "last"),
        ("encoder_decoder", "first", "first"),
    ],
)
def test_classes_get_a_head_of_their_own_that_pools(kind, pooling, expected):
    arguments = ModelArguments(kind=kind, pooling=pooling, dropout=0.2)
    config = arguments.resolve(20, classes=tuple("abcdef"))
    assert config.head == HeadConfig(
        vocab_size=6, tied=False, bias=True, pooling=expected, dropout=0.2, classes=tuple("abcdef")
    )
    rest = ModelArguments(kind=kind, dropout=0.2).resolve(20)
    assert config == rest.model_copy(update={"head": config.head})
    assert rest.head == HeadConfig(vocab_size=20)


@pytest.mark.parametrize(
    ("settings", "classes", "message"),
    [
        ({"kind": "encoder", "pooling": "mean"}, None, "pooling is mean.*scores every token.*set pooling=auto"),
        (
            {"kind": "decoder", "pooling": "first"},
            ("a", "b", "c"),
            "pooling is first in a causal stack.*set pooling=last",
        ),
        ({"kind": "encoder"}, ("a",), "there are 1 classes; there must be at least 2"),
    ],
)
def test_pooling_that_cannot_be_is_refused(settings, classes, message):
    with pytest.raises(ConfigError, match=message):
        ModelArguments(**settings).resolve(20, classes=classes)


def test_arguments_come_from_text():
    arguments = ModelArguments.parse(
        {"kind": "decoder", "d_model": "64", "n_kv_heads": "none", "attention": {"scale": "none", "window": "3"}},
        "model",
    )
    assert (arguments.d_model, arguments.n_kv_heads) == (64, None)
    assert (arguments.attention.scale, arguments.attention.window) == ("none", 3)
    with pytest.raises(ConfigError, match=r"^model.attention.windw is not a setting; did you mean 'window'"):
        ModelArguments.parse({"attention": {"windw": "3"}}, "model")


@pytest.mark.parametrize("near", [{"window": 8, "kernel": "windowed"}, {"pattern": {"block": 4}, "kernel": "blocks"}])
@pytest.mark.parametrize("layers", [None, (1,), ()])
def test_sparse_kernel_is_that_of_the_layers_with_a_window_or_a_pattern(near, layers):
    """What looks at the encoder has neither, and takes what "auto" takes; said briefly again it is the same."""
    arguments = ModelArguments.parse({"n_layers": 2, "attention": {**near, "window_layers": layers}})
    config = arguments.resolve(9)
    names = [near["kernel"] if layers is None or layer in layers else "auto" for layer in range(2)]
    for stack in (config.encoder, config.decoder):
        assert [block.attention.kernel for block in stack.blocks] == names
    assert {block.cross_attention.kernel for block in config.decoder.blocks} == {"auto"}
    assert Brief.of(config).resolve() == config


def test_other_kernels_are_those_of_every_attention():
    config = ModelArguments.parse({"attention": {"window": 8, "window_layers": (1,), "kernel": "reference"}}).resolve(9)
    for block in config.decoder.blocks:
        assert (block.attention.kernel, block.cross_attention.kernel) == ("reference", "reference")
    assert Brief.of(config).resolve() == config
