from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from glassformer.checkpoint.convert import convert
from glassformer.checkpoint.loading import load
from glassformer.checkpoint.native import load_model, save_model
from glassformer.checkpoint.quantise import quantise_checkpoint
from glassformer.checkpoint.tensors import read_tensors, save_tensors
from glassformer.core.errors import CheckpointError, UnsupportedError
from glassformer.core.tape import Tape
from glassformer.models.quantise import is_quantised, quantise_model

PRESET = "preset:tiny"
TOKENS = torch.tensor([[1, 2, 3, 4], [9, 8, 7, 6]])
KINDS = {
    "tied": {"positions": "rotary"},
    "untied, gated": {"positions": "rotary", "tied": False, "gated": True, "norm": "rms", "bias": False},
    "encoder-decoder": {"kind": "encoder_decoder"},
    "two tables": {"kind": "encoder_decoder", "share_embeddings": False},
    "encoder": {"kind": "encoder", "head_bias": True},
}


def logits(model: torch.nn.Module) -> torch.Tensor:
    memory = model.encode(TOKENS.flip(1)) if model.encoder is not None and model.decoder is not None else None
    return model(TOKENS, memory=memory)


@pytest.mark.parametrize("arguments", KINDS.values(), ids=KINDS)
def test_o40_quantised_model_is_loaded_bit_equal(tiny, tmp_path, arguments):
    model = tiny(**arguments)
    exact = logits(model)
    quantise_model(model)
    before = logits(model)
    assert not torch.equal(before, exact)
    torch.testing.assert_close(before, exact, atol=0.1 * float(exact.detach().abs().max()), rtol=0)
    save_model(model, tmp_path / "model.safetensors")
    loaded = load_model(tmp_path)
    assert is_quantised(loaded)
    assert loaded.config == model.config
    assert torch.equal(logits(loaded), before)
    assert (loaded.head.weight is loaded.output_stack.input.embedding.weight) == model.config.head.tied


def test_o40_every_matrix_of_a_quantised_model_is_in_use(tiny):
    """Changing a whole number anywhere changes what the model says; nothing is computed from a float copy."""
    model = quantise_model(tiny(n_layers=1, positions="rotary", gated=True, tied=False))
    tokens = torch.tensor([[1, 2, 3]])
    before, seen = model(tokens), 0
    for name, parameter in model.named_parameters():
        if parameter.dtype != torch.int8:
            continue
        seen, kept = seen + 1, parameter.clone()
        parameter.copy_(-kept)
        assert not torch.equal(model(tokens), before), name
        parameter.copy_(kept)
    assert seen == 7
    assert torch.equal(model(tokens), before)


def test_o40_quantised_cache_reproduces_the_full_forward(tiny):
    model = quantise_model(tiny(positions="rotary"))
    tokens = torch.tensor([[5, 6, 7, 8, 9, 10]])
    full, cache = model(tokens), model.new_cache(1, 8)
    assert cache.layers[0].keys.dtype == torch.float32
    with torch.no_grad():
        for begin, end in pairwise((0, 4, 5, 6)):
            got = model(tokens[:, begin:end], cache=cache)
            cache.advance([end - begin])
            torch.testing.assert_close(got, full[:, begin:end], atol=1e-5, rtol=1e-5)


def test_quantised_model_shows_what_it_computes(tiny):
    model = quantise_model(tiny(n_layers=1))
    tape = Tape(model, "head.logits")
    got = model(TOKENS, tape=tape)
    assert torch.equal(tape["head.logits"], got)


def test_quantised_loss_is_that_of_its_own_scores(tiny, monkeypatch):
    monkeypatch.setattr("glassformer.models.loss.PLAIN_LIMIT", 0)
    model = quantise_model(tiny())
    labels = TOKENS.roll(-1, 1)
    expected = torch.nn.functional.cross_entropy(model(TOKENS).flatten(0, 1), labels.flatten())
    torch.testing.assert_close(model(TOKENS, labels=labels).mean, expected)


