from __future__ import annotations

import pytest
import torch
from torch import Tensor

from glassformer.checkpoint.foreign import from_foreign, to_foreign
from glassformer.core.config import TransformConfig
from glassformer.core.errors import CheckpointError
from glassformer.families.roberta import ROBERTA
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

SWITCHES = {
    "plain": {},
    "relu": {"hidden_act": "relu"},
    "gelu_new": {"hidden_act": "gelu_new"},
    "one_type": {"type_vocab_size": 1},
    "eps": {"layer_norm_eps": 0.03},
    "pad_0": {"pad_token_id": 0},
    "pad_5": {"pad_token_id": 5, "max_position_embeddings": 22},
}
CLASSES = ("RobertaForMaskedLM", "RobertaForSequenceClassification", "RobertaModel")


def builder(name="RobertaForMaskedLM", **changes):
    small = {
        "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24,
        "max_position_embeddings": 18, "type_vocab_size": 2,
    }  # fmt: skip
    return lambda: getattr(transformers, name)(transformers.RobertaConfig(**(small | changes)))


def ours(model: Transformer, given: Rows) -> Tensor:
    return model(given.tokens, places=given.places, types=types_of(given, model.config.encoder.input.n_types))


def our_states(model: Transformer, given: Rows) -> Tensor:
    types = types_of(given, model.config.encoder.input.n_types)
    return model(given.tokens, places=given.places, types=types, outputs="hidden")


def types_of(given: Rows, n_types: int) -> Tensor:
    return given.tokens % n_types


def their_output(hf, given: Rows, explicit: bool = True):
    """Without positions it counts them from the tokens that are not the padding's id."""
    positions = {"position_ids": given.places.position + hf.config.pad_token_id + 1} if explicit else {}
    return hf(
        given.tokens,
        attention_mask=given.places.is_token.long(),
        token_type_ids=types_of(given, hf.config.type_vocab_size),
        **positions,
    )


def theirs(hf, given: Rows) -> Tensor:
    out = their_output(hf, given)
    return out.logits if "logits" in out else out.pooler_output


def their_own_positions(hf, given: Rows) -> Tensor:
    return their_output(hf, given, explicit=False).logits


def their_states(hf, given: Rows) -> Tensor:
    return their_output(hf, given).last_hidden_state


def sides_of(name: str) -> tuple[str, ...]:
    """The reference takes the first slot for the first token, so a pooled row is padded on the right."""
    return ("right", "left") if name == "RobertaForMaskedLM" else ("right",)


@pytest.mark.parametrize("changes", SWITCHES.values(), ids=SWITCHES)
@pytest.mark.parametrize("name", CLASSES)
def test_answers_are_the_references(name, changes):
    pad = changes.get("pad_token_id", 1)
    assert_same_logits(builder(name, **changes), ROBERTA, ours=ours, theirs=theirs, sides=sides_of(name), pad=pad)


@pytest.mark.parametrize("pad", [1, 5])
def test_positions_are_those_that_the_reference_counts_from_the_padding(pad):
    build = builder(pad_token_id=pad, max_position_embeddings=22)
    assert_same_logits(build, ROBERTA, ours=ours, theirs=their_own_positions, pad=pad)


def test_states_are_the_references():
    assert_same_logits(builder("RobertaModel"), ROBERTA, ours=our_states, theirs=their_states, pad=1)


@pytest.mark.parametrize("name", CLASSES)
def test_gradients_are_the_references(name):
    assert_same_gradients(builder(name), ROBERTA, ours=ours, theirs=theirs, pad=1)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("changes", [{}, {"hidden_act": "relu", "layer_norm_eps": 0.03, "pad_token_id": 5}])
def test_checkpoint_goes_both_ways(name, changes):
    round_trip(builder(name, **changes), ROBERTA)


def test_rows_of_the_table_before_the_first_position_are_kept():
    """Rows 0 and 1 are never read, and come out of the model as they went in."""
    settings, tensors = saved(reference(builder()))
    name = "roberta.embeddings.position_embeddings.weight"
    model = from_foreign(ROBERTA, settings, tensors)
    assert (model.max_positions, model.encoder.input.positions.offset) == (16, 2)
    written, stored = to_foreign(model, ROBERTA)
    assert torch.equal(stored[name], tensors[name])
    assert (written["max_position_embeddings"], written["pad_token_id"]) == (18, 1)
    other = tensors[name].clone()
    other[:2] = torch.nan
    tokens = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        again = from_foreign(ROBERTA, settings, tensors | {name: other})
        assert torch.equal(again(tokens), model(tokens))


