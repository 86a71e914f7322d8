"""Dates as people write them, to ISO 8601: a translation whose attention can be told in advance."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from glassformer.core.errors import ConfigError
from glassformer.data.dates import (
    FIRST_YEAR,
    LANGUAGES,
    LAST_YEAR,
    DatePairs,
    Language,
    characters,
    check_languages,
    draw_spellings,
    split_dates,
)
from glassformer.tasks.made import SPECIALS, MadeTask, made_split
from glassformer.tasks.task import Kind, Split, TaskData
from glassformer.text.build import character_tokenizer
from glassformer.text.tokenizer import TextTokenizer


class DatesTask(MadeTask):
    """A date in, in one of many spellings of three languages; out comes YYYY-MM-DD.

    Dates to validate and to test are drawn first, with one spelling each; training never sees one of them, however it
    is written.

    Attributes:
        name: "dates".
        languages: "en", "de", "zh", or several of them: "en,zh".
        first_year: From 1583. Few centuries are a trap: from 1900 to 2099 the second digit follows from the first, and
            a model need not look at it.
        last_year: To 9999.
    """

    name: Literal["dates"] = "dates"
    languages: tuple[Language, ...] = Field(LANGUAGES, strict=False)
    first_year: int = Field(1600, ge=FIRST_YEAR, le=LAST_YEAR)
    last_year: int = Field(2399, ge=FIRST_YEAR, le=LAST_YEAR)

    @field_validator("languages", mode="before")
    @classmethod
    def _languages_from_text(cls, value: Any) -> Any:
        """In a recipe several languages are one text: `--set task.languages=en,zh`."""
        names = [name.strip() for name in value.strip("[] ").split(",")] if isinstance(value, str) else value
        return check_languages(names) if isinstance(names, Sequence) else names

    @model_validator(mode="after")
    def _years_fit(self) -> Self:
        if self.first_year > self.last_year:
            raise ConfigError(f"first_year {self.first_year} is after last_year {self.last_year}")
        return self

    def build(self, kind: Kind = "encoder_decoder", tokenizer: TextTokenizer | None = None) -> TaskData:
        """Return fresh training dates and two fixed sets that are kept out of them."""
        tokenizer = tokenizer or character_tokenizer([characters()], SPECIALS)
        train, valid, test = split_dates(self.first_year, self.last_year, self.valid_size, self.test_size, self.seed)
        return TaskData(
            tokenizer=tokenizer,
            train=DatePairs(train, tokenizer, self.languages, n_items=self.epoch_size, seed=self.seed),
            valid=self._split(valid, tokenizer),
            test=self._split(test, tokenizer),
            kind=kind,
            judging=self.judging,
        )

    def _split(self, dates: list[date], tokenizer: TextTokenizer) -> Split:
        drawn = draw_spellings(dates, self.languages, self.seed)
        return made_split([(spelling.text, spelling.iso) for spelling in drawn], tokenizer)
