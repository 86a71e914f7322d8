"""Curves, heat maps and bars; `canvas.svg` and `canvas.save_png` turn them into text and files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.inspection.attention import check_labels
from glassformer.inspection.canvas import INK, PALE, TEXT_SIZE, inches, readable, sheet, stackable, style, widest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 4.6
"""Of curves and bars, in inches: their letters can still be read on a telephone."""

COLOURS = ("#3b6fd4", "#d9731a", "#2a9d6f", "#a05ac8")
COLOUR_MAP = "viridis"  # equal steps of the number look like equal steps

MOST_INCHES, LEAST_INCHES = 6.0, 0.1
"""Of one picture in a grid, and between two labels in it."""

LEAST_WIDTH = 0.8
"""Of one picture in a grid, in inches."""

LINE = 1.15
"""Height of a line of letters that stand on each other, in their size."""

Points = Sequence[tuple[float, float]]


def curve(series: Mapping[str, Points], *, title: str, x_label: str, y_label: str, log: bool = False) -> Figure:
    """Return lines over one horizontal axis, such as the loss of training and validation over steps.

    Args:
        series: Points (x, y) by the name of the line; a y that is not finite leaves a gap.
        title: Above the picture.
        x_label: What the horizontal axis counts.
        y_label: What the lines show, with its unit.
        log: Whether the vertical axis is logarithmic; a y that is not positive leaves a gap then.
    """
    names = [readable(name) for name in series]
    left, right = 0.68, 0.4
    columns = max(1, min(len(names), int((WIDTH - 0.3) / (widest(names) + 0.5))))
    legend = 0.1 + 0.2 * math.ceil(len(names) / columns) if len(names) > 1 else 0.0
    with style():
        figure, axes = sheet(title, (WIDTH - left - right, 2.1), left=left, right=right, below=0.5 + legend, above=0.22)
        lines = []
        for points, colour in zip(series.values(), _line_colours(len(names)), strict=True):
            heights = [y if math.isfinite(y) and (y > 0 or not log) else math.nan for _, y in points]
            lone = sum(map(math.isfinite, heights)) == 1
            lines += axes.plot([x for x, _ in points], heights, "o" if lone else "-", color=colour, markersize=4)
        _scale(axes, log)
        axes.set_xlabel(readable(x_label), parse_math=False)
        axes.text(0, 1.03, readable(y_label), transform=axes.transAxes, va="bottom", parse_math=False)
        if legend:
            keys = figure.legend(lines, names, loc="lower center", ncols=columns, borderaxespad=0.3)
            for text in keys.get_texts():
                text.set_parse_math(False)
    return figure


def heat_map(weights: Float[Tensor, "query key"], rows: Sequence[str], columns: Sequence[str], *, title: str) -> Figure:
    """Return one head's attention as a picture: row t shows where token t looks.

    Args:
        weights: Dark is 0, the brightest colour the largest of them. *Shape:* (T, S).
        rows: Label of each query, from the top.
        columns: Label of each key, from the left.
        title: Above the picture.

    Raises:
        DataError: The number of labels is not that of the positions.
    """
    check_labels(rows, weights.shape[0])
    check_labels(columns, weights.shape[1])
    queries, keys = [readable(label) for label in rows], [readable(label) for label in columns]
    values = weights.detach().float().cpu()
    high, wide = (min(0.3, max(0.15, 4.2 / number)) for number in values.shape)
    size = min(TEXT_SIZE, 52 * min(high, wide))
    gap = 0.07
    left = widest(queries, size) + gap + 0.1
    with style():
        figure, axes = sheet(
            title,
            (wide * len(keys), high * len(queries)),
            left=left,
            right=max(0.8, 4.0 - left - wide * len(keys)),
            below=_depth(keys, size, wide) + gap + 0.1,
            above=0.08,
        )
        largest = float(values.nan_to_num(0.0, 0.0, 0.0).max()) or 1.0
        _cells(axes, values / largest)
        axes.set_axis_off()
        beside, under = -0.5 - gap / wide, len(queries) - 0.5 + gap / high
        for row, label in enumerate(queries):
            axes.text(beside, row, label, size=size, ha="right", va="center", parse_math=False)
        for column, label in enumerate(keys):
            _under(axes, column, under, label, size, wide)
        _colour_scale(figure, axes, largest)
    return figure


def heat_maps(
    weights: Float[Tensor, "head query key"],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    names: Sequence[str],
    title: str,
) -> Figure:
    """Return all heads of a layer as a grid of pictures with one colour scale.

    Labels stand at the left and at the bottom of the grid, where they are good for all pictures of their row and
    column; where there is no room for all of them, for every second, third, ... token.

    Args:
        weights: Dark is 0, the brightest colour the largest of them. *Shape:* (heads, T, S).
        rows: Label of each query, from the top.
        columns: Label of each key, from the left.
        names: What stands over each picture.
        title: Above all.

    Raises:
        DataError: The number of labels is not that of the positions.
    """
    check_labels(rows, weights.shape[1])
    check_labels(columns, weights.shape[2])
    queries, keys = [readable(label) for label in rows], [readable(label) for label in columns]
    values = weights.detach().float().cpu()
    heads, T, S = values.shape
    # A square each, but where one side has many more of them than the other, or a name would stand over its picture.
    y_cell, x_cell = (min(0.2, max(4.2 / number, LEAST_INCHES), MOST_INCHES / number) for number in (T, S))
    between = max(0.12, x_cell)
    x_cell = max(x_cell, LEAST_WIDTH / S, (widest([readable(name) for name in names]) + 0.05 - between) / S)
    y_every, x_every = (math.ceil(LEAST_INCHES / cell - 1e-6) for cell in (y_cell, x_cell))
    size = min(TEXT_SIZE, 60 * y_cell * y_every, 60 * x_cell * x_every)
    name_height = 0.26
    wide, high = S * x_cell + between, T * y_cell + name_height
    across = _across(heads, wide / high)
    down = math.ceil(heads / across)
    gap = 0.07
    shown = keys[::x_every]
    left = widest(queries[::y_every], size) + gap + 0.1
    with style():
        figure, axes = sheet(
            title,
            (across * wide - between, down * high),
            left=left,
            right=max(0.8, 4.0 - left - across * wide),
            below=_depth(shown, size, x_cell * x_every) + gap + 0.1,
            above=0.02,
        )
        largest = float(values.nan_to_num(0.0, 0.0, 0.0).max()) or 1.0
        axes.set_axis_off()
        axes.set_xlim(0, across * wide - between)
        axes.set_ylim(down * high, 0)
        for head, name in enumerate(names):
            x, y = head % across * wide, head // across * high + name_height
            axes.imshow(
                _coloured(values[head] / largest), extent=(x, x + S * x_cell, y + T * y_cell, y), interpolation="none"
            )
            axes.text(x, y - 0.04, readable(name), va="bottom", parse_math=False)
            if head % across == 0:
                for row in range(0, T, y_every):
                    place = y + (row + 0.5) * y_cell
                    axes.text(x - gap, place, queries[row], size=size, ha="right", va="center", parse_math=False)
            if head + across >= heads:
                for column in range(0, S, x_every):
                    middle = x + (column + 0.5) * x_cell
                    _under(axes, middle, y + T * y_cell + gap, keys[column], size, x_cell * x_every)
        axes.set_aspect("auto")
        _colour_scale(figure, axes, largest)
    return figure


def bars(values: Mapping[str, float], *, title: str, x_label: str) -> Figure:
    """Return a horizontal bar for each name, from the top, with its number beside it.

    Args:
        values: Length of each bar by its name; one that is not finite is only written.
        title: Above the picture.
        x_label: What the lengths are, with the unit.
    """
    names = [readable(name) for name in values]
    lengths = [value if math.isfinite(value) else 0.0 for value in values.values()]
    left, right = widest(names) + 0.2, 0.75
    with style():
        figure, axes = sheet(
            title,
            (max(WIDTH - left - right, inches(x_label) + 0.1 - right, 1.0), 0.27 * max(1, len(names))),
            left=left,
            right=right,
            below=0.32,
            above=0.08,
        )
        axes.barh(range(len(names)), lengths, height=0.66, color=COLOURS[0])
        axes.set_xlim(0, max((*lengths, 0.0)) or 1.0)
        axes.set_ylim(max(1, len(names)) - 0.5, -0.5)
        axes.set_axis_off()
        beside: dict[str, Any] = {"textcoords": "offset points", "va": "center", "parse_math": False}
        for row, (name, value) in enumerate(zip(names, values.values(), strict=True)):
            axes.annotate(name, (0, row), (-6, 0), ha="right", **beside)
            axes.annotate(f"{value:.3g}", (lengths[row], row), (5, 0), **beside)
        axes.annotate(readable(x_label, None), (0, 0), (0, -6), xycoords="axes fraction", **beside | {"va": "top"})
    return figure


def _across(number: int, aspect: float) -> int:
    """How many pictures stand side by side: so that the grid is a bit wider than high and has few gaps."""

    def flaw(across: int) -> float:
        down = math.ceil(number / across)
        return abs(math.log(across * aspect / down / 1.3)) + 2 * (across * down - number) / number

    return min(range(1, number + 1), key=flaw)


def _line_colours(number: int) -> list[str]:
    """A few colours that differ in kind, or many that run from dark to bright, first to last layer."""
    if number <= len(COLOURS):
        return list(COLOURS[:number])
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps[COLOUR_MAP](0.25 + 0.6 * index / (number - 1))) for index in range(number)]


def _scale(axes: Axes, log: bool) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(axis="y", color=PALE, linewidth=0.8)
    axes.set_axisbelow(True)


def _fits(label: str, size: float, room: float) -> bool:
    """Whether a label has room beside its neighbours, in inches, without being turned or stacked."""
    return inches(label, size) <= 0.95 * room


def _depth(labels: Sequence[str], size: float, room: float) -> float:
    """How far labels reach down, in inches: what `_under` needs below a picture."""

    def depth(label: str) -> float:
        if _fits(label, size, room):
            return size / 72
        return LINE * len(label) * size / 72 if stackable(label) else inches(label, size)

    return max(map(depth, labels))


def _under(axes: Axes, x: float, y: float, label: str, size: float, room: float) -> None:
    """A label under its column: as it is where there is room, else turned, or Chinese letter under letter."""
    common: dict[str, Any] = {"size": size, "parse_math": False}
    if _fits(label, size, room):
        axes.text(x, y, label, ha="center", va="top", **common)
    elif stackable(label):
        axes.text(x, y, "\n".join(label), ha="center", va="top", linespacing=1.0, **common)
    else:
        axes.text(x, y, label, rotation=90, rotation_mode="anchor", ha="right", va="center", **common)


def _cells(axes: Axes, values: Tensor) -> None:
    """A square for each number from 0 to 1, coloured before it is enlarged: that takes less memory."""
    axes.imshow(_coloured(values), aspect="auto", interpolation="none")


def _coloured(values: Tensor) -> Any:
    from matplotlib import colormaps

    return colormaps[COLOUR_MAP](values.numpy(), bytes=True)


def _colour_scale(figure: Figure, axes: Axes, largest: float) -> None:
    """A strip beside the picture, from 0 to the largest value."""
    width, height = figure.get_size_inches()
    place = axes.get_position()
    tall = max(0.32, min(1.2, place.height * height))
    strip = figure.add_axes((place.x1 + 0.14 / width, place.y1 - tall / height, 0.1 / width, tall / height))
    _cells(strip, torch.linspace(1, 0, 64).unsqueeze(1))
    strip.set_axis_off()
    for y, text, side in ((0.0, f"{largest:.2g}", "top"), (1.0, "0", "bottom")):
        strip.annotate(
            text,
            (1.0, 1 - y),
            (4, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            va=side,
            color=INK,
        )
