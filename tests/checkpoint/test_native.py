from __future__ import annotations

import json
import os

import pytest
import torch

from glassformer.checkpoint.native import load_model, save_model
from glassformer.checkpoint.tensors import read_state_dict, read_tensors, save_tensors
from glassformer.core.errors import CheckpointError

KINDS = {
    "sinusoidal encoder-decoder": {"kind": "encoder_decoder", "positions": "sinusoidal"},
    "two tables": {"kind": "encoder_decoder", "positions": "learned", "max_positions": 16, "share_embeddings": False},
    "encoder": {"kind": "encoder", "positions": "sinusoidal", "head_bias": True},
    "learned": {"positions": "learned", "max_positions": 16, "embedding_scale": False},
    "rotary, gated, grouped, untied": {
        "positions": "rotary",
        "gated": True,
        "activation": "silu",
        "n_kv_heads": 1,
        "tied": False,
        "norm": "rms",
        "norm_place": "pre",
        "bias": False,
    },
    "parallel": {"positions": "none", "parallel": True, "norm_place": "pre"},
}


def logits(model: torch.nn.Module) -> torch.Tensor:
    tokens = torch.tensor([[1, 2, 3, 4], [9, 8, 7, 6]])
    memory = model.encode(tokens.flip(1)) if model.encoder is not None and model.decoder is not None else None
    return model(tokens, memory=memory)


@pytest.mark.parametrize("arguments", KINDS.values(), ids=KINDS)
def test_model_that_is_loaded_computes_the_same(tiny, tmp_path, arguments):
    model = tiny(**arguments)
    save_model(model, tmp_path / "model.safetensors")
    torch.manual_seed(7)  # whatever is not in the file would be drawn or left over
    for path in (tmp_path, tmp_path / "model.safetensors"):
        loaded = load_model(path)
        assert not loaded.training
        assert loaded.config == model.config
        assert torch.equal(logits(loaded), logits(model))
        assert all(not parameter.is_meta for parameter in loaded.parameters())
        assert (loaded.head.weight is loaded.output_stack.input.embedding.weight) == model.config.head.tied


def test_loading_leaves_the_global_generator_alone(tiny, tmp_path):
    save_model(tiny(), tmp_path / "model.safetensors")
    before = torch.get_rng_state()
    load_model(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


def test_o26_own_file_is_read_in_the_safe_way(tiny, tmp_path):
    model = tiny()
    save_model(model, tmp_path / "model.safetensors")
    tensors = read_state_dict(tmp_path / "model.safetensors")
    assert not [name for name in tensors if name.startswith(("_orig_mod.", "module."))]
    assert sum(tensor.numel() for tensor in tensors.values()) == sum(p.numel() for p in model.parameters())


def test_o11_copied_and_resized_models_are_saved_and_loaded(tiny, tmp_path):
    for tied in (True, False):
        model = tiny(tied=tied)
        model.resize_vocabulary(40)
        save_model(model, tmp_path / "model.safetensors")
        loaded = load_model(tmp_path)
        assert loaded.config.output_stack.input.vocab_size == 40
        assert torch.equal(logits(loaded), logits(model))
        assert (loaded.head.weight is loaded.output_stack.input.embedding.weight) == tied


def test_half_precision_model_is_saved_as_it_is_and_loaded_in_float32(tiny, tmp_path):
    """Parameters are float32 always; what they are worth is kept."""
    model = tiny().to(torch.bfloat16)
    save_model(model, tmp_path / "model.safetensors")
    loaded = load_model(tmp_path)
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}
    for name, parameter in loaded.named_parameters():
        assert torch.equal(parameter, model.get_parameter(name).float())


def test_file_of_another_program_is_refused(tmp_path):
    save_tensors(tmp_path / "model.safetensors", {"a": torch.ones(1)}, {"format": "pt"})
    with pytest.raises(CheckpointError, match=r"was not written by glassformer \(its format is 'pt'\)"):
        load_model(tmp_path)
    save_tensors(tmp_path / "model.safetensors", {"a": torch.ones(1)}, {})
    with pytest.raises(CheckpointError, match=r"was not written by glassformer \(its format is None\)"):
        load_model(tmp_path)


@pytest.mark.parametrize("config", ["{", "[]", "{}", '{"decoder": 1}', '"text"', "null", None])
def test_file_without_a_readable_config_is_refused(tmp_path, config):
    metadata = {"format": "glassformer 1"} | ({} if config is None else {"config": config})
    save_tensors(tmp_path / "model.safetensors", {"a": torch.ones(1)}, metadata)
    with pytest.raises(CheckpointError, match="has no readable config"):
        load_model(tmp_path)


def test_file_that_does_not_fit_its_own_config_is_refused(tiny, tmp_path):
    model = tiny()
    save_model(model, tmp_path / "model.safetensors")
    tensors, metadata = read_tensors(tmp_path / "model.safetensors")
    del tensors["decoder.blocks.1.attention.output.weight"]
    save_tensors(tmp_path / "model.safetensors", tensors, metadata)
    with pytest.raises(CheckpointError, match=r"missing decoder\.blocks\.1\.attention\.output\.weight"):
        load_model(tmp_path)
    assert json.loads(metadata["config"])["decoder"]["causal"] is True


def test_config_that_was_changed_is_refused_though_the_weights_fit(tiny, tmp_path):
    file = tmp_path / "model.safetensors"
    save_model(tiny(), file)
    tensors, metadata = read_tensors(file)
    changed = metadata | {"config": metadata["config"].replace('"type":"softmax"', '"type":"linear"')}
    assert changed != metadata
    save_tensors(file, tensors, changed)
    with pytest.raises(CheckpointError, match=r"is not the one it was saved with.* takes the checksum out"):
        load_model(file)
    del changed["checksum"]  # as earlier releases saved it
    save_tensors(file, tensors, changed)
    assert load_model(file).config.decoder.blocks[0].attention.type == "linear"


def test_o25_a_save_that_fails_leaves_the_old_model(tiny, tmp_path, monkeypatch):
    model = tiny()
    save_model(model, tmp_path / "model.safetensors")
    before = logits(model)

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with torch.no_grad():
        model.head.weight.add_(1.0)
    with pytest.raises(CheckpointError, match="No space left on device; the file that was there before is untouched"):
        save_model(model, tmp_path / "model.safetensors")
    assert torch.equal(logits(load_model(tmp_path)), before)
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]
