"""T5 against the reference library: versions 1.0 and 1.1, and all that their config.json can say."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from glassformer.checkpoint.foreign import from_foreign, to_foreign
from glassformer.checkpoint.reference import exactly
from glassformer.core.errors import CheckpointError, UnsupportedError
from glassformer.core.places import Places
from glassformer.families.registry import preset, published
from glassformer.families.t5 import T5
from glassformer.models.transformer import Transformer

from .parity import (
    assert_round_trip,
    assert_same_gradients,
    assert_same_logits,
    largest_difference,
    loaded,
    our_answer,
    parameters_of,
    reference,
    rows,
    saved,
    their_answer,
    transformers,
)

SMALL = {
    "vocab_size": 40,
    "d_model": 16,
    "d_kv": 6,
    "d_ff": 24,
    "num_layers": 2,
    "num_heads": 3,
    "dropout_rate": 0.0,
    "decoder_start_token_id": 0,
}


def t5(**settings: Any) -> Callable[[], nn.Module]:
    """The reference's model; where `lm_head` is true its head has a matrix of its own."""
    untied = settings.pop("lm_head", False)

    def build() -> nn.Module:
        model = transformers.T5ForConditionalGeneration(transformers.T5Config(**{**SMALL, **settings}))
        if untied:
            model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
            model.all_tied_weights_keys.pop("lm_head.weight")
        return model

    return build


V11 = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "lm_head": True}

SWITCHES = {
    "1.0": {},
    "1.1": V11,
    "1.1-tied": {**V11, "lm_head": False},
    "1.0-untied": {"tie_word_embeddings": False, "scale_decoder_outputs": True, "lm_head": True},
    "fewer-decoder-layers": {"num_decoder_layers": 1},
    "more-decoder-layers": {"num_layers": 1, "num_decoder_layers": 3},
    "wide-heads": {"d_kv": 11, "num_heads": 4},
    "buckets": {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 20},
    "eps": {"layer_norm_epsilon": 1e-2},
    "gelu": {"feed_forward_proj": "gelu"},
    "gelu_new": {"feed_forward_proj": "gelu_new"},
    "silu": {"feed_forward_proj": "silu"},
    "gated-silu": {"feed_forward_proj": "gated-silu"},
    "gated-relu": {"feed_forward_proj": "gated-relu"},
    "gated-exact-gelu": {"feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu"},
}

switches = pytest.mark.parametrize("settings", [pytest.param(value, id=name) for name, value in SWITCHES.items()])


@switches
def test_logits_are_t5s(settings):
    assert_same_logits(t5(**settings), T5)


@switches
def test_round_trip_is_bit_equal(settings):
    assert_round_trip(t5(**settings), T5)


@pytest.mark.parametrize("settings", [{}, V11], ids=["1.0", "1.1"])
def test_gradients_are_t5s(settings):
    assert_same_gradients(t5(**settings), T5)


def test_long_texts_fall_into_the_reference_s_buckets():
    """Buckets that many distances share, and beyond the largest distance, in both directions; the borders between
    them depend on rounding, so that they are computed in float32 on both sides whatever the model's type."""
    hf = reference(t5(), torch.float32, std=0.2)
    ours = from_foreign(T5, *saved(hf))
    given = rows(40, "right", lengths=(200, 150))
    with torch.no_grad():
        mine, theirs = our_answer(ours, given), their_answer(hf, given)
    real = given.places.is_token
    assert largest_difference(mine[real], theirs[real]) <= 2e-5


@torch.no_grad()
def test_cached_steps_are_the_reference_s():
    """In float64, one token at a time, with the reference's own cache."""
    hf = reference(t5(**V11), torch.float64)
    model = from_foreign(T5, *saved(hf))
    given = rows(40, "right", lengths=(9,))
    memory = model.encode(given.source, places=given.source_places)
    cache, theirs = model.new_cache(1, 9), None
    with exactly(torch.float64):
        states = hf.encoder(given.source, attention_mask=given.source_places.is_token.long())
    for token in given.tokens.split(1, dim=1):
        mine = model(token, memory=memory, cache=cache)
        cache.advance([1])
        with exactly(torch.float64):
            out = hf(
                encoder_outputs=states,
                attention_mask=given.source_places.is_token.long(),
                decoder_input_ids=token,
                cache=theirs,
                use_cache=True,
            )
        theirs = out.cache
        assert largest_difference(mine, out.logits) <= 1e-9


