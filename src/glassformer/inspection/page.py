"""One HTML file that needs nothing else: light and dark, on a screen and on a telephone."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from html import escape, unescape
from unicodedata import east_asian_width

from glassformer.inspection.canvas import INK, PALE, PAPER

CSS = """
:root {
  color-scheme: light dark;
  --ink: #1f2328; --soft: #59636e; --line: #d8dee4; --paper: #ffffff; --card: #f6f8fa;
  --good: #1a7f37; --bad: #c4302b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6e9ed; --soft: #9aa4af; --line: #3a4149; --paper: #15181c; --card: #1e2329;
    --good: #4cc26b; --bad: #ff7b72;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 62rem; overflow-wrap: anywhere;
  color: var(--ink); background: var(--paper);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", "Noto Sans", "PingFang SC", "Microsoft YaHei",
    "Noto Sans CJK SC", sans-serif;
}
h1 { margin: 0.5rem 0 0; font-size: 1.7rem; line-height: 1.25; }
h2 { margin: 2.5rem 0 0.5rem; font-size: 1.2rem; }
p { margin: 0 0 1rem; max-width: 46rem; color: var(--soft); }
dl + p { margin-top: 0.75rem; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: 0.75rem; margin: 0; }
dl div {
  display: flex; flex-direction: column-reverse; justify-content: flex-end;
  padding: 0.7rem 0.9rem; border-radius: 0.6rem; background: var(--card);
}
dt { color: var(--soft); font-size: 0.85rem; line-height: 1.3; }
dd { margin: 0; font-size: 1.3rem; font-weight: 600; font-variant-numeric: tabular-nums; }
dd.text { font-size: 1rem; line-height: 1.9rem; }
.pictures {
  display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr));
}
figure { margin: 0; min-width: 0; overflow-x: auto; }
figure svg { display: block; width: 100%; height: auto; }
figure svg text { font-family: inherit !important; }
table { width: 100%; border-collapse: collapse; }
th { color: var(--soft); font-size: 0.85rem; font-weight: 500; text-align: start; white-space: nowrap; }
th, td { padding: 0.5rem 1rem 0.5rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td { min-width: 10rem; white-space: pre-wrap; }
td.short { min-width: 0; white-space: nowrap; }
.right { color: var(--good); } .wrong { color: var(--bad); }
.right, .wrong { font-weight: 600; white-space: nowrap; }
pre {
  margin: 0.5rem 0; padding: 0.7rem 0.9rem; overflow-x: auto;
  border-radius: 0.6rem; background: var(--card); white-space: pre-wrap;
  font: 0.9rem/1.5 ui-monospace, "SF Mono", Consolas, "DejaVu Sans Mono", monospace;
}
footer { margin-top: 3rem; color: var(--soft); font-size: 0.85rem; }
@media (max-width: 40rem) {
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  tr { display: block; padding: 0.6rem 0; border-bottom: 1px solid var(--line); }
  td, td.short { display: grid; grid-template-columns: 5rem 1fr; width: auto; min-width: 0; white-space: pre-wrap; }
  td { padding: 0.15rem 0; border: 0; }
  td::before { content: attr(data-name); color: var(--soft); font-size: 0.85rem; }
}
"""

SHORT = 24
"""Letters of a cell that is never broken."""

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Nothing may be loaded, and no script run, whatever a text in the page holds."""


def page(
    title: str,
    sections: Sequence[str],
    footer: str,
    language: str,
    *,
    css: str = "",
    script: str = "",
    data: str = "",
) -> str:
    """Return the whole file.

    Args:
        title: Its heading, as plain text.
        sections: HTML, from `section`.
        footer: Its last line, as plain text.
        language: "en" or "zh".
        css: Added to that of every page.
        script: JavaScript, the only one that may run; it stands at the end.
        data: JSON for the script, which finds it in the element "data".
    """
    policy = POLICY
    ending = [f"<footer>{escape(footer)}</footer>"]
    if script:
        assert "</script" not in script, "it would end there"
        policy += f"; script-src 'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"
        # In JSON a < stands only in strings, where it may be written so; no text can then end the element.
        inert = data.replace("<", "\\u003c")
        ending += [f'<script type="application/json" id="data">{inert}</script>', f"<script>{script}</script>"]
    return "\n".join(
        (
            f'<!DOCTYPE html>\n<html lang="{escape(language)}">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>{CSS}{css}</style>\n</head>\n<body>",
            f"<h1>{escape(title)}</h1>",
            *sections,
            *ending,
            "</body>\n</html>\n",
        )
    )


def section(heading: str, body: str, hint: str = "") -> str:
    """Return a section.

    Args:
        heading: Plain text.
        body: HTML.
        hint: A sentence that says what there is to see, as plain text.
    """
    said = f"<p>{escape(hint)}</p>\n" if hint else ""
    return f"<section>\n<h2>{escape(heading)}</h2>\n{said}{body}\n</section>"


def pictures(drawn: Sequence[str]) -> str:
    """Return pictures side by side, where there is room.

    Args:
        drawn: HTML, from `picture`.
    """
    return f'<div class="pictures">\n{"".join(drawn)}</div>'


def picture(drawing: str) -> str:
    """Return an SVG that fills the width it is given, in the colours of the page.

    It grows to at most 1.15 times its size; on a narrow screen it shrinks to 0.7 of it, where its letters can
    still be read, and from there on is moved sideways.

    Args:
        drawing: From `canvas.svg`.
    """
    size = re.search(r'width="([\d.]+)pt" height="[\d.]+pt"', drawing)
    assert size is not None, "every figure has a size"
    pixels = float(size[1]) * 4 / 3
    fitting = f'role="img" style="min-width: {0.7 * pixels:.0f}px; max-width: {1.15 * pixels:.0f}px"'
    return f"<figure>{re.sub('<[^>]*>', _themed, drawing.replace(size[0], fitting, 1))}</figure>\n"


def facts(values: Sequence[tuple[str, str]]) -> str:
    """Return names and their values as cards; both are plain text."""
    cards = (f"<div><dt>{escape(name)}</dt>{_value(value)}</div>" for name, value in values)
    return "<dl>\n" + "\n".join(cards) + "\n</dl>"


def rows(names: Sequence[str], content: Sequence[Sequence[str]]) -> str:
    """Return a table, which a telephone shows row by row; no column of short texts is broken to make room.

    Args:
        names: Of the columns, as plain text.
        content: The cells of each row: HTML, from `cell` or `mark`.
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    short = [max(map(_columns, cells), default=0) <= SHORT for cells in zip(*content, strict=True)]
    body = "\n".join("<tr>" + "".join(_named(names, cells, short)) + "</tr>" for cells in content)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def cell(text: str) -> str:
    """Return plain text of any script, in its own direction, as HTML."""
    return f'<span dir="auto">{escape(text)}</span>'


def mark(right: bool, word: str) -> str:
    """Return a tick or a cross, with the word for those who do not see it."""
    return f'<span class="{"right" if right else "wrong"}">{"✓" if right else "✗"} {escape(word)}</span>'


def commands(lines: Sequence[str]) -> str:
    """Return lines to be copied into a terminal."""
    return "\n".join(f"<pre><code>{escape(line)}</code></pre>" for line in lines)


def note(text: str) -> str:
    """Return a remark in plain text."""
    return f"<p>{escape(text)}</p>"


def _themed(tag: re.Match[str]) -> str:
    colours = {f"fill: {PAPER}": "fill: none", INK: "currentColor", PALE: "var(--line)"}
    text = tag[0]
    for colour, of_page in colours.items():
        text = text.replace(colour, of_page)
    return text


def _value(text: str) -> str:
    return f'<dd class="text">{escape(text)}</dd>' if len(text) > 10 else f"<dd>{escape(text)}</dd>"


def _named(names: Sequence[str], cells: Sequence[str], short: Sequence[bool]) -> Iterator[str]:
    for name, content, whole in zip(names, cells, short, strict=True):
        yield f'<td data-name="{escape(name)}"{" class=short" * whole}>{content}</td>'


def _columns(html: str) -> int:
    """How wide the text of a cell is; a Chinese character is as wide as two others."""
    text = unescape(re.sub("<[^>]*>", "", html))
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
