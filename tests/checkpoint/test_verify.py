from __future__ import annotations

import json
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer.checkpoint.loading import ForeignFolder
from glassformer.checkpoint.native import save_model
from glassformer.checkpoint.verify import verify, write_report
from glassformer.core.errors import CheckpointError, ConfigError

from .folders import (
    BERT,
    KINDS,
    bert_folder,
    edited,
    gpt2_folder,
    llama_folder,
    needs_stories,
    saved,
    stories,
    t5_folder,
    transformers,
)


@pytest.mark.parametrize("kind", KINDS)
def test_tiny_models_are_the_references(kind, tmp_path):
    steps = []
    found = verify(ForeignFolder.open(KINDS[kind](tmp_path)), advanced=lambda done, total: steps.append((done, total)))
    assert found.equal, found.lines()
    assert found.first_divergence is None
    assert not found.weights
    assert found.float32.max_relative_difference < 2e-6
    assert found.float64.max_relative_difference < 1e-14
    assert steps == [(1, 4), (2, 4), (3, 4)]


def respelled(folder, change):
    file = folder / "model.safetensors"
    save_file({change(name): tensor for name, tensor in load_file(file).items()}, file, {"format": "pt"})
    return folder


OTHERWISE = {
    "GPT-2 as it was published": lambda folder: respelled(
        gpt2_folder(folder), lambda name: name.removeprefix("transformer.")
    ),
    "body with the names of a whole model": lambda folder: respelled(
        bert_folder(folder, "BertModel"), lambda name: f"bert.{name}"
    ),
    "body without a pooler": lambda folder: saved(
        transformers.BertModel(transformers.BertConfig(**BERT), add_pooling_layer=False), folder
    ),
    "two heads, one of them read": lambda folder: bert_folder(folder, "BertForPreTraining"),
    "old name of the class": lambda folder: edited(t5_folder(folder), architectures=["T5WithLMHeadModel"]),
}


@pytest.mark.parametrize("kind", OTHERWISE)
def test_folder_that_is_not_as_the_reference_writes_it_is_compared(kind, tmp_path):
    found = verify(ForeignFolder.open(OTHERWISE[kind](tmp_path)))
    assert found.equal, found.lines()
    assert found.float32.compared > 5


@needs_stories
def test_stories_are_the_references(tmp_path):
    folder = stories(tmp_path / "stories")
    (folder / "tokenizer.json").unlink()  # none is needed
    found = verify(ForeignFolder.open(folder))
    assert found.equal, found.lines()
    assert found.parameters == 260_032
    assert found.float64.compared == 1 + 1 + 5 * 3 + 1  # the input, three in a block, the final norm, the scores
    assert write_report(found, folder) == folder / "verification.json"
    told = json.loads((folder / "verification.json").read_text())
    assert (told["equal"], told["first_divergence"]) == (True, None)
    assert 0 < told["max_relative_difference"] < 2e-5
    assert found.lines()[-1] == "equal"


def swapped(model):
    one, other = (model.decoder.blocks[i].feed_forward.output.weight for i in (0, 1))
    kept = one.clone()
    one.copy_(other)
    other.copy_(kept)


FAULTS = {
    "two matrices swapped": (
        swapped,
        "decoder.blocks.0.feed_forward",
        ["decoder.blocks.0.feed_forward.output.weight", "decoder.blocks.1.feed_forward.output.weight"],
    ),
    "a norm": (
        lambda model: model.decoder.blocks[1].attention_norm.weight[3].add_(0.5),
        "decoder.blocks.1.attention",
        ["decoder.blocks.1.attention_norm.weight"],
    ),
    "the last norm": (
        lambda model: model.decoder.final_norm.weight[0].add_(0.5),
        "decoder.final_norm",
        ["decoder.final_norm.weight"],
    ),
    "rows of q": (
        lambda model: model.decoder.blocks[1].attention.qkv.weight[:2].add_(0.5),
        "decoder.blocks.1.attention",
        ["decoder.blocks.1.attention.qkv.weight"],
    ),
    "all embeddings": (
        lambda model: model.decoder.input.embedding.weight.mul_(1.001),
        "decoder.input",
        ["decoder.input.embedding.weight"],
    ),
    "the head": (lambda model: model.head.weight[5].add_(0.5), "head", ["head.weight"]),
    "no number": (
        lambda model: model.decoder.blocks[0].feed_forward.inner.weight[0].fill_(torch.nan),
        "decoder.blocks.0.feed_forward",
        ["decoder.blocks.0.feed_forward.inner.weight"],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_found_where_it_is(fault, tmp_path):
    change, part, weights = FAULTS[fault]
    folder = ForeignFolder.open(llama_folder(tmp_path))
    model = folder.load()
    with torch.no_grad():
        change(model)
    found = verify(folder, model)
    assert not found.equal
    assert found.first_divergence == part
    assert list(found.weights) == weights
    assert found.float32.max_relative_difference > 1e-4
    assert found.lines()[-1] == "NOT equal"
    assert any(line.startswith(f"{weights[0]} is not ") for line in found.lines())


def test_row_of_the_embedding_that_no_token_of_the_batch_has_is_found(tmp_path):
    folder = ForeignFolder.open(llama_folder(tmp_path))
    model = folder.load()
    with torch.no_grad():
        model.decoder.input.embedding.weight[0] += 1  # no id below 10 is drawn
    found = verify(folder, model)
    assert found.float64.equal
    assert not found.equal
    assert found.first_divergence == "decoder.input.embedding"
    assert found.weights == {"decoder.input.embedding.weight": "model.embed_tokens.weight"}


def test_fault_of_an_encoder_decoder_is_found_on_its_side(tmp_path):
    folder = ForeignFolder.open(KINDS["t5"](tmp_path))
    for side, part in (("decoder", "cross_attention"), ("encoder", "attention")):
        model = folder.load()
        with torch.no_grad():
            model.get_submodule(f"{side}.blocks.1.{part}.output").weight[0] += 1
        found = verify(folder, model)
        assert found.first_divergence == f"{side}.blocks.1.{part}"
        assert list(found.weights) == [f"{side}.blocks.1.{part}.output.weight"]


def test_half_precision_folder_is_compared_as_it_is_read(tmp_path):
    file = llama_folder(tmp_path) / "model.safetensors"
    save_file({name: tensor.bfloat16() for name, tensor in load_file(file).items()}, file, {"format": "pt"})
    folder = ForeignFolder.open(tmp_path)
    assert folder.load().output_stack.input.embedding.weight.dtype == torch.bfloat16
    assert verify(folder).equal


def test_missing_library_is_named(tmp_path, monkeypatch):
    folder = ForeignFolder.open(llama_folder(tmp_path))
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match=r"pip install 'glassformer\[hf\]'"):
        verify(folder)


def test_refusal_of_the_reference_is_said(tmp_path):
    folder = ForeignFolder.open(bert_folder(tmp_path))
    model = folder.load()
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"the reference library cannot load .* as BertForMaskedLM"):
        verify(folder, model)


def test_folder_of_our_own_is_named_with_the_way_out(tiny, tmp_path):
    save_model(tiny(), tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"glassformer's own format.*: glassformer convert .* FOLDER"):
        ForeignFolder.open(tmp_path)
