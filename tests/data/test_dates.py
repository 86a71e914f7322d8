from collections import Counter
from datetime import date, timedelta

import pytest

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.places import IGNORED
from glassformer.data.dates import (
    FORMS,
    LANGUAGES,
    DatePairs,
    Spelling,
    characters,
    check_languages,
    draw_spellings,
    same_or_different,
    spellings,
    split_dates,
)
from glassformer.text.build import byte_tokenizer, character_tokenizer

TOKENIZER = character_tokenizer([characters()], ["<pad>", "<bos>", "<eos>"])

HAN = {"〇": 0, "零": 0, "一": 1, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}

MONTHS = ("Jan", "Feb", "Mar Mär Mrz", "Apr", "May Mai", "Jun", "Jul", "Aug", "Sep", "Oct Okt", "Nov", "Dec Dez")

WEEKDAYS = (
    ("Monday", "Mon", "Montag", "Mo.", "星期一", "周一"),
    ("Tuesday", "Tue", "Dienstag", "Di.", "星期二", "周二"),
    ("Wednesday", "Wed", "Mittwoch", "Mi.", "星期三", "周三"),
    ("Thursday", "Thu", "Donnerstag", "Do.", "星期四", "周四"),
    ("Friday", "Fri", "Freitag", "Fr.", "星期五", "周五"),
    ("Saturday", "Sat", "Samstag", "Sa.", "星期六", "周六"),
    ("Sunday", "Sun", "Sonntag", "So.", "星期日", "周日"),
)


def number(word: str) -> int:
    """The number that a field says, read without any table of the code."""
    if word.isascii() and word.isdigit():
        return int(word)
    if set(word) <= {*HAN, "十"}:
        if "十" not in word:
            return int("".join(str(HAN[symbol]) for symbol in word))
        tens, ones = word.split("十")
        return 10 * HAN.get(tens, 1) + HAN.get(ones, 0)
    return next(month for month, names in enumerate(MONTHS, 1) if word[:3] in names.split())


def read(spelling: Spelling) -> date:
    """The date that the fields of a spelling say."""
    words = {name: spelling.text[place.start : place.stop] for name, place in spelling.fields.items()}
    return date(number(words["year"]), number(words["month"]), number(words["day"]))


def every(step: int, first: date = date(1900, 1, 1), last: date = date(2099, 12, 31)) -> list[date]:
    return [first + timedelta(offset) for offset in range(0, (last - first).days + 1, step)]


def pairs(dates: list[date], n_items: int = 400, languages: tuple[str, ...] = LANGUAGES, seed: int = 3) -> DatePairs:
    return DatePairs(dates, TOKENIZER, languages, n_items, seed)


def test_spellings_of_one_date() -> None:
    texts = [spelling.text for spelling in spellings(date(1987, 3, 3))]
    assert texts == [
        "3 March 1987",
        "3 Mar 1987",
        "March 3, 1987",
        "Mar 3rd, 1987",
        "3rd of March 1987",
        "Tuesday, 3 March 1987",
        "Tuesday, March 3, 1987",
        "Tue, 3 Mar 1987",
        "3. März 1987",
        "3. Mrz. 1987",
        "03.03.1987",
        "3.3.1987",
        "Dienstag, 3. März 1987",
        "Dienstag, den 3. März 1987",
        "Di., 03.03.1987",
        "1987年3月3日",
        "1987年3月3号",
        "1987年03月03日 星期二",
        "1987年3月3日（周二）",
        "一九八七年三月三日",
        "一九八七年三月三日 星期二",
    ]
    assert {spelling.iso for spelling in spellings(date(1987, 3, 3))} == {"1987-03-03"}


def test_spellings_in_chinese_numerals() -> None:
    texts = [spelling.text for spelling in spellings(date(2000, 12, 31), "zh")]
    assert texts[-3:] == ["二〇〇〇年十二月三十一日", "二零零零年十二月三十一日", "二〇〇〇年十二月三十一日 星期日"]
    days = {spelling.text: day for day in range(1, 32) for spelling in spellings(date(1999, 1, day), "zh")}
    for word, day in {"十": 10, "十一": 11, "二十": 20, "二十九": 29, "三十": 30, "九": 9}.items():
        assert days[f"一九九九年一月{word}日"] == day


