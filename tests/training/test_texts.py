"""Whole runs on texts: translations and labels, from the files to the report, and judged again."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
import sacrebleu

from glassformer.checkpoint.loading import load
from glassformer.core.errors import ConfigError, DataError
from glassformer.generation.answer import answer_texts
from glassformer.generation.config import BeamConfig
from glassformer.inspection.wording import word
from glassformer.training.predict import predict
from glassformer.training.run import evaluate_run, read_recipe, resolve, resume, train

from .tiny import (
    At,
    classification,
    interrupt_after,
    needs_posix,
    translation,
    write_pairs,
    write_table,
)


class Told(HTMLParser):
    """The text of a page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.said: list[str] = []
        self.feed(file.read_text("utf-8"))

    def handle_data(self, data: str) -> None:
        self.said.append(data)


@pytest.fixture(scope="module")
def translated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learned a little."""
    root = tmp_path_factory.mktemp("translation")
    recipe = translation(root / "data", task={"example": "rot und Hund"}, max_steps=30, lr=0.01, average=0.2)
    train(recipe, root / "run")
    return root


def test_translation_is_measured_by_what_the_search_of_its_task_writes(translated):
    result = json.loads((translated / "run" / "result.json").read_text("utf-8"))
    names = ["loss", "perplexity", "tokens", "exact_match", "bleu", "bleu_signature", "chrf", "pairs"]
    assert list(result["valid"]) == list(result["test"]) == names
    assert result["selected"] == "best loss, weights averaged over updates 25 to 30"
    loaded, task = load(translated / "run"), read_recipe(translated / "run").task
    pairs = task.build("encoder_decoder", loaded.tokenizer).test.pairs
    found = answer_texts(loaded, [source for source, _ in pairs], BeamConfig(beam=2))
    outputs, expected = [each[0].text for each in found], [target for _, target in pairs]
    assert result["test"]["bleu"] == sacrebleu.corpus_bleu(outputs, [expected]).score
    assert result["test"]["chrf"] == sacrebleu.corpus_chrf(outputs, [expected]).score
    assert evaluate_run(translated / "run") == ("test", result["test"])


def test_report_of_a_translation(translated):
    said = Told(translated / "run" / "report.html").said
    assert "rot und Hund" in said
    assert word("expected", "en") in said
    assert not {word("right", "en"), word("wrong", "en")} & set(said), "another translation may be as good"
    assert any(text.startswith("How BLEU was computed: nrefs:1|case:mixed") for text in said)
    assert "Measured on: the test data, once, at the end" in said
    assert any("cross_attention" in text for text in said)
    assert any(text.startswith("glassformer translate ") for text in said)


def test_translation_is_judged_on_other_files(translated, tmp_path):
    files = write_pairs(tmp_path / "other", 9, source="a.de", target="a.en")
    Path(files["source"]).write_text("Baum rot\n" * 8 + "\n", "utf-8")
    name, found = evaluate_run(translated / "run", [f"task.{side}={file}" for side, file in files.items()])
    assert name == "all"
    tokenizer = load(translated / "run").tokenizer
    texts = [line for file in files.values() for line in Path(file).read_text("utf-8").splitlines()[:8]]
    assert found["unknown"] == sum(tokenizer.n_unknown(tokenizer.encode(text)) for text in texts) >= 8
    assert found["tokens"] > 0
    assert 0 <= found["bleu"] <= 100
    with pytest.raises(ConfigError, match="no effect on a trained model"):
        evaluate_run(translated / "run", ["model.d_model=8"])
    with pytest.raises(DataError, match="there is no file"):
        evaluate_run(translated / "run", ["task.source=nothing", f"task.target={files['target']}"])


@pytest.mark.parametrize("kind", ["encoder", "decoder", "encoder_decoder"])
def test_classification_by_every_kind_of_model(tmp_path, kind):
    recipe = classification(tmp_path / "data", model={"kind": kind}, max_steps=30, lr=0.01, select_by="accuracy")
    run = train(recipe, tmp_path / "run")
    assert list(run.result["valid"]) == ["loss", "perplexity", "texts", "accuracy", "f1_macro"]
    assert (run.result["valid"]["texts"], "test" in run.result) == (2, False)
    assert run.result["texts_per_second"] >= 0
    assert evaluate_run(tmp_path / "run") == ("valid", pytest.approx(run.result["valid"], rel=1e-6))
    loaded, task = load(tmp_path / "run"), read_recipe(tmp_path / "run").task
    pairs = task.build(kind, loaded.tokenizer).valid.pairs
    found = predict(loaded, task, [(text,) for text, _ in pairs])
    right = [each.label == label for each, (_, label) in zip(found, pairs, strict=True)]
    assert run.result["valid"]["accuracy"] == sum(right) / len(right)
    said = Told(tmp_path / "run" / "report.html").said
    assert {pairs[0][0], pairs[0][1], found[0].label} <= set(said)
    assert "Measured on: the validation data, for there is no test data" in said
    assert "texts per second" in said
    other = write_table(tmp_path / "other", 9)
    name, judged = evaluate_run(tmp_path / "run", [f"task.train={other}"])
    assert (name, judged["texts"]) == ("all", 9)
    assert judged["unknown"] == sum(each.unknown for each in predict(loaded, task, texts_in(other)))


def texts_in(table: Path) -> list[tuple[str, ...]]:
    return [(line.split("\t")[0],) for line in table.read_text("utf-8").splitlines()[1:]]


@pytest.mark.usefixtures("no_report")
def test_other_data_with_a_label_that_the_model_does_not_have_is_refused(tmp_path):
    train(classification(tmp_path / "data", max_steps=1, warmup=0), tmp_path / "run")
    other = write_table(tmp_path / "other", 9)
    other.write_text(other.read_text("utf-8").replace("deed", "dead"), "utf-8")
    with pytest.raises(DataError, match="'dead'"):
        evaluate_run(tmp_path / "run", [f"task.train={other}"])


@pytest.mark.usefixtures("no_report")
def test_data_whose_labels_are_others_is_not_measured_by_their_numbers(tmp_path):
    """Class 0 of the model is "animal"; in a folder with the labels "deed" and "dead" it would be "dead"."""
    task = {"data": str(tmp_path / "data"), "train": "table.tsv", "test": "table.tsv"}
    train(classification(tmp_path / "data", task=task, max_steps=1, warmup=0), tmp_path / "run")
    assert evaluate_run(tmp_path / "run")[0] == "test"
    other = write_table(tmp_path / "other", 9)
    other.write_text(other.read_text("utf-8").replace("animal", "dead"), "utf-8")
    with pytest.raises(DataError, match=r"has the labels colour, dead, deed, the model animal, colour, deed; .*FILE"):
        evaluate_run(tmp_path / "run", [f"task.data={tmp_path / 'other'}"])


def test_matching_of_tables(tmp_path):
    run = train(classification(tmp_path / "data", task={"name": "matching"}, max_steps=5), tmp_path / "run")
    assert run.result["valid"]["texts"] == 2
    assert any(text.endswith(" --input FILE") for text in Told(tmp_path / "run" / "report.html").said)


@pytest.mark.usefixtures("no_report")
def test_matching_of_what_is_made_up(tmp_path):
    made = {"name": "matching", "train": None, "made_size": 20, "tokenizer": "character"}
    run = train(classification(tmp_path / "data", task=made, max_steps=2, warmup=0), tmp_path / "made")
    assert run.result["test"]["texts"] == 1000
    assert load(tmp_path / "made").model.config.head.classes == ("different", "same")


def test_report_in_chinese_names_the_metrics(tmp_path):
    for make, keys in ((translation, ("bleu", "tokens")), (classification, ("f1_macro", "texts_per_second"))):
        train(make(tmp_path / "data", language="zh", max_steps=1, warmup=0), tmp_path / make.__name__)
        said = Told(tmp_path / make.__name__ / "report.html").said
        for key in keys:
            assert word(key, "zh") in said


@pytest.mark.usefixtures("no_report")
def test_learned_positions_reach_as_far_as_what_is_measured_by(tmp_path):
    """A validation text that is longer than all that is learned from is found out before training, not after."""
    long = write_pairs(tmp_path / "valid", 2, source="v.de", target="v.en")
    Path(long["source"]).write_text("rot" + " rot" * 39 + "\nblau\n", "utf-8")
    task = {"valid_source": long["source"], "valid_target": long["target"]}
    recipe = translation(tmp_path / "data", task=task, model={"positions": "learned"}, max_steps=1, warmup=0)
    assert resolve(recipe.model, recipe.task.build()).encoder.input.positions.max_positions == 41
    assert train(recipe, tmp_path / "run").result["steps"] == 1
    narrow = translation(tmp_path / "data", task=task, model={"positions": "learned", "max_positions": 8})
    with pytest.raises(ConfigError, match=r"rows of 41 tokens, but model\.max_positions is 8"):
        train(narrow, tmp_path / "narrow")


# --- going on


@needs_posix
@pytest.mark.usefixtures("no_report")
def test_resume_on_other_threads_says_so_and_ends(tmp_path):
    recipe = translation(tmp_path / "data", max_steps=4, threads=1)
    assert train(recipe, tmp_path / "run", [interrupt_after(2)]).exit_code == 130
    used = []
    see = At(3, lambda trainer: used.append((trainer.config.threads, trainer.config.device)))
    with pytest.warns(UserWarning, match="saved with threads 1 and goes on with 2"):
        run = resume(tmp_path / "run", [see], threads=2, device="cpu")
    assert used == [(2, "cpu")]
    assert (run.result["steps"], run.result["threads"]) == (4, 2)
    assert read_recipe(tmp_path / "run").training.threads == 1, "the recipe stays what it is"


@needs_posix
@pytest.mark.usefixtures("no_report")
def test_resume_on_a_device_that_is_not_there_is_refused(tmp_path):
    train(translation(tmp_path / "data", max_steps=4), tmp_path / "run", [interrupt_after(2)])
    with pytest.raises(ConfigError, match="device is 'gpu'"):
        resume(tmp_path / "run", device="gpu")


@needs_posix
@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("side", ["source", "target"])
def test_resume_notices_that_a_side_of_the_data_is_another(tmp_path, side):
    recipe = translation(tmp_path / "data", max_steps=4)
    train(recipe, tmp_path / "run", [interrupt_after(2)])
    file = tmp_path / "data" / {"source": "de.txt", "target": "en.txt"}[side]
    words = {"rot": "blau", "blau": "rot"} if side == "source" else {"red": "blue", "blue": "red"}
    lines = file.read_text("utf-8").splitlines()
    file.write_text("".join(" ".join(words.get(each, each) for each in line.split()) + "\n" for line in lines), "utf-8")
    with pytest.warns(UserWarning, match="the run was saved with data .* and goes on with"):
        resume(tmp_path / "run")
