"""`bench attention` goes on from what is there, and says what it made; contests of speed are tables and JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glassformer.bench import startup, workloads
from glassformer.bench.quality import Result
from glassformer.bench.variants import VARIANTS
from glassformer.cli.main import app


def _file(folder: Path) -> None:
    recall = {f"recall@{distance}": 0.5 for distance in (16, 1024)}
    results = [Result("recall", variant.name, 0, 300, 7, 1.0, recall) for variant in VARIANTS]
    results += [Result("copying", variant.name, 0, 500, 7, 1.0, {"copy@8": 0.25}) for variant in VARIANTS]
    (folder / "results.jsonl").write_text("".join(json.dumps(asdict(each)) + "\n" for each in results))


def test_bench_attention_prints_tables_and_draws(tmp_path: Path) -> None:
    _file(tmp_path)
    ran = CliRunner().invoke(app, ["bench", "attention", "--seeds", "1", "--out", str(tmp_path), "--language", "zh"])
    assert ran.exit_code == 0, ran.output
    assert "| full | 7 | 0.500 | 0.500 |" in ran.output
    assert "未定" in ran.output
    assert "name one with --text" in ran.output
    drawn = {"recall-attention.png", "recall-positions.png", "copying-attention.png", "copying-positions.png"}
    assert drawn == {file.name for file in tmp_path.glob("*.png")}


def test_bench_attention_of_an_unknown_variant_is_one_line(tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["bench", "attention", "--only", "windw", "--out", str(tmp_path)])
    assert ran.exit_code == 1
    assert "no variant 'windw'" in ran.output
    assert "Traceback" not in ran.output


def test_bench_attention_as_json(tmp_path: Path) -> None:
    _file(tmp_path)
    ran = CliRunner().invoke(
        app, ["bench", "attention", "--seeds", "1", "--only", "full,none", "--out", str(tmp_path), "--json"]
    )
    assert [each["variant"] for each in json.loads(ran.stdout)] == ["full", "none", "full", "none"]


def _shrink(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """Let the first work of a verb be one of no time."""
    work = workloads.WORK[verb]["small"][0]
    arguments = work.arguments.model_copy(update={"d_model": 32, "n_heads": 2, "n_layers": 1, "d_ff": 32})
    monkeypatch.setattr(workloads, "WORK", {verb: {"small": (replace(work, arguments=arguments),)}})


def test_bench_decode_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    _shrink(monkeypatch, "decode")
    monkeypatch.setattr("glassformer.generation.fast.compiled", lambda function: function)
    ran = CliRunner().invoke(
        app, ["bench", "decode", "--size", "small", "--against", "torch", "--turns", "1", "--json", "--threads", "1"]
    )
    assert ran.exit_code == 0, ran.output
    assert ran.stderr.splitlines()[:2] == ["loading", "decode one"]  # a word at once where no bar is seen
    (contest,) = json.loads(ran.stdout)
    assert {row["contestant"] for row in contest["rows"]} == {"glassformer"}
    ways = [(row["numbers"], row["setting"]) for row in contest["rows"]]
    settings = ("", "as written", "compiled")
    assert ways == [(numbers, setting) for numbers in ("float32", "int8") for setting in settings]
    assert contest["machine"]["threads"] == 1


def test_bench_train_prints_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    _shrink(monkeypatch, "train")
    ran = CliRunner().invoke(
        app, ["bench", "train", "--size", "small", "--against", "torch", "--turns", "1", "--language", "zh"]
    )
    assert ran.exit_code == 0, ran.output
    assert "| glassformer | float32 |" in ran.output


def test_bench_startup_measures_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "PACKAGES", {"torch": "no_such_package"})
    ran = CliRunner().invoke(app, ["bench", "startup", "--turns", "1", "--json"])
    assert ran.exit_code == 0, ran.output
    names = [start["name"] for start in json.loads(ran.stdout)]
    assert names == ["Python", "import glassformer", "glassformer --help"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train", "--against", "pytorch"], "did you mean 'torch'"),
        (["decode", "--against", ""], "there is no peer ''; known: "),
        (["decode", "--only", ""], "bench decode has no work ''"),
        (["attention", "--only", ""], "there is no variant ''"),
        (["decode", "--size", "big"], "no size 'big'"),
        (["translate", "--only", "beam7"], "bench translate has no work 'beam7'"),
        (["prefill", "--precision", "int8"], "choose auto, float32 or bf16"),
        (["decode", "--language", "de"], "no language 'de'"),
    ],
)
def test_bench_of_what_there_is_not_is_one_line(arguments: list[str], says: str) -> None:
    ran = CliRunner().invoke(app, ["bench", *arguments])
    assert ran.exit_code == 1
    assert says in ran.output
    assert "Traceback" not in ran.output
