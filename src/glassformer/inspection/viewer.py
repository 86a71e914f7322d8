"""The page of an inspection: every layer and head to choose from, in one file that needs nothing else."""

from __future__ import annotations

import json
import math
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any
from zlib import compress

import numpy as np
from jaxtyping import Float
from torch import Tensor

from glassformer.core.errors import DataError
from glassformer.core.files import write_text
from glassformer.core.wording import known_language
from glassformer.inspection.canvas import readable, svg
from glassformer.inspection.figures import COLOUR_MAP, bars
from glassformer.inspection.findings import Findings
from glassformer.inspection.inspect import Inspection, LayerAttention
from glassformer.inspection.inspect_wording import TEXTS
from glassformer.inspection.page import cell, facts, note, page, picture, rows, section
from glassformer.inspection.sections import content as found_content
from glassformer.inspection.sections import sections as found_sections
from glassformer.inspection.sections import views
from glassformer.inspection.wording import word

LIMIT_BYTES = 10_000_000
"""What a page may take. First the weights lose a digit, then the last layers are left out, and the page says which.

12 layers of 12 heads over 512 tokens of a decoder, 37,748,736 weights, take about 5 MB with three digits where heads
are sure of where to look, and 11 MB where they look everywhere alike.
"""

DIGITS = (4, 3)
"""Decimal places of the weights: as many as there is room for."""

NOT_A_NUMBER = 65535

LONGEST_TEXT, LONGEST_LABEL = 400, 80
"""Characters that are shown."""

MOST_LABELS = 12
"""Labels whose probability is shown."""

NOTHING = Findings()

BESIDE = 0.5
"""Share of the room that the attention of further sections may take."""

PARTS = ("encoder", "decoder", "cross")

WORDS = (
    *(f"{kind}_{part}" for kind in ("part", "axes") for part in PARTS),
    *("all_heads", "head_number", "layer_number", "open_head", "looks_at", "looks_at_nothing"),
    *("hover", "hover_sizes", "map", "map_sizes", "old_browser"),
)
"""Those of `wording.MESSAGES` that the script shows."""


def write_inspection(
    path: Path,
    inspection: Inspection,
    *,
    title: str,
    texts: Mapping[str, str],
    notes: Sequence[str] = (),
    found: Findings = NOTHING,
    language: str = "en",
    limit_bytes: int = LIMIT_BYTES,
) -> tuple[LayerAttention, ...]:
    """Write an inspection as one HTML file that needs nothing else; arguments and errors as of `inspection_page`.

    Args:
        path: The file.

    Returns:
        The layers that were left out.

    Raises:
        CheckpointError: The file cannot be written.
    """
    html, left_out = inspection_page(
        inspection, title=title, texts=texts, notes=notes, found=found, language=language, limit_bytes=limit_bytes
    )
    write_text(path, html)
    return left_out


