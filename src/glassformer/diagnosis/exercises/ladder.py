"""The rungs, and what becomes of a learner's file."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from torch import nn

from glassformer.core.errors import ConfigError, did_you_mean
from glassformer.core.files import ensure_writable, write_text
from glassformer.core.user_code import load_user_code
from glassformer.core.wording import LANGUAGES
from glassformer.diagnosis.check import check
from glassformer.diagnosis.exercises.contract import broken
from glassformer.diagnosis.exercises.wording import WORDS
from glassformer.diagnosis.parts.examine import examine_part
from glassformer.diagnosis.report import Report, wrapped

Advanced = Callable[[int, int], None]

STATE_FILE = "exercises.json"
"""Which files were right, by their checksums: a file that is changed afterwards is asked again."""

RUN, WANTED = "reverse-run", 0.9
"""The run folder of the last rung, and the share of sequences that must be right."""


@dataclass(frozen=True)
class Target:
    """Something that a rung asks for.

    Attributes:
        name: What it is called in the file.
        kind: What it is examined as; None = a whole model.
        expect: What it has to be besides.
    """

    name: str
    kind: str | None
    expect: str | None = None


@dataclass(frozen=True)
class Rung:
    """One exercise.

    Attributes:
        name: Of the exercise and of its file.
        targets: What has to be written.
    """

    name: str
    targets: tuple[Target, ...]

    @property
    def file(self) -> str:
        """What the learner's file is called."""
        return f"{self.name}.py"


RUNGS = (
    Rung("attention", (Target("attention", "attention", "safe"),)),
    Rung("mask", (Target("causal_mask", "mask"), Target("padding_mask", "mask"))),
    Rung("multi_head", (Target("MultiHeadAttention", "multi_head"),)),
    Rung("position", (Target("positions", "position", "paper"),)),
    Rung("encoder_layer", (Target("EncoderLayer", "encoder_layer"),)),
    Rung("decoder_layer", (Target("DecoderLayer", "decoder_layer"),)),
    Rung("model", (Target("Transformer", None),)),
    Rung("schedule", (Target("rate", "schedule", "paper"),)),
    Rung("cache", (Target("CachedAttention", "cache"),)),
    Rung("beam", (Target("beam_search", "beam"),)),
    Rung("reverse", ()),
)
"""From the first to the last; the last one trains the model of the seventh."""


@dataclass(frozen=True)
class Attempt:
    """What is said of a learner's file.

    Attributes:
        lines: To be read, the last one about what comes next.
        ok: Whether the rung is done, or was only begun just now.
        reports: Of each thing that was examined.
    """

    lines: tuple[str, ...]
    ok: bool
    reports: tuple[Report, ...] = ()


def rung_named(name: str) -> Rung:
    """Return a rung.

    Raises:
        ConfigError: There is none of that name.
    """
    found = next((rung for rung in RUNGS if rung.name == name), None)
    if found is None:
        raise ConfigError(f"there is no exercise {name!r}{did_you_mean(name, [rung.name for rung in RUNGS])}")
    return found


def skeleton(rung: Rung, language: str) -> str:
    """Return the file that a learner begins with."""
    return (resources.files(__package__) / language / rung.file).read_text(encoding="utf-8")


def states(folder: Path) -> dict[str, str]:
    """Return "done", "begun" or "open" for each rung.

    Args:
        folder: Where the learner's files are.
    """
    return {rung.name: _state(rung, folder, _passed(folder)) for rung in RUNGS}


def overview(folder: Path, language: str) -> Iterator[str]:
    """Yield the ladder as lines: what is done, and what comes next."""
    found = states(folder)
    done = sum(state == "done" for state in found.values())
    yield WORDS.say("title", language, done=done, all=len(RUNGS), folder=folder)
    for number, rung in enumerate(RUNGS, 1):
        mark = {"done": "✓", "begun": "…", "open": " "}[found[rung.name]]
        yield f"  {mark} {number:>2}  {rung.name:<14} {WORDS.say(rung.name, language)}"
    yield _onward(folder, language)


