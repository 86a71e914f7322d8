from __future__ import annotations

import pytest
import torch

from glassformer.checkpoint.foreign import from_foreign, to_foreign
from glassformer.core.errors import CheckpointError, UnsupportedError
from glassformer.families.gpt_neox import GPT_NEOX
from glassformer.models.transformer import Transformer

from .parity import (
    assert_round_trip,
    assert_same_gradients,
    assert_same_logits,
    parameters_of,
    reference,
    saved,
    transformers,
)

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}

CASES = {
    "plain": {},
    "in-turn": {"use_parallel_residual": False},
    "no-offsets-in-attention": {"attention_bias": False},
    "tied": {"tie_word_embeddings": True},
    "whole-heads": {"rotary_pct": 1.0},
    "base": {"rotary_emb_base": 50.0, "rotary_pct": 0.5},
    "share-in-parameters": {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.75}},
    "linear": {"rope_parameters": {"rope_type": "linear", "factor": 4.0}, "rotary_pct": 0.5},
    "yarn-of-a-share": {"rope_parameters": YARN | {"rope_theta": 100.0}, "rotary_pct": 0.5},
    "gelu-fast": {"hidden_act": "gelu_fast"},
    "eps": {"layer_norm_eps": 0.02},
}


def builder(cls=None, **changes):
    small = {
        "vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "max_position_embeddings": 64,
    }  # fmt: skip
    return lambda: (cls or transformers.GPTNeoXForCausalLM)(transformers.GPTNeoXConfig(**(small | changes)))


every = pytest.mark.parametrize("changes", CASES.values(), ids=CASES)


@every
def test_logits_are_the_references(changes):
    assert_same_logits(builder(**changes), GPT_NEOX)


@every
def test_checkpoint_goes_both_ways(changes):
    assert_round_trip(builder(**changes), GPT_NEOX)


@pytest.mark.parametrize("name", ["plain", "in-turn"])
def test_gradients_are_the_references(name):
    assert_same_gradients(builder(**CASES[name]), GPT_NEOX)


def test_body_alone_has_the_references_states():
    assert_same_logits(builder(transformers.GPTNeoXModel), GPT_NEOX)


def test_settings_and_masks_of_the_first_release_are_read():
    settings = {
        "architectures": ["GPTNeoXForCausalLM"], "attention_probs_dropout_prob": 0, "bos_token_id": 0,
        "eos_token_id": 0, "hidden_act": "gelu_fast", "hidden_dropout_prob": 0, "hidden_size": 6144,
        "initializer_range": 0.02, "intermediate_size": 24576, "layer_norm_eps": 1e-05,
        "max_position_embeddings": 2048, "model_type": "gpt_neox", "num_attention_heads": 64, "num_hidden_layers": 44,
        "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": False, "torch_dtype": "float16",
        "transformers_version": "4.19.0.dev0", "use_cache": True, "vocab_size": 50432,
    }  # fmt: skip
    assert GPT_NEOX.read(settings) == GPT_NEOX.presets["gpt-neox-20b"].arguments.resolve(50_432)
    settings, tensors = saved(reference(builder()))
    expected = from_foreign(GPT_NEOX, settings, tensors)
    for i in range(2):
        name = f"gpt_neox.layers.{i}.attention"
        tensors |= {
            f"{name}.bias": torch.ones(1, 1, 64, 64).tril().bool(), f"{name}.masked_bias": torch.tensor(-1e9),
            f"{name}.rotary_emb.inv_freq": torch.ones(1),
        }  # fmt: skip
    for one, other in zip(from_foreign(GPT_NEOX, settings, tensors).parameters(), expected.parameters(), strict=True):
        assert torch.equal(one, other)


def test_every_wrong_setting_is_named_at_once():
    settings, _ = saved(reference(builder()))
    wrong = {"hidden_act": "quick_gelu", "use_parallel_residuals": True, "rope_parameters": {"rope_type": "longrope"}}
    del settings["hidden_size"]
    with pytest.raises(CheckpointError) as error:
        GPT_NEOX.read(settings | wrong)
    lines = str(error.value).splitlines()[1:]
    assert sorted(line.split()[0] for line in lines) == ["hidden_act", "hidden_size", "rope", "use_parallel_residuals"]
    with pytest.raises(CheckpointError, match="3 numbers of 12 turn"):
        GPT_NEOX.read(saved(reference(builder(num_attention_heads=2, hidden_size=24)))[0])


def test_every_wrong_tensor_is_named_at_once():
    settings, tensors = saved(reference(builder()))
    del tensors["embed_out.weight"]
    tensors["gpt_neox.layers.0.attention.query_key_value.weight"] = torch.zeros(96, 31)
    tensors["gpt_neox.layers.2.mlp.dense_h_to_4h.bias"] = torch.zeros(48)
    with pytest.raises(CheckpointError) as error:
        from_foreign(GPT_NEOX, settings, tensors)
    assert [line.split()[0:2] for line in str(error.value).splitlines()[1:]] == [
        ["unexpected", "gpt_neox.layers.2.mlp.dense_h_to_4h.bias"],
        ["gpt_neox.layers.0.attention.query_key_value.weight", "has"],
        ["missing", "embed_out.weight"],
    ]


def test_model_of_another_kind_is_not_written():
    arguments = GPT_NEOX.presets["gpt-neox-tiny"].arguments
    for update in ({"parallel_norms": 1}, {"n_kv_heads": 2}, {"norm": "rms"}, {"gated": True}, {"norm_bias": False}):
        with pytest.raises(UnsupportedError, match="none that a gpt_neox checkpoint can hold"):
            to_foreign(Transformer(arguments.model_copy(update=update).resolve(40)), GPT_NEOX)


@pytest.mark.parametrize("name", [name for name in GPT_NEOX.presets if name != "gpt-neox-tiny"])
def test_published_sizes_have_the_published_numbers_of_parameters(name):
    size = GPT_NEOX.presets[name]
    assert parameters_of(size.arguments.resolve(size.vocab_size)) == size.parameters
