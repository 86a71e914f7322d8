from __future__ import annotations

import pytest

from glassformer.checkpoint.foreign import from_foreign
from glassformer.core.errors import CheckpointError
from glassformer.families.qwen import QWEN_2, QWEN_3

from .parity import (
    assert_round_trip,
    assert_same_gradients,
    assert_same_logits,
    parameters_of,
    reference,
    saved,
    transformers,
)

WINDOW = {"use_sliding_window": True, "sliding_window": 3}
FULL, NEAR = "full_attention", "sliding_attention"
YARN = {
    "rope_parameters": {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16}
}

CASES = {
    "2-plain": (QWEN_2, {}),
    "2-tied": (QWEN_2, {"tie_word_embeddings": True}),
    "2-window-from-layer": (QWEN_2, WINDOW | {"max_window_layers": 1}),
    "2-window-everywhere": (QWEN_2, WINDOW | {"max_window_layers": 0}),
    "2-window-nowhere": (QWEN_2, WINDOW | {"max_window_layers": 3}),
    "2-window-by-layer": (QWEN_2, WINDOW | {"layer_types": [NEAR, FULL, NEAR]}),
    "2-window-off": (QWEN_2, {"use_sliding_window": False, "sliding_window": 3, "max_window_layers": 0}),
    "2-yarn": (QWEN_2, YARN),
    "3-plain": (QWEN_3, {"head_dim": 12}),
    "3-tied": (QWEN_3, {"head_dim": 8, "tie_word_embeddings": True}),
    "3-offsets": (QWEN_3, {"head_dim": 12, "attention_bias": True}),
    "3-window-from-layer": (QWEN_3, WINDOW | {"head_dim": 12, "max_window_layers": 2}),
    "3-window-by-layer": (QWEN_3, WINDOW | {"head_dim": 12, "layer_types": [FULL, NEAR, FULL]}),
    "3-yarn": (QWEN_3, YARN | {"head_dim": 12}),
}


def builder(family, body=False, **changes):
    small = {
        "vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 64,
    }  # fmt: skip
    name = "Qwen2" if family is QWEN_2 else "Qwen3"
    cls = getattr(transformers, f"{name}Model" if body else f"{name}ForCausalLM")
    return lambda: cls(getattr(transformers, f"{name}Config")(**(small | changes)))


every = pytest.mark.parametrize(("family", "changes"), CASES.values(), ids=CASES)


@every
def test_logits_are_the_references(family, changes):
    assert_same_logits(builder(family, **changes), family)


@every
def test_checkpoint_goes_both_ways(family, changes):
    assert_round_trip(builder(family, **changes), family)


@pytest.mark.parametrize("name", ["2-window-by-layer", "3-offsets"])
def test_gradients_are_the_references(name):
    family, changes = CASES[name]
    assert_same_gradients(builder(family, **changes), family)


@pytest.mark.parametrize("family", [QWEN_2, QWEN_3], ids=["2", "3"])
def test_body_alone_has_the_references_states(family):
    assert_same_logits(builder(family, body=True, head_dim=8), family)


def test_windows_are_read_as_older_files_say_them():
    """Without `layer_types`: all layers from `max_window_layers` on."""
    settings, tensors = saved(reference(builder(QWEN_2, **WINDOW, max_window_layers=1)))
    assert settings.pop("layer_types") == [FULL, NEAR, NEAR]
    config = from_foreign(QWEN_2, settings, tensors).config
    assert [block.attention.window for block in config.decoder.blocks] == [None, 3, 3]
    assert QWEN_2.write(config) == QWEN_2.write(config) | WINDOW | {
        "max_window_layers": 1, "layer_types": [FULL, NEAR, NEAR],
    }  # fmt: skip


def test_settings_of_qwen_2_5_are_read():
    settings = {
        "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
        "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
        "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 24, "model_type": "qwen2",
        "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "transformers_version": "4.40.1", "use_cache": True, "use_mrope": False, "use_sliding_window": False,
        "vocab_size": 151936,
    }  # fmt: skip
    assert QWEN_2.read(settings) == QWEN_2.presets["qwen2.5-0.5b"].arguments.resolve(151_936)


def test_settings_of_qwen_3_are_read():
    settings = {
        "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024,
        "initializer_range": 0.02, "intermediate_size": 3072, "max_position_embeddings": 40960,
        "max_window_layers": 28, "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28,
        "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000000,
        "sliding_window": None, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "transformers_version": "4.51.0", "use_cache": True, "use_sliding_window": False, "vocab_size": 151936,
    }  # fmt: skip
    assert QWEN_3.read(settings) == QWEN_3.presets["qwen3-0.6b"].arguments.resolve(151_936)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer_types": [FULL, NEAR]}, "it must name the kind of each of 3 layers"),
        ({"layer_types": [FULL, NEAR, NEAR]}, "there is no window: see use_sliding_window"),
        ({"layer_types": [FULL, "chunked_attention", FULL]}, "layer_types has 'chunked_attention'"),
        ({"layer_types": NEAR}, "layer_types is 'sliding_attention'"),
        ({"num_hidden_layers": "3"}, "num_hidden_layers is '3'"),
        ({"use_mrope": True}, "use_mrope is True; only False"),
        ({"attention_bias": True}, "attention_bias is True, and not known here"),
    ],
)
def test_wrong_windows_are_named(changes, message):
    settings, _ = saved(reference(builder(QWEN_2)))
    with pytest.raises(CheckpointError, match=message):
        QWEN_2.read(settings | changes)


PRESETS = {name: size for family in (QWEN_2, QWEN_3) for name, size in family.presets.items() if "tiny" not in name}

CUT = {"qwen2.5-14b": 14.7, "qwen2.5-32b": 32.5}
"""What the model cards print of 14.77 and 32.76 billion."""


@pytest.mark.parametrize("name", PRESETS)
def test_published_sizes_have_the_published_numbers_of_parameters(name):
    size = PRESETS[name]
    assert parameters_of(size.arguments.resolve(size.vocab_size)) == size.parameters
    printed = float(size.source.rpartition(": ")[2].removesuffix("B"))
    assert printed == CUT[name] if name in CUT else abs(size.parameters / 1e9 - printed) < (0.05 if printed % 1 else 1)
