"""An examination as a person reads it, or a script."""

from __future__ import annotations

import textwrap
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
        yield f"{self.subject}  ({self.kind.say(language)})"
        yield from (f"  {remark.say(language)}" for remark in self.remarks)
        yield ""
        for each in self.verdicts:
            yield from self._lines_of(each, language, width)
        yield ""
        counts = {status: sum(each.status == status for each in self.verdicts) for status in ("pass", "not_applicable")}
        if self.ok:
            yield MESSAGES.say("sum_good", language, passed=counts["pass"], skipped=counts["not_applicable"])
            return
        asked = len(self.verdicts) - counts["not_applicable"]
        first = self.failures[0].name(language)
        yield MESSAGES.say("sum_bad", language, failed=len(self.failures), asked=asked, name=first)

    def _lines_of(self, each: Verdict, language: str, width: int) -> Iterator[str]:
        status = MESSAGES.say(each.status, language)
        name = each.name(language)
        yield from _wrapped(f"{status:<6}", f"{name}: {each.seen(language)}" if not each.failed else name, width)
        if not each.failed:
            return
        said = {"seen": each.seen(language), "at": each.finding.where}
        if each.follows is None:
            said |= {"why": each.why(language), "look": each.look(language)}
        for what, text in said.items():
            if text:
                yield from _wrapped(f"         {MESSAGES.say(what, language)}: ", text, width)
        if each.follows is not None:
            cause = next(other.name(language) for other in self.verdicts if other.key == each.follows)
            yield f"         {MESSAGES.say('follows', language, name=cause)}"


def _wrapped(head: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=head, subsequent_indent=" " * 12, break_on_hyphens=False)
