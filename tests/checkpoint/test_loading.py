from __future__ import annotations

import pytest
import torch

from glassformer.checkpoint.loading import load
from glassformer.checkpoint.native import save_model
from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.text.build import byte_tokenizer, character_tokenizer


def test_preset_is_freshly_drawn_and_always_the_same():
    torch.manual_seed(3)
    one = load("preset:tiny")
    torch.manual_seed(4)
    other = load("preset:tiny")
    assert not one.model.training
    assert one.source == "preset:tiny"
    for name, parameter in one.model.named_parameters():
        assert torch.equal(parameter, other.model.get_parameter(name))
    assert one.tokenizer.decode(one.tokenizer.encode("闫🎉")) == "闫🎉"
    assert one.tokenizer.vocab_size == one.model.config.output_stack.input.vocab_size


def test_preset_that_is_none_names_the_nearest():
    with pytest.raises(ConfigError, match="unknown preset 'tin'; did you mean 'tiny'"):
        load("preset:tin")


def test_folder_that_is_none_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"there is no folder .*nowhere; give a run folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(
        CheckpointError, match=r"holds no model\.safetensors; give the folder of a run that is finished"
    ):
        load(tmp_path)
    (tmp_path / "config.yaml").write_text("task: {}")
    with pytest.raises(CheckpointError, match=r"finish the run first: glassformer train --resume"):
        load(tmp_path)


def test_o06_tokenizer_with_more_entries_than_the_embedding_is_refused(tiny, tmp_path):
    save_model(tiny(32), tmp_path / "model.safetensors")
    character_tokenizer(["".join(map(chr, range(65, 65 + 32)))], ("<unk>",)).save(tmp_path / "tokenizer.json")
    with pytest.raises(CheckpointError, match=r"has 33 entries, the model's embedding 32: they do not belong"):
        load(tmp_path)


def test_o06_tokenizer_with_fewer_entries_is_a_padded_embedding(tiny, tmp_path):
    save_model(tiny(32), tmp_path / "model.safetensors")
    character_tokenizer(["".join(map(chr, range(65, 65 + 29)))], ("<unk>",)).save(tmp_path / "tokenizer.json")
    loaded = load(str(tmp_path))
    assert loaded.tokenizer.vocab_size == 30
    assert loaded.source == str(tmp_path)


def test_missing_tokenizer_is_named(tiny, tmp_path):
    save_model(tiny(256), tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        load(tmp_path)
    byte_tokenizer().save(tmp_path / "tokenizer.json")
    assert load(tmp_path).tokenizer.vocab_size == 256
