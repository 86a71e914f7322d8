from __future__ import annotations

import json
import math
import os
import shutil
import signal
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from checkpoint.folders import BERT, bert_folder, edited, gpt2_folder, llama_folder, roberta_folder, t5_folder
from glassformer.checkpoint.convert import convert
from glassformer.checkpoint.loading import ForeignFolder, load
from glassformer.checkpoint.native import save_model
from glassformer.checkpoint.quantise import quantise_checkpoint
from glassformer.checkpoint.verify import verify
from glassformer.core.errors import CheckpointError, ConfigError, UnsupportedError
from glassformer.models.quantise import refuse_learning
from glassformer.text.build import byte_tokenizer
from glassformer.training import run
from glassformer.training.recipe import load_recipe
from glassformer.training.run import resume, train
from glassformer.training.start import started_from

from .tiny import At, assert_same_end, in_child, metrics, needs_posix, text_model, without_report, write_text_file

TRAINING = "training: {max_steps: 6, batch_size: 2, lr: 1e-3, log_every: 1, precision: float32, save_every: 2}\n"

WORDS = "label\ttext\n" + "".join(
    f"{'ab'[n % 2]}\tcat {n:05b}\n".replace("0", ".").replace("1", "[") for n in range(24)
)


@pytest.fixture(autouse=True)
def _without_report(monkeypatch):
    monkeypatch.setattr(run, "write_run_report", without_report)


def text_recipe(folder):
    """A recipe for a decoder that learns a text; its own model would be another one."""
    recipe = folder / "text.yaml"
    file = write_text_file(folder)
    recipe.write_text(f"task: {{name: language_model, text: {file}, context: 8}}\nmodel: {{d_model: 88}}\n{TRAINING}")
    return recipe