def attempt(
    name: str, folder: Path, language: str, *, width: int = 100, advanced: Advanced = lambda done, total: None
) -> Attempt:
    """Write the file of a rung if it is not there, else examine it.

    Args:
        name: Of the rung.
        folder: Where the learner's files are.
        language: In which a new file and the verdicts are.
        width: Columns of a line.
        advanced: Told (done, total).

    Raises:
        ConfigError: There is no such rung, or the file cannot be imported.
        CheckpointError: The file cannot be written.
    """
    rung = rung_named(name)
    if not rung.targets:
        return _reverse(folder, language)
    file = folder / rung.file
    if not file.exists():
        ensure_writable(folder, "--out")
        write_text(file, skeleton(rung, language))
        return Attempt((WORDS.say("written", language, file=file),), ok=True)
    if file.read_text(encoding="utf-8") in [skeleton(rung, each) for each in LANGUAGES]:
        return _unfilled(rung, file, language, rung.targets[0].name)
    reports: list[Report] = []
    lines: list[str] = []
    ok = True
    for target in rung.targets:
        value = load_user_code(f"{file}:{target.name}").value
        report = _examined(target, value, file, advanced)
        if _is_unfilled(report):
            return _unfilled(rung, file, language, target.name)
        reports.append(report)
        asked = [said.say(language) for said in broken(report, value)]
        lines += report.lines(language, width)
        if asked:
            lines += wrapped("", WORDS.say("asked", language), width)
            lines += [line for said in asked for line in wrapped("  ", said, width)]
        ok = ok and report.ok and not asked
    if not ok:
        return Attempt((*lines, WORDS.say("not_passed", language, file=file)), False, tuple(reports))
    _keep(rung, folder)
    passed = WORDS.say("passed", language, number=RUNGS.index(rung) + 1, all=len(RUNGS))
    return Attempt((*lines, passed, _onward(folder, language)), True, tuple(reports))


def _examined(target: Target, value: Any, file: Path, advanced: Advanced) -> Report:
    if target.kind is not None:
        return examine_part(value, target.name, kind=target.kind, expect=target.expect, advanced=advanced)
    model = value(vocab_size=VOCAB)
    if not isinstance(model, nn.Module):
        raise ConfigError(f"{target.name} in {file} is no nn.Module")
    return check(model, name=target.name, kind="encoder_decoder", advanced=advanced)


VOCAB = 23
"""Tokens of the model that is examined: a number that no other size has."""


def _is_unfilled(report: Report) -> bool:
    return any(verdict.numbers.get("error") == "NotImplementedError" for verdict in report.failures) or any(
        "NotImplementedError" in str(verdict.numbers.get("why", "")) for verdict in report.failures
    )


def _unfilled(rung: Rung, file: Path, language: str, what: str) -> Attempt:
    return Attempt((WORDS.say("unfilled", language, file=file, what=what),), ok=False)


def _reverse(folder: Path, language: str) -> Attempt:
    model, run = folder / "model.py", folder / RUN
    result = run / "result.json"
    if not model.exists():
        return Attempt((WORDS.say("train_needs", language, file=model), _onward(folder, language)), ok=False)
    command = f"glassformer train reverse --model {shlex.quote(f'{model}:Transformer')} --out {shlex.quote(str(run))}"
    if not result.exists():
        return Attempt((WORDS.say("train", language), f"  {command}"), ok=False)
    share = float(json.loads(result.read_text(encoding="utf-8"))["test"]["exact_match"])
    if share < WANTED:
        look = f"glassformer inspect {shlex.quote(str(run))} 31415"
        said = WORDS.say("trained_badly", language, share=f"{share:.1%}", wanted=f"{WANTED:.0%}", command=look)
        return Attempt((said,), ok=False)
    trained = WORDS.say("trained", language, share=f"{share:.1%}")
    passed = WORDS.say("passed", language, number=len(RUNGS), all=len(RUNGS))
    return Attempt((trained, passed, _onward(folder, language)), ok=True)


def _onward(folder: Path, language: str) -> str:
    found = states(folder)
    following = next((rung.name for rung in RUNGS if found[rung.name] != "done"), None)
    if following is None:
        return WORDS.say("all_done", language)
    where = "" if folder == Path() else f" --out {shlex.quote(str(folder))}"
    spoken = "" if language == "en" else f" --language {language}"
    return WORDS.say("next", language, command=f"glassformer check --exercise {following}{where}{spoken}")


def _state(rung: Rung, folder: Path, passed: dict[str, str]) -> str:
    if not rung.targets:
        result = folder / RUN / "result.json"
        if not result.exists():
            return "open"
        done = json.loads(result.read_text(encoding="utf-8")).get("test", {}).get("exact_match", 0.0) >= WANTED
        return "done" if done else "begun"
    file = folder / rung.file
    if not file.exists():
        return "open"
    return "done" if passed.get(rung.name) == _checksum(file) else "begun"


def _passed(folder: Path) -> dict[str, str]:
    file = folder / STATE_FILE
    if not file.exists():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError):
        return {}  # it is only a note: the files are asked again
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _keep(rung: Rung, folder: Path) -> None:
    kept = {**_passed(folder), rung.name: _checksum(folder / rung.file)}
    write_text(folder / STATE_FILE, json.dumps(kept, indent=2) + "\n")


def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
