"""`translate` and `predict`: as many lines out as in, whatever stands in them."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.checkpoint.loading import load
from glassformer.generation.answer import answer_texts
from glassformer.generation.config import BeamConfig
from glassformer.generation.text import beam_texts
from glassformer.models import quick
from glassformer.training.predict import predict
from glassformer.training.run import read_recipe

from .calling import call, refused, sets, train
from .conftest import TRANSLATION

TEXTS = ["rot und blau", "ein Hund", "sieht ein Katze rot"]


def translations(run: Path, texts: list[str], **settings: int | float) -> list[str]:
    """What the library writes."""
    config = BeamConfig(**{"beam": 2, **settings})
    return [found[0].text for found in answer_texts(load(run), texts, config)]


# --- training them


def test_what_is_said_before_and_after_training_is_aligned(pairs: tuple[Path, Path]) -> None:
    Path("tiny.yaml").write_text(TRANSLATION, "utf-8")
    edits = (f"task.source={pairs[0]}", f"task.target={pairs[1]}", "training.label_smoothing=0.1")
    last = ("training.max_steps=2", "training.average=0.5", "training.select_by=bleu")
    said = train("tiny.yaml", "--out", "run", *sets(*edits, *last)).stdout.splitlines()
    named = [line for line in said if not line.startswith(" ")]
    assert all(len(line) > 9 and line[8] == " " and line[9] != " " for line in named)
    names = [line[:8].strip() for line in named]
    assert names[:6] == ["run", "model", "training", "device", "expect", "loss"]
    assert "training 2 updates, batches of 60 tokens, 4 batches an epoch" in named
    assert names[-7:] == ["trained", "kept", "valid", "test", "run", "report", "next"]
    assert "kept     update 2, the best BLEU, weights averaged over updates 2 to 2" in named


# --- translate


def test_translate_writes_what_the_library_writes(translation_run: Path) -> None:
    wanted = translations(translation_run, TEXTS)
    assert len(set(wanted)) == 3
    Path("in.txt").write_text("\n".join(TEXTS) + "\n", "utf-8")
    result = call("translate", translation_run, "--input", "in.txt")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == wanted
    assert result.stderr == ""
    piped = call("translate", translation_run, typed="\n".join(TEXTS))
    assert piped.stdout == result.stdout, "the final line break makes no difference"


@pytest.mark.parametrize(
    ("typed", "texts"),
    [
        ("ein Hund\n\nrot\n", ["ein Hund", "", "rot"]),
        ("ein Hund\n   \nrot", ["ein Hund", "", "rot"]),
        ("ein Hund\r\n\r\nrot\r\n", ["ein Hund", "", "rot"]),
        ("ein Hund\n\n\n", ["ein Hund", "", ""]),
        ("\n", [""]),
        ("", []),
        (b"\xef\xbb\xbfein Hund\n", ["ein Hund"]),
        ("ein\u2028Hund\n", ["ein\u2028Hund"]),
    ],
)
def test_o22_line_n_of_the_output_belongs_to_line_n_of_the_input(
    translation_run: Path, typed: str | bytes, texts: list[str]
) -> None:
    own = iter(translations(translation_run, [text for text in texts if text]))
    wanted = "".join(f"{next(own) if text else ''}\n" for text in texts)
    Path("in.txt").write_bytes(typed if isinstance(typed, bytes) else typed.encode())
    for result in (
        call("translate", translation_run, typed=typed),
        call("translate", translation_run, "--input", "in.txt"),
    ):
        assert (result.exit_code, result.stdout) == (0, wanted)
    written = call("translate", translation_run, "--input", "in.txt", "--output", "out.txt")
    number = "1 line" if len(texts) == 1 else f"{len(texts)} lines"
    assert (written.exit_code, written.stdout) == (0, f"out.txt: {number}\n")
    assert Path("out.txt").read_bytes() == wanted.encode()


def test_translate_writes_a_file_whole_or_not_at_all(translation_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out.txt").write_text("what was there", "utf-8")
    Path("folder").mkdir()
    refused(call("translate", translation_run, "--output", "folder", typed="rot"), "folder is a folder", code=2)
    refused(
        call("translate", translation_run, "--output", "out.txt/x", typed="rot"), "choose another folder with --output"
    )
    bad = call("translate", translation_run, "--output", "out.txt", typed=b"rot\nbl\xff\n")
    refused(bad, "the standard input is not UTF-8: byte 0xFF in line 2, at offset 6")
    assert Path("out.txt").read_text("utf-8") == "what was there"
    Path("bad.txt").write_bytes(b"\xef\xbb\xbfrot\r\n\r\nbl\xff\n")
    refused(call("translate", translation_run, "--input", "bad.txt"), "bad.txt is not UTF-8: byte 0xFF in line 3")
    refused(call("translate", translation_run, "--input", "none.txt"), "there is no file none.txt")
    piped = call("translate", translation_run, typed=Path("bad.txt").read_bytes())
    refused(piped, "byte 0xFF in line 3, at offset 12")


def test_translate_of_a_text_with_a_line_break_stays_one_line(
    translation_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.text.tokenizer.TextTokenizer.decode", lambda self, ids, after=(): "a\r\nb\nc")
    assert call("translate", translation_run, typed="rot\nblau\n").stdout == "a b c\na b c\n"
    ranked = call("translate", translation_run, "--nbest", "2", typed="rot").stdout.splitlines()
    assert [line.split("\t")[2] for line in ranked] == ["a b c", "a b c"]


def test_translate_gives_the_best_of_each_line_with_number_and_score(translation_run: Path) -> None:
    result = call("translate", translation_run, "--nbest", "2", typed="rot und\n\nein Hund\n")
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2", "2", "3", "3"]
    assert rows[2] == rows[3] == ["2", "", ""]
    found = answer_texts(load(translation_run), ["rot und", "ein Hund"], BeamConfig(beam=2, n_best=2))
    assert [row[1:] for row in rows[:2] + rows[4:]] == [
        [f"{each.score:.4f}", each.text] for both in found for each in both
    ]
    assert float(rows[0][1]) >= float(rows[1][1])
    wider = call("translate", translation_run, "--nbest", "3", typed="rot und\n").stdout
    assert len(wider.splitlines()) == 3, "a beam that is not named is wide enough"


def test_translate_takes_another_beam_and_length_penalty(translation_run: Path) -> None:
    greedy = call("translate", translation_run, "--beam", "1", typed="\n".join(TEXTS)).stdout.splitlines()
    assert greedy == translations(translation_run, TEXTS, beam=1)
    short = call("translate", translation_run, "--length-penalty", "0", typed="\n".join(TEXTS)).stdout.splitlines()
    assert short == translations(translation_run, TEXTS, length_penalty=0.0)


def test_translate_as_the_model_is_written_compiles_nothing(
    translation_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = call("translate", translation_run, typed="\n".join(TEXTS)).stdout
    monkeypatch.setattr(quick, "has_operators", lambda: pytest.fail("it is asked for what it must not use"))
    assert call("translate", translation_run, "--fast", "off", typed="\n".join(TEXTS)).stdout == usual


@pytest.mark.parametrize(
    ("options", "words", "code"),
    [
        (["--beam", "0"], "--beam", 2),
        (["--beam", "100000"], "--beam is 100000: input should be less than or equal to 1000", 2),
        (["--beam", "2", "--nbest", "3"], "--nbest is 3, more than the beam of 2; raise beam or lower --nbest", 2),
        (["--length-penalty", "-1"], "--length-penalty is -1.0", 2),
        (["--over-long", "cat"], "'cat' is no way with lines that are too long; did you mean 'cut'?", 1),
        (["--precision", "float8"], "precision is 'float8'", 1),
    ],
)
def test_translate_refuses_a_wrong_option(translation_run: Path, options: list[str], words: str, code: int) -> None:
    refused(call("translate", translation_run, *options, typed="rot\n"), words, code=code)


def test_o07_lines_longer_than_the_model_can_read(narrow_run: Path) -> None:
    typed = "rot und\nrot und blau und rot und\nein Hund\n"
    refused(call("translate", narrow_run, typed=typed), "line 2 has 6 tokens, more than the 4 that the model can read")
    skipped = call("translate", narrow_run, "--over-long", "skip", typed=typed)
    lines = skipped.stdout.split("\n")
    assert (skipped.exit_code, len(lines), lines[1]) == (0, 4, "")
    assert "note: 1 line too long and skipped, the first of them line 2\n" in skipped.stderr
    cut = call("translate", narrow_run, "--over-long", "cut", typed=typed)
    assert "note: 1 line too long and cut, the first of them line 2\n" in cut.stderr
    first = call("translate", narrow_run, typed="rot und blau und").stdout
    assert cut.stdout.split("\n")[1] + "\n" == first
    assert [cut.stdout.split("\n")[n] for n in (0, 2)] == [lines[0], lines[2]]


def test_translate_says_what_it_does_not_know(translation_run: Path) -> None:
    assert "note: 2 tokens unknown to this model\n" in call("translate", translation_run, typed="rot Baum Haus").stderr


def test_translate_refuses_a_model_that_cannot(text_run: Path, label_run: Path) -> None:
    for typed in ("a text\n", ""):
        refused(call("translate", text_run, typed=typed), "only an encoder-decoder answers a text", "use generate")
    refused(call("translate", label_run, typed="who 3\n"), "this model labels texts and cannot write; use predict")


# --- predict


def test_predict_labels_a_text(label_run: Path) -> None:
    wanted = predict(load(label_run), read_recipe(label_run).task, [("who 3",)])[0]
    assert call("predict", label_run, "who 3").stdout == wanted.line + "\n"
    said = json.loads(call("predict", label_run, "who 3", "--json").stdout)
    assert said["label"] == wanted.label
    assert said["probabilities"] == pytest.approx(wanted.probabilities)
    assert list(said["probabilities"]) == ["number", "person", "place"]
    assert (said["unknown"], said["cut"]) == (0, 0)
    assert call("predict", label_run, "-", typed="who 3\n").stdout == wanted.line + "\n"


def test_o22_predict_labels_line_by_line(label_run: Path) -> None:
    Path("in.txt").write_text("who 1\n\n  \nwhere 2", "utf-8")
    one, two = (call("predict", label_run, text).stdout for text in ("who 1", "where 2"))
    assert call("predict", label_run, "--input", "in.txt").stdout == f"{one}\n\n{two}"
    assert call("predict", label_run, typed="who 1\r\n\r\n \r\nwhere 2\r\n").stdout == f"{one}\n\n{two}"
    assert call("predict", label_run, "--input", "in.txt", "--output", "out.txt").stdout == "out.txt: 4 lines\n"
    assert Path("out.txt").read_text("utf-8") == f"{one}\n\n{two}"
    rows = [json.loads(line) for line in call("predict", label_run, "--input", "in.txt", "--json").stdout.splitlines()]
    assert [row and row["label"] for row in rows] == [one.split("\t")[0], None, None, two.split("\t")[0]]
    empty = call("predict", label_run, typed="")
    assert (empty.exit_code, empty.output) == (0, "")
    assert call("predict", label_run, "").stdout == "\n"


def test_predict_says_what_it_does_not_know_or_read(label_run: Path) -> None:
    assert call("predict", label_run, "who Baum").stderr == "note: 1 token unknown to this model\n"
    assert call("predict", label_run, "who 1" + " 1" * 300).stderr == "note: 1 text too long and cut\n"


def test_predict_judges_two_texts_together(match_run: Path) -> None:
    wanted = predict(load(match_run), read_recipe(match_run).task, [("5 May 1950", "1950-05-05")])[0].line
    assert call("predict", match_run, "5 May 1950", "1950-05-05").stdout == wanted + "\n"
    assert call("predict", match_run, typed="5 May 1950\t1950-05-05\n\n").stdout == wanted + "\n\n"
    assert call("predict", match_run, "5 May 1950\t1950-05-05").stdout == wanted + "\n"
    refused(
        call("predict", match_run, typed="5 May 1950\n"), "line 1 holds one text; give two in each line, with a tab"
    )
    refused(call("predict", match_run, "5 May 1950"), "one text is given, but this task labels 2 at a time")


def test_predict_refuses_what_it_cannot_do(label_run: Path, text_run: Path, translation_run: Path) -> None:
    for run in (text_run, translation_run):
        refused(call("predict", run, "a text"), "this model labels no texts; train one with the recipe classification")
    refused(call("predict", label_run, "who", "where"), "2 texts are given, but this task labels 1 at a time")
    refused(call("predict", label_run, "who", "--input", "in.txt"), "either a text or --input, not both", code=2)
    refused(call("predict", label_run, typed=b"who\n\xff"), "byte 0xFF in line 2, at offset 4")
    refused(call("predict", label_run, "who", "--output", "."), "is a folder; name a file in it", code=2)


# --- the other verbs with these models


def test_eval_of_a_translation_and_of_labels(translation_run: Path, label_run: Path) -> None:
    for run, split in ((translation_run, "test"), (label_run, "valid")):
        wanted = json.loads((run / "result.json").read_text("utf-8"))[split]
        assert json.loads(call("eval", run, "--json").stdout) == {"split": split, **wanted}
    said = call("eval", translation_run).stdout
    assert said.startswith("test: exact match ")
    assert "  BLEU " in said
    assert "nrefs" not in said
    signature = json.loads(call("eval", translation_run, "--json").stdout)["bleu_signature"]
    assert signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|")
    assert call("eval", label_run).stdout.startswith("valid: accuracy ")


def test_eval_says_how_much_of_new_data_is_unknown(label_run: Path, translation_run: Path) -> None:
    Path("new.tsv").write_text("label\ttext\nperson\twho Baum\nplace\twhere Haus Hof\n", "utf-8")
    result = call("eval", label_run, *sets("task.train=new.tsv"))
    assert result.stdout.startswith("all: accuracy ")
    assert result.stderr == "note: 3 tokens of the data unknown to this model\n"
    assert json.loads(call("eval", label_run, *sets("task.train=new.tsv"), "--json").stdout)["unknown"] == 3
    known = call("eval", label_run)
    assert known.stderr == ""
    assert "unknown" not in json.loads(call("eval", label_run, "--json").stdout)


def test_generate_searches(translation_run: Path, text_run: Path) -> None:
    [[best]] = beam_texts(load(translation_run), ["rot und blau"], BeamConfig(beam=2, max_new_tokens=9))
    shown = call("generate", translation_run, "rot und blau", "--beam", "2", "--max-new-tokens", "9").stdout
    assert shown == best.text + "\n"
    found = json.loads(call("generate", text_run, "The ", "--beam", "3", "--max-new-tokens", "5", "--json").stdout)
    assert set(found) == {"text", "tokens", "stop_reason", "score"}
    assert len(found["tokens"]) <= 5
    both = call("generate", translation_run, "rot", "--beam", "2", "--temperature", "1", "--stream")
    refused(both, "a search (--beam) takes no --temperature, --stream", code=2)
    assert "without effect without --beam" in call("generate", translation_run, "rot", "--length-penalty", "1").stderr


def test_generate_refuses_a_model_that_labels(label_run: Path) -> None:
    for options in ([], ["--beam", "2"]):
        result = call("generate", label_run, "who 3", *options)
        assert (result.exit_code, result.stdout) == (1, "")


def test_score_of_a_translation(translation_run: Path) -> None:
    scored = json.loads(call("score", translation_run, "rot", "--target", "red", "--json").stdout)
    assert [token["token"] for token in scored["tokens"]] == ["red", "<eos>"]
    assert scored["total"] == pytest.approx(sum(token["logprob"] for token in scored["tokens"]))
    refused(call("score", translation_run, "rot"), "say which with --target")


def test_inspect_of_a_model_that_labels(label_run: Path, match_run: Path) -> None:
    for run, text in ((label_run, "who 3"), (match_run, "5 May 1950")):
        result = call("inspect", run, text, "--out", "page.html")
        assert (result.exit_code, result.stdout) == (0, "page.html\n")
    refused(call("inspect", label_run, "who", "--target", "x"), "this model reads one text and no target")


def test_what_is_no_file_is_written_to_and_not_replaced(translation_run: Path) -> None:
    plain = call("translate", translation_run, typed="rot\n").stdout
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        written = call("translate", translation_run, "--output", "pipe", typed="rot\n")
        assert (written.exit_code, written.output) == (0, "")
        assert os.read(reader, 1000).decode() == plain
    finally:
        os.close(reader)
    assert Path("pipe").is_fifo()
    refused(call("inspect", translation_run, "rot", "--out", "pipe"), "pipe is a pipe or a device", code=2)


def test_a_compressed_output_can_be_read_again(translation_run: Path) -> None:
    plain = call("translate", translation_run, typed="rot\n\nblau\n").stdout
    call("translate", translation_run, "--output", "out.gz", typed="rot\n\nblau\n")
    assert gzip.decompress(Path("out.gz").read_bytes()).decode() == plain


def test_one_translation_was_cut_and_two_were(translation_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer_texts(load(translation_run), ["rot"])
    cut = [replace(found[0][0], stop_reason="length")]
    monkeypatch.setattr("glassformer.generation.lines.answer_texts", lambda loaded, texts, *a, **k: [cut] * len(texts))
    assert "1 translation did not end and was cut" in call("translate", translation_run, typed="rot\n").stderr
    assert "2 translations did not end and were cut" in call("translate", translation_run, typed="a\nb\n").stderr
