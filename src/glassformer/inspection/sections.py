"""The sections of an inspection's page that show findings: their HTML, and the numbers that the script draws."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any
from zlib import compress

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.inspection.canvas import readable, svg
from glassformer.inspection.figures import bars
from glassformer.inspection.findings import Findings
from glassformer.inspection.inspect import Inspection, LayerAttention
from glassformer.inspection.inspect_wording import SCRIPT, TEXTS
from glassformer.inspection.page import cell, facts, note, picture, rows, section
from glassformer.inspection.patching import Changed, Outcome
from glassformer.inspection.wording import word

THUMB = 40
"""Pixels of a head's small picture, at most."""

LONGEST = 24
"""Characters of a token that are shown in a cell."""

MOST_POSITIONS = 12
"""Positions whose change is shown."""

MOST_MOVES = 40
"""Heads that are listed of two texts."""

Axis = Callable[[tuple[str, ...]], int]
Packed = dict[LayerAttention, str]


def views(found: Findings) -> list[LayerAttention]:
    """Return the attention that is shown besides that of the text itself."""
    written = found.written.attention if found.written else ()
    return [*written, *(layer for text in (found.pair.attention if found.pair else ()) for layer in text)]


def sections(seen: Inspection, found: Findings, language: str) -> tuple[list[str], list[str]]:
    """Return the sections that stand before the attention of single heads, and those behind it, as HTML."""

    def said(key: str, **values: object) -> str:
        return TEXTS.say(key, language, **values)

    before, behind = [_anchored("overview", _overview(said), said("overview_hint"), said)], []
    if any(layer.roles for layer in seen.attention):
        behind.append(_anchored("roles", _roles(found, said), said("roles_hint"), said))
    behind += _lens(found, said)
    if found.written is not None:
        inner = (
            f'<div class="controls" id="step-controls">{_choices("step", language)}'
            f'<label class="wide">{escape(said("step"))}<input type="range" id="step" min="1" value="1"></label></div>'
            '<p class="said" id="step-said" role="status"></p><p class="said" id="step-cell" role="status"></p>'
            '<div id="step-map"></div>'
        )
        behind.append(_anchored("steps", inner, said("steps_hint"), said))
    if found.pair is not None:
        behind.append(_anchored("contrast", _pair(found, said, language), said("contrast_hint"), said))
    if found.outcome is not None:
        behind.append(_anchored("patched", _outcome(found, found.outcome, said), said("patched_hint"), said))
    return before, behind


def content(seen: Inspection, found: Findings, packed: Packed, axis: Axis, language: str) -> dict[str, Any]:
    """Return what the script draws in these sections; see `sections.js`."""
    effects = {(each.site, each.head): each for each in (found.ablation.effects if found.ablation else ())}
    heads = []
    for layer in seen.attention:
        for head, role in zip(layer.heads, layer.roles, strict=False):
            effect, again = effects.get((layer.site, head)), found.repeats.get(layer.site)
            heads.append(
                {
                    "part": layer.part,
                    "layer": layer.layer,
                    "head": head,
                    "role": role.role,
                    "shares": {name: _short(share) for name, share in role.shares.items()}
                    | ({"repeats": _short(again[head])} if again else {}),
                    "distance": None if role.distance is None else _short(role.distance),
                    "entropy": _short(role.entropy),
                    "spread": _short(role.spread),
                    "effect": None if effect is None or effect.loss is None else _short(effect.loss),
                    "exact": effect is None or effect.exact,
                }
            )
    made: dict[str, Any] = {
        "words": {key: TEXTS[key][language] for key in SCRIPT},
        "thumbs": [
            {"part": layer.part, "layer": layer.layer, "heads": layer.heads} | _thumbs(layer)
            for layer in seen.attention
        ],
        "roles": heads,
    }
    if found.lens is not None:
        made["lens"] = _guesses(found)
    if found.written is not None:
        written = found.written
        made["steps"] = {
            "prompt": written.prompt,
            "read": [readable(label, LONGEST) for label in written.read],
            "written": [readable(label, LONGEST) for label in written.written],
            "attention": _shown(written.attention, packed, axis),
        }
    if found.pair is not None:
        made["pair"] = {
            "attention": [_shown(layers, packed, axis) for layers in found.pair.attention],
            "moves": _moves(found, axis),
        }
    return made


