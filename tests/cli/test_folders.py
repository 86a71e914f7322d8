from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from checkpoint.folders import (
    bert_folder,
    edited,
    gpt2_folder,
    llama_folder,
    marian_folder,
    needs_stories,
    stories,
    t5_folder,
)
from glassformer.checkpoint.loading import load
from glassformer.checkpoint.native import save_model
from glassformer.generation.answer import answer_texts
from glassformer.generation.config import BeamConfig
from glassformer.text.build import byte_tokenizer
from glassformer.training import run
from glassformer.training.run import read_recipe
from training.tiny import without_report

from .calling import call, refused, sets

BAD_VERBS = {"generate": ["the"], "embed": ["the"], "score": ["the"], "summary": [], "verify": [], "convert": ["out"]}


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """A BERT that fills masks; to be read only."""
    return bert_folder(tmp_path_factory.mktemp("words") / "我的 bert")


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    """A GPT-2; to be read only."""
    return gpt2_folder(tmp_path_factory.mktemp("writer") / "gpt2")


# --- verify


def test_verify_says_that_all_is_equal(writer):
    folder = Path(shutil.copytree(writer, "gpt2"))
    result = call("verify", folder)
    assert (result.exit_code, result.stderr) == (0, "")
    first, single, double, last = result.stdout.splitlines()
    assert first == "GPT2LMHeadModel, 11,184 parameters; differences relative to the largest number"
    assert single.startswith("float32  output ")
    assert single.endswith(", at most 2e-05: equal")
    assert double.startswith("float64  output ")
    assert double.endswith(", at most 1e-09: equal")
    assert last == "equal"
    written = json.loads((folder / "verification.json").read_text())
    told = json.loads(call("verify", folder, "--json").stdout)
    assert told == written
    assert (told["equal"], told["first_divergence"]) == (True, None)
    other = json.loads(call("verify", folder, "--json", "--seed", "1").stdout)
    assert other["max_relative_difference"] != told["max_relative_difference"]


def test_verify_ends_with_1_where_something_differs(writer, monkeypatch):
    from glassformer.checkpoint.loading import ForeignFolder

    load = ForeignFolder.load

    def wrong(folder, **options):
        model = load(folder, **options)
        with torch.no_grad():
            model.decoder.blocks[1].feed_forward.output.weight[0, 0] += 1
        return model

    monkeypatch.setattr(ForeignFolder, "load", wrong)
    folder = Path(shutil.copytree(writer, "gpt2"))
    result = call("verify", folder)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert "different, first in decoder.blocks.1.feed_forward" in lines[1]
    assert lines[-2] == "decoder.blocks.1.feed_forward.output.weight is not transformer.h.1.mlp.c_proj.weight"
    assert lines[-1] == "NOT equal"
    told = json.loads(call("verify", folder, "--json").stdout)
    assert (told["equal"], told["first_divergence"]) == (False, "decoder.blocks.1.feed_forward")


def test_verify_of_a_folder_that_cannot_be_written_says_so(writer, monkeypatch):
    folder = Path(shutil.copytree(writer, "gpt2"))
    Path(folder, "verification.json").mkdir()  # writable or not: no file can be put there, not even by root
    result = call("verify", folder)
    assert result.exit_code == 0
    assert result.stderr.startswith("note: verification.json is not written: ")
    assert result.stdout.splitlines()[-1] == "equal"


def test_verify_needs_no_tokenizer():
    assert call("verify", marian_folder(Path("marian"))).exit_code == 0


def test_verify_of_what_is_ours_shows_the_way(reverse_run):
    refused(call("verify", reverse_run), "in glassformer's own format", "glassformer convert")
    refused(call("verify", "nowhere"), "there is no folder nowhere; give a checkpoint folder")


def test_verify_without_the_library_says_how_to_get_it(writer, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "transformers", None)
    refused(call("verify", writer), "pip install 'glassformer[hf]'")


# --- convert