def test_pooler_is_there_if_its_tensors_are():
    settings, tensors = saved(reference(builder("RobertaModel")))
    assert from_foreign(ROBERTA, settings, tensors).config.head.transform == TransformConfig(activation="tanh")
    body = {name: tensor for name, tensor in tensors.items() if "pooler" not in name}
    assert from_foreign(ROBERTA, settings, body).config.head is None


def test_published_file_of_roberta_base_is_read():
    """Numbers of positions, the pooler that no head of it uses, and table and offset of the head twice."""
    hf = reference(builder())
    settings, tensors = saved(hf)
    old = tensors | {
        "roberta.embeddings.position_ids": torch.arange(18)[None],
        "roberta.pooler.dense.weight": torch.ones(16, 16),
        "roberta.pooler.dense.bias": torch.ones(16),
        "lm_head.decoder.weight": tensors["roberta.embeddings.word_embeddings.weight"],
        "lm_head.decoder.bias": tensors["lm_head.bias"],
    }
    model, expected = from_foreign(ROBERTA, settings, old), ours_from(hf, ROBERTA)
    for name, parameter in expected.named_parameters():
        assert torch.equal(model.get_parameter(name), parameter), name


def test_every_wrong_setting_is_named_at_once():
    settings, _ = saved(reference(builder()))
    del settings["vocab_size"]
    settings |= {"position_embedding_type": "relative_key", "hidden_act": "mish", "pad_token_id": None}
    settings |= {"tie_word_embeddings": False, "hidden_sise": 3}
    with pytest.raises(CheckpointError) as error:
        ROBERTA.read(settings)
    lines = str(error.value).splitlines()
    assert lines[0] == "this roberta config cannot be read:"
    assert sorted(line.split()[0] for line in lines[1:]) == [
        "hidden_act", "hidden_sise", "pad_token_id", "position_embedding_type", "tie_word_embeddings", "vocab_size",
    ]  # fmt: skip


def test_every_wrong_tensor_is_named_at_once():
    settings, tensors = saved(reference(builder()))
    del tensors["lm_head.layer_norm.weight"]
    tensors["roberta.embeddings.position_embeddings.weight"] = torch.zeros(16, 16)
    tensors["lm_head.scale"] = torch.zeros(1)
    tensors["lm_head.decoder.bias"] = tensors["lm_head.bias"] + 1
    with pytest.raises(CheckpointError) as error:
        from_foreign(ROBERTA, settings, tensors)
    assert str(error.value).splitlines() == [
        "the tensors do not fit the config:",
        "  unexpected lm_head.scale",
        "  roberta.embeddings.position_embeddings.weight has shape (16, 16), the config needs (18, 16)",
        "  missing lm_head.layer_norm.weight",
        "  lm_head.decoder.bias differs from lm_head.bias, but the config says that they are one (tie_word_embeddings)",
    ]


@pytest.mark.parametrize(
    ("name", "with_pooler", "with_head"),
    [("roberta-base", 124_645_632, 124_697_433), ("roberta-large", 355_359_744, 355_412_057)],
)
def test_published_sizes_have_the_published_numbers_of_parameters(name, with_pooler, with_head):
    size = ROBERTA.presets[name]
    pooled = {"pooling": "first", "transform": TransformConfig(activation="tanh"), "head_bias": False}
    body = size.arguments.model_copy(update=pooled).resolve(size.vocab_size, scores=False)
    assert parameters_of(body) == with_pooler
    assert parameters_of(size.arguments.resolve(size.vocab_size)) == with_head
    assert size.parameters == f"{with_pooler / 1e6:.0f}M"


def test_presets_are_what_the_published_config_says():
    settings = {
        "architectures": ["RobertaForMaskedLM"], "model_type": "roberta", "hidden_size": 768, "num_hidden_layers": 12,
        "num_attention_heads": 12, "intermediate_size": 3072, "layer_norm_eps": 1e-5, "max_position_embeddings": 514,
        "pad_token_id": 1, "type_vocab_size": 1, "vocab_size": 50265, "hidden_act": "gelu",
    }  # fmt: skip
    published = ROBERTA.presets["roberta-base"]
    read = ROBERTA.read(settings)
    assert read == published.arguments.resolve(published.vocab_size).model_copy(update={"init": read.init})