def _anchored(name: str, body: str, hint: str, said: Callable[..., str]) -> str:
    return section(said(name), body, hint).replace("<section>", f'<section id="{name}">', 1)


def _overview(said: Callable[..., str]) -> str:
    buttons = "".join(
        f'<button data-by="{by}">{escape(said(f"by_{by}"))}</button>' for by in ("role", "spread", "effect")
    )
    return (
        f'<div class="controls"><div class="buttons" id="frames" role="group" aria-label="{escape(said("colour_by"))}">'
        f'{buttons}</div></div>\n<div class="keys" id="keys"></div>\n'
        '<p class="said" id="over-said" role="status"></p>\n'
        '<div id="all"></div>'
    )


def _roles(found: Findings, said: Callable[..., str]) -> str:
    notes = []
    if found.repeats:
        notes.append(said("repeats_hint"))
    ablation = found.ablation
    if ablation is not None and not ablation.answered:
        notes.append(said("effect_none"))
    elif ablation is not None:
        notes.append(said(f"effect_{ablation.kind}", value=said(ablation.value), loss=f"{ablation.loss:.3f}"))
        if ablation.n_exact < len(ablation.effects):
            kind = "effect_some" if ablation.kind == "vector" else "effect_budget"
            notes.append(said(kind, exact=ablation.n_exact, all=len(ablation.effects)))
    return "".join(map(note, notes)) + '<div class="wide-table" id="roles-table" tabindex="0"></div>'


def _lens(found: Findings, said: Callable[..., str]) -> list[str]:
    if found.lens is None:
        return [_anchored("lens", note(said(found.no_lens)), "", said)] if found.no_lens else []
    left_out = note(said("lens_from", number=found.lens.first)) if found.lens.first else ""
    inner = left_out + '<p class="said" id="lens-said" role="status"></p><div id="lens-table" class="lens"></div>'
    return [_anchored("lens", inner, said("lens_hint_next" if found.lens.shift else "lens_hint_same"), said)]


def _choices(name: str, language: str) -> str:
    return "".join(
        f'<label>{escape(word(each, language))}<select id="{name}-{each}"></select></label>'
        for each in ("part", "layer", "head")
    )


def _pair(found: Findings, said: Callable[..., str], language: str) -> str:
    assert found.pair is not None, "asked for"
    contrast = found.pair.contrast
    named = ", ".join(found.tokens[row] for row, _ in contrast.rows)
    texts = rows([said("text_1"), said("text_2")], [[cell(text) for text in found.pair.texts]])
    return (
        f"{texts}{note(said('contrast_rows_named' if contrast.named else 'contrast_rows_found', tokens=named))}"
        f"{note(said('turns_hint'))}<h3>{escape(said('ranking'))}</h3>"
        f'<div class="wide-table" id="moves" tabindex="0"></div>'
        f'<div class="controls">{_choices("pair", language)}</div><p class="said" id="pair-said" role="status"></p>'
        f'<div class="pair"><div><h3>{escape(said("text_1"))}</h3><div id="pair-1"></div></div>'
        f'<div><h3>{escape(said("text_2"))}</h3><div id="pair-2"></div></div></div>'
    )


