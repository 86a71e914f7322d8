from __future__ import annotations

import pytest
import torch

from glassformer.checkpoint.foreign import from_foreign, to_foreign
from glassformer.core.errors import CheckpointError, UnsupportedError
from glassformer.families.llama import LLAMA
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
BLENDED = YARN | {"original_max_position_embeddings": 64, "beta_fast": 3.0, "beta_slow": 0.2}
"""From pair 1.06 to pair 3.41, so that both ends show."""

ROPES = {
    "theta": {"rope_type": "default", "rope_theta": 50.0},
    "linear": {"rope_type": "linear", "factor": 4.0},
    "llama3": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    },
    "yarn": YARN,
    "yarn-factor": YARN | {"attention_factor": 0.7},
    "yarn-no-factor": {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 16},
    "yarn-mscale": YARN | {"mscale": 0.7, "mscale_all_dim": 0.5},
    "yarn-mscale-alone": YARN | {"mscale": 0.7},
    "yarn-beta": BLENDED,
    "yarn-between-pairs": BLENDED | {"truncate": False},
}  # fmt: skip

CASES = {
    "plain": {},
    "equal-heads": {"num_key_value_heads": 4},
    "one-kv-head": {"num_key_value_heads": 1},
    "head-dim": {"head_dim": 12},
    "tied": {"tie_word_embeddings": True},
    "offsets": {"attention_bias": True, "mlp_bias": True},
    "gelu": {"hidden_act": "gelu_pytorch_tanh"},
    "relu": {"hidden_act": "relu"},
    "eps": {"rms_norm_eps": 0.02},
    **{
        name: {
            "rope_parameters": {"rope_theta": 100.0} | rope,
            "max_position_embeddings": 4 * rope.get("original_max_position_embeddings", 16),
        }
        for name, rope in ROPES.items()
    },
}


def builder(cls=None, **changes):
    small = {
        "vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 64,
    }  # fmt: skip
    return lambda: (cls or transformers.LlamaForCausalLM)(transformers.LlamaConfig(**(small | changes)))


every = pytest.mark.parametrize("changes", CASES.values(), ids=CASES)


@every
def test_logits_are_the_references(changes):
    assert_same_logits(builder(**changes), LLAMA)


@every
def test_checkpoint_goes_both_ways(changes):
    assert_round_trip(builder(**changes), LLAMA)


@pytest.mark.parametrize("name", ["offsets", "tied", "yarn"])
def test_gradients_are_the_references(name):
    assert_same_gradients(builder(**CASES[name]), LLAMA)


def test_body_alone_has_the_references_states():
    build = builder(transformers.LlamaModel)
    assert_same_logits(build, LLAMA)
    assert_round_trip(build, LLAMA)


def test_settings_of_the_first_published_files_are_read():
    """As converted in 2023: no head_dim, no key/value heads, a second name of the length."""
    settings = {
        "architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
        "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008, "max_position_embeddings": 2048,
        "max_sequence_length": 2048, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
        "pad_token_id": 0, "rms_norm_eps": 1e-06, "tie_word_embeddings": False, "torch_dtype": "float16",
        "transformers_version": "4.28.0.dev0", "use_cache": True, "vocab_size": 32000,
    }  # fmt: skip
    assert LLAMA.read(settings) == LLAMA.presets["llama-7b"].arguments.resolve(32_000)


