"""What a look into a model found, as lines of text."""

from __future__ import annotations

from collections.abc import Sequence

from glassformer.diagnosis.look import Look
from glassformer.diagnosis.look_wording import LINES
from glassformer.diagnosis.reading_notes import reading_notes
from glassformer.inspection.canvas import readable
from glassformer.inspection.contrast import Move
from glassformer.inspection.inspect import LayerAttention
from glassformer.inspection.sections import guesses
from glassformer.inspection.viewer import layer_names


def found_lines(look: Look, number: int = 5) -> list[str]:
    """Return which heads notice the difference between two texts, and what an intervention changed.

    Args:
        look: What was found.
        number: Heads and positions that are named, of each list.
    """
    return [*_contrast(look, number), *_outcome(look, number)]


def note_lines(look: Look, undrawn: Sequence[str] = (), left_out: Sequence[LayerAttention] = ()) -> list[str]:
    """Return what a reader has to know about what was read and shown.

    Args:
        look: What was found.
        undrawn: Characters that no font has.
        left_out: Layers that the page has no room for.
    """
    language = look.language
    notes = reading_notes(look.reading, language, output=True)
    if look.inspection.labels:
        label, share = next(iter(look.inspection.labels.items()))
        notes.append(LINES.say("labelled", language, label=readable(label), share=100 * share))
    if undrawn:
        notes.append(LINES.say("undrawn", language, characters=", ".join(undrawn)))
    if left_out:
        notes.append(LINES.say("left_out", language, layers=layer_names(left_out)))
    return notes


def _contrast(look: Look, number: int) -> list[str]:
    pair, language = look.found.pair, look.language
    if pair is None:
        return []
    labels = [pair.attention[0][0].rows, pair.attention[1][0].rows]

    def line(move: Move) -> str:
        parts = [LINES.say("change", language, change=move.change)]
        for place, values in ((move.leaves, move.left), (move.gains, move.gained)):
            if place is not None:
                parts.append(f"{labels[0][place[0]]} {values[0]:.3f} -> {values[1]:.3f}")
        layer, row = move.site.split(".")[2], labels[0][move.rows[0]]
        return LINES.say("move", language, layer=layer, head=move.head, row=row, parts=", ".join(parts))

    rows = ", ".join(labels[0][row] for row, _ in pair.contrast.rows)
    shown = [LINES.say("moves", language, rows=rows), *map(line, pair.contrast.moves[:number])]
    turning = pair.contrast.turning[:number]
    return [*shown, *([LINES.say("turning", language)] if turning else []), *map(line, turning)]


def _outcome(look: Look, number: int) -> list[str]:
    outcome, found, language = look.found.outcome, look.found, look.language
    if outcome is None:
        return []
    values, what = len(outcome.sites), ", ".join(outcome.interventions)
    shown = [LINES.say("changed_one" if values == 1 else "changed", language, what=what, number=values)]
    if outcome.kind == "vector":
        return [*shown, LINES.say("vector", language, turned=outcome.divergence)]
    before, after = outcome.loss
    shown.append(
        LINES.say(
            "loss",
            language,
            before=before,
            after=after,
            divergence=outcome.divergence,
            others=outcome.other_answers,
            all=len(outcome.positions),
        )
    )
    for each in sorted(outcome.positions, key=lambda each: -each.divergence)[:number]:
        at = "  "
        if outcome.kind != "label":
            token = readable(found.tokens[each.position])
            at = LINES.say("position", language, position=each.position, token=token)
        kept, given = guesses(found, each.before, 1), guesses(found, each.after, 1)
        shown.append(f"{at}KL {each.divergence:.3f}, {kept} -> {given}")
    most = sorted(outcome.attention.items(), key=lambda each: -each[1])[:3]
    moved = ", ".join(f"{site} {share:.3f}" for site, share in most)
    return [*shown, *([LINES.say("moved", language, sites=moved)] if moved else [])]