def test_spellings_in_english_have_the_right_ordinals() -> None:
    text = "".join(spelling.text for day in range(1, 32) for spelling in spellings(date(1999, 1, day), "en"))
    endings = {"st": (1, 21, 31), "nd": (2, 22), "rd": (3, 23)}
    for day in range(1, 32):
        ending = next((ending for ending, days in endings.items() if day in days), "th")
        assert f"Jan {day}{ending}, 1999" in text


def test_fields_say_the_date() -> None:
    """Every 3rd day of a leap year, and every 997th day of two centuries."""
    for day in every(3, date(2004, 1, 1), date(2004, 12, 31)) + every(997):
        for spelling in spellings(day):
            assert read(spelling) == day == date.fromisoformat(spelling.iso)


def test_fields_hold_nothing_but_the_word() -> None:
    found = {spelling.text: spelling.fields for spelling in spellings(date(1987, 3, 3))}
    assert found["Mar 3rd, 1987"] == {"month": range(3), "day": range(4, 5), "year": range(9, 13)}
    assert found["Di., 03.03.1987"] == {"day": range(5, 7), "month": range(8, 10), "year": range(11, 15)}
    assert found["3. Mrz. 1987"] == {"day": range(1), "month": range(3, 7), "year": range(8, 12)}
    assert found["一九八七年三月三日"] == {"year": range(4), "month": range(5, 6), "day": range(7, 8)}


def test_weekday_is_that_of_the_date() -> None:
    monday = date(2000, 1, 3)
    for offset, names in enumerate(WEEKDAYS):
        for weeks in (0, 1000):
            texts = [spelling.text for spelling in spellings(monday + timedelta(offset + 7 * weeks))]
            for name in names:
                assert any(
                    text.startswith(f"{name}, ") or f" {name}" in text or f"（{name}）" in text for text in texts
                )
    assert any(spelling.text == "Thursday, 17 November 1583" for spelling in spellings(date(1583, 11, 17)))


def test_spellings_are_told_apart_from_each_other() -> None:
    """No text twice for one date, and none for two dates of a year."""
    of_text: dict[str, date] = {}
    for day in every(2, date(2010, 1, 1), date(2010, 12, 31)):
        texts = [spelling.text for spelling in spellings(day)]
        assert len(set(texts)) == len(texts)
        for text in texts:
            assert of_text.setdefault(text, day) == day
    assert len(spellings(date(2010, 10, 10))) == len(spellings(date(2010, 9, 9))) - 1  # 10.10.2010 needs no zeros


def test_spellings_of_one_language() -> None:
    day = date(1987, 3, 3)
    assert spellings(day) == spellings(day, "en") + spellings(day, "de") + spellings(day, "zh")
    assert {spelling.language for spelling in spellings(day, "de")} == {"de"}


def test_spellings_refuse_what_is_not_possible() -> None:
    with pytest.raises(ConfigError, match="'fr'; known: de, en, zh"):
        spellings(date(1987, 3, 3), "fr")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="1582-12-31 is before the calendar of today"):
        spellings(date(1582, 12, 31))


def test_characters_are_those_of_all_spellings() -> None:
    days = every(3, date(2007, 1, 1), date(2008, 12, 31)) + every(997)
    used = {symbol for day in days for spelling in spellings(day) for symbol in spelling.text + spelling.iso}
    assert "".join(sorted(used)) == characters()


def test_check_languages_puts_them_in_order() -> None:
    assert check_languages(["zh", "en"]) == ("en", "zh")
    with pytest.raises(ConfigError, match="languages are none"):
        check_languages([])
    with pytest.raises(ConfigError, match="languages are en, en; give at least 1, and each only once"):
        check_languages(["en", "en"])


