"""What an examination found, in no language yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from glassformer.core.wording import Catalogue

Status = Literal["pass", "fail", "not_applicable", "error"]
"""What can come of a property: it holds, it does not, it cannot be asked here, or the subject crashed."""


@dataclass(frozen=True)
class Said:
    """A message that is put into words when the reader's language is known.

    Attributes:
        words: Where the message is.
        key: Its name there.
        values: What is filled in; numbers, names and shapes.
    """

    words: Catalogue
    key: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def say(self, language: str) -> str:
        """Return the message in a language."""
        return self.words.say(self.key, language, **self.values)


@dataclass(frozen=True)
class Finding:
    """What the test of one property came to.

    Attributes:
        status: Whether the property holds.
        seen: What was measured.
        where: The module, parameter or place that it was seen at; empty = none in particular.
        fault: Which of the known faults it is, where the property has several: its `FAULT.why` and `FAULT.look` are
            said instead of the property's own.
    """

    status: Status
    seen: Said | None = None
    where: str = ""
    fault: str | None = None


@dataclass(frozen=True)
class Verdict:
    """A finding about a property, with the words that explain it.

    Attributes:
        key: That of the property.
        finding: What was found.
        words: Where `KEY.name`, `KEY.why` and `KEY.look` are said.
        follows: Key of a property that failed too and explains this failure; None = this one stands for itself.
    """

    key: str
    finding: Finding
    words: Catalogue
    follows: str | None = None

    @property
    def status(self) -> Status:
        """Whether the property holds."""
        return self.finding.status

    @property
    def failed(self) -> bool:
        """True if something is wrong: the property does not hold, or the subject crashed."""
        return self.status in ("fail", "error")

    @property
    def numbers(self) -> Mapping[str, Any]:
        """What was measured, by name."""
        return {} if self.finding.seen is None else self.finding.seen.values

    def name(self, language: str) -> str:
        """Return what the property is called."""
        return self.words.say(f"{self.key}.name", language)

    def seen(self, language: str) -> str:
        """Return what was measured, or why nothing could be."""
        return "" if self.finding.seen is None else self.finding.seen.say(language)

    def why(self, language: str) -> str:
        """Return why the property matters, or what the known fault does."""
        return self._explain("why", language)

    def look(self, language: str) -> str:
        """Return where to look for the fault."""
        return self._explain("look", language)

    def _explain(self, what: str, language: str) -> str:
        special = f"{self.finding.fault}.{what}"
        return self.words.say(special if special in self.words else f"{self.key}.{what}", language)
