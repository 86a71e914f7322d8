from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from glassformer.core.errors import ConfigError
from glassformer.core.wording import LANGUAGES
from glassformer.diagnosis.exercises.ladder import RUN, RUNGS, attempt, overview, skeleton, states

SOLUTIONS = Path(__file__).parent / "solutions"
WRITTEN = [rung.name for rung in RUNGS if rung.targets]


@pytest.fixture
def solved(tmp_path: Path) -> Path:
    """A folder with every rung's solution."""
    for file in SOLUTIONS.glob("*.py"):
        shutil.copy(file, tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", WRITTEN)
def test_every_solution_passes_its_rung(name: str, solved: Path) -> None:
    found = attempt(name, solved, "en")
    assert found.ok, "\n".join(found.lines)
    assert all(report.ok for report in found.reports)
    assert states(solved)[name] == "done"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", WRITTEN)
def test_a_skeleton_is_written_first_and_is_not_filled_in(name: str, language: str, tmp_path: Path) -> None:
    first = attempt(name, tmp_path, language)
    file = tmp_path / f"{name}.py"
    assert first.ok
    assert str(file) in first.lines[0]
    assert file.read_text(encoding="utf-8") == skeleton(next(r for r in RUNGS if r.name == name), language)
    again = attempt(name, tmp_path, language)
    assert not again.ok
    assert "NotImplementedError" in again.lines[0]
    assert states(tmp_path)[name] == "begun"


@pytest.mark.parametrize("name", ["attention", "mask", "schedule"])
def test_a_skeleton_with_a_note_in_it_is_still_not_filled_in(name: str, tmp_path: Path) -> None:
    attempt(name, tmp_path, "en")
    file = tmp_path / f"{name}.py"
    file.write_text(file.read_text(encoding="utf-8") + "\n# later\n", encoding="utf-8")
    assert "not filled in yet" in attempt(name, tmp_path, "en").lines[0]


def test_a_mistake_is_named_and_the_rung_stays_open(solved: Path) -> None:
    file = solved / "attention.py"
    file.write_text(file.read_text(encoding="utf-8").replace(" / math.sqrt(q.shape[-1])", ""), encoding="utf-8")
    found = attempt("attention", solved, "en")
    assert not found.ok
    assert found.reports[0].failures[0].finding.fault == "scale_none"
    assert states(solved)["attention"] == "begun"


@pytest.mark.parametrize(
    ("name", "right", "other", "said"),
    [
        ("attention", "~mask", "mask", "True hides here"),
        ("multi_head", "w_v(v)), mask)", "w_v(v)), None if mask is None else ~mask)", "mask: True hides here"),
        ("encoder_layer", "(y, y, y, mask)", "(y, y, y, None if mask is None else ~mask)", "mask: True hides here"),
        ("mask", "tokens != pad", "tokens == pad", "padding_mask([[5, 3, 8, 2]"),
        ("mask", "tokens != pad", "tokens != 0", "padding_mask([[5, 3, 8, 2]"),
        ("mask", "[:, None, None, :]", "[:, None, :]", "asked for is bool (3, 1, 1, 4)"),
        ("mask", "tril()", "triu(1)", "causal_mask(3) is [[0, 1, 1], [0, 0, 1], [0, 0, 0]]"),
    ],
)
def test_what_later_rungs_rely_on_is_asked_for(name: str, right: str, other: str, said: str, solved: Path) -> None:
    file = solved / f"{name}.py"
    written = file.read_text(encoding="utf-8")
    assert right in written
    file.write_text(written.replace(right, other), encoding="utf-8")
    found = attempt(name, solved, "en", width=1000)
    assert not found.ok
    assert any(said in line for line in found.lines), "\n".join(found.lines)
    assert states(solved)[name] == "begun"


@pytest.mark.parametrize("language", LANGUAGES)
def test_weights_a_whole_batch_and_zeros_are_asked_for(language: str, solved: Path) -> None:
    text = "def attention(q, k, v, mask=None):\n    s = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5\n"
    text += "    return (s if mask is None else s.masked_fill(~mask, -1e9)).softmax(-1) @ v\n"
    (solved / "attention.py").write_text(text, encoding="utf-8")
    found = attempt("attention", solved, language)
    assert found.reports[0].ok
    assert not found.ok
    assert sum("return output, weights" in line for line in found.lines) == 1
    assert sum(("is to give zeros" if language == "en" else "应当得到零") in line for line in found.lines) == 1


def test_a_file_that_is_changed_afterwards_is_asked_again(solved: Path) -> None:
    assert attempt("schedule", solved, "en").ok
    (solved / "schedule.py").write_text("def rate(step, d_model, warmup):\n    return 1e-3\n", encoding="utf-8")
    assert states(solved)["schedule"] == "begun"
    assert not attempt("schedule", solved, "en").ok


def test_the_overview_names_the_next_rung(solved: Path, tmp_path: Path) -> None:
    attempt("attention", solved, "en")
    lines = list(overview(solved, "en"))
    assert lines[0].startswith("1 of 11")
    assert len(lines) == 2 + len(RUNGS)
    assert "--exercise mask" in lines[-1]
    assert "--language zh" in list(overview(solved, "zh"))[-1]


def test_the_last_rung_reads_what_training_left(solved: Path) -> None:
    told = attempt("reverse", solved, "en")
    assert not told.ok
    assert "train reverse --model" in told.lines[1]
    run = solved / RUN
    run.mkdir()
    (run / "result.json").write_text(json.dumps({"test": {"exact_match": 0.5}}), encoding="utf-8")
    assert not attempt("reverse", solved, "en").ok
    (run / "result.json").write_text(json.dumps({"test": {"exact_match": 0.95}}), encoding="utf-8")
    assert attempt("reverse", solved, "en").ok
    assert states(solved)["reverse"] == "done"


def test_unknown_rungs_and_broken_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'attention'"):
        attempt("atention", tmp_path, "en")
    (tmp_path / "mask.py").write_text("def causal_mask(n:\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mask\.py cannot be imported: SyntaxError.*line 1"):
        attempt("mask", tmp_path, "en")
    (tmp_path / "mask.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="has no 'causal_mask'"):
        attempt("mask", tmp_path, "en")
