"""Dates as people write them, to ISO 8601: a translation whose attention can be told in advance."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from glassformer.core.errors import ConfigError
from glassformer.core.settings import Config
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
from glassformer.data.pairs import PairSource
from glassformer.tasks.task import Judging, Kind, Split, TaskData
from glassformer.text.build import character_tokenizer
from glassformer.text.tokenizer import TextTokenizer


class DatesTask(Config):
    """A date in, in one of many spellings of three languages; out comes YYYY-MM-DD.

    The dates of `test` and `valid` are drawn first; training never sees one of them, however it is written.

    Attributes:
        name: "dates".
        languages: "en", "de", "zh", or several of them: "en,zh".
        first_year: From 1583. Few centuries are a trap: from 1900 to 2099 the second digit follows from the first, and
            a model need not look at it.
        last_year: To 9999.
        epoch_size: Fresh spellings an epoch.
        valid_size: Dates that training is watched with, one spelling each.
        test_size: Dates that the result is measured with, once, one spelling each.
        seed: Of all dates and spellings; the training's own seed does not change them.
    """

    name: Literal["dates"] = "dates"
    languages: tuple[Language, ...] = Field(LANGUAGES, strict=False)
    first_year: int = Field(1600, ge=FIRST_YEAR, le=LAST_YEAR)
    last_year: int = Field(2399, ge=FIRST_YEAR, le=LAST_YEAR)
    epoch_size: int = Field(20_000, ge=1)
    valid_size: int = Field(200, ge=1)
    test_size: int = Field(1000, ge=1)
    seed: int = Field(0, ge=0)

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

    @property
    def files(self) -> tuple[str, ...]:
        """None: its data is made up."""
        return ()

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """An encoder-decoder."""
        return ("encoder_decoder",)

    @property
    def judging(self) -> Judging:
        """Whether the whole date is right."""
        return Judging(("loss", "exact_match"))

    def whole(self, kind: Kind, tokenizer: TextTokenizer, classes: Sequence[str] = ()) -> Split:
        """Return the test dates."""
        test = self.build(kind, tokenizer).test
        assert test is not None, "build makes one"
        return test

    def build(self, kind: Kind = "encoder_decoder", tokenizer: TextTokenizer | None = None) -> TaskData:
        """Return fresh training dates and two fixed sets that are kept out of them."""
        tokenizer = tokenizer or character_tokenizer([characters()], ("<pad>", "<bos>", "<eos>"))
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
        pairs = tuple((spelling.text, spelling.iso) for spelling in drawn)
        ids = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]
        bos, eos = tokenizer.bos_id, tokenizer.eos_id
        assert bos is not None, "made with <bos>"
        assert eos is not None, "made with <eos>"
        return Split(PairSource(ids, bos=bos, eos=eos, pad=tokenizer.pad_id), pairs)