def test_split_has_every_date_once() -> None:
    train, valid, test = split_dates(1999, 2002, 20, 50, seed=1)
    assert (len(train), len(valid), len(test)) == (4 * 365 + 1 - 70, 20, 50)
    assert sorted(train + valid + test) == every(1, date(1999, 1, 1), date(2002, 12, 31))
    assert test != split_dates(1999, 2002, 20, 50, seed=2)[2]


def test_split_of_one_part_depends_on_no_other_size() -> None:
    _, valid, test = split_dates(1999, 2002, 20, 50, seed=1)
    _, more_valid, more_test = split_dates(1999, 2002, 30, 80, seed=1)
    assert more_valid[:20] == valid
    assert more_test[:50] == test


def test_split_refuses_what_is_not_possible() -> None:
    with pytest.raises(DataError, match="1999 to 1999 has 365 dates, and 365 of them are held out"):
        split_dates(1999, 1999, 65, 300, seed=0)
    assert len(split_dates(1999, 1999, 64, 300, seed=0)[0]) == 1
    with pytest.raises(ConfigError, match="years are 2000 to 1999"):
        split_dates(2000, 1999, 1, 1, seed=0)
    with pytest.raises(ConfigError, match="years are 1500 to 1999; choose them from 1583 to 9999"):
        split_dates(1500, 1999, 1, 1, seed=0)
    with pytest.raises(ConfigError, match="valid_size is -1"):
        split_dates(1999, 1999, -1, 1, seed=0)


def test_draw_spellings_depends_on_seed_epoch_and_item_only() -> None:
    dates = every(1000)
    drawn = draw_spellings(dates, LANGUAGES, seed=4)
    assert [read(spelling) for spelling in drawn] == dates
    assert draw_spellings(dates[3:5], LANGUAGES, seed=4, items=[3, 4]) == drawn[3:5]
    assert draw_spellings(dates, LANGUAGES, seed=4, epoch=1) != drawn
    assert {spelling.language for spelling in draw_spellings(dates, ["zh"], seed=4)} == {"zh"}


def test_pairs_depend_on_seed_epoch_and_item_only() -> None:
    source = pairs(every(3))
    drawn = source.spellings(range(400), epoch=0)
    assert source.spellings([7, 399, 0], epoch=0) == [drawn[7], drawn[399], drawn[0]]
    assert drawn == pairs(every(3)).spellings(range(400), epoch=0)
    assert len({spelling.text for spelling in drawn + source.spellings(range(400), epoch=1)}) > 780
    assert drawn != pairs(every(3), seed=4).spellings(range(400), epoch=0)


def test_pairs_are_of_the_given_dates_in_all_forms() -> None:
    dates = every(9000)
    drawn = pairs(dates, 4000).spellings(range(4000), epoch=2)
    assert {spelling.text for spelling in drawn} == {s.text for day in dates for s in spellings(day)}
    counts = Counter(spelling.language for spelling in drawn)
    assert all(1150 < count < 1520 for count in counts.values())  # 1333, and 6 standard deviations are 180
    assert set(counts) == set(LANGUAGES)
    forms = Counter(read(spelling) for spelling in drawn)
    assert all(count > 4000 / len(dates) / 2 for count in forms.values())


def test_pairs_as_a_batch() -> None:
    source = pairs(every(50), languages=("de", "zh"))
    batch = source.batch(range(40), epoch=1)
    assert batch.source is not None
    for row, spelling in enumerate(source.spellings(range(40), epoch=1)):
        assert spelling.language != "en"
        n, target = len(spelling.text), TOKENIZER.encode(spelling.iso)
        assert batch.source[row, : n + 1].tolist() == [*TOKENIZER.encode(spelling.text), 2]
        assert batch.inputs[row].tolist() == [1, *target]
        assert batch.labels[row].tolist() == [*target, 2]
        assert (batch.source[row, n + 1 :] == 0).all()
    assert IGNORED not in batch.labels  # all targets are equally long


