"""An examination as a person reads it, or a script."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from glassformer.diagnosis.verdict import Said, Verdict
from glassformer.diagnosis.wording import MESSAGES


@dataclass(frozen=True)
class Report:
    """All that was found about one subject.

    Attributes:
        subject: What was examined, as the user named it.
        kind: What it was examined as ("decoder-only model").
        verdicts: Those that explain others first.
        remarks: What the examiner assumed ("mask: True hides").
    """

    subject: str
    kind: Said
    verdicts: tuple[Verdict, ...]
    remarks: tuple[Said, ...] = ()

    @property
    def failures(self) -> list[Verdict]:
        """What is wrong, the cause first."""
        return [verdict for verdict in self.verdicts if verdict.failed]

    @property
    def ok(self) -> bool:
        """True if nothing wrong was found."""
        return not self.failures

    def __getitem__(self, key: str) -> Verdict:
        """Return the verdict on a property."""
        return next(verdict for verdict in self.verdicts if verdict.key == key)

    def as_dict(self, language: str = "en") -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "subject": self.subject,
            "kind": self.kind.say(language),
            "ok": self.ok,
            "remarks": [remark.say(language) for remark in self.remarks],
            "verdicts": [
                {
                    "property": each.key,
                    "status": each.status,
                    "name": each.name(language),
                    "seen": each.seen(language),
                    "numbers": dict(each.numbers),
                    **(
                        {
                            "where": each.finding.where,
                            "fault": each.finding.fault,
                            "why": each.why(language),
                            "look": each.look(language),
                            "follows": each.follows,
                        }
                        if each.failed
                        else {}
                    ),
                }
                for each in self.verdicts
            ],
        }

    def lines(self, language: str = "en", width: int = 100) -> Iterator[str]:
        """Yield the report's lines: one for a property, more for a failure.

        Args:
            language: One of the languages.
            width: Columns of a line.
        """
        yield from wrapped("", f"{self.subject}  ({self.kind.say(language)})", width)
        for remark in self.remarks:
            yield from wrapped("  ", remark.say(language), width)
        yield ""
        for each in self.verdicts:
            yield from self._lines_of(each, language, width)
        yield ""
        counts = {status: sum(each.status == status for each in self.verdicts) for status in ("pass", "not_applicable")}
        if self.ok:
            said = MESSAGES.say("sum_good", language, passed=counts["pass"], skipped=counts["not_applicable"])
            yield from wrapped("", said, width)
            return
        asked = len(self.verdicts) - counts["not_applicable"]
        first = self.failures[0].name(language)
        said = MESSAGES.say("sum_bad", language, failed=len(self.failures), asked=asked, name=first)
        yield from wrapped("", said, width)

    def _lines_of(self, each: Verdict, language: str, width: int) -> Iterator[str]:
        name, seen = each.name(language), each.seen(language)
        held = MESSAGES.say("line", language, name=name, seen=seen)
        status = _padded(MESSAGES.say(each.status, language), STATUS_WIDTH)
        yield from wrapped(status, name if each.failed or not seen else held, width)
        if not each.failed:
            return
        said = {"seen": seen, "at": each.finding.where}
        if each.follows is None:
            said |= {"why": each.why(language), "look": each.look(language)}
        for what, text in said.items():
            if text:
                label = _padded(MESSAGES.say(what, language), LABEL_WIDTH)
                yield from wrapped(" " * STATUS_WIDTH + label, text, width)
        if each.follows is not None:
            cause = next(other.name(language) for other in self.verdicts if other.key == each.follows)
            yield from wrapped(" " * STATUS_WIDTH, MESSAGES.say("follows", language, name=cause), width)


STATUS_WIDTH, LABEL_WIDTH = 8, 6
"""Columns of the first words of a line."""


def _columns(text: str) -> int:
    """How wide a text is in a terminal, where a Chinese character takes two columns."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _padded(text: str, width: int) -> str:
    return text + " " * max(1, width - _columns(text))


def wrapped(head: str, text: str, width: int) -> Iterator[str]:
    """Yield lines of a text behind a head; Chinese breaks anywhere, other words only between themselves."""
    indent, line, room = " " * _columns(head), head, width - _columns(head)
    used = 0
    for word in re.findall(r"[\u2e80-\uffef]|[^\s\u2e80-\uffef]+|\s+", text):
        wide = _columns(word)
        if used and used + wide > room:
            yield line.rstrip()
            line, used = indent, 0
        if used or not word.isspace():
            line, used = line + word, used + wide
    yield line.rstrip()
