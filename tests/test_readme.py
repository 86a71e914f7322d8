"""The README keeps its word: every command and every block of Python in it runs, in the order a reader meets them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from glassformer.cli.main import app

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

VERBS = {"demo", "train", "generate", "eval", "score", "summary", "sites", "translate", "predict", "inspect"}
VERBS |= {"convert", "verify", "embed", "trace", "check"}
TINY = ("training.max_steps=2", "model.d_model=16", "model.n_heads=2", "model.n_layers=1")
OF_TASK = {
    "language_model": ("task.context=32",),
    "sequences": ("task.test_size=20", "task.valid_size=10"),
    "translation": ("task.test_size=3", "task.valid_size=3", "task.vocab_size=200", "training.eval_every=2"),
    "classification": ("task.vocab_size=200", "training.eval_every=2"),
    "dates": ("task.test_size=20", "task.valid_size=10", "model.d_head=8"),
    "matching": ("task.made_size=50", "training.eval_every=2"),
}
"""What makes a training short enough for a test; nothing else of a command is changed."""


def blocks(document: Path, language: str) -> list[str]:
    return [code for name, code in FENCE.findall(document.read_text(encoding="utf-8")) if name == language]


def commands(code: str) -> Iterator[list[str]]:
    """Yield what a shell would run of a block, as lists of words."""
    for line in code.replace("\\\n", " ").splitlines():
        for part in re.split(r"&&|;", line):
            if words := shlex.split(part, comments=True):
                yield words


def shortened(words: list[str]) -> list[str]:
    """The arguments of a command; a training also gets the edits that make it tiny."""
    verb, *rest = words[1:]
    if verb not in ("demo", "train") or "--list" in rest or "--resume" in rest:
        return words[1:]
    recipe = rest[0] if verb == "train" else "demo"
    if "--from" in rest:  # the model is that of the checkpoint
        return [*words[1:], "--set", TINY[0], "--set", "task.context=32"]
    task = {"shakespeare": "language_model"}.get(recipe, recipe if recipe in OF_TASK else "sequences")
    return [*words[1:], *(part for edit in (*TINY, *OF_TASK[task]) for part in ("--set", edit))]


def run(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments, prog_name="glassformer", catch_exceptions=False)
    assert result.exit_code == 0, f"glassformer {shlex.join(arguments)}\n{result.output}"
    assert result.stdout


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    pairs = [(f"Mann Nummer {n} liest.", f"Man number {n} reads.") for n in range(40)]
    for name, side in (("train.de", 0), ("train.en", 1), ("new.de", 0)):
        Path(name).write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    rows = [f'"Number {n}, {word}",{word}\n' for n in range(20) for word in ("good", "bad")]
    Path("reviews.csv").write_text("text,label\n" + "".join(rows), encoding="utf-8")
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.set_printoptions(profile="default")


def test_commands_run_in_order() -> None:
    found = [words for code in blocks(README, "bash") for words in commands(code)]
    ours = [words for words in found if words[0] == "glassformer"]
    assert {words[0] for words in found} <= {"glassformer", "pip", "pytest"}, "another program that nobody tried"
    assert {words[1] for words in ours} >= VERBS
    for words in ours:
        run(shortened(words))


def test_commands_within_the_text_run() -> None:
    text = FENCE.sub("", README.read_text(encoding="utf-8"))
    Path("FILE").write_text(
        "It was a dark and stormy night; the rain fell in torrents. 天上有云。\n" * 50, encoding="utf-8"
    )
    found = [shlex.split(code) for code in re.findall(r"`(glassformer [^`]+)`", text)]
    assert found
    for words in found:
        run(shortened(words))


@pytest.mark.parametrize("number", range(len(blocks(README, "python"))))
def test_python_runs(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    code = blocks(README, "python")[number]
    short = ", ".join(f'"{edit}"' for edit in (*TINY, *OF_TASK["sequences"]))
    exec(compile(code.replace('"training.max_steps=300"', short), f"<block {number} of README.md>", "exec"), {})
    printed = capsys.readouterr().out
    assert printed
    promised = re.findall(r"print\(.*\)  # (True|False)$", code, re.MULTILINE)
    assert promised == [line for line in printed.splitlines() if line in ("True", "False")]


def test_python_is_shortened_where_it_trains() -> None:
    trains = [code for code in blocks(README, "python") if "gf.train(" in code]
    assert trains
    assert all('"training.max_steps=300"' in code for code in trains)
