from __future__ import annotations

import math
from html.parser import HTMLParser
from pathlib import Path
from string import Formatter

import pytest
import torch

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.wording import LANGUAGES
from glassformer.inspection.report import (
    LIMIT_BYTES,
    AttentionPicture,
    Example,
    ReportData,
    report,
    write_report,
)
from glassformer.inspection.wording import MESSAGES, word

EVIL = "</script><b>x</b>\"'&<svg onload=alert(1)>"


class Reader(HTMLParser):
    """What a browser sees: the tags, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def picture(size: int = 4, label: str = "tok") -> AttentionPicture:
    weights = torch.rand(size, size, generator=torch.Generator().manual_seed(0))
    return AttentionPicture(f"head of {size}", weights, [label] * size, [label] * size)


def full() -> ReportData:
    metrics: list[dict[str, object]] = []
    for step in range(10, 110, 10):
        metrics.append({"step": step, "split": "train", "loss": 10 / step, "lr": 1e-3, "seconds": 1.0})
        metrics.append({"step": step, "split": "norms", "norms": {"decoder.blocks.0": 1.0, "decoder.blocks.1": step}})
    metrics.append({"step": 100, "split": "valid", "loss": 0.2, "perplexity": math.exp(0.2)})
    return ReportData(
        title="reverse",
        headline={"exact_match": 0.99412, "parameters": 1234567, "selected": "best loss", "my_number": math.nan},
        metrics=metrics,
        examples=[Example("1 2 3", "3 2 1", "3 2 1", True), Example("4 5", "4 5", "5 4", False)],
        attention=[picture()],
        commands=["glassformer generate runs/reverse-1 '1 2'"],
    )


def test_every_message_has_every_language():
    for key, message in MESSAGES.items():
        assert set(message) == set(LANGUAGES), key
        assert all(message.values()), key
        fields = {
            language: {name for _, name, _, _ in Formatter().parse(text) if name} for language, text in message.items()
        }
        assert len(set(map(frozenset, fields.values()))) == 1, key


@pytest.mark.parametrize("language", LANGUAGES)
def test_report_has_every_section_in_its_language(language: str):
    page = report(full(), language=language)
    text = "\n".join(Reader(page).text)
    for key in (
        "result",
        "examples",
        "learning",
        "norms",
        "attention",
        "next",
        "footer",
        "exact_match",
        "right",
        "wrong",
    ):
        assert word(key, language) in text
    for content in ("0.9941", "1,234,567", "my_number", "nan", "3 2 1", "decoder.blocks.1", "tok", "head of 4"):
        assert content in text
    assert "glassformer generate runs/reverse-1 '1 2'" in text
    for key in ("loss_curve", "lr_curve", "norms_curve", "norms_last", "train", "valid"):
        assert word(key, language) in text
    assert f'<html lang="{language}">' in page


@pytest.mark.parametrize(
    ("language", "said"), [("en", "How BLEU was computed: tok:zh"), ("zh", "BLEU 的计算方式：tok:zh")]
)
def test_remarks_stand_below_the_numbers(language: str, said: str):
    data = ReportData("t", {"bleu": "31.20"}, {"bleu_signature": "tok:zh", "measured_on": "test_data", "own": EVIL})
    text = Reader(report(data, language=language)).text
    assert text.index("31.20") < text.index(said)
    assert any(word("test_data", language) in part for part in text)
    assert any(part.startswith("own") and EVIL in part for part in text)


def test_all_text_stays_text():
    data = ReportData(
        title=EVIL,
        headline={EVIL: EVIL},
        metrics=[{"step": 1, "split": "norms", "norms": {EVIL[:20]: 1.0}}],
        examples=[Example(EVIL, EVIL, EVIL, False)],
        attention=[AttentionPicture(EVIL, torch.rand(1, 1), [EVIL[:20]], [EVIL[:20]])],
        commands=[EVIL],
    )
    reader = Reader(report(data))
    assert not {"script", "b"} & set(reader.tags)
    assert reader.tags.count("svg") == 3
    assert not any(name.startswith("on") for name, _ in reader.attributes)
    # title, heading, headline's name and value, three cells of the example, the command
    assert "".join(reader.text).count(EVIL) == 8


def test_page_needs_nothing_else():
    page = report(full())
    reader = Reader(page)
    assert not {"script", "link", "iframe", "object"} & set(reader.tags)
    for name, value in reader.attributes:
        if name in ("src", "href", "xlink:href"):
            assert value is not None
            assert value.startswith(("data:", "#"))
    assert "url(http" not in page
    assert "@import" not in page
    assert "default-src &#x27;none&#x27;" in page
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page


def test_empty_parts_have_no_section():
    reader = Reader(report(ReportData("nothing yet", {})))
    assert "h2" not in reader.tags
    assert "svg" not in reader.tags
    unjudged = report(ReportData("text", {}, examples=[Example("Once", "upon a time")]))
    assert "upon a time" in unjudged
    assert word("expected", "en") not in Reader(unjudged).text


def test_o29_report_stays_under_its_limit_and_says_what_was_left_out():
    data = ReportData(
        title="large",
        headline={},
        examples=[Example("x" * 5000, "y", "z", True)] * 130,
        attention=[picture(80, "token")] * 40,
    )
    page = report(data)
    assert len(page.encode()) <= LIMIT_BYTES
    shown = page.count("<svg ")
    assert 0 < shown < 40
    assert f"{40 - shown} more pictures were left out, to keep this page below 2 MB" in page
    assert "30 more examples were left out" in page
    assert "x" * 401 not in page


def test_written_file_is_the_report(tmp_path: Path):
    write_report(tmp_path / "report.html", full(), language="zh")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == report(full(), language="zh")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_mistakes_are_named(tmp_path: Path):
    with pytest.raises(ConfigError, match="no language 'fr'"):
        write_report(tmp_path / "report.html", full(), language="fr")
    wrong = AttentionPicture("a", torch.rand(2, 2), ["a"], ["a", "b"])
    with pytest.raises(DataError, match="1 labels for 2 positions"):
        write_report(tmp_path / "report.html", ReportData("t", {}, attention=[wrong]))
    assert not (tmp_path / "report.html").exists()


def test_diverged_run_has_a_report():
    rows = [{"step": step, "split": "train", "loss": math.nan, "lr": 0.1} for step in (10, 20)]
    rows += [{"step": 20, "split": "norms", "norms": {"decoder.blocks.0": math.inf}}]
    assert "inf" in report(ReportData("diverged", {"loss": math.nan}, metrics=rows))