def _outcome(found: Findings, outcome: Outcome, said: Callable[..., str]) -> str:
    vector = outcome.kind == "vector"
    numbers = [(said("divergence_vector" if vector else "divergence"), f"{outcome.divergence:.4g}")]
    if not vector:
        before, after = outcome.loss
        numbers = [(said("loss_before"), f"{before:.4g}"), (said("loss_after"), f"{after:.4g}"), *numbers]
        numbers.append((said("other_answers"), f"{outcome.other_answers} / {len(outcome.positions)}"))
    sites = ", ".join(outcome.sites[:6]) + ("…" if len(outcome.sites) > 6 else "")
    named = [said("patches"), f"{said('sites')} ({len(outcome.sites)})"]
    shown = rows(named, [[cell(", ".join(outcome.interventions)), cell(sites)]]) + facts(numbers)
    most = sorted(outcome.positions, key=lambda each: -each.divergence)[:MOST_POSITIONS]
    if not vector:
        if len(most) < len(outcome.positions):
            shown += note(said("most_changed", number=len(most), all=len(outcome.positions)))
        cells = [
            [
                cell(_where(found, each, outcome)),
                cell(f"{each.divergence:.3f}"),
                cell(guesses(found, each.before)),
                cell(guesses(found, each.after)),
            ]
            for each in most
        ]
        shown += rows([said("position"), "KL", said("before"), said("afterwards")], cells)
    if outcome.attention:
        drawn = bars(outcome.attention, title=said("moved_attention"), x_label=said("moved_axis"))
        return shown + picture(svg(drawn))
    return shown + note(said("moved_left_out"))


def _where(found: Findings, each: Changed, outcome: Outcome) -> str:
    return "–" if outcome.kind == "label" else f"{readable(found.tokens[each.position], LONGEST)} ({each.position})"


def guesses(found: Findings, best: Sequence[tuple[int, float]], number: int = 3) -> str:
    """Return answers with their probabilities, as in "cat 62 %, dog 20 %"."""
    return ", ".join(f"{readable(found.names[token], LONGEST)} {100 * share:.1f} %" for token, share in best[:number])


def _guesses(found: Findings) -> dict[str, Any]:
    lens = found.lens
    assert lens is not None, "asked for"
    used = sorted({int(token) for token in lens.ids.unique()})
    place = {token: index for index, token in enumerate(used)}
    return {
        "names": [readable(found.names[token], LONGEST) for token in used],
        "ids": [[[place[token] for token in best] for best in layer] for layer in lens.ids.tolist()],
        "shares": (lens.probabilities * 1000).round().int().tolist(),
        "settled": lens.settled.tolist(),
        "tokens": [readable(label, LONGEST) for label in found.tokens[lens.first :]],
        "first": lens.first,
    }


def _moves(found: Findings, axis: Axis) -> list[dict[str, Any]]:
    assert found.pair is not None, "asked for"
    contrast = found.pair.contrast
    named = [*contrast.moves[:MOST_MOVES], *contrast.turning[:MOST_MOVES]]
    sites = {layer.site: layer for layer in found.pair.attention[0]}
    shown = []
    for move in dict.fromkeys(named):
        layer = sites[move.site.removesuffix(".weights")]
        shown.append(
            {
                "part": layer.part,
                "layer": layer.layer,
                "head": move.head,
                "rows": move.rows,
                "change": _short(move.change),
                "leaves": move.leaves,
                "gains": move.gains,
                "left": [_short(value) for value in move.left],
                "gained": [_short(value) for value in move.gained],
                "turns": move.turns,
                "moved": _short(move.moved),
            }
        )
    return shown


def _shown(layers: Iterable[LayerAttention], packed: Packed, axis: Axis) -> list[dict[str, Any]]:
    return [
        {
            "part": layer.part,
            "layer": layer.layer,
            "heads": layer.heads,
            "rows": axis(layer.rows),
            "columns": axis(layer.columns),
            "weights": packed[layer],
        }
        for layer in layers
        if layer in packed
    ]


def _thumbs(layer: LayerAttention) -> dict[str, Any]:
    """Each head as a small picture in 255 steps of its largest value; of several squares the brightest is kept."""
    weights = layer.weights.nan_to_num(0.0, 0.0, 0.0)
    size = [min(number, THUMB) for number in weights.shape[1:]]
    small: Tensor = F.adaptive_max_pool2d(weights.unsqueeze(0), size)[0]
    largest = small.amax((1, 2), keepdim=True).clamp(min=1e-9)
    levels = (small / largest * 255).round().to(torch.uint8)
    return {"size": size, "levels": b64encode(compress(levels.numpy().tobytes(), 9)).decode()}


def _short(value: float) -> float | None:
    return float(f"{value:.4g}") if abs(value) != float("inf") and value == value else None
