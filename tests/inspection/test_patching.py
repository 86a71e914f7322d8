from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.tape import Tape
from glassformer.inspection.patching import Intervention, intervene
from glassformer.inspection.sample import Sample

from .whole_texts import classifier, encoder_of_vectors

TOKENS = [3, 1, 4, 1, 5]


def changed(model, *texts, sample=None):
    return intervene(model, sample or Sample.of(model, TOKENS), [Intervention.parse(text) for text in texts], top=32)


@torch.no_grad()
def test_zero_is_a_model_without_those_columns(tiny):
    model = tiny()
    found = changed(model, "decoder.blocks.1.attention.heads[1]=zero")
    before = model(torch.tensor([TOKENS]))[0].log_softmax(-1)
    model.decoder.blocks[1].attention.output.weight[:, 8:] = 0
    after = model(torch.tensor([TOKENS]))[0].log_softmax(-1)
    divergence = (before.exp() * (before - after)).sum(-1)
    assert [each.position for each in found.positions] == list(range(5))
    assert [each.divergence for each in found.positions] == pytest.approx(divergence.tolist(), abs=1e-6)
    assert found.divergence == pytest.approx(float(divergence.mean()), abs=1e-6)
    for each in found.positions:
        assert [share for _, share in each.after] == pytest.approx(
            [float(after[each.position, token].exp()) for token, _ in each.after], abs=1e-6
        )
    assert found.other_answers == int((before.argmax(-1) != after.argmax(-1)).sum())
    answers = torch.tensor(TOKENS[1:])
    assert found.loss[1] == pytest.approx(-float(after[range(4), answers].mean()), abs=1e-5)
    assert found.attention["decoder.blocks.1.attention"] == 0, "it is changed behind its weights"


@pytest.mark.parametrize("kind", ["npy", "json", "safetensors"])
def test_its_own_value_changes_nothing(tiny, tmp_path, kind):
    model = tiny()
    tape = Tape(model, "decoder.blocks.0.residual")
    with torch.no_grad():
        model(torch.tensor([TOKENS]), tape=tape)
    value, file = tape["decoder.blocks.0.residual"][0].contiguous(), tmp_path / f"value.{kind}"
    if kind == "npy":
        np.save(file, value.numpy())
    elif kind == "json":
        file.write_text(json.dumps(value.tolist()))
    else:
        save_file({"any": value}, file)
    found = changed(model, f"decoder.blocks.0.residual={file}")
    assert found.divergence == 0
    assert found.loss[0] == found.loss[1]
    assert set(found.attention.values()) == {0.0}


def test_the_mean_of_weights_is_even_over_what_is_seen(tiny):
    model, seen = tiny(), []
    interventions = [Intervention.parse("decoder.blocks.0.attention.weights=mean")]
    sites, patches = interventions[0].patches(model)
    assert list(sites) == ["decoder.blocks.0.attention.weights"]
    tape = Tape(model, *sites, patches=patches)
    with torch.no_grad():
        model(torch.tensor([TOKENS]), tape=tape)
    seen = tape["decoder.blocks.0.attention.weights"][0, 0]
    torch.testing.assert_close(seen, torch.ones(5, 5).tril() / torch.arange(1.0, 6).unsqueeze(1))
    of_scores = changed(model, "decoder.blocks.0.attention.scores=mean")
    of_weights = changed(model, "decoder.blocks.0.attention.weights=mean")
    assert of_scores.divergence > 0
    assert of_weights.attention["decoder.blocks.0.attention"] > 0


def test_the_mean_of_a_residual_is_that_over_positions(tiny):
    model = tiny()
    _, (patch,) = Intervention.parse("decoder.blocks.0.residual=mean").patches(model)
    x = torch.randn(1, 3, 16)
    torch.testing.assert_close(patch.change(x)[0, 2], x[0].mean(0))


def test_attention_that_needs_too_much_is_not_compared(tiny):
    model, each = tiny(), [Intervention.parse("decoder.blocks.0.residual=zero")]
    numbers = 2 * 4 * 5 * 5 * 4  # before and after, four bytes, 5 x 5, four heads
    sample = Sample.of(model, TOKENS)
    assert len(intervene(model, sample, each, limit_bytes=numbers).attention) == 2
    assert intervene(model, sample, each, limit_bytes=numbers - 1).attention == {}


