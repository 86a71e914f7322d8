"""Dates as people write them in English, German and Chinese, and the same dates in ISO 8601."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from string import Formatter
from types import MappingProxyType
from typing import Literal, get_args

from glassformer.core.errors import ConfigError, DataError, did_you_mean
from glassformer.core.protocols import Tokenizer
from glassformer.data.batch import Batch
from glassformer.data.order import check_seed, generator, item_uniforms
from glassformer.data.pairs import pair_batch

Language = Literal["en", "de", "zh"]
FieldName = Literal["year", "month", "day"]
Match = tuple[str, str, Literal["same", "different"]]
"""Two texts, and whether they mean the same date."""

LANGUAGES: tuple[Language, ...] = get_args(Language)
FIELDS: tuple[FieldName, ...] = get_args(FieldName)

FIRST_YEAR, LAST_YEAR = 1583, 9999
"""Years of four digits whose weekdays are those of the calendar of today."""

FORMS: Mapping[Language, tuple[str, ...]] = MappingProxyType(
    {
        "en": (
            "{day} {month_name} {year}",
            "{day} {month_short} {year}",
            "{month_name} {day}, {year}",
            "{month_short} {day}{ordinal}, {year}",
            "{day}{ordinal} of {month_name} {year}",
            "{weekday}, {day} {month_name} {year}",
            "{weekday}, {month_name} {day}, {year}",
            "{weekday_short}, {day} {month_short} {year}",
        ),
        "de": (
            "{day}. {month_name} {year}",
            "{day}. {month_short} {year}",
            "{day_padded}.{month_padded}.{year}",
            "{day}.{month}.{year}",
            "{weekday}, {day}. {month_name} {year}",
            "{weekday}, den {day}. {month_name} {year}",
            "{weekday_short}, {day_padded}.{month_padded}.{year}",
        ),
        "zh": (
            "{year}年{month}月{day}日",
            "{year}年{month}月{day}号",
            "{year}年{month_padded}月{day_padded}日 {weekday}",
            "{year}年{month}月{day}日（{weekday_short}）",
            "{year_han}年{month_name}月{day_han}日",
            "{year_zero}年{month_name}月{day_han}日",
            "{year_han}年{month_name}月{day_han}日 {weekday}",
        ),
    }
)
"""How each language writes a date. In braces the names of `_word`; the field is the first part of a name."""

_NAMES: Mapping[Language, tuple[str, str, str, str]] = MappingProxyType(
    {
        "en": (
            "January February March April May June July August September October November December",
            "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec",
            "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
            "Mon Tue Wed Thu Fri Sat Sun",
        ),
        "de": (
            "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
            "Jan. Feb. Mrz. Apr. Mai Jun. Jul. Aug. Sept. Okt. Nov. Dez.",
            "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
            "Mo. Di. Mi. Do. Fr. Sa. So.",
        ),
        "zh": (
            "一 二 三 四 五 六 七 八 九 十 十一 十二",
            "一 二 三 四 五 六 七 八 九 十 十一 十二",
            "星期一 星期二 星期三 星期四 星期五 星期六 星期日",
            "周一 周二 周三 周四 周五 周六 周日",
        ),
    }
)
"""Months, short months, weekdays from Monday, short weekdays."""

_HAN = "〇一二三四五六七八九"


@dataclass(frozen=True)
class Spelling:
    """A date as one language writes it.

    Attributes:
        text: What is written.
        iso: The same date in ISO 8601, "1987-03-03".
        language: "en", "de" or "zh".
        fields: Which characters of the text tell the year, the month and the day: the digits, numerals or name,
            not what stands around them (年, the "rd" of a day, the full stop after a number).
    """

    text: str
    iso: str
    language: Language
    fields: Mapping[FieldName, range]


def spellings(day: date, language: Language | None = None) -> tuple[Spelling, ...]:
    """Return every way a date is written here, each text once.

    Args:
        day: A date from 1583.
        language: "en", "de" or "zh"; None = all three.

    Raises:
        ConfigError: There is no such language.
        DataError: The year is before 1583.
    """
    if day.year < FIRST_YEAR:
        raise DataError(f"{day} is before the calendar of today; the dates written here begin in {FIRST_YEAR}")
    languages = LANGUAGES if language is None else check_languages([language])
    found = [_spell(day, name, form) for name in languages for form in FORMS[name]]
    return tuple({spelling.text: spelling for spelling in found}.values())


def characters() -> str:
    """Return every character that a spelling or an ISO date can hold, each once."""
    texts = [text for name in LANGUAGES for form in _pieces(name) for piece in form for text in piece]
    return "".join(sorted(set("-".join(texts))))


def check_languages(languages: Sequence[str]) -> tuple[Language, ...]:
    """Return the languages: at least one, all of them known, none of them twice.

    Raises:
        ConfigError: They are not.
    """
    for language in languages:
        if language not in LANGUAGES:
            raise ConfigError(f"no date is written in language {language!r}{did_you_mean(language, LANGUAGES)}")
    if not languages or len(set(languages)) < len(languages):
        raise ConfigError(f"languages are {', '.join(languages) or 'none'}; give at least 1, and each only once")
    return tuple(language for language in LANGUAGES if language in languages)


def split_dates(
    first_year: int, last_year: int, valid_size: int, test_size: int, seed: int
) -> tuple[list[date], list[date], list[date]]:
    """Return all dates of some years, in three parts without a common date: training, validation, test.

    The test dates depend on no other size, nor do those of validation; more of them begin with the fewer.

    Args:
        first_year: From 1583.
        last_year: From `first_year` to 9999.
        valid_size: Dates of validation.
        test_size: Dates of the test.
        seed: From 0.

    Raises:
        ConfigError: A number is not possible.
        DataError: No date is left to train on.
    """
    if not FIRST_YEAR <= first_year <= last_year <= LAST_YEAR:
        raise ConfigError(
            f"years are {first_year} to {last_year}; choose them from {FIRST_YEAR} to {LAST_YEAR}, the last not"
            " before the first"
        )
    if valid_size < 0 or test_size < 0:
        raise ConfigError(f"valid_size is {valid_size} and test_size {test_size}; a part has 0 dates or more")
    first, last = date(first_year, 1, 1).toordinal(), date(last_year, 12, 31).toordinal()
    number = last - first + 1
    if valid_size + test_size >= number:
        raise DataError(
            f"{first_year} to {last_year} has {number} dates, and {valid_size + test_size} of them are held out; hold"
            " out fewer or take more years"
        )
    dates = [date.fromordinal(first + offset) for offset in generator(seed).permutation(number).tolist()]
    end = number - valid_size
    return dates[test_size:end], dates[end:][::-1], dates[:test_size]


def draw_spellings(
    dates: Sequence[date], languages: Sequence[Language], seed: int, epoch: int = 0, items: Sequence[int] | None = None
) -> list[Spelling]:
    """Return one spelling of each date: the language uniform, then the form.

    Args:
        dates: What is written.
        languages: Which to choose from.
        seed: From 0.
        epoch: From 0.
        items: What a draw depends on beside seed and epoch, one number for each date; None = 0, 1, 2, ...
    """
    numbers = item_uniforms(range(len(dates)) if items is None else items, 2, seed, epoch)
    return [_drawn(day, languages, *row) for day, row in zip(dates, numbers.tolist(), strict=True)]


class DatePairs:
    """A fresh spelling of a date and its ISO form: item i of epoch e is drawn from (seed, e, i) alone.

    The date is uniform, then the language is, then the form.

    Args:
        dates: Those that may be drawn, so none that is held out.
        tokenizer: It needs '<bos>' and '<eos>'.
        languages: Those that may be drawn.
        n_items: Items of an epoch. From 1.
        seed: From 0.

    Raises:
        ConfigError: A language is unknown, the tokenizer lacks a special token, or a number is not possible.
        DataError: There is no date, or the tokenizer does not know a character.
    """

    def __init__(
        self, dates: Sequence[date], tokenizer: Tokenizer, languages: Sequence[str], n_items: int, seed: int
    ) -> None:
        if not dates:
            raise DataError("there are 0 dates to learn from; give at least 1")
        if n_items < 1:
            raise ConfigError(f"n_items is {n_items}; an epoch has at least 1 item")
        if tokenizer.bos_id is None or tokenizer.eos_id is None:
            raise ConfigError("the tokenizer lacks '<bos>' or '<eos>'; build it with both among its specials")
        check_seed(seed)
        self._dates = dates
        self._tokenizer = tokenizer
        self._languages = check_languages(languages)
        self._n_items = n_items
        self._seed = seed
        self._bos, self._eos = tokenizer.bos_id, tokenizer.eos_id
        self._ids_of_symbol = max(len(tokenizer.encode(symbol)) for symbol in characters())

    def __len__(self) -> int:
        return self._n_items

    def spellings(self, items: Sequence[int], epoch: int) -> list[Spelling]:
        """Return what each item is in an epoch."""
        numbers = item_uniforms(items, 3, self._seed, epoch)
        return [
            _drawn(self._dates[int(which * len(self._dates))], self._languages, language, form)
            for which, language, form in numbers.tolist()
        ]

    def batch(self, items: Sequence[int], epoch: int) -> Batch:
        """Return the batch of some items as they are in an epoch."""
        encode = self._tokenizer.encode
        pairs = [(encode(spelling.text), encode(spelling.iso)) for spelling in self.spellings(items, epoch)]
        return pair_batch(pairs, items, bos=self._bos, eos=self._eos, pad=self._tokenizer.pad_id)

    @property
    def longest(self) -> tuple[int, int]:
        """The most tokens that a source and a target can have, with their special token."""
        characters = max(map(_longest_text, self._languages))
        return self._ids_of_symbol * characters + 1, self._ids_of_symbol * len("1987-03-03") + 1


def same_or_different(dates: Sequence[date], n: int, seed: int, languages: Sequence[str] = LANGUAGES) -> list[Match]:
    """Return pairs of texts that mean the same date, or two dates that are easily taken for each other.

    Half of the pairs are different: only the year is, or the month, or the day, or day and month have changed
    places; each kind is equally frequent. What is the same is drawn in the same way, so that no text alone tells
    which it is. Languages and forms are drawn for each text; the two are never the same text.

    Args:
        dates: Both texts are about one of these, each of them once in here; thousands, for near ones to be among them.
        n: How many; a longer list of the same seed begins with the shorter one.
        seed: From 0.
        languages: Those that may be drawn.

    Returns:
        Two texts and "same" or "different", in turn.

    Raises:
        ConfigError: A language is unknown, or a number is not possible.
        DataError: No two dates are near.
    """
    if n < 1:
        raise ConfigError(f"n is {n}; there must be at least 1 pair")
    chosen = check_languages(languages)
    kinds = [kind for kind in _near(dates) if kind]
    if not kinds:
        raise DataError(f"no two of {len(dates)} dates differ in one field only; give more of them")
    found: list[Match] = []
    for item, row in enumerate(item_uniforms(range(n), 7, seed).tolist()):
        near = kinds[int(row[0] * len(kinds))]
        day, group = near[int(row[1] * len(near))]
        others = [other for other in group if other != day]
        is_same = item % 2 == 0
        first = _drawn(day, chosen, row[3], row[4]).text
        other = day if is_same else others[int(row[2] * len(others))]
        language = chosen[int(row[5] * len(chosen))]
        ways = [spelling.text for spelling in spellings(other, language) if spelling.text != first]
        found.append((first, ways[int(row[6] * len(ways))], "same" if is_same else "different"))
    return found


def _near(dates: Sequence[date]) -> list[list[tuple[date, list[date]]]]:
    """For each kind of difference the dates that have such a neighbour among the dates, with the group they share."""
    kept: tuple[Callable[[date], tuple[int, ...]], ...] = (
        lambda day: (day.month, day.day),
        lambda day: (day.year, day.day),
        lambda day: (day.year, day.month),
        lambda day: (day.year, min(day.month, day.day), max(day.month, day.day)),
    )
    found = []
    for key in kept:
        groups: dict[tuple[int, ...], list[date]] = defaultdict(list)
        for day in dates:
            groups[key(day)].append(day)
        found.append([(day, group) for group in groups.values() if len(group) > 1 for day in group])
    return found


def _drawn(day: date, languages: Sequence[Language], language: float, form: float) -> Spelling:
    name = languages[int(language * len(languages))]
    return _spell(day, name, FORMS[name][int(form * len(FORMS[name]))])


def _spell(day: date, language: Language, form: str) -> Spelling:
    text, fields = "", dict[FieldName, range]()
    for literal, name, *_ in Formatter().parse(form):
        text += literal
        if name is not None:
            word = _word(name, day, language)
            for field in FIELDS:
                if name.startswith(field):
                    fields[field] = range(len(text), len(text) + len(word))
            text += word
    return Spelling(text, day.isoformat(), language, fields)


def _word(name: str, day: date, language: Language) -> str:
    """What stands in a form in the place of a name."""
    months, short_months, weekdays, short_weekdays = (names.split() for names in _NAMES[language])
    match name:
        case "year":
            return str(day.year)
        case "year_han":
            return "".join(_HAN[int(digit)] for digit in str(day.year))
        case "year_zero":
            return _word("year_han", day, language).replace("〇", "零")
        case "month":
            return str(day.month)
        case "month_padded":
            return f"{day.month:02}"
        case "month_name":
            return months[day.month - 1]
        case "month_short":
            return short_months[day.month - 1]
        case "day":
            return str(day.day)
        case "day_padded":
            return f"{day.day:02}"
        case "day_han":
            return _han(day.day)
        case "ordinal":
            return "th" if day.day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
        case "weekday":
            return weekdays[day.weekday()]
        case "weekday_short":
            return short_weekdays[day.weekday()]
    raise AssertionError(f"no form names {name}")


def _han(number: int) -> str:
    """Return a number from 1 to 99 in Chinese: 三, 十, 十二, 二十, 三十一."""
    tens, ones = divmod(number, 10)
    if tens == 0:
        return _HAN[ones]
    return (_HAN[tens] if tens > 1 else "") + "十" + (_HAN[ones] if ones else "")


def _pieces(language: Language) -> Iterator[list[list[str]]]:
    """For each form of a language its pieces in order, each as all the texts that can stand there."""
    days = [date(2000, 1, 1) + timedelta(offset) for offset in range(366)]  # they hold every word and every numeral
    for form in FORMS[language]:
        pieces = []
        for literal, name, *_ in Formatter().parse(form):
            pieces.append([literal])
            if name is not None:
                pieces.append([_word(name, day, language) for day in days])
        yield pieces


def _longest_text(language: Language) -> int:
    """At least as many characters as any text of a language has."""
    return max(sum(max(map(len, texts)) for texts in pieces) for pieces in _pieces(language))
