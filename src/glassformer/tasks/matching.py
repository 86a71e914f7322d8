"""Matching: do two texts belong together?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Literal

from pydantic import Field

from glassformer.data.dates import same_or_different, split_dates
from glassformer.tasks.classification import ClassificationTask, Labelled
from glassformer.text.build import TokenizerKind

FIRST, LAST = 1900, 2099
N_DATES, N_MEASURED = 10_000, 1_000
"""Dates that validation and test each keep for themselves, and the pairs that are made of them."""


class MatchingTask(ClassificationTask):
    """Two texts in, a label out.

    Without a table it learns from data made up on the spot: do two spellings, English, German or Chinese, mean the
    same date?

    Attributes:
        name: "matching".
        second_text: Column of the second text.
        made_size: Rows that are made up where no table is named.
    """

    name: Literal["matching"] = "matching"
    text: str = "text_a"
    second_text: str | None = "text_b"
    tokenizer: TokenizerKind = "character"
    made_size: int = Field(20_000, ge=10)

    def parts(self) -> tuple[Labelled, Labelled | None, Labelled | None]:
        """Return the rows of the tables, or made-up ones in three parts that have no date in common."""
        if self.train is not None:
            return super().parts()
        train, valid, test = split_dates(FIRST, LAST, N_DATES, N_DATES, self.seed)
        return (
            _made("made up to learn from", train, self.made_size, self.seed),
            _made("made up to validate", valid, N_MEASURED, self.seed),
            _made("made up to test", test, N_MEASURED, self.seed),
        )


def _made(name: str, dates: Sequence[date], n: int, seed: int) -> Labelled:
    rows = same_or_different(dates, n, seed)
    return Labelled([row[:2] for row in rows], [row[2] for row in rows], list(range(1, n + 1)), name)