def test_settings_of_llama_3_2_are_read():
    settings = {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "head_dim": 64, "hidden_act": "silu",
        "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 131072,
        "mlp_bias": False, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16,
        "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
        "rope_scaling": {
            "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        },
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": "4.45.0.dev0",
        "use_cache": True, "vocab_size": 128256,
    }  # fmt: skip
    assert LLAMA.read(settings) == LLAMA.presets["llama-3.2-1b"].arguments.resolve(128_256)


def test_settings_that_other_tools_leave_behind_are_read():
    """As in SmolLM2, and in a file that holds every setting that there is."""
    settings, tensors = saved(reference(builder()))
    settings |= {"is_llama_config": True, "rope_interleaved": False, "transformers.js_config": {"dtype": "q4"}}
    settings |= {"is_encoder_decoder": False, "add_cross_attention": False, "cross_attention_hidden_size": None}
    assert LLAMA.read(settings, tensors) == LLAMA.read(saved(reference(builder()))[0], tensors)
    with pytest.raises(CheckpointError, match="rope_interleaved is True; only False can be done here"):
        LLAMA.read(settings | {"rope_interleaved": True})


def test_o11_tied_head_may_be_stored_again_but_not_differ():
    settings, tensors = saved(reference(builder(tie_word_embeddings=True)))
    table = tensors["model.embed_tokens.weight"]
    model = from_foreign(LLAMA, settings, tensors | {"lm_head.weight": table.clone()})
    assert model.head.weight is model.decoder.input.embedding.weight
    with pytest.raises(CheckpointError, match=r"lm_head.weight differs from model.embed_tokens.weight"):
        from_foreign(LLAMA, settings, tensors | {"lm_head.weight": table + 1})


def test_every_wrong_setting_is_named_at_once():
    settings = {
        "model_type": "llama", "vocab_size": 61, "num_hidden_layers": 2, "intermediate_size": 48, "hidden_act": "relu2",
        "num_attention_heads": 4, "rope_scaling": {"type": "dynamic", "factor": 2.0}, "rms_norm_epsilon": 1e-5,
    }  # fmt: skip
    with pytest.raises(CheckpointError) as error:
        LLAMA.read(settings)
    lines = str(error.value).splitlines()
    assert lines[0] == "this llama config cannot be read:"
    assert sorted(line.split()[0] for line in lines[1:]) == ["hidden_act", "hidden_size", "rms_norm_epsilon", "rope"]
    assert "hidden_size is missing" in str(error.value)
    assert "did you mean 'rms_norm_eps'" in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_key_value_heads": 3}, "n_kv_heads must be one of"),
        ({"hidden_size": "32"}, "d_model is '32'"),
        ({"num_hidden_layers": None}, "n_layers is None"),
        ({"hidden_act": ["silu"]}, "hidden_act is"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "known here are LlamaForCausalLM, LlamaModel"),
    ],
)
def test_settings_that_do_not_fit_are_a_checkpoint_error(changes, message):
    settings, _ = saved(reference(builder()))
    with pytest.raises((CheckpointError, UnsupportedError), match=message):
        LLAMA.read(settings | changes)


def test_every_wrong_tensor_is_named_at_once():
    settings, tensors = saved(reference(builder()))
    del tensors["model.layers.1.self_attn.k_proj.weight"], tensors["lm_head.weight"]
    tensors["model.norm.weight"] = torch.zeros(31)
    tensors["model.layers.0.self_attn.q_proj.bias"] = torch.zeros(32)
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.zeros(4)
    with pytest.raises(CheckpointError) as error:
        from_foreign(LLAMA, settings, tensors)
    assert str(error.value).splitlines() == [
        "the tensors do not fit the config:",
        "  unexpected model.layers.0.self_attn.q_proj.bias",
        "  missing model.layers.1.self_attn.k_proj.weight",
        "  model.norm.weight has shape (31,), the config needs (32,)",
        "  missing lm_head.weight",
    ]


def test_model_of_another_kind_is_not_written():
    arguments = LLAMA.presets["llama-tiny"].arguments
    for update in ({"norm": "layer"}, {"positions": "alibi"}, {"gated": False}, {"head_bias": True}):
        with pytest.raises(UnsupportedError, match="none that a llama checkpoint can hold"):
            to_foreign(Transformer(arguments.model_copy(update=update).resolve(40)), LLAMA)


@pytest.mark.parametrize("name", [name for name in LLAMA.presets if name != "llama-tiny"])
def test_published_sizes_have_the_published_numbers_of_parameters(name):
    """The paper cuts 65.29 to 65.2, as its other numbers round."""
    size = LLAMA.presets[name]
    assert parameters_of(size.arguments.resolve(size.vocab_size)) == size.parameters
    printed = size.source.rpartition(": ")[2].removesuffix("B")
    off = abs(size.parameters / 1e9 - float(printed))
    assert off < (0.1 if name == "llama-65b" else 0.05 if "." in printed else 2.0)