def test_o40_command_reports_size_tie_and_loss(tmp_path):
    found = quantise_checkpoint(PRESET, tmp_path / "small")
    model, small = load(PRESET).model, load(tmp_path / "small").model
    assert found.tied
    assert found.text
    assert found.bytes_before == sum(parameter.nbytes for parameter in model.parameters())
    assert found.bytes_after == sum(parameter.nbytes for parameter in small.parameters())
    assert abs(found.loss_after - found.loss_before) < 0.01
    matrices = {name for name, parameter in small.named_parameters() if parameter.dtype == torch.int8}
    before = sum(parameter.nbytes for name, parameter in model.named_parameters() if name in matrices)
    steps = [name.removesuffix("weight") + "step" for name in matrices]
    after = sum(small.get_parameter(name).nbytes for name in (*matrices, *steps))
    assert after <= 0.35 * before


def test_o40_another_process_writes_the_same(tmp_path):
    quantise_checkpoint(PRESET, tmp_path / "small")
    code = (
        "import sys; from glassformer.checkpoint.loading import load; import torch;"
        "print(load(sys.argv[1]).model(torch.tensor([[70, 80, 90]])).argmax(-1).tolist())"
    )
    run = subprocess.run([sys.executable, "-c", code, tmp_path / "small"], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(load(tmp_path / "small").model(torch.tensor([[70, 80, 90]])).argmax(-1).tolist())


def test_what_cannot_be_done_in_8_bits_is_refused(tmp_path: Path):
    small = tmp_path / "small"
    quantise_checkpoint(PRESET, small)
    with pytest.raises(UnsupportedError, match="already"):
        quantise_checkpoint(small, tmp_path / "again")
    with pytest.raises(UnsupportedError, match="only glassformer reads"):
        convert(small, tmp_path / "theirs", "hf")
    with pytest.raises(UnsupportedError, match="resize the model"):
        load(small).model.resize_vocabulary(300)
    with pytest.raises(CheckpointError, match="source itself"):
        quantise_checkpoint(small, small)


@pytest.mark.parametrize("name", ["decoder.blocks.1.feed_forward.inner.weight", "decoder.blocks.0.attention_norm.bias"])
@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_weight_that_is_not_finite_is_named_and_refused(tiny, tmp_path, name, value):
    model = tiny()
    with torch.no_grad():
        model.get_parameter(name).view(-1)[3] = value
    (tmp_path / "run").mkdir()
    save_model(model, tmp_path / "run" / "model.safetensors")
    with pytest.raises(CheckpointError, match=f"^{name} holds a number that is not finite"):
        quantise_checkpoint(tmp_path / "run", tmp_path / "small")
    assert not (tmp_path / "small").exists()
    with pytest.raises(CheckpointError, match=f"^{name} holds"):
        quantise_model(model)
    assert not is_quantised(model)


def test_kind_of_numbers_that_is_unknown_is_refused(tiny, tmp_path):
    file = tmp_path / "model.safetensors"
    save_model(quantise_model(tiny()), file)
    tensors, metadata = read_tensors(file)
    save_tensors(file, tensors, metadata | {"quantised": "int4"})
    with pytest.raises(CheckpointError, match=r"kind that is unknown: int4; known: int8$"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("part", "dtype"),
    [("weight", torch.float32), ("weight", torch.int32), ("weight", torch.uint8), ("step", torch.int8)],
)
def test_levels_and_steps_of_another_type_are_refused(tiny, tmp_path, part, dtype):
    file = tmp_path / "model.safetensors"
    save_model(quantise_model(tiny()), file)
    tensors, metadata = read_tensors(file)
    name = f"decoder.blocks.0.attention.qkv.{part}"
    save_tensors(file, tensors | {name: tensors[name].to(dtype)}, metadata)
    kind = str(dtype).removeprefix("torch.")
    with pytest.raises(CheckpointError, match=rf"{name} is in {kind}, the model needs (int8|float32)$"):
        load_model(tmp_path)