@pytest.mark.parametrize("language", LANGUAGES)
def test_pairs_longest_bounds_every_row(language: str) -> None:
    texts = [
        spelling.text
        for day in every(1, date(2010, 1, 1), date(2037, 12, 31))[::5]
        for spelling in spellings(day, language)
    ]
    most, target = pairs(every(50), languages=(language,)).longest
    assert max(map(len, texts)) <= most - 1 <= max(map(len, texts)) + 2
    assert target == 11
    wide = DatePairs(every(50), byte_tokenizer(["<bos>", "<eos>"]), (language,), 50, seed=0)
    batch = wide.batch(range(50), epoch=0)
    assert max(batch.source_lengths) <= wide.longest[0]
    assert len(wide) == 50


def test_pairs_refuse_what_is_not_possible() -> None:
    with pytest.raises(DataError, match="there are 0 dates"):
        pairs([])
    with pytest.raises(ConfigError, match="n_items is 0"):
        pairs(every(50), n_items=0)
    with pytest.raises(ConfigError, match="seed is -1"):
        pairs(every(50), seed=-1)
    with pytest.raises(ConfigError, match="'fr'"):
        pairs(every(50), languages=("fr",))
    with pytest.raises(ConfigError, match="lacks '<bos>' or '<eos>'"):
        DatePairs(every(50), byte_tokenizer(["<eos>"]), LANGUAGES, 5, seed=0)
    with pytest.raises(DataError, match="has no id in this vocabulary"):
        DatePairs(every(50), character_tokenizer(["0123456789-"], ["<bos>", "<eos>"]), LANGUAGES, 5, seed=0)


def test_same_or_different_is_right_and_balanced() -> None:
    dates = split_dates(1990, 1995, 10, 1000, seed=0)[2]
    of_text = {spelling.text: day for day in dates for spelling in spellings(day)}
    found = same_or_different(dates, 600, seed=5)
    kinds: Counter[str] = Counter()
    for first, second, label in found:
        assert first != second
        a, b = of_text[first], of_text[second]  # neither is a date of another part
        assert label == ("same" if a == b else "different")
        changed = [name for name in ("year", "month", "day") if getattr(a, name) != getattr(b, name)]
        if changed == ["month", "day"]:
            assert (a.month, a.day) == (b.day, b.month)
        else:
            assert len(changed) <= 1
        kinds["+".join(changed)] += 1
    assert kinds.pop("") == 300
    assert set(kinds) == {"year", "month", "day", "month+day"}
    assert all(45 < count < 105 for count in kinds.values())  # 75 of each
    assert len({(first, second) for first, second, _ in found}) > 590


def test_same_or_different_mixes_languages() -> None:
    dates = every(1, date(1990, 1, 1), date(1991, 12, 31))
    language = {spelling.text: spelling.language for day in dates for spelling in spellings(day)}
    mixed = Counter((language[a], language[b]) for a, b, _ in same_or_different(dates, 900, seed=1))
    assert len(mixed) == 9
    assert all(60 < count < 140 for count in mixed.values())  # 100 of each
    german = same_or_different(dates, 50, seed=1, languages=["de"])
    assert {language[text] for first, second, _ in german for text in (first, second)} == {"de"}


def test_same_or_different_depends_on_the_seed_and_begins_alike() -> None:
    dates = every(1, date(1990, 1, 1), date(1994, 12, 31))
    found = same_or_different(dates, 60, seed=1)
    assert same_or_different(dates, 20, seed=1) == found[:20]
    assert same_or_different(dates, 60, seed=2) != found


def test_same_or_different_refuses_what_is_not_possible() -> None:
    with pytest.raises(DataError, match="no two of 2 dates differ in one field only"):
        same_or_different([date(1990, 1, 1), date(1991, 2, 2)], 5, seed=0)
    assert len(same_or_different([date(1990, 1, 2), date(1990, 2, 1)], 5, seed=0)) == 5
    with pytest.raises(ConfigError, match="n is 0"):
        same_or_different(every(1000), 0, seed=0)
    with pytest.raises(ConfigError, match="'fr'"):
        same_or_different(every(1000), 5, seed=0, languages=["fr"])


def test_every_form_tells_each_field_once() -> None:
    for forms in FORMS.values():
        for form in forms:
            for field in ("year", "month", "day"):
                assert form.count("{" + field) == 1
