from __future__ import annotations

import pytest

from glassformer.core.errors import CheckpointError
from glassformer.families.mistral import MISTRAL

from .parity import assert_round_trip, assert_same_gradients, assert_same_logits, parameters_of, transformers

CASES = {
    "window": {"sliding_window": 3},
    "window-of-one": {"sliding_window": 1},
    "wide-window": {"sliding_window": 64},
    "no-window": {"sliding_window": None},
    "head-dim": {"head_dim": 12, "sliding_window": 4},
    "tied": {"tie_word_embeddings": True, "sliding_window": 2},
    "yarn": {
        "sliding_window": None,
        "rope_parameters": {
            "rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16,
        },
    },
}  # fmt: skip


def builder(cls=None, **changes):
    small = {
        "vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 64,
    }  # fmt: skip
    return lambda: (cls or transformers.MistralForCausalLM)(transformers.MistralConfig(**(small | changes)))


every = pytest.mark.parametrize("changes", CASES.values(), ids=CASES)


@every
def test_logits_are_the_references(changes):
    assert_same_logits(builder(**changes), MISTRAL)


@every
def test_checkpoint_goes_both_ways(changes):
    assert_round_trip(builder(**changes), MISTRAL)


def test_gradients_are_the_references():
    assert_same_gradients(builder(sliding_window=3), MISTRAL)


def test_body_alone_has_the_references_states():
    assert_same_logits(builder(transformers.MistralModel, sliding_window=3), MISTRAL)


def test_settings_of_the_first_release_are_read():
    settings = {
        "architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
        "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 32768,
        "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
        "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "transformers_version": "4.34.0.dev0", "use_cache": True, "vocab_size": 32000,
    }  # fmt: skip
    assert MISTRAL.read(settings) == MISTRAL.presets["mistral-7b"].arguments.resolve(32_000)


def test_a_window_left_out_is_the_references_and_offsets_are_unknown():
    settings = {
        "vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 16,
    }  # fmt: skip
    attention = MISTRAL.read(settings).decoder.blocks[1].attention
    assert (attention.window, attention.n_kv_heads) == (4096, 8)
    with pytest.raises(CheckpointError, match="attention_bias is True, and not known here"):
        MISTRAL.read(settings | {"attention_bias": True})


@pytest.mark.parametrize("name", ["mistral-7b", "mistral-7b-v0.3"])
def test_published_sizes_have_the_published_numbers_of_parameters(name):
    size = MISTRAL.presets[name]
    assert parameters_of(size.arguments.resolve(size.vocab_size)) == size.parameters
