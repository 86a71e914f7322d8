"""Matching: do two texts belong together?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Literal

from pydantic import Field

from glassformer.core.errors import ConfigError
from glassformer.data.dates import same_or_different, split_dates
from glassformer.data.table import Column
from glassformer.tasks.classification import ClassificationTask, Labelled
from glassformer.text.build import TokenizerKind

FIRST_YEAR, LAST_YEAR = 1900, 2099
N_DATES, N_MEASURED = 10_000, 1_000
"""Dates that validation and test each keep for themselves, and the pairs that are made of them."""


class MatchingTask(ClassificationTask):
    """Two texts in, a label out.

    Without a table it learns from data made up on the spot: do two spellings, English, German or Chinese, mean the
    same date? All else is as in classification.

    Attributes:
        name: "matching".
        text: Column of the first text.
        second_text: Column of the second text.
        tokenizer: As in classification.
        made_size: Rows to learn from that are made up where no table is named.
    """

    name: Literal["matching"] = "matching"
    text: Column = "text_a"
    second_text: Column | None = "text_b"
    tokenizer: TokenizerKind = "character"
    made_size: int = Field(20_000, ge=10)

    def parts(self) -> tuple[Labelled, Labelled | None, Labelled | None]:
        """Return the rows of the tables, or made-up ones in three parts that have no date in common."""
        if self.train is not None:
            return super().parts()
        if self.valid is not None or self.test is not None:
            raise ConfigError("task.valid and task.test need a table to learn from as well: task.train=FILE")
        train, valid, test = split_dates(FIRST_YEAR, LAST_YEAR, N_DATES, N_DATES, self.seed)
        return (
            _made("made up to learn from", train, self.made_size, self.seed),
            _made("made up to validate", valid, N_MEASURED, self.seed),
            _made("made up to test", test, N_MEASURED, self.seed),
        )


def _made(name: str, dates: Sequence[date], n: int, seed: int) -> Labelled:
    rows = same_or_different(dates, n, seed)
    return Labelled([row[:2] for row in rows], [row[2] for row in rows], list(range(1, n + 1)), name)