def label_recipe(folder):
    (folder / "labels.tsv").write_text(WORDS)
    recipe = folder / "labels.yaml"
    recipe.write_text(f"task: {{name: classification, train: {folder / 'labels.tsv'}}}\n{TRAINING}")
    return recipe


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A run of ours that knows its text."""
    folder = tmp_path_factory.mktemp("learned")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "write_run_report", without_report)
        recipe = text_model(
            write_text_file(folder), model={"dropout": 0.0}, max_steps=60, batch_size=8, lr=1e-2, warmup=0
        )
        train(recipe, folder / "run")
    return folder / "run"


def losses(folder):
    return [row["loss"] for row in metrics(folder) if row["split"] == "train"]


def test_training_goes_on_where_the_checkpoint_is(learned, tmp_path):
    vocab_size = load(learned).tokenizer.vocab_size
    assert losses(learned)[0] > 0.9 * math.log(vocab_size)
    assert losses(learned)[-1] < 0.8 * losses(learned)[0]
    recipe = started_from(text_recipe(tmp_path), str(learned), ["training.lr=1e-6"])
    assert recipe.start == str(learned)
    assert recipe.model.d_model == 16
    finished = train(recipe, tmp_path / "run")
    assert losses(tmp_path / "run")[0] < losses(learned)[-1] + 0.3
    assert finished.result["steps"] == 6
    assert (tmp_path / "run" / "tokenizer.json").read_bytes() == (learned / "tokenizer.json").read_bytes()
    one, other = load(learned).model, load(tmp_path / "run").model
    for (name, before), (_, after) in zip(one.named_parameters(), other.named_parameters(), strict=True):
        torch.testing.assert_close(before, after, atol=1e-4, rtol=0, msg=name)
    assert one.config == other.config


def test_checkpoint_of_the_reference_goes_on_and_goes_back(tmp_path):
    source = gpt2_folder(tmp_path / "gpt2")
    train(started_from(text_recipe(tmp_path), str(source)), tmp_path / "run")
    assert convert(tmp_path / "run", tmp_path / "hf") == ("hf", "gpt2")
    assert verify(ForeignFolder.open(tmp_path / "hf")).equal
    before, after = (load_file(folder / "model.safetensors") for folder in (source, tmp_path / "hf"))
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert {"transformer.wte.weight", "transformer.h.1.mlp.c_proj.weight"} <= changed
    assert max(float((before[name] - after[name]).abs().max()) for name in before) < 0.02
    assert load(tmp_path / "hf").tokenizer.prefix == ()


def test_relative_name_is_kept_whole(learned, tmp_path, monkeypatch):
    monkeypatch.chdir(learned.parent)
    assert started_from(text_recipe(tmp_path), "run").start == str(learned)
    assert started_from(text_recipe(tmp_path), "preset:llama-tiny").start == "preset:llama-tiny"


@needs_posix
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_run_that_was_killed_goes_on(learned, tmp_path):
    """Before its first save it needs the checkpoint again, and after it not even that."""
    recipe = text_recipe(tmp_path)
    source = Path(shutil.copytree(learned, tmp_path / "source"))
    train(started_from(recipe, str(source)), tmp_path / "whole")

    def killed(step, folder):
        kill = At(step, lambda trainer: os.kill(os.getpid(), signal.SIGKILL))
        assert in_child(lambda: train(started_from(recipe, str(source)), folder, [kill])) == -signal.SIGKILL

    killed(1, tmp_path / "early")
    killed(5, tmp_path / "late")
    assert not list((tmp_path / "early" / "trainer").glob("*.safetensors"))
    source.rename(tmp_path / "gone")
    resume(tmp_path / "late")
    assert_same_end(tmp_path / "late", tmp_path / "whole")
    with pytest.raises(CheckpointError, match=rf"there is no folder {source}"):
        resume(tmp_path / "early")
    (tmp_path / "gone").rename(source)
    resume(tmp_path / "early")
    assert_same_end(tmp_path / "early", tmp_path / "whole")


def test_architecture_stays_that_of_the_checkpoint(learned, tmp_path):
    recipe = text_recipe(tmp_path)
    for edit in ("model.d_model=32", "model.preset=tiny", "model.attention.bias=false", " model.n_layers = 3"):
        with pytest.raises(ConfigError, match=r"^model\.\S+ cannot be set together with --from: the architecture is"):
            started_from(recipe, str(learned), [edit])
    for edit in ("type=linear", "type=shaw", "qk_norm=true", "soft_cap=2", "scale=none", "max_distance=4", "windows=3"):
        with pytest.raises(ConfigError, match=r"^model\.attention\.\S+ cannot be set together with --from"):
            started_from(recipe, str(learned), [f"model.attention.{edit}"])
    for edit in ("positions=alibi", "n_kv_heads=1", "rotary.theta=99", "causal=false"):
        with pytest.raises(
            ConfigError,
            match=r"^model\.\S+ cannot be set .*For another architecture train a new model, without --from$",
        ):
            started_from(recipe, str(learned), [f"model.{edit}"])
    edits = ["model.dropout=0.25", "model.attention.dropout=0.5", "model.attention.kernel=reference"]
    changed = started_from(recipe, str(learned), edits).model
    assert (changed.dropout, changed.attention.dropout, changed.attention.kernel) == (0.25, 0.5, "reference")
    assert started_from(recipe, str(learned)).model.dropout == 0.0
    with pytest.raises(ConfigError, match=r"model\.dropout is 'much'"):
        started_from(recipe, str(learned), ["model.dropout=much"])


def test_attention_may_see_less_than_it_did(learned, tmp_path):
    """A window where there was none, then a narrower one; not a wider one, nor none, nor another pattern."""
    recipe, first, second = text_recipe(tmp_path), tmp_path / "first", tmp_path / "second"
    near = ["model.attention.window=5", "model.attention.pattern.block=4", "model.attention.window_layers=[0]"]
    with pytest.raises(ConfigError, match=r"layer 0: attention\.kernel=windowed cannot do this: it is for a window"):
        train(started_from(recipe, str(learned), [*near, "model.attention.kernel=windowed"]), first)
    train(started_from(recipe, str(learned), near), first)
    assert load(first).model.config.decoder.blocks[0].attention.window == 5
    assert load(first).model.config.decoder.blocks[1].attention.window is None
    train(started_from(recipe, str(first), ["model.attention.window=3", "training.max_steps=1"]), second)
    assert load(second).model.config.decoder.blocks[0].attention.window == 3
    for edit, said in (
        ("window=6", r"window is 6, and was 5"),
        ("window=none", r"window is none, and was 5"),
        ("pattern.block=2", r"pattern\.block is 2, and was 4"),
        ("pattern=none", r"pattern is none, and was set"),
    ):
        message = rf"weights of {first} would mean something else .*\n  decoder\.blocks\.\*\.attention\.{said}\n"
        with pytest.raises(ConfigError, match=message):
            train(started_from(recipe, str(first), [f"model.attention.{edit}"]), tmp_path / "third")
    assert not (tmp_path / "third").exists()


@pytest.mark.parametrize(
    ("section", "key", "value", "said"),
    [
        ("attention", "type", "linear", r"decoder\.blocks\.\*\.attention\.type is linear, and was softmax"),
        ("attention", "scale", "d_k", r"decoder\.blocks\.\*\.attention\.scale is d_k, and was sqrt"),
        (None, "positions", "alibi", r"decoder\.position_bias is alibi, and was none"),
        (None, "n_kv_heads", "1", r"decoder\.blocks\.\*\.attention\.n_kv_heads is 1, and was 2"),
    ],
)
def test_recipe_of_a_run_that_was_begun_from_another_is_not_bent_by_hand(learned, tmp_path, section, key, value, said):
    """Its config.yaml names the checkpoint; tensors of the same shapes would fit, and answer noise."""
    recipe, run_folder = text_recipe(tmp_path), tmp_path / "run"
    train(started_from(recipe, str(learned), ["training.max_steps=1"]), run_folder)
    content = yaml.safe_load((run_folder / "config.yaml").read_text())
    (content["model"] if section is None else content["model"][section])[key] = value
    bent = tmp_path / "bent.yaml"
    bent.write_text(yaml.safe_dump(content))
    message = rf"weights of {learned} would mean something else in this model:\n  (?s:.*){said}"
    with pytest.raises(ConfigError, match=message):
        train(load_recipe(bent), tmp_path / "again")
    path = f"model.{section}.{key}" if section else f"model.{key}"
    with pytest.raises(ConfigError, match=message):
        train(load_recipe(run_folder / "config.yaml", [f"{path}={value}"]), tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("edit", ["task.tokenizer=word", "task.min_count=2", "task.vocab_size=300"])
def test_vocabulary_stays_that_of_the_checkpoint(edit, learned, tmp_path):
    key = edit.partition("=")[0]
    with pytest.raises(ConfigError, match=rf"^{key} cannot be set together with --from: the vocabulary is that of"):
        started_from(text_recipe(tmp_path), str(learned), [edit])


SCORES = {"head.weight", "head.bias"}
POOLER = {"head.transform.linear.weight", "head.transform.linear.bias"}


@pytest.mark.parametrize(
    ("make", "name", "drawn"),
    [
        (bert_folder, "BertModel", SCORES),  # with its pooler
        (bert_folder, "BertForMaskedLM", SCORES | POOLER),  # what was done to each token is no pooler
        (bert_folder, "BertForSequenceClassification", SCORES),  # for other labels
        (roberta_folder, "RobertaForMaskedLM", SCORES | POOLER),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_classifier_takes_over_the_body_of_an_encoder(make, name, drawn, tmp_path):
    source = make(tmp_path / "source", name, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    train(started_from(label_recipe(tmp_path), str(source), ["training.lr=1e-7"]), tmp_path / "run")
    before, after = (load(folder).model.state_dict() for folder in (source, tmp_path / "run"))
    new = {
        parameter
        for parameter, tensor in after.items()
        if parameter not in before
        or tensor.shape != before[parameter].shape
        or not torch.allclose(tensor, before[parameter], atol=1e-5)
    }
    assert new == drawn
    assert convert(tmp_path / "run", tmp_path / "hf")[1] == name.partition("For")[0].removesuffix("Model").lower()
    assert verify(ForeignFolder.open(tmp_path / "hf")).equal
    assert json.loads((tmp_path / "hf" / "config.json").read_text())["id2label"] == {"0": "a", "1": "b"}


def test_classifier_goes_on_with_the_same_labels(tmp_path):
    names = {"id2label": {0: "a", 1: "b"}, "label2id": {"a": 0, "b": 1}}
    source = bert_folder(tmp_path / "bert", "BertForSequenceClassification", **names)
    train(started_from(label_recipe(tmp_path), str(source), ["training.lr=1e-7"]), tmp_path / "run")
    before, after = (load(folder).model.state_dict() for folder in (source, tmp_path / "run"))
    for parameter, tensor in after.items():
        torch.testing.assert_close(tensor, before[parameter], atol=1e-5, rtol=0, msg=parameter)


def test_classifier_from_a_decoder(tmp_path):
    source = gpt2_folder(tmp_path / "gpt2")
    train(started_from(label_recipe(tmp_path), str(source), ["training.lr=1e-7"]), tmp_path / "run")
    before, after = load(source).model.state_dict(), load(tmp_path / "run").model.state_dict()
    assert all(torch.allclose(before[name], after[name], atol=1e-5) for name in after if name.startswith("decoder."))


def test_rows_that_no_token_uses_are_left_behind(tmp_path):
    source = bert_folder(tmp_path / "bert", vocab_size=BERT["vocab_size"] + 9)
    train(started_from(label_recipe(tmp_path), str(source), ["training.lr=1e-7"]), tmp_path / "run")
    before, after = (load(folder).model.encoder.input.embedding.weight for folder in (source, tmp_path / "run"))
    assert (len(before), len(after)) == (BERT["vocab_size"] + 9, BERT["vocab_size"])
    torch.testing.assert_close(before[: len(after)], after, atol=1e-5, rtol=0)


def test_model_that_cannot_learn_the_task_is_named(tmp_path):
    recipe = text_recipe(tmp_path)
    for make, kind in ((bert_folder, "encoder"), (t5_folder, "encoder_decoder")):
        source = make(tmp_path / kind)
        with pytest.raises(ConfigError, match=rf"language_model trains a model of kind decoder, but .*{kind}"):
            train(started_from(recipe, str(source)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_text_longer_than_the_positions_is_named(tmp_path):
    source = gpt2_folder(tmp_path / "gpt2")
    recipe = started_from(text_recipe(tmp_path), str(source), ["task.context=25"])
    with pytest.raises(ConfigError, match=r"rows of 25 tokens, but model\.max_positions is 24"):
        train(recipe, tmp_path / "run")


def test_body_without_a_head_learns_one(tmp_path):
    source = gpt2_folder(tmp_path / "gpt2", "GPT2Model")
    train(started_from(text_recipe(tmp_path), str(source), ["training.lr=1e-7"]), tmp_path / "run")
    before, after = load(source).model, load(tmp_path / "run").model
    assert before.head is None
    assert after.head is not None
    torch.testing.assert_close(before.decoder.final_norm.weight, after.decoder.final_norm.weight, atol=1e-5, rtol=0)


def test_source_is_refused_where_it_is_no_checkpoint(tiny, tmp_path):
    recipe = text_recipe(tmp_path)
    with pytest.raises(CheckpointError, match=r"there is no folder nowhere"):
        started_from(recipe, "nowhere")
    with pytest.raises(CheckpointError, match=r"holds no tokenizer"):
        started_from(recipe, str(llama_folder(tmp_path / "llama")))
    edited(tmp_path / "llama", model_type="mamba")
    with pytest.raises(ConfigError.__mro__[1], match=r"model_type 'mamba' cannot be loaded"):
        started_from(recipe, str(tmp_path / "llama"))
    save_model(tiny(16), tmp_path / "model.safetensors")
    byte_tokenizer().save(tmp_path / "tokenizer.json")
    with pytest.raises(CheckpointError, match=r"has 256 entries, the model's embedding 16"):
        started_from(recipe, str(tmp_path))


def test_o40_model_in_8_bits_is_not_trained(tmp_path):
    small = tmp_path / "small"
    quantise_checkpoint("preset:tiny", small)
    with pytest.raises(UnsupportedError, match="does not learn: train the one it was made from"):
        started_from("language_model", str(small), [f"task.text={write_text_file(tmp_path)}"])
    with pytest.raises(UnsupportedError, match="does not learn"):
        refuse_learning(load(small).model)
