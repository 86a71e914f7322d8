"""A run folder from its first file to its last, and the same model judged again."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import yaml

from glassformer.checkpoint.loading import load
from glassformer.core.errors import CheckpointError, ConfigError, DataError
from glassformer.training.recipe import load_recipe
from glassformer.training.run import claimed, evaluate_run, is_finished, read_recipe, resume, train

from .tiny import DECODER, interrupt_after, needs_posix, sequences, state, text_model

FILES = [
    "config.yaml",
    "metrics.jsonl",
    "model.safetensors",
    "report.html",
    "result.json",
    "tokenizer.json",
    "trainer",
]
KEYS = ["task", "parameters", "steps", "train_seconds", "tokens_per_second", "precision", "threads"]
KEYS += ["selected", "best_step", "valid", "test"]


def test_run_folder_holds_what_is_documented(tmp_path):
    out = tmp_path / "run"
    run = train(sequences(max_steps=4), out)
    assert sorted(file.name for file in out.iterdir()) == FILES
    assert list(run.result) == KEYS
    assert (run.folder, run.exit_code) == (out, 0)
    assert json.loads((out / "result.json").read_text()) == run.result
    assert (
        list(run.result["valid"])
        == list(run.result["test"])
        == [
            "loss",
            "perplexity",
            "tokens",
            "exact_match",
            "pairs",
        ]
    )
    assert (run.result["task"], run.result["steps"], run.result["threads"]) == ("reverse", 4, 1)
    loaded = load(out)
    assert run.result["parameters"] == sum(p.numel() for p in loaded.model.parameters())
    assert is_finished(out)
    assert yaml.safe_load((out / "config.yaml").read_text()).keys() == {"task", "model", "training", "resolved"}
    _, progress, _ = state(out)
    assert run.result["train_seconds"] == round(progress.seconds, 2)


@pytest.mark.usefixtures("no_report")
def test_text_without_a_test_part_has_no_test_result(text, tmp_path):
    run = train(text_model(text, task={"test": 0}, max_steps=1, warmup=0), tmp_path / "run")
    assert list(run.result) == KEYS[:-1]
    assert evaluate_run(tmp_path / "run") == ("valid", pytest.approx(run.result["valid"], rel=1e-6))


@pytest.mark.usefixtures("no_report")
def test_config_makes_the_same_recipe_again(text, tmp_path):
    for number, recipe in enumerate((text_model(text, max_steps=1, warmup=0), sequences(max_steps=1, warmup=0))):
        out = tmp_path / str(number)
        train(recipe, out)
        for again in (read_recipe(out), load_recipe(out / "config.yaml")):
            assert (again.task, again.model, again.training) == (recipe.task, recipe.model, recipe.training)


@pytest.mark.usefixtures("no_report")
def test_same_recipe_gives_the_same_run_and_another_seed_another(text, tmp_path):
    runs = [train(text_model(text, seed=seed), tmp_path / str(n)).result["valid"] for n, seed in enumerate((1, 1, 2))]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_folders_are_numbered(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    for number in (1, 2, 4):
        Path(f"runs/copy-{number}").mkdir(parents=True)
    with claimed(None, "copy") as folder:
        assert folder == Path("runs/copy-3")
    monkeypatch.setattr("glassformer.training.run.write_run_report", lambda *arguments: None)
    run = train(text_model(text, max_steps=1, warmup=0))
    assert run.folder == Path("runs/language_model-1")


@pytest.mark.usefixtures("no_report")
def test_tested_model_is_the_selected_one(tmp_path):
    """The test result of the folder is that of `model.safetensors`, which need not be the last model."""
    out = tmp_path / "run"
    run = train(sequences(max_steps=6, eval_every=1, lr=0.3, schedule="constant", warmup=0, seed=1), out)
    assert run.result["best_step"] < 6
    name, found = evaluate_run(out)
    assert name == "test"
    assert found == pytest.approx(run.result["test"], rel=1e-6)


@pytest.mark.parametrize(
    ("task", "kind"), [("reverse", "decoder"), ("reverse", "encoder"), ("text", "encoder_decoder"), ("text", "encoder")]
)
def test_model_of_another_kind_is_refused_before_anything_is_made(text, tmp_path, task, kind):
    make = sequences if task == "reverse" else (lambda **settings: text_model(text, **settings))
    wanted = "encoder_decoder" if task == "reverse" else "decoder"
    with pytest.raises(ConfigError, match=f"trains a model of kind {wanted}, but model.kind is {kind}"):
        train(make(model={"kind": kind}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_rows_longer_than_the_models_positions_are_refused_before_anything_is_made(text, tmp_path):
    for recipe in (text_model(text, model={"max_positions": 7}), sequences(model={"max_positions": 6})):
        longest = max(recipe.task.build().train.longest)
        message = rf"rows of {longest} tokens, but model\.max_positions is {longest - 1}"
        with pytest.raises(ConfigError, match=message):
            train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_unknown_kernel_is_refused_before_anything_is_made(text, tmp_path):
    with pytest.raises(ConfigError, match="unknown kernel 'flesh'"):
        train(text_model(text, model={"attention": {"kernel": "flesh"}}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_missing_text_is_refused_before_anything_is_made(text, tmp_path):
    with pytest.raises(DataError, match=r"there is no file .*txet\.txt; did you mean 'text\.txt'"):
        train(text_model(text.with_name("txet.txt")), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("no_report")
def test_context_of_a_text_is_the_models_limit(text, tmp_path):
    train(text_model(text, max_steps=1, warmup=0), tmp_path / "run")
    assert load(tmp_path / "run").model.max_positions == 8
    train(sequences(model={"positions": "learned"}, max_steps=1, warmup=0), tmp_path / "pairs")
    assert load(tmp_path / "pairs").model.max_positions == 7  # the longest sequence and its end token


TEXTS = {
    "Chinese": ("天地玄黃，宇宙洪荒。" * 40, {}),
    "Chinese bytes": ("天地玄黃，宇宙洪荒。" * 40, {"tokenizer": "byte"}),
    "bytes in a context shorter than a character": ("天地玄黃，宇宙洪荒。" * 40, {"tokenizer": "byte", "context": 2}),
    "one token of context": ("abcab " * 40, {"context": 1}),
    "unknown only in the test part": ("abcab " * 95 + "闫🎉" * 20, {"test": 0.05}),
    "nothing known in the test part": ("abcab " * 100 + "闫🎉" * 60, {"test": 0.1}),
    "one kind of character": ("a" * 400, {}),
    "special tokens as text": ("<unk> <pad> <eos>\n" * 30, {}),
    "rare characters are unknown": ("abcab " * 60 + "xyz" + "abcab " * 20, {"min_count": 3}),
}


@pytest.mark.parametrize(("content", "task"), TEXTS.values(), ids=TEXTS)
def test_text_of_any_kind_is_learned_to_the_report(tmp_path, content, task):
    file = tmp_path / "text.txt"
    file.write_text(content, encoding="utf-8")
    out = tmp_path / "run"
    run = train(text_model(file, task=task, max_steps=2, warmup=0, model={"n_layers": 1}), out)
    assert sorted(item.name for item in out.iterdir()) == FILES
    assert run.result["test"]["tokens"] > 0
    assert evaluate_run(out)[1] == pytest.approx(run.result["test"], rel=1e-6)


def test_compressed_text_is_the_same_text(text, tmp_path, monkeypatch):
    monkeypatch.setattr("glassformer.training.run.write_run_report", lambda *arguments: None)
    packed = tmp_path / "text.txt.gz"
    packed.write_bytes(gzip.compress(text.read_bytes()))
    results = [train(text_model(file), tmp_path / str(n)).result for n, file in enumerate((text, packed))]
    assert results[0]["test"] == results[1]["test"]


@pytest.mark.usefixtures("no_report")
def test_other_text_is_judged_in_the_models_own_vocabulary(text, tmp_path):
    train(text_model(text), tmp_path / "run")
    other = tmp_path / "other.txt"
    other.write_text("Ω a fox is quick; " * 40, encoding="utf-8")
    name, found = evaluate_run(tmp_path / "run", [f"task.text={other}"])
    assert name == "all"
    assert found["tokens"] == 18 * 40 - 1, "all but the first, before which nothing stands"
    with pytest.raises(ConfigError, match=r"task\.txt is not a setting; did you mean 'text'"):
        evaluate_run(tmp_path / "run", [f"task.txt={other}"])
    with pytest.raises(DataError, match="there is no file"):
        evaluate_run(tmp_path / "run", [f"task.text={tmp_path / 'nothing'}"])
    with pytest.raises(ConfigError, match=r"training\.seed=1 has no effect on a trained model; other data is named by"):
        evaluate_run(tmp_path / "run", ["task.test=0.5", "training.seed=1"])


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_model_can_be_judged_in_other_numbers(tmp_path, precision):
    run = train(sequences(max_steps=2, warmup=0), tmp_path / "run")
    _, found = evaluate_run(tmp_path / "run", precision=precision)
    assert found["loss"] == pytest.approx(run.result["test"]["loss"], abs=0.05)
    assert found["loss"] != run.result["test"]["loss"]
    with pytest.raises(ConfigError, match="precision is 'fp8'; choose auto, float32, bf16 or fp16"):
        evaluate_run(tmp_path / "run", precision="fp8")


@pytest.mark.parametrize(
    ("of", "edits"),
    [
        ("text", {"causal": False}),
        ("pairs", {"positions": "none"}),
        ("text", {"residual": False}),
        ("pairs", {"norm": "none"}),
        ("text", {"attention": {"scale": "none", "window": 1, "kernel": "reference"}}),
        ("pairs", {"n_layers": 1, "n_heads": 1, "d_head": 3, "d_model": 5, "head_bias": True}),
    ],
    ids=str,
)
def test_model_without_a_part_is_trained_and_judged_to_the_report(text, tmp_path, of, edits):
    """To see what a part is for, one takes it away: the run must come to its end all the same."""
    if of == "pairs":
        recipe = sequences(model=edits, max_steps=2, warmup=0)
    else:
        recipe = text_model(text, model={"positions": "sinusoidal"} | edits, max_steps=2, warmup=0)
    train(recipe, tmp_path / of)
    assert sorted(item.name for item in (tmp_path / of).iterdir()) == FILES


def test_report_speaks_the_wanted_language(text, tmp_path):
    for language, word in (("en", 'lang="en"'), ("zh", 'lang="zh')):
        train(text_model(text, language=language, max_steps=1, warmup=0, model={"n_layers": 1}), tmp_path / language)
        assert word in (tmp_path / language / "report.html").read_text(encoding="utf-8")


@needs_posix
@pytest.mark.usefixtures("no_report")
def test_model_of_a_run_that_was_stopped_can_be_used(text, tmp_path):
    train(text_model(text, model=DECODER), tmp_path / "run", [interrupt_after(3)])
    assert not is_finished(tmp_path / "run")
    assert evaluate_run(tmp_path / "run")[1]["tokens"] > 0
    resume(tmp_path / "run")
    assert is_finished(tmp_path / "run")


def test_folder_that_is_no_run_is_named(tmp_path):
    for ask in (is_finished, read_recipe, resume, evaluate_run):
        with pytest.raises(CheckpointError, match=r"is no run folder: it holds no config\.yaml"):
            ask(tmp_path)


@pytest.mark.slow
def test_reverse_is_learned(tmp_path):
    run = train(load_recipe("reverse", ["task.max_length=6", "training.max_steps=400"]), tmp_path / "run")
    assert run.result["test"]["exact_match"] > 0.9