def test_convert_goes_both_ways_and_says_what_is_next(writer):
    result = call("convert", writer, "ours")
    assert (result.exit_code, result.stdout) == (0, "ours holds a decoder of glassformer\n")
    result = call("convert", "ours", "back again")
    assert result.stdout == (
        "back again holds a gpt2 checkpoint for the reference library\nprove it: glassformer verify 'back again'\n"
    )
    before, after = (load_file(Path(folder, "model.safetensors")) for folder in (writer, "back again"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_convert_refuses_with_the_way_out(writer, reverse_run):
    refused(call("convert", writer, writer), "is the source itself; choose another folder")
    Path("full").mkdir()
    Path("full/notes.txt").touch()
    refused(call("convert", writer, "full"), "full is not empty", "--overwrite")
    assert call("convert", writer, "full", "--overwrite").exit_code == 0
    refused(call("convert", writer, "full/notes.txt"), "cannot write in full/notes.txt")
    refused(call("convert", writer, "new", "--family", "gtp2", "--to", "hf"), "did you mean 'gpt2'")
    refused(call("convert", writer, "new", "--family", "gpt2"), "leave it out")
    said = refused(call("convert", reverse_run, "new"), "no family known to the reference library can hold this model")
    assert said.splitlines()[1].startswith("  marian: position_layout is interleaved, not halves")  # the nearest
    refused(call("convert", "nowhere", "new"), "there is no folder nowhere")
    assert not Path("new").exists()


@pytest.mark.parametrize(
    "options", [("--to", "glassformer"), ("--to", "hf"), ("--quantize", "int8")], ids=["ours", "theirs", "8 bits"]
)
def test_convert_over_a_run_leaves_nothing_of_it(options, writer, reverse_run, copied):
    """A vocabulary, a result or a state of training beside another model's weights would be taken for its own."""
    run = copied(reverse_run)
    (run / "notes.txt").write_text("mine")
    (run / "trainer" / "mine.txt").write_text("mine, too")
    (run / "verification.json").write_text("{}")
    bare = Path(shutil.copytree(writer, "bare", ignore=shutil.ignore_patterns("*token*", "vocab*", "merges*")))
    assert call("convert", bare, "new", *options).exit_code == 0
    refused(call("convert", bare, run, *options), "is not empty", "--overwrite")
    assert call("convert", bare, run, *options, "--overwrite").exit_code == 0

    def files(folder: Path) -> set[Path]:
        return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}

    assert files(run) == {*files(Path("new")), Path("notes.txt"), Path("trainer/mine.txt")}
    assert (run / "model.safetensors").read_bytes() == Path("new/model.safetensors").read_bytes()


def test_convert_over_a_folder_of_the_reference_leaves_nothing_of_it(words, reverse_run):
    old = Path(shutil.copytree(words, "old"))
    assert (old / "vocab.txt").exists()
    assert call("convert", reverse_run, old, "--to", "glassformer", "--overwrite").exit_code == 0
    assert call("convert", reverse_run, "new", "--to", "glassformer").exit_code == 0
    assert sorted(path.name for path in old.iterdir()) == sorted(path.name for path in Path("new").iterdir())


def test_convert_into_a_folder_without_a_model_leaves_all_that_is_there(writer):
    Path("mine").mkdir()
    for name in ("vocab.txt", "result.json", "report.html"):
        Path("mine", name).write_text("mine")
    assert call("convert", writer, "mine", "--overwrite").exit_code == 0
    assert all(Path("mine", name).read_text() == "mine" for name in ("vocab.txt", "result.json", "report.html"))


@needs_stories
def test_stories_are_told(tmp_path):
    folder = stories(tmp_path / "stories")
    result = call("generate", folder, "Once upon a time", "--max-new-tokens", "14")
    assert result.stdout == ", there was a little girl named Lily. She loved\n"
    assert call("verify", folder).exit_code == 0


# --- embed, generate


def test_embed_prints_a_vector_a_line(words):
    result = call("embed", words, "the cat")
    assert result.exit_code == 0
    vector = [float(number) for number in result.stdout.split()]
    assert len(vector) == 16
    assert sum(number * number for number in vector) == pytest.approx(1, abs=1e-5)
    Path("texts.txt").write_text("the cat\n\n \ncats\n")
    lines = call("embed", words, "--input", "texts.txt").stdout.splitlines()
    assert lines[0] == result.stdout.strip()
    assert lines[1:3] == ["", ""]
    assert len(lines) == 4
    as_json = [json.loads(line) for line in call("embed", words, "--json", typed="the cat\n\ncats").stdout.splitlines()]
    assert as_json[1] is None
    assert as_json[0] == pytest.approx(vector, abs=1e-6)
    call("embed", words, "the cat", "--output", "vectors.txt")
    assert Path("vectors.txt").read_text() == result.stdout


def test_embed_of_a_text_that_is_too_long_shows_the_way(words):
    long = "the " * 30
    refused(call("embed", words, long), "text 1 has 30 tokens, more than the 22 that the model can read", "--cut")
    assert call("embed", words, long, "--cut").stdout == call("embed", words, "the " * 22).stdout
    refused(call("embed", words, "x", "--input", "y"), "either a text or --input", code=2)
    refused(call("embed", words, "--input", "nofile"), "there is no file nofile")


def test_generate_fills_masks(words):
    result = call("generate", words, "the [MASK] sat", "--probs", "2")
    assert (result.exit_code, result.stderr) == (0, "")
    filled, probable = result.stdout.splitlines()
    assert filled.startswith("the ")
    assert "[MASK]" not in filled
    assert probable.count(" %") == 2
    told = json.loads(call("generate", words, "the [MASK] sat", "--probs", "2", "--json").stdout)
    assert told["text"] == filled
    assert [set(each) for each in told["top"][0]] == [{"token", "id", "p"}] * 2
    assert told["tokens"] == [told["top"][0][0]["id"]]
    refused(call("generate", words, "the cat"), "there is nothing to fill: write [MASK] where a token is hidden")
    noted = call("generate", words, "[MASK]", "--stream", "--temperature", "1")
    assert noted.stderr == "note: without effect on a model that fills masks: --temperature, --stream\n"


def test_verbs_that_do_not_fit_say_which_does(words):
    body = bert_folder(Path("body"), "BertModel")
    labels = bert_folder(Path("labels"), "BertForSequenceClassification", num_labels=2)
    refused(call("generate", body, "the"), "this model makes vectors of texts and cannot write; use embed")
    refused(call("score", body, "the"), "use embed")
    refused(call("generate", labels, "the"), "this model labels texts and cannot write; use predict")
    told = refused(call("generate", labels, "the", "--fast", "on", "--stream"), "this model labels texts")
    assert "fills masks" not in told
    refused(call("score", words, "the"), "encoder-only and cannot write")


def test_other_verbs_work_on_a_folder_of_the_reference(writer, words):
    assert "decoder.blocks.1" in call("sites", writer).stdout
    assert call("summary", marian_folder(Path("marian"))).stdout.startswith("marian: encoder-decoder, vocabulary 40\n")
    assert "in all" in call("score", writer, "the").stdout
    assert call("inspect", words, "the cat").exit_code == 0
    assert call("generate", t5_folder(Path("t5")), "the cat", "--max-new-tokens", "3", "--beam", "2").exit_code == 0


# --- folders that are damaged


def lacking(folder, *names):
    for name in names:
        Path(folder, name).unlink()


def cut_off(folder):
    file = Path(folder, "model.safetensors")
    file.write_bytes(file.read_bytes()[:-100])


def another_shape(folder):
    file = Path(folder, "model.safetensors")
    save_file({**load_file(file), "extra": torch.zeros(1), "transformer.ln_f.bias": torch.zeros(3)}, file)


BAD = {
    "mamba": (
        lambda folder: edited(folder, model_type="mamba"),
        ["of model_type 'mamba' cannot be loaded; known here"],
    ),
    "class": (
        lambda folder: edited(folder, architectures=["GPT2DoubleHeadsModel"]),
        ["the architecture GPT2DoubleHeadsModel cannot be loaded; of gpt2 known here are GPT2LMHeadModel"],
    ),
    "no config": (lambda folder: lacking(folder, "config.json", "generation_config.json"), ["no", "config.json"]),
    "no weights": (lambda folder: lacking(folder, "model.safetensors"), ["holds no weights: looked for model.safe"]),
    "cut off": (cut_off, ["damaged checkpoint", "model.safetensors", "get the file again"]),
    "other tensors": (
        another_shape,
        ["do not fit the config:", "unexpected extra", "transformer.ln_f.bias has shape (3,), the config needs (16,)"],
    ),
    "unknown key": (lambda folder: edited(folder, n_positons=3), ["n_positons is 3", "did you mean 'n_positions'?"]),
}


@pytest.mark.parametrize("fault", BAD)
def test_folder_that_is_damaged_is_refused_by_every_verb(fault, writer):
    damage, words = BAD[fault]
    folder = Path(shutil.copytree(writer, "gpt2"))
    damage(folder)
    for verb, arguments in BAD_VERBS.items():
        refused(call(verb, folder, *arguments), "gpt2", *words)


def test_tokenizer_that_is_missing_or_too_large_is_named():
    folder = llama_folder(Path("llama"))
    for verb in ("generate", "embed", "score"):
        refused(call(verb, folder, "x"), "llama holds no tokenizer", "copy the files of the tokenizer into it")
    shutil.copy(bert_folder(Path("bert"), vocab_size=90) / "vocab.txt", folder)
    Path("llama/vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(chr, range(97, 150))])
    )
    for verb in ("generate", "embed", "score", "convert"):
        refused(call(verb, folder, "x"), "the tokenizer of llama has 58 entries, the model's embedding 40")


# --- train --from


def test_train_goes_on_from_a_folder(writer, book, monkeypatch):
    monkeypatch.setattr(run, "write_run_report", without_report)
    settings = sets(f"task.text={book}", "task.context=16", "training.max_steps=2", "training.batch_size=2")
    result = call("train", "language_model", "--from", writer, "--out", "run", *settings)
    assert result.exit_code == 0, result.output
    assert f"weights and vocabulary of {writer}" in " ".join(result.output.split())
    assert call("convert", "run", "hf").stdout.startswith("hf holds a gpt2 checkpoint for the reference library\n")
    assert call("verify", "hf").exit_code == 0
    refused(
        call("train", "language_model", "--from", writer, "--out", "new", *settings, "--set", "model.n_layers=3"),
        "model.n_layers cannot be set together with --from",
    )
    refused(
        call("train", "language_model", "--from", "nowhere", "--out", "new", *settings), "there is no folder nowhere"
    )
    assert not Path("new").exists()


def test_o40_convert_into_8_bits_says_what_it_costs(tmp_path):
    small = tmp_path / "small"
    done = call("convert", "preset:tiny", small, "--quantize", "int8")
    assert done.exit_code == 0
    assert "input and output still share one table" in done.stdout
    assert "loss on a fixed text: " in done.stdout
    assert call("generate", small, "ab", "--max-new-tokens", "4").exit_code == 0
    theirs = call("convert", "preset:tiny", tmp_path / "theirs", "--quantize", "int8", "--to", "hf")
    refused(theirs, "leave out --to hf", code=2)


def in_8_bits(run: Path) -> Path:
    small = Path("small")
    result = call("convert", run, small, "--quantize", "int8")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == "measure it: glassformer eval small"
    return small


def test_o40_classifier_in_8_bits_is_used_like_its_run(label_run):
    small = in_8_bits(label_run)
    assert sorted(path.name for path in small.iterdir()) == ["config.yaml", "model.safetensors", "tokenizer.json"]
    for words in ("who 3", "where 1", "how many 7"):
        label, _ = call("predict", label_run, words).stdout.split("\t")
        said, _ = call("predict", small, words).stdout.split("\t")
        assert said == label
    assert call("eval", small).stdout.startswith("valid: accuracy 100.0 %")
    assert call("inspect", small, "who 3").exit_code == 0
    assert "it labels whole texts" in call("convert", label_run, "again", "--quantize", "int8").stdout


def test_o40_translator_in_8_bits_is_used_like_its_run(translation_run):
    small = in_8_bits(translation_run)
    texts = ["rot und blau", "ein Hund"]
    as_the_run_asks = BeamConfig(beam=2, length_penalty=read_recipe(translation_run).task.judging.length_penalty)
    wanted = [found[0].text for found in answer_texts(load(small), texts, as_the_run_asks)]
    translated = call("translate", small, typed="\n".join(texts))
    assert (translated.exit_code, translated.stdout.splitlines()) == (0, wanted)
    assert call("eval", small).stdout.startswith("test: ")


def test_o40_run_in_8_bits_is_not_gone_on_with(text_run, book):
    small = in_8_bits(text_run)
    before = (small / "model.safetensors").read_bytes()
    refused(call("train", "--resume", small), "small holds a model in 8 bits, which does not learn", "the run it was")
    said = refused(
        call("train", "language_model", "--out", small, *sets(f"task.text={book}")), "small is not empty", code=1
    )
    assert "--resume" not in said
    assert (small / "model.safetensors").read_bytes() == before


def test_what_a_model_in_8_bits_lacks_is_said_without_advice_that_leads_nowhere():
    assert call("convert", "preset:tiny", "small", "--quantize", "int8").exit_code == 0
    said = refused(
        call("verify", "small"), "small is in 8 bits, as only glassformer reads them; the one it was made from"
    )
    assert "glassformer convert small" not in said
    refused(call("predict", "small", "x"), "it holds no config.yaml; if its model is that of a run, copy the file from")


def test_size_of_a_small_model_is_said_in_kb(label_run):
    said = call("convert", label_run, "small", "--quantize", "int8").stdout
    after, before = re.search(r"8 bits: ([\d.]+) kB instead of ([\d.]+) \(", said).groups()
    for folder, size in ((label_run, before), ("small", after)):
        tensors = load_file(Path(folder, "model.safetensors")).values()
        assert size == f"{sum(tensor.nbytes for tensor in tensors) / 1000:.1f}"


def test_model_that_reads_one_token_is_told_what_it_lacks(tiny):
    model = tiny(vocab_size=259, positions="learned", max_positions=1)
    Path("one").mkdir()
    save_model(model, Path("one/model.safetensors"))
    byte_tokenizer(("<pad>", "<bos>", "<eos>")).save("one/tokenizer.json")
    for verb in ("trace", "inspect"):
        said = refused(call(verb, "one", "a"), "context of 1 holds no token of the input beside the special ones")
        assert "--max-tokens" not in said
    assert "its context holds one token" in call("convert", "one", "small", "--quantize", "int8").stdout