def spelled(settings: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A config.json with settings changed, or taken out where they are `...`."""
    return {name: value for name, value in {**settings, **changes}.items() if value is not ...}


@pytest.mark.parametrize(
    ("said", "has_head", "tied", "scaled"),
    [
        ({"tie_word_embeddings": ..., "scale_decoder_outputs": ...}, False, True, True),  # 1.0 as published
        ({"tie_word_embeddings": True, "scale_decoder_outputs": ...}, False, True, True),
        ({"tie_word_embeddings": False, "scale_decoder_outputs": ...}, True, False, False),  # 1.1 as published
        ({"tie_word_embeddings": False, "scale_decoder_outputs": ...}, False, True, False),  # nothing else to tie to
        ({"tie_word_embeddings": True, "scale_decoder_outputs": False}, True, False, False),  # 1.1 of version 5
        ({"tie_word_embeddings": True, "scale_decoder_outputs": False}, False, True, False),
        ({"tie_word_embeddings": False, "scale_decoder_outputs": True}, True, False, True),
    ],
)
@torch.no_grad()
def test_both_spellings_mean_what_the_reference_makes_of_them(said, has_head, tied, scaled):
    hf = reference(t5(**(V11 if has_head else {})))
    settings, tensors = saved(hf)
    settings = spelled(settings, **said)
    ours = from_foreign(T5, settings, tensors)
    assert (ours.config.head.tied, ours.config.head.scaled) == (tied, scaled)
    given = rows(40, "right")
    theirs = loaded(transformers.T5ForConditionalGeneration, settings, tensors)
    expected = their_answer(theirs, given)
    real = given.places.is_token
    assert largest_difference(our_answer(ours, given)[real], expected[real]) <= 2e-5
    again = loaded(transformers.T5ForConditionalGeneration, *to_foreign(ours, T5))
    assert torch.equal(their_answer(again, given), expected)


def test_a_config_alone_says_whether_the_head_is_tied():
    settings, _ = saved(reference(t5(**V11)))
    assert T5.read(spelled(settings, scale_decoder_outputs=...)).head.tied
    assert not T5.read(spelled(settings, tie_word_embeddings=False, scale_decoder_outputs=...)).head.tied


def test_o11_tied_head_that_is_stored_twice_stays_one_parameter():
    """As the published files of version 1.0 hold it, under all four names."""
    settings, tensors = saved(reference(t5()))
    settings = spelled(settings, tie_word_embeddings=..., scale_decoder_outputs=...)
    names = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
    tensors |= {name: tensors["shared.weight"].clone() for name in names}
    ours = from_foreign(T5, settings, tensors)
    assert ours.head.weight is ours.decoder.input.embedding.weight is ours.encoder.input.embedding.weight
    assert not set(names) & to_foreign(ours, T5)[1].keys()


def test_o11_table_under_the_name_of_a_copy_is_found():
    settings, tensors = saved(reference(t5()))
    table = tensors.pop("shared.weight")
    ours = from_foreign(T5, settings, {**tensors, "decoder.embed_tokens.weight": table})
    assert torch.equal(ours.head.weight, table)


def test_o11_tied_head_with_a_matrix_that_differs_is_refused():
    """The reference warns, ties nothing and goes on with both; version 5 saves such a model with a config that says
    what is scaled, and then the stored matrix is the head's own."""
    settings, tensors = saved(reference(t5()))
    tensors["lm_head.weight"] = tensors["shared.weight"] + 1
    with pytest.raises(CheckpointError, match=r"lm_head\.weight differs from shared\.weight"):
        from_foreign(T5, spelled(settings, scale_decoder_outputs=...), tensors)
    assert not from_foreign(T5, settings, tensors).config.head.tied


def test_every_tensor_is_accounted_for():
    settings, tensors = saved(reference(t5(**V11)))
    tensors["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = torch.zeros(32, 3)
    from_foreign(T5, settings, tensors)  # old files hold it, and nothing ever read it
    tensors["decoder.block.2.layer.0.layer_norm.weight"] = torch.zeros(16)
    del tensors["encoder.final_layer_norm.weight"]
    tensors["encoder.block.1.layer.0.SelfAttention.o.weight"] = torch.zeros(16, 16)
    tensors["encoder.embed_tokens.weight"] = tensors["shared.weight"] * 2
    with pytest.raises(CheckpointError) as error:
        from_foreign(T5, settings, tensors)
    lines = str(error.value).splitlines()
    assert len(lines) == 5
    for said in (
        "unexpected decoder.block.2.layer.0.layer_norm.weight",
        "missing encoder.final_layer_norm.weight",
        "encoder.block.1.layer.0.SelfAttention.o.weight has shape (16, 16), the config needs (16, 18)",
        "encoder.embed_tokens.weight differs from shared.weight",
    ):
        assert any(said in line for line in lines), said


def test_bad_config_is_refused_in_one_message():
    settings, _ = saved(reference(t5()))
    with pytest.raises(CheckpointError) as error:
        T5.read(
            spelled(
                settings,
                d_ff=...,
                dense_act_fn="mish",
                is_encoder_decoder=False,
                d_modell=16,
            )
        )
    for said in ("d_ff is missing", "the activation is 'mish'", "is_encoder_decoder is False", "d_modell is 16"):
        assert said in str(error.value)
    with pytest.raises(CheckpointError, match="must be an activation, or 'gated-' and one"):
        T5.read(spelled(settings, feed_forward_proj="fast-gelu", dense_act_fn=...))


SIZES = [name for name, size in T5.presets.items() if size.parameters is not None]


@pytest.mark.parametrize("name", SIZES)
def test_preset_has_the_published_size(name):
    size = published(name)
    count = parameters_of(size.arguments.resolve(size.vocab_size))
    assert size.parameters in (count, f"{count / 1e9:.0f}B")


@pytest.mark.parametrize("name", T5.presets)
def test_preset_is_one_that_the_reference_reads(name):
    config = preset(name).resolve(100)
    assert T5.read(T5.write(config)) == config
    assert transformers.T5Config(**T5.write(config)).scale_decoder_outputs == config.head.scaled


PUBLISHED_11 = """{"architectures": ["T5ForConditionalGeneration"], "d_ff": 2048, "d_kv": 64, "d_model": 768,
"decoder_start_token_id": 0, "dense_act_fn": "gelu_new", "dropout_rate": 0.1, "eos_token_id": 1, "feed_forward_proj":
"gated-gelu", "initializer_factor": 1.0, "is_encoder_decoder": true, "is_gated_act": true, "layer_norm_epsilon": 1e-06,
"model_type": "t5", "num_decoder_layers": 12, "num_heads": 12, "num_layers": 12, "output_past": true, "pad_token_id": 0,
"relative_attention_max_distance": 128, "relative_attention_num_buckets": 32, "tie_word_embeddings": false,
"torch_dtype": "float32", "transformers_version": "4.24.0", "use_cache": true, "vocab_size": 32128}"""


def test_preset_is_what_a_published_config_describes():
    assert T5.read(json.loads(PUBLISHED_11)) == preset("t5-v1.1-base").resolve(32_128)


def test_a_model_that_t5_cannot_say_is_not_written():
    model = Transformer(preset("paper-base").model_copy(update={"n_layers": 1}).resolve(40))
    with pytest.raises(UnsupportedError, match="none that a t5 checkpoint can hold"):
        to_foreign(model, T5)


def test_o15_relative_positions_of_a_chunk_count_from_its_first_token():
    """A chunk after a cached prefix sees the table's rows of its own positions, not those of its corner."""
    model = from_foreign(T5, *saved(reference(t5())))
    tokens = rows(40, "right", lengths=(9,)).tokens
    memory = model.encode(tokens[:, :3])
    with torch.no_grad():
        full = model(tokens, memory=memory)
        cache = model.new_cache(1, 9)
        model(tokens[:, :6], memory=memory, cache=cache)
        cache.advance([6])
        chunk = model(tokens[:, 6:], memory=memory, cache=cache, places=Places.full(3, begin=6))
    torch.testing.assert_close(chunk, full[:, 6:], atol=1e-5, rtol=1e-5)


def test_o18_heads_may_be_wider_than_the_stream():
    """Version 1.1 small has 6 heads of 64 beside a stream of 512."""
    block = preset("t5-v1.1-small").resolve(100).decoder.blocks[0]
    with torch.device("meta"):
        model = Transformer(preset("t5-v1.1-small").resolve(100))
    attention = model.decoder.blocks[0].attention
    assert (block.attention.n_heads, block.attention.d_head) == (6, 64)
    assert attention.qkv.weight.shape == (3 * 384, 512)
    assert attention.output.weight.shape == (512, 384)
