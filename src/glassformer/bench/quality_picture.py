"""The results of a comparison as pictures: one line a variant, its interval a shade."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.bench.directions import Interval, summary
from glassformer.bench.quality import Result
from glassformer.bench.variants import VARIANTS, Group
from glassformer.bench.wording import WORDS
from glassformer.inspection.canvas import PALE, save_png, sheet, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#3b6fd4", "#d9731a", "#2a9d6f", "#a05ac8", "#c0392b", "#7a6a4f", "#1f9fb4")
MARKS = "os^Dv<>"

WIDTH, HEIGHT = 4.4, 2.6
"""Of what the axes enclose, in inches."""


def write_pictures(results: Sequence[Result], folder: Path, language: str) -> list[Path]:
    """Write one PNG for each task and group of variants; return the files.

    Args:
        results: From `measure_all`.
        folder: Where they are written.
        language: Of the words.
    """
    files = []
    for task in dict.fromkeys(result.task for result in results):
        found = summary([result for result in results if result.task == task])
        groups: tuple[Group, Group] = ("attention", "positions")
        for group in groups:
            names = [v.name for v in VARIANTS if v.group == group or v.name == "full"]
            lines = {name: _points(found, name) for name in names if any(key[0] == name for key in found)}
            if len(lines) > 1:
                files.append(folder / f"{task}-{group}.png")
                save_png(_figure(lines, task, group, language), files[-1])
    return files


def _points(found: Mapping[tuple[str, str], Interval], variant: str) -> dict[int, Interval]:
    """The numbers of a variant by what stands behind the @ of their names."""
    return {int(name.partition("@")[2]): value for (whose, name), value in found.items() if whose == variant}


def _figure(lines: dict[str, dict[int, Interval]], task: str, group: Group, language: str) -> Figure:
    title = WORDS.say("title", language, task=WORDS[f"short_{task}"][language], group=WORDS[group][language])
    with style():
        figure, axes = sheet(title, (WIDTH, HEIGHT), left=0.6, right=1.25, below=0.5, above=0.25)
        for (name, points), colour, mark in zip(lines.items(), COLOURS, MARKS, strict=False):
            x, means = list(points), [value.mean for value in points.values()]
            axes.plot(x, means, color=colour, marker=mark, markersize=4, label=name)
            # One seed has no interval.
            if all(value.n > 1 for value in points.values()):
                low = [value.mean - value.half for value in points.values()]
                high = [value.mean + value.half for value in points.values()]
                axes.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)
        axes.set_xscale("log", base=2)
        ticks = sorted({x for points in lines.values() for x in points})
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.minorticks_off()
        if task != "text":
            axes.set_ylim(-0.03, 1.05)
        axes.grid(axis="y", color=PALE, linewidth=0.8)
        axes.set_xlabel(WORDS[f"x_{task}"][language])
        axes.text(0, 1.03, WORDS[f"y_{task}"][language], transform=axes.transAxes, va="bottom")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), borderaxespad=0.2)
    return figure
