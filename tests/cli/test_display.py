"""Training as it happens: on terminals of every size, and piped."""

from __future__ import annotations

import io
import os
import re
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from glassformer.cli.display import LiveDisplay, PlainDisplay, display, spread
from glassformer.training.callback import Interval
from glassformer.training.recipe import load_recipe
from glassformer.training.run import train
from glassformer.training.trainer import Trainer, Update

from .calling import SEQUENCES, call, sets

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def terminal(width: int = 80, height: int = 24, encoding: str = "utf-8") -> Console:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="backslashreplace", write_through=True)
    return Console(file=out, force_terminal=True, width=width, height=height, color_system="standard")


def written(console: Console) -> str:
    raw = cast(io.TextIOWrapper, console.file).buffer
    return cast(io.BytesIO, raw).getvalue().decode(console.encoding)


def shown(live: LiveDisplay) -> list[str]:
    """What the panel shows now, line by line, without colours."""
    with live.console.capture() as captured:
        live.console.print(live.live.renderable)
    return CONTROL.sub("", captured.get()).splitlines()


def trainer(step: int = 0, max_steps: int = 1000) -> Trainer:
    fake: Any = SimpleNamespace(
        config=SimpleNamespace(max_steps=max_steps, select_by="loss"),
        progress=SimpleNamespace(step=step, seconds=0.0),
        unit="tokens",
    )
    return cast(Trainer, fake)


def halfway(console: Console, layers: int = 4) -> LiveDisplay:
    """A display in the middle of a run."""
    live = LiveDisplay(console)
    live.live.auto_refresh = False
    live.bar.update(live.task, total=1000, completed=500, per_update=0.13, at=time.perf_counter())
    live.logged(trainer(500), Interval(500, 1.23456, 1e-3, 0.5, 12_345.6, 65.0))
    live.norms(trainer(500), 500, {f"decoder.blocks.{n}": 1.0 + n for n in range(layers)})
    live.evaluated(trainer(500), "valid", {"loss": 1.5, "perplexity": 4.4817, "exact_match": 0.25}, True)
    return live


@pytest.mark.parametrize("width", [30, 40, 60, 80, 200])
def test_panel_fits_and_cuts_no_number(width: int) -> None:
    live = halfway(terminal(width))
    lines = shown(live)
    live.close()
    assert all(len(line) <= width for line in lines)
    panel = " ".join(" ".join(lines).split())
    assert "…" not in panel
    for part in (
        "500/1,000",
        "50 %",
        "1:05 left",
        "1.2346",
        "1.00e-03",
        "0.500",
        "12,346",
        "1:05",
        "decoder 3",
        "25.0 %",
    ):
        assert part in panel


@pytest.mark.parametrize(("height", "layers"), [(10, 3), (24, 24), (12, 96), (60, 200)])
def test_panel_is_not_higher_than_the_terminal_and_shows_the_first_and_last_layer(height: int, layers: int) -> None:
    live = halfway(terminal(80, height), layers)
    lines = shown(live)
    live.close()
    assert len(lines) <= height
    text = "\n".join(lines)
    assert "decoder 0 " in text
    assert f"decoder {layers - 1} " in text
    assert ("layers; metrics.jsonl has all" in text) == (text.count("decoder ") < layers)


def test_longest_bar_is_the_largest_norm() -> None:
    live = halfway(terminal())
    bars = [line.count("█") for line in shown(live) if line.startswith("decoder")]
    live.close()
    assert bars == [6, 12, 18, 24]


def test_norms_that_are_no_numbers_have_no_bar() -> None:
    live = halfway(terminal())
    live.norms(trainer(), 1, {"decoder.blocks.0": float("nan"), "decoder.blocks.1": 0.0})
    lines = [line.split() for line in shown(live) if line.startswith("decoder")]
    live.close()
    assert lines == [["decoder", "0", "nan"], ["decoder", "1", "0"]]


def test_bar_moves_while_no_numbers_are_due() -> None:
    live = halfway(terminal())
    live.updated(trainer(), Update(501, 0, 0, 0, 0, 0))
    lines = shown(live)
    live.close()
    assert "501/1,000" in lines[0]
    assert "1.2346" in "".join(lines), "the numbers are those of the last interval"


