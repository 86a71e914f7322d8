"""A sheet to draw on: sizes in inches, one style, fonts for every script, and the way out as SVG or PNG."""

from __future__ import annotations

import io
import re
import textwrap
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.core.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, PALE, PAPER = "#24292f", "#d8dee4", "#ffffff"
"""Text and axes, grid lines, background; a page that embeds an SVG may replace them by its own colours."""

TITLE_SIZE, TEXT_SIZE = 11.0, 9.0
"""In points, 72 to the inch."""

LATIN = "DejaVu Sans"  # comes with matplotlib

CJK = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "Source Han Sans SC",
    "PingFang SC",
    "Hiragino Sans GB",
    "Heiti TC",
    "Microsoft YaHei",
    "SimHei",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Arial Unicode MS",
)
"""Fonts with Chinese, Japanese and Korean characters; most computers have one of them."""

MISSING = "□"
"""What a PNG shows in place of a character that no installed font has."""

MOST_PIXELS = 3000
"""Width and height of a bitmap: hundreds of tokens make a picture of several metres."""

LONGEST = 32
"""Characters of a label that are shown; the rest becomes an ellipsis."""


@contextmanager
def style() -> Iterator[None]:
    """The look of all figures, while they are drawn and while they are written."""
    import matplotlib

    with matplotlib.rc_context(
        {
            "font.family": [*_families(), "sans-serif"],
            "font.sans-serif": [
                LATIN,
                *CJK,
            ],  # an SVG lists them all, and the reader's browser takes what it has
            "font.size": TEXT_SIZE,
            "text.color": INK,
            "axes.edgecolor": PALE,
            "axes.labelcolor": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.spines.left": False,
            "xtick.color": PALE,
            "ytick.color": PALE,
            "xtick.labelcolor": INK,
            "ytick.labelcolor": INK,
            "ytick.major.size": 0,
            "figure.facecolor": PAPER,
            "axes.facecolor": "none",
            "legend.frameon": False,
            "lines.linewidth": 1.6,
            "svg.fonttype": "none",  # letters stay letters, drawn by the browser's fonts
            "svg.hashsalt": "glassformer",  # equal figures are equal files
        }
    ):
        yield


def sheet(
    title: str,
    plot: tuple[float, float],
    *,
    left: float,
    right: float,
    below: float,
    above: float,
) -> tuple[Figure, Axes]:
    """Return an empty figure with one pair of axes; to be called in `style()`.

    Margins are worked out from the texts that stand in them, not measured, so that nothing is cut off in
    whatever font it is drawn in the end.

    Args:
        title: Over everything, in as many lines as it needs.
        plot: Width and height of what the axes enclose, in inches.
        left: Room for what stands beside the axes, in inches.
        right: The same.
        below: The same.
        above: The same; the title has room of its own.
    """
    from matplotlib.figure import Figure

    width = left + plot[0] + right
    lines = _wrapped(readable(title, longest=None), width - 0.2, TITLE_SIZE)
    height = below + plot[1] + above + (0.1 + 0.2 * len(lines) if lines else 0.06)
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((left / width, below / height, plot[0] / width, plot[1] / height))
    figure.text(
        0.1 / width,
        1 - 0.08 / height,
        "\n".join(lines),
        ha="left",
        va="top",
        size=TITLE_SIZE,
        weight="bold",
        parse_math=False,
    )
    return figure, axes


def svg(figure: Figure) -> str:
    """Return a figure as SVG text that can stand in a page: no prolog, no date, no names that clash.

    Args:
        figure: From this room's functions.
    """
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with style(), warnings.catch_warnings():
        # The browser draws the letters; that this computer may lack some of them does not matter.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="svg", metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    used = set(re.findall(r"#([\w-]+)[\")]", text))
    unnamed = re.sub(r'<(\w+) id="([\w-]+)"', lambda tag: tag[0] if tag[2] in used else f"<{tag[1]}", text)
    return unnamed.strip()


def save_png(figure: Figure, path: Path, dpi: int = 150) -> tuple[str, ...]:
    """Write a figure as a PNG file.

    Args:
        figure: From this room's functions.
        path: The file.
        dpi: Pixels to the inch; fewer where the file would be more than `MOST_PIXELS` wide or high.

    Returns:
        The labels that no installed font can draw in full; they have `MISSING` where a character is missing.

    Raises:
        CheckpointError: The file cannot be written.
    """
    from matplotlib.text import Text

    texts = {text: text.get_text() for text in figure.findobj(Text) if isinstance(text, Text)}
    shown = {label: _drawable(label) for label in dict.fromkeys(texts.values())}
    with style():
        try:
            for text, label in texts.items():
                text.set_text(shown[label])
            write_atomically(path, lambda file: figure.savefig(file, format="png", dpi=_dpi(figure, dpi)))
        finally:
            for text, label in texts.items():
                text.set_text(label)
    # A label that is stacked has line breaks.
    return tuple(dict.fromkeys(label.replace("\n", "") for label, drawn in shown.items() if drawn != label))


def readable(label: str, longest: int | None = LONGEST) -> str:
    """Return a label with its control characters spelt out ("\\n", "\\u200b"), and cut if it is too long.

    Args:
        label: Any text.
        longest: Characters that are shown; None = all.
    """
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in label)
    return plain if longest is None or len(plain) <= longest else plain[: longest - 1] + "…"


def inches(label: str, size: float = TEXT_SIZE) -> float:
    """Return about how wide a label is, rather too much than too little.

    Args:
        label: The text.
        size: Of its letters, in points.
    """
    return sum(map(_squares, label)) * size / 72


def stackable(label: str) -> bool:
    """Return whether the letters of a label may stand one on the other, as those of Chinese do."""
    wide = [unicodedata.east_asian_width(character) in "WF" for character in label]
    return any(wide) and all(mark or character in "␣…" for mark, character in zip(wide, label, strict=True))


def widest(labels: Sequence[str], size: float = TEXT_SIZE) -> float:
    """Return the width of the widest label in inches; 0 without any."""
    return max((inches(label, size) for label in labels), default=0.0)


def _dpi(figure: Figure, wanted: int) -> float:
    return min(float(wanted), MOST_PIXELS / float(max(figure.get_size_inches())))


def _squares(character: str) -> float:
    """Its width in squares of the letters' size, of which a Chinese character fills one."""
    if unicodedata.east_asian_width(character) in "WF" or character in "mwMW@%…":
        return 1.0
    return 0.84 if character.isupper() or character in "<>=+~#&^" else 0.64


def _wrapped(text: str, width: float, size: float) -> list[str]:
    if not text:
        return []
    average = inches(text, size) / len(text) * 1.08  # bold
    return textwrap.wrap(text, max(8, int(width / average)))


def _families() -> list[str]:
    """The fonts to take letters from: the Latin one first, then a Chinese one if there is one."""
    from matplotlib.font_manager import fontManager

    installed = {entry.name for entry in fontManager.ttflist}
    return [LATIN, *[name for name in CJK if name in installed][:1]]


def _drawable(label: str) -> str:
    from matplotlib.font_manager import FontProperties, fontManager, get_font

    fonts = [get_font(fontManager.findfont(FontProperties(family=[name]))) for name in _families()]
    return "".join(c if c == "\n" or any(font.get_char_index(ord(c)) for font in fonts) else MISSING for c in label)