def inspection_page(
    inspection: Inspection,
    *,
    title: str,
    texts: Mapping[str, str],
    notes: Sequence[str] = (),
    found: Findings = NOTHING,
    language: str = "en",
    limit_bytes: int = LIMIT_BYTES,
) -> tuple[str, tuple[LayerAttention, ...]]:
    """Return an inspection as one HTML page that needs nothing else, and the layers that were left out.

    Args:
        inspection: From `inspect_sample`.
        title: Heading of the page.
        texts: What was read and written, by a key of `wording.MESSAGES`.
        notes: What else is to be known about them.
        found: What else was found out.
        language: "en" or "zh".
        limit_bytes: What the page may take; see `LIMIT_BYTES`.

    Raises:
        ConfigError: There is no such language.
        DataError: Not a single layer fits.
    """
    known_language(language)
    before, behind = found_sections(inspection, found, language)
    attention, *sizes = _sections(inspection, language)
    sections = [*before, attention, *behind, *sizes]
    body = [_contents(sections), *sections]
    code, css = ("\n".join(_part(f"{name}.{kind}") for name in ("viewer", "sections")) for kind in ("js", "css"))
    beside = views(found)

    def drawn(packed: dict[LayerAttention, str], digits: int, left_out: Sequence[LayerAttention]) -> str:
        missing = [TEXTS.say("left_out_views", language, limit=f"{limit_bytes / 1e6:g}")] * (
            not all(layer in packed for layer in beside)
        )
        head = _head(texts, [*notes, *_left_out(left_out, limit_bytes, language), *missing], language)
        head += _decision(inspection.labels, language)
        content = _content(inspection, found, packed, digits, language)
        return page(title, [head, *body], word("footer", language), language, css=css, script=code, data=content)

    room = limit_bytes - len(drawn({}, DIGITS[0], inspection.attention).encode())
    packed, digits = _packed_all(inspection.attention, beside, room)
    if not any(layer in packed for layer in inspection.attention):
        raise DataError(
            f"not a single layer fits a page of {limit_bytes / 1e6:g} MB; choose heads (--heads 0), fewer tokens "
            "(--max-tokens 100), or pictures (--png)"
        )
    left_out = tuple(layer for layer in inspection.attention if layer not in packed)
    return drawn(packed, digits, left_out), left_out


def layer_names(layers: Sequence[LayerAttention], language: str = "en") -> str:
    """Return the names of layers, as in "encoder 2, 3; decoder 2, 3"."""
    numbers = {part: [str(layer.layer) for layer in layers if layer.part == part] for part in PARTS}
    return "; ".join(f"{word(f'part_{part}', language)} {', '.join(found)}" for part, found in numbers.items() if found)