def test_first_update_already_has_a_loss_and_a_time_left() -> None:
    live = LiveDisplay(terminal())
    live.live.auto_refresh = False
    live.bar.update(live.task, total=1000)
    live.updated(trainer(), Update(1, 4.5, 1e-3, 0.5, 64, 0.1))
    lines = " ".join(shown(live))
    live.close()
    assert " left" in lines
    assert re.search(r"\b1 +4\.5000 ", lines), "which update, and its loss"


def test_bars_of_layers_say_what_they_are() -> None:
    live = halfway(terminal())
    lines = shown(live)
    live.close()
    [caption] = [
        number for number, line in enumerate(lines) if "residual stream" in line and "root mean square" in line
    ]
    assert lines[caption + 1].startswith("decoder 0")


def test_terminal_without_unicode_gets_plain_characters() -> None:
    console = terminal(encoding="ascii")
    live = halfway(console)
    lines = shown(live)
    live.close()
    assert all(line.isascii() for line in lines)
    assert "\\u" not in "".join(lines)
    assert "#" in "".join(lines)


@pytest.mark.parametrize(
    ("number", "room", "chosen"),
    [(0, 4, []), (3, 4, [0, 1, 2]), (4, 4, [0, 1, 2, 3]), (24, 4, [0, 8, 15, 23]), (5, 4, [0, 1, 3, 4])],
)
def test_spread(number: int, room: int, chosen: list[int]) -> None:
    assert spread(number, room) == chosen


def test_live_training_leaves_only_the_lines_that_stay() -> None:
    console = terminal()
    live = LiveDisplay(console)
    live.folder = Path("run")
    train(load_recipe("reverse", [*SEQUENCES, "training.norms_every=1", "training.log_every=1"]), Path("run"), [live])
    live.close()
    live.close()
    text = written(console)
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1, "the cursor is hidden once and given back once"
    screen = _screen(text)
    assert [line.split()[0] for line in screen] == ["run", "model", "training", "device", "expect"]


def _screen(text: str) -> list[str]:
    """What a terminal shows at last: its lines, with the sequences that move up and erase carried out."""
    lines, row = [""], 0
    for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)", text):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\x1b[2K":
            lines[row] = ""
        elif part.endswith("A") and part.startswith("\x1b["):
            row -= int(part[2:-1])
        elif part and not part.startswith(("\x1b", "\r")):
            lines[row] += part
    return [line for line in lines if line.strip()]


def test_warning_stays() -> None:
    console = terminal()
    live = halfway(console)
    live.warned(trainer(), 7, "the norm of [decoder 3] grows :fire:")
    live.close()
    assert "warning after update 7: the norm of [decoder 3] grows :fire:" in "".join(_screen(written(console)))


def test_mistake_takes_the_panel_away(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr("glassformer.cli.display.Console", lambda: terminal())
    with pytest.raises(ValueError, match="a mistake"), display() as live:
        raise ValueError("a mistake")
    assert isinstance(live, LiveDisplay)
    assert not live.live.is_started


@pytest.mark.parametrize("environment", [{"FORCE_COLOR": "1"}, {"TERM": "dumb"}, {}])
def test_piped_or_dumb_output_is_plain(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if "TERM" in environment:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setattr("glassformer.cli.display.Console", lambda: Console(force_terminal=True))
    with display() as found:
        assert isinstance(found, PlainDisplay)


def test_plain_lines_are_not_broken_and_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    lines = call(
        "train", "reverse", *sets(*SEQUENCES, "training.log_every=1", "training.max_steps=30")
    ).stdout.splitlines()
    numbers = [line for line in lines if "tokens/s  " in line]
    assert 1 <= len(numbers) <= 15, "a line every two seconds at most, and the last"
    assert re.fullmatch(
        r" +30  loss \d+\.\d{4}  lr \d\.\d\de[+-]\d\d  grad \d+\.\d{3}  [\d,]+ tokens/s  \d+:\d\d", numbers[-1]
    )


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
def test_a_bar_is_shown_on_a_terminal_and_nothing_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from glassformer.cli.waiting import waiting

    with waiting("evaluating") as advanced:
        advanced(1, 2)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with waiting("evaluating") as advanced:
        advanced(1, 2)
    out, err = capsys.readouterr()
    assert out == ""
    assert "evaluating" in err
    assert "50 %" in err
