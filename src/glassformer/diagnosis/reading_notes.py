"""What users have to know of a text that was read: that it was cut, and who wrote the answer."""

from __future__ import annotations

from glassformer.diagnosis.look_wording import LINES
from glassformer.generation.reading import Reading
from glassformer.inspection.canvas import readable
from glassformer.inspection.wording import word

SHOWN = 80
"""Characters of an answer in one line of a terminal."""


def reading_notes(reading: Reading, language: str, *, output: bool = False) -> list[str]:
    """Return the notes, for a page or a terminal.

    Args:
        reading: What was read.
        language: "en" or "zh".
        output: Whether the model's own answer stands in its note, for where nothing else shows it.
    """
    notes = [word(f"cut_{name}", language).format(read=n, all=of) for name, (n, of) in reading.cut.items()]
    if not reading.own:
        return notes
    if not output:
        return [*notes, word("own_output", language)]
    return [*notes, LINES.say("own_output", language, output=readable(reading.output or "", SHOWN))]