def test_patterns_and_several_patches(tiny):
    model = tiny(kind="encoder_decoder")
    sample = Sample.of(model, [1, 2, 3], [4, 5], [2, 3, 9])
    both = changed(model, "encoder.*.attention.output=zero", "*.cross_attention.heads[0]=zero", sample=sample)
    assert both.sites == (
        "encoder.blocks.0.attention.output",
        "encoder.blocks.1.attention.output",
        "decoder.blocks.0.cross_attention.heads",
        "decoder.blocks.1.cross_attention.heads",
    )
    assert both.divergence > 0
    assert not model.training


def test_models_of_whole_texts(tmp_path):
    labels = changed(classifier(), "encoder.blocks.0.attention.output=zero")
    assert (labels.kind, len(labels.positions), len(labels.positions[0].before)) == ("label", 1, 2)
    vectors = changed(encoder_of_vectors(), "encoder.blocks.0.attention.output=zero")
    assert vectors.kind == "vector"
    assert vectors.divergence > 0
    assert vectors.other_answers == 0


def test_mistakes_are_named(tiny, tmp_path):
    model = tiny()
    np.save(tmp_path / "two.npy", np.zeros((5, 3), np.float32))
    np.save(tmp_path / "text.npy", np.array(["a"]))
    (tmp_path / "bad.json").write_text("[1, ")
    (tmp_path / "bad.safetensors").write_bytes(b"nonsense")
    save_file({"a": torch.zeros(1), "b": torch.zeros(1)}, tmp_path / "two.safetensors")
    for text, error, says in [
        ("decoder.blocks.0.residual", ConfigError, "is no patch; write SITE=zero"),
        ("decoder.blocks.0.attention.heads[-1]=zero", ConfigError, "heads are numbers from 0"),
        ("=zero", ConfigError, "is no patch"),
        ("decoder.blocks.0.residul=zero", ConfigError, "no site matches"),
        ("decoder.blocks.0.residual[1]=zero", ConfigError, r"has no heads: it is \(B, T, D\)"),
        ("decoder.blocks.0.attention.heads[2]=zero", ConfigError, r"head 2 is not in 0\.\.1"),
        ("decoder.blocks.0.residual=half", ConfigError, "half is neither zero, nor mean, nor a file"),
        (f"decoder.blocks.0.residual={tmp_path}/none.npy", DataError, "there is no file"),
        (f"decoder.blocks.0.residual={tmp_path}/text.npy", DataError, "holds no array of numbers"),
        (f"decoder.blocks.0.residual={tmp_path}/bad.json", DataError, "holds no array of numbers"),
        (f"decoder.blocks.0.residual={tmp_path}/bad.safetensors", DataError, "is damaged"),
        (f"decoder.blocks.0.residual={tmp_path}/two.safetensors", DataError, r"holds 2 tensors \(a, b\)"),
        (f"decoder.blocks.0.residual={tmp_path}/two.npy", ConfigError, r"shape \(5, 3\); here stand \(5, 16\)"),
    ]:
        with pytest.raises(error, match=says):
            changed(model, text)


def test_numbers_that_are_none_are_refused(tiny, tmp_path):
    np.save(tmp_path / "nan.npy", np.full((5, 16), np.nan))
    np.save(tmp_path / "complex.npy", np.zeros((5, 16), complex))
    with pytest.raises(DataError, match=r"nan\.npy holds a NaN"):
        changed(tiny(), f"decoder.blocks.0.residual={tmp_path}/nan.npy")
    with pytest.raises(DataError, match=r"complex\.npy holds complex numbers"):
        changed(tiny(), f"decoder.blocks.0.residual={tmp_path}/complex.npy")


def test_the_mean_of_a_mask_is_the_mask(tiny):
    assert changed(tiny(), "*.mask=mean").divergence < 1e-7  # shown, the mask is applied by the equation, not fused
