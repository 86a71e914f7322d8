"""Marian against the reference library: every switch of its config.json, whose tables are shared, and whose tied."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from glassformer.checkpoint.foreign import from_foreign, to_foreign
from glassformer.core.errors import CheckpointError, UnsupportedError
from glassformer.families.marian import MARIAN
from glassformer.families.registry import preset
from glassformer.models.transformer import Transformer
from glassformer.parts.position import sinusoid

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
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 20,
    "activation_function": "swish",
    "dropout": 0.0,
    "scale_embedding": True,
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
}


def table(n_positions: int, d_model: int) -> Tensor:
    """The reference's table of sines; its own is in float32."""
    angle = np.arange(n_positions)[:, None] / 10_000 ** (np.arange(0, d_model, 2) / d_model)
    return torch.from_numpy(np.concatenate((np.sin(angle), np.cos(angle[:, : d_model // 2])), axis=1))


def marian(**settings: Any) -> Callable[[], nn.Module]:
    """The reference's model; the offset of its head is a parameter, to be drawn and to have a gradient."""

    def build() -> nn.Module:
        config = transformers.MarianConfig(**{**SMALL, **settings})
        model = transformers.MarianMTModel(config).double()
        offset = model.final_logits_bias
        del model.final_logits_bias
        model.final_logits_bias = nn.Parameter(offset)
        for stack in (model.model.encoder, model.model.decoder):
            stack.embed_positions.weight.data.copy_(table(config.max_position_embeddings, config.d_model))
        return model

    return build


APART = {"share_encoder_decoder_embeddings": False}

SWITCHES = {
    "published": {},
    "gelu": {"activation_function": "gelu"},
    "relu": {"activation_function": "relu"},
    "unscaled": {"scale_embedding": False},
    "fewer-decoder-layers": {"encoder_layers": 3, "decoder_layers": 1},
    "odd-width": {"d_model": 15, "encoder_attention_heads": 3, "decoder_attention_heads": 3},
    "two-tables": APART,
    "two-tables-two-heads": {**APART, "tie_word_embeddings": False},
    "two-vocabularies": {**APART, "decoder_vocab_size": 45},
    "two-vocabularies-untied": {**APART, "decoder_vocab_size": 45, "tie_word_embeddings": False},
}

switches = pytest.mark.parametrize("settings", [pytest.param(value, id=name) for name, value in SWITCHES.items()])


@switches
def test_logits_are_marians(settings):
    """Padding on the right alone: the reference counts positions from the first slot, whatever stands in it."""
    assert_same_logits(marian(**settings), MARIAN, sides=("right",))


@switches
def test_round_trip_is_bit_equal(settings):
    assert_round_trip(marian(**settings), MARIAN)


def test_gradients_are_marians():
    assert_same_gradients(marian(), MARIAN)


def test_stored_tables_of_sines_are_computed_here():
    """Old files hold them; they are the formula's numbers, and nothing of ours is filled with them."""
    settings, tensors = saved(reference(marian()))
    stored = transformers.MarianMTModel(transformers.MarianConfig(**SMALL)).model.encoder.embed_positions.weight
    computed = sinusoid(torch.arange(20).unsqueeze(0), 16, layout="halves")[0]
    torch.testing.assert_close(stored.detach(), computed, atol=2e-6, rtol=0)
    tables = {f"model.{name}.embed_positions.weight": stored.detach().clone() for name in ("encoder", "decoder")}
    ours = from_foreign(MARIAN, settings, {**tensors, **tables})
    assert not tables.keys() & to_foreign(ours, MARIAN)[1].keys()


@torch.no_grad()
def test_o11_head_of_its_own_beside_a_shared_table():
    """The reference then ties nothing: what encoder and decoder read is stored with its own names, and is drawn anew
    where it is not. Files of before version 5 hold the shared table alone."""
    hf = reference(marian(tie_word_embeddings=False))
    settings, tensors = saved(hf)
    shared = tensors["model.shared.weight"]
    old = {name: tensor for name, tensor in tensors.items() if "embed_tokens" not in name}
    ours = from_foreign(MARIAN, settings, old)
    assert ours.encoder.input.embedding.weight is ours.decoder.input.embedding.weight
    assert ours.head.weight is not ours.decoder.input.embedding.weight
    written, exported = to_foreign(ours, MARIAN)
    for name in ("model.shared.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"):
        assert torch.equal(exported[name], shared)
    assert from_foreign(MARIAN, written, exported).config == ours.config
    given = rows(40, "right")
    theirs = loaded(transformers.MarianMTModel, written, exported)
    real = given.places.is_token
    assert largest_difference(our_answer(ours, given)[real], their_answer(theirs, given)[real]) <= 2e-5


def test_o11_tied_table_is_one_parameter_and_its_copies_must_be_equal():
    settings, tensors = saved(reference(marian()))
    names = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
    copies = {name: tensors["model.shared.weight"].clone() for name in names}
    ours = from_foreign(MARIAN, settings, {**tensors, **copies})
    assert ours.head.weight is ours.decoder.input.embedding.weight
    assert ours.encoder.input.embedding is ours.decoder.input.embedding
    assert not copies.keys() & to_foreign(ours, MARIAN)[1].keys()
    copies["lm_head.weight"] += 1
    with pytest.raises(CheckpointError, match=r"lm_head\.weight differs from model\.shared\.weight"):
        from_foreign(MARIAN, settings, {**tensors, **copies})


PUBLISHED = """{"_num_labels": 3, "activation_dropout": 0.0, "activation_function": "swish", "add_bias_logits": false,
"add_final_layer_norm": false, "architectures": ["MarianMTModel"], "attention_dropout": 0.0, "bad_words_ids": [[58100]],
"bos_token_id": 0, "classif_dropout": 0.0, "classifier_dropout": 0.0, "d_model": 512, "decoder_attention_heads": 8,
"decoder_ffn_dim": 2048, "decoder_layerdrop": 0.0, "decoder_layers": 6, "decoder_start_token_id": 58100, "dropout": 0.1,
"encoder_attention_heads": 8, "encoder_ffn_dim": 2048, "encoder_layerdrop": 0.0, "encoder_layers": 6, "eos_token_id": 0,
"id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}, "init_std": 0.02, "is_encoder_decoder": true,
"label2id": {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2}, "max_length": 512, "max_position_embeddings": 512,
"model_type": "marian", "normalize_before": false, "normalize_embedding": false, "num_beams": 6,
"num_hidden_layers": 6, "pad_token_id": 58100, "scale_embedding": true, "static_position_embeddings": true,
"vocab_size": 58101}"""


def test_preset_is_what_a_published_config_describes():
    config = MARIAN.read(json.loads(PUBLISHED))
    assert config == preset("opus-mt").resolve(58_101)
    assert parameters_of(config) == 44_138_496 + 58_101 * 512 + 58_101


def test_bad_config_is_refused_in_one_message():
    settings, _ = saved(reference(marian()))
    bad = settings | {
        "activation_function": "mish",
        "decoder_attention_heads": 4,
        "num_hidden_layers": 3,
        "normalize_before": True,
        "decoder_vocab_size": 45,
        "encoder_layerdrop": 0.1,
        "scale_embeddings": True,
    }
    del bad["d_model"]
    with pytest.raises(CheckpointError) as error:
        MARIAN.read(bad)
    for said in (
        "activation_function is 'mish'",
        "encoder_attention_heads is 2, decoder_attention_heads is 4; only equal ones",
        "encoder_layers is 2, num_hidden_layers is 3; only equal ones",
        "normalize_before is True",
        "vocab_size is 40 and decoder_vocab_size 45, but encoder and decoder share their table",
        "encoder_layerdrop is 0.1",
        "scale_embeddings is True, and not known here; did you mean 'scale_embedding'",
        "d_model is missing",
    ):
        assert said in str(error.value)


def test_every_tensor_is_accounted_for():
    settings, tensors = saved(reference(marian()))
    del tensors["final_logits_bias"]
    tensors["model.encoder.layers.2.fc1.weight"] = torch.zeros(24, 16)
    tensors["model.decoder.layers.0.encoder_attn.k_proj.weight"] = torch.zeros(8, 16)
    with pytest.raises(CheckpointError) as error:
        from_foreign(MARIAN, settings, tensors)
    for said in (
        "missing final_logits_bias",
        "unexpected model.encoder.layers.2.fc1.weight",
        "model.decoder.layers.0.encoder_attn.k_proj.weight has shape (8, 16), the config needs (16, 16)",
    ):
        assert said in str(error.value)


def test_the_paper_s_own_model_is_none():
    """It has sines and cosines side by side, and no offset in its head."""
    model = Transformer(preset("vaswani-tiny").resolve(40))
    with pytest.raises(UnsupportedError, match="position_layout is interleaved, not halves; head_bias is False"):
        to_foreign(model, MARIAN)
