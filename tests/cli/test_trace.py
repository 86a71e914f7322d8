"""`trace`: what it prints for every kind of model, and every mistake one can make."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .calling import call, refused


def test_trace_prints_the_steps_of_a_run(reverse_run: Path) -> None:
    result = call("trace", reverse_run, "314", "--target", "413")
    assert result.exit_code == 0
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    numbers = [int(found[1]) for line in lines if (found := re.match(r" {0,2}(\d+)\. ", line))]
    assert numbers == list(range(1, len(numbers) + 1))
    assert any(re.match(r"cross-attention +decoder +encoder's last layer", line) for line in lines)
    assert any(re.search(r"glassformer/parts/attention\.py:\d+", line) for line in lines)
    assert "       after <bos>" in result.stdout


@pytest.mark.parametrize(
    ("language", "cut", "own"),
    [
        (
            "en",
            "Of the input only the first 2 of 3 tokens were read (--max-tokens).",
            "The output is the model's own, as no --target was given: ",
        ),
        ("zh", "输入的 3 个词元只读取了前 2 个（--max-tokens）。", "未给出 --target，输出由模型自己写出："),
    ],
)
def test_trace_shows_the_models_own_output(reverse_run: Path, language: str, cut: str, own: str) -> None:
    result = call("trace", reverse_run, "314", "--language", language, "--max-tokens", "2")
    assert re.fullmatch(rf"note: {re.escape(cut)}\nnote: {re.escape(own)}\S+\n", result.stderr)
    assert ("交叉注意力" in result.stdout) == (language == "zh")


@pytest.mark.parametrize(
    "preset", ["tiny", "bert-tiny", "t5-tiny", "llama-tiny", "qwen3-tiny", "gpt-neox-tiny", "palm-tiny", "marian-tiny"]
)
def test_trace_follows_every_family(preset: str) -> None:
    result = call("trace", f"preset:{preset}", "ab", "--layers", "all", "--json", "--max-tokens", "3")
    told = json.loads(result.stdout)
    assert len(told["steps"]) > 20
    assert told["steps"][-1]["name"] == "probabilities"


def test_one_step_is_whole(text_run: Path) -> None:
    all_steps = json.loads(call("trace", text_run, "The", "--json").stdout)
    [mask] = [step for step in all_steps["steps"] if step["name"] == "mask"]
    shown = call("trace", text_run, "The", "--step", str(mask["number"])).stdout
    assert shown.splitlines()[0].startswith(f"{mask['number']}. mask  (B, H, T, T) = (1, 2, ")
    told = json.loads(call("trace", text_run, "The", "--step", str(mask["number"]), "--json").stdout)
    assert told["values"][0][0][0][:2] == [True, False]


def test_generation_is_followed(text_run: Path, reverse_run: Path) -> None:
    told = json.loads(call("trace", text_run, "The", "--generate", "3", "--json").stdout)
    assert [each["before"] for each in told["passes"]][1:] == [each["after"] for each in told["passes"]][:-1]
    assert max(each["difference"] for each in told["passes"]) < 1e-4
    shown = call("trace", reverse_run, "314", "--generate", "2").stdout
    assert "(1, 1): <bos>" in shown
    assert "Training: one pass." in shown


def test_pages_are_written(reverse_run: Path, tmp_path: Path) -> None:
    for options in ([], ["--generate", "2"]):
        result = call("trace", reverse_run, "314", "--html", "folder/my page.html", *options)
        assert result.stdout == f"{Path('folder/my page.html')}\n"
        assert Path("folder/my page.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    assert call("trace", "--matrix", "example", "--html", "hand.html").stdout == "hand.html\n"


def test_matrices_come_from_standard_input() -> None:
    ones = [[1, 0], [0, 1]]
    given = json.dumps({"X": ones, "W_q": ones, "W_k": ones, "W_v": ones})
    assert "v[1,1] = 1·1 + 0·0 = 1" in call("trace", "--matrix", "-", typed=given).stdout


def test_matrices_need_no_model() -> None:
    assert "v[1,1] = 1·1 + 0·0 + 1·1 + 0·0 = 2" in call("trace", "--matrix", "example").stdout
    Path("mine.csv").write_text("X\n1,0\n0,1\nW_q\n1,0\n0,1\nW_k\n1,0\n0,1\nW_v\n1\n2\n", encoding="utf-8")
    told = json.loads(call("trace", "--matrix", "mine.csv", "--causal", "--json").stdout)
    steps = {step["name"]: step["values"] for step in told["steps"]}
    assert steps["weights"][0] == [1.0, 0.0]
    assert steps["output"][0] == [1.0]


def test_mistakes_are_told() -> None:
    refused(call("trace"), "MODEL is missing", "trace --matrix example", code=2)
    refused(call("trace", "preset:tiny"), "TEXT is missing", code=2)
    refused(call("trace", "preset:tiny", "a", "--layers", "x"), "--layers is 'x'", "or all", code=2)
    refused(call("trace", "preset:tiny", "a", "--layers", "7"), "layers [7] are not all in 0..1")
    refused(call("trace", "preset:tiny", "a", "--step", "99"), "no step 99")
    refused(call("trace", "preset:tiny", "a", "--step", "1", "--generate", "2"), "do not go together", code=2)
    refused(call("trace", "preset:tiny", "a", "--step", "1", "--html", "x.html"), "--step and --html", code=2)
    refused(call("trace", "preset:tiny", "a", "--html", "x.html", "--json"), "choose one", code=2)
    refused(call("trace", "preset:tiny", "a", "--causal"), "--causal is for --matrix", code=2)
    refused(call("trace", "preset:tiny", "--matrix", "example"), "leave out preset:tiny", code=2)
    refused(call("trace", "--matrix", "nowhere.csv"), "nowhere.csv")
    refused(call("trace", "preset:tiny", "a", "--html", "."), "is no file", code=2)
    refused(call("trace", "preset:tiny", "a", "--language", "fr"), "no language 'fr'")
    refused(call("trace", "preset:bert-tiny", "a", "--generate", "2"), "does not write")
    refused(call("trace", "preset:t5-tiny", "a", "--target", "b", "--generate", "2"), "leave out --target", code=2)
    refused(call("trace", "preset:tiny", "a", "--target", "b"), "without --target")
