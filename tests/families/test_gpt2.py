from __future__ import annotations

import pytest
import torch

from glassformer.checkpoint.foreign import from_foreign, to_foreign
from glassformer.core.errors import CheckpointError, UnsupportedError
from glassformer.families.gpt2 import GPT2
from glassformer.models.transformer import Transformer

from .parity import (
    Rows,
    assert_same_gradients,
    assert_same_logits,
    ours_from,
    parameters_of,
    reference,
    saved,
    transformers,
)
from .parity import assert_round_trip as round_trip

CASES = {
    "plain": {},
    "inner": {"n_inner": 20},
    "relu": {"activation_function": "relu"},
    "gelu": {"activation_function": "gelu"},
    "unscaled": {"scale_attn_weights": False},
    "eps": {"layer_norm_epsilon": 0.03},
    "untied": {"tie_word_embeddings": False},
}


def builder(cls=None, **changes):
    small = {
        "vocab_size": 40, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 4, "bos_token_id": 1,
        "eos_token_id": 1,
    }  # fmt: skip
    return lambda: (cls or transformers.GPT2LMHeadModel)(transformers.GPT2Config(**(small | changes)))


def states(model: Transformer, given: Rows) -> torch.Tensor:
    return model(given.tokens, places=given.places, outputs="hidden")


every = pytest.mark.parametrize("changes", CASES.values(), ids=CASES)


@every
def test_logits_are_the_references(changes):
    assert_same_logits(builder(**changes), GPT2)


@every
def test_checkpoint_goes_both_ways(changes):
    round_trip(builder(**changes), GPT2)


def test_gradients_are_the_references():
    assert_same_gradients(builder(), GPT2)


def test_body_alone_has_the_references_states():
    build = builder(transformers.GPT2Model)
    assert_same_logits(build, GPT2, ours=states)
    round_trip(build, GPT2)


def test_names_without_prefix_and_old_buffers_are_read():
    """The first published files hold the body's names alone, and the triangle of every layer."""
    hf = reference(builder())
    settings, tensors = saved(hf)
    old = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    old |= {f"h.{i}.attn.bias": torch.ones(1, 1, 16, 16).tril() for i in range(2)}
    old |= {f"h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(2)}
    model, expected = from_foreign(GPT2, settings | {"n_ctx": 16}, old), ours_from(hf, GPT2)
    for name, parameter in expected.named_parameters():
        assert torch.equal(model.get_parameter(name), parameter)


def test_labels_that_a_language_model_has_none_of_are_read_over():
    """As in DistilGPT-2."""
    settings, _ = saved(reference(builder()))
    labels = {"_num_labels": 1, "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    assert GPT2.read(settings | labels) == GPT2.read(settings)


def test_o11_file_may_hold_the_tied_table_under_either_name_or_both():
    hf = reference(builder())
    settings, tensors = saved(hf)
    table = tensors["transformer.wte.weight"]
    without = {name: tensor for name, tensor in tensors.items() if name != "transformer.wte.weight"}
    for stored in (tensors | {"lm_head.weight": table.clone()}, without | {"lm_head.weight": table}):
        model = from_foreign(GPT2, settings, stored)
        assert model.head.weight is model.decoder.input.embedding.weight
        assert torch.equal(model.head.weight, table)
    with pytest.raises(CheckpointError, match=r"lm_head.weight differs from transformer.wte.weight.*tie_word"):
        from_foreign(GPT2, settings, tensors | {"lm_head.weight": table + 1})


def test_every_wrong_setting_is_named_at_once():
    settings, _ = saved(reference(builder()))
    del settings["n_head"]
    settings |= {"activation_function": "quick_gelu", "reorder_and_upcast_attn": True, "n_hed": 3}
    settings |= {"scale_attn_by_inverse_layer_idx": True}
    with pytest.raises(CheckpointError) as error:
        GPT2.read(settings)
    lines = str(error.value).splitlines()
    assert lines[0] == "this gpt2 config cannot be read:"
    assert sorted(line.split()[0] for line in lines[1:]) == [
        "activation_function", "n_head", "n_hed", "reorder_and_upcast_attn", "scale_attn_by_inverse_layer_idx",
    ]  # fmt: skip
    assert "did you mean 'n_head'" in str(error.value)


def test_every_wrong_tensor_is_named_at_once():
    settings, tensors = saved(reference(builder()))
    del tensors["transformer.h.1.mlp.c_fc.bias"]
    tensors["transformer.wpe.weight"] = torch.zeros(15, 16)
    tensors["transformer.h.2.ln_1.weight"] = torch.zeros(16)
    with pytest.raises(CheckpointError) as error:
        from_foreign(GPT2, settings, tensors)
    assert str(error.value).splitlines() == [
        "the tensors do not fit the config:",
        "  unexpected transformer.h.2.ln_1.weight",
        "  transformer.wpe.weight has shape (15, 16), the config needs (16, 16)",
        "  missing transformer.h.1.mlp.c_fc.bias",
    ]


def test_model_of_another_kind_is_not_written():
    arguments = GPT2.presets["gpt2-tiny"].arguments
    for update, name in (({"norm": "rms"}, "norm"), ({"positions": "rotary"}, "position"), ({"gated": True}, "gated")):
        model = Transformer(arguments.model_copy(update=update).resolve(40))
        with pytest.raises(UnsupportedError, match=f"none that a gpt2 checkpoint can hold.*(?s:.*){name}"):
            to_foreign(model, GPT2)


@pytest.mark.parametrize("name", [name for name in GPT2.presets if name != "gpt2-tiny"])
def test_published_sizes_have_the_published_numbers_of_parameters(name):
    size = GPT2.presets[name]
    assert parameters_of(size.arguments.resolve(size.vocab_size)) == size.parameters


def test_presets_are_what_the_reference_takes():
    """Its default config is the smallest published model."""
    settings = transformers.GPT2Config(architectures=["GPT2LMHeadModel"]).to_diff_dict()
    published = GPT2.presets["gpt2"]
    read = GPT2.read(settings)
    assert read == published.arguments.resolve(published.vocab_size).model_copy(update={"init": read.init})