def _packed_all(
    attention: Sequence[LayerAttention], beside: Sequence[LayerAttention], room: int
) -> tuple[dict[LayerAttention, str], int]:
    """The weights as text and the number of their digits; the text's own have what the further sections leave."""
    packed: dict[LayerAttention, str] = {}
    for digits in DIGITS:
        middle = attention[len(attention) // 2]
        if digits != DIGITS[-1] and len(attention) * len(_deflated(middle.weights, digits)) > 1.5 * room:
            continue  # far from it: the seconds are saved
        more = _packed(beside, digits, int(BESIDE * room))
        packed = _packed(attention, digits, room - sum(map(_size, more, more.values()))) | more
        if len(packed) == len(attention) + len(beside):
            return packed, digits
    return packed, DIGITS[-1]


def _packed(attention: Sequence[LayerAttention], digits: int, room: int) -> dict[LayerAttention, str]:
    """The weights as text; of each stack the first layers, if not all have room."""
    packed: dict[LayerAttention, str] = {}
    for layer in sorted(attention, key=lambda each: each.layer):
        text = _deflated(layer.weights, digits)
        room -= _size(layer, text)
        if room < 0:
            break
        packed[layer] = text
    return packed


def _size(layer: LayerAttention, text: str) -> int:
    return len(text) + 150 + 8 * len(layer.heads)  # the names and numbers around it


def _deflated(weights: Float[Tensor, "head query key"], digits: int) -> str:
    """Whole numbers of 10^-digits in two bytes; apart from each other, low and high bytes become much smaller."""
    scaled = weights.numpy() * np.float32(10**digits)
    whole = np.where(np.isfinite(scaled), np.rint(scaled), NOT_A_NUMBER).astype(np.uint16)
    return b64encode(
        compress((whole & 255).astype(np.uint8).tobytes() + (whole >> 8).astype(np.uint8).tobytes())
    ).decode()


def _content(
    inspection: Inspection, found: Findings, packed: dict[LayerAttention, str], digits: int, language: str
) -> str:
    """The JSON that the script reads."""
    axes: dict[tuple[str, ...], int] = {}

    def axis(labels: tuple[str, ...]) -> int:
        return axes.setdefault(labels, len(axes))

    attention = []
    for layer in inspection.attention:
        named = {"part": layer.part, "layer": layer.layer, "heads": layer.heads}
        named |= {"rows": axis(layer.rows), "columns": axis(layer.columns)}
        if layer in packed:
            attention.append(named | {"weights": packed[layer]})
    sizes = [
        {
            "part": size.part,
            "layer": size.layer,
            "columns": axis(size.labels),
            "tokens": [float(f"{value:.4g}") if math.isfinite(value) else None for value in size.tokens.tolist()],
        }
        for size in inspection.sizes
    ]
    more = found_content(inspection, found, packed, axis, language)
    content: dict[str, Any] = {
        "words": {key: word(key, language) for key in WORDS},
        "scale": 10**digits,
        "colours": _colours(),
        "axes": [[readable(label, LONGEST_LABEL) for label in labels] for labels in axes],
        "attention": attention,
        "sizes": sizes,
        "more": more,
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _contents(sections: Sequence[str]) -> str:
    """Links to the sections, by their headings."""
    links = []
    for each in sections:
        name, heading = re.search('<section id="([^"]+)">', each), re.search("<h2>(.*?)</h2>", each)
        if name and heading:
            links.append(f'<a href="#{name[1]}">{heading[1]}</a>')
    return f"<nav>{''.join(links)}</nav>"


def _colours() -> str:
    from matplotlib import colormaps

    return b64encode(colormaps[COLOUR_MAP](np.arange(256), bytes=True)[:, :3].tobytes()).decode()


def _head(texts: Mapping[str, str], notes: Sequence[str], language: str) -> str:
    shown = [cell(text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…") for text in texts.values()]
    return rows([word(name, language) for name in texts], [shown]) + "".join(map(note, notes))


def _decision(labels: Mapping[str, float], language: str) -> str:
    """What the model labels the text with, the most probable first."""
    if not labels:
        return ""
    shown = [(name, f"{100 * share:.1f} %") for name, share in labels.items()][:MOST_LABELS]
    missing = len(labels) - len(shown)
    rest = note(word("left_out_labels", language).format(number=missing)) if missing else ""
    return section(word("decision", language), facts(shown) + rest, word("decision_hint", language))


def _sections(inspection: Inspection, language: str) -> list[str]:
    shown = [("attention", _controls(language), "attention_hint")]
    if inspection.sizes:  # a model of the user's own says nothing of its stream
        overall = {f"{size.part}.blocks.{size.layer}": size.overall for size in inspection.sizes}
        norms = picture(svg(bars(overall, title=word("norms_sample", language), x_label=word("norms_axis", language))))
        shown.append(("norms", f'{norms}<div id="sizes"></div>', "sizes_hint"))
    return [
        section(word(name, language), body, word(hint, language)).replace("<section>", f'<section id="{name}">', 1)
        for name, body, hint in shown
    ]


def _controls(language: str) -> str:
    def said(key: str) -> str:
        return escape(word(key, language))

    choices = "".join(
        f'<label>{said(name)}<select id="{name}"></select></label>\n' for name in ("part", "layer", "head")
    )
    return (
        f'<noscript><p>{said("no_script")}</p></noscript>\n<div class="controls">\n{choices}'
        f'<div class="buttons" id="zoom" role="group" aria-label="{said("zoom")}">'
        f'<button id="smaller" aria-label="{said("smaller")}">−</button><button id="fit">{said("fit")}</button>'
        f'<button id="larger" aria-label="{said("larger")}">+</button></div>\n'
        '<div class="legend">0<canvas id="colours"></canvas><span id="largest"></span></div>\n</div>\n'
        '<div class="readout" id="readout" role="status"></div>\n<p id="axes"></p>\n'
        '<div class="heads" id="heads"></div>\n<div id="map" hidden></div>'
    )


def _left_out(layers: Sequence[LayerAttention], limit_bytes: int, language: str) -> list[str]:
    if not layers:
        return []
    message = word("left_out_layers", language)
    return [message.format(limit=f"{limit_bytes / 1e6:g}", layers=layer_names(layers, language))]
