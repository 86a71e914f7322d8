"""Text on its way in and out."""

from __future__ import annotations

import io
import json
import math
import shlex
import sys

import pytest

from glassformer.cli.words import clock, counted, echo_json, given, given_lines, listing, metrics_line, named, quoted
from glassformer.core.errors import DataError


def test_what_is_not_a_dash_is_the_text_itself() -> None:
    for text in ("", "--", "天🎉", "a\nb"):
        assert given(text) == text


def test_bytes_that_an_ascii_locale_could_not_read_are_read() -> None:
    assert given("天🎉".encode().decode("ascii", "surrogateescape")) == "天🎉"
    for broken in ("\ud800", b"\xff".decode("ascii", "surrogateescape")):
        assert given(broken) == broken, "the tokenizer says what is wrong"


def test_a_closed_standard_input_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match="pipe a text in"):
        given("-")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", "gbk"])
def test_json_is_json_in_every_encoding(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding, errors="backslashreplace")
    monkeypatch.setattr(sys, "stdout", out)
    content = {"text": "闫🎉\u2028é\n", "numbers": [1, 2.5, math.nan, math.inf, (-math.inf,)], "nothing": None}
    echo_json(content)
    out.flush()
    lines = raw.getvalue().decode(encoding)
    assert lines.count("\n") == 1
    assert json.loads(lines) == content | {"numbers": [1, 2.5, None, None, [None]]}


@pytest.mark.parametrize("path", ["runs/reverse-1", "my run", "我的 run's", "a$b", "~x", "-x"])
def test_a_quoted_path_survives_a_shell(path: str) -> None:
    assert shlex.split(f"glassformer eval {quoted(path)}") == ["glassformer", "eval", path]


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [(1, "token", "1 token"), (0, "token", "0 tokens"), (1, "batch", "1 batch"), (2000, "batch", "2,000 batches")],
)
def test_counted(number: int, noun: str, said: str) -> None:
    assert counted(number, noun) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0:00"),
        (0.4, "0:00"),
        (59.6, "1:00"),
        (61, "1:01"),
        (3599.4, "59:59"),
        (3600, "1:00 h"),
        (90_061, "25:01 h"),
    ],
)
def test_clock(seconds: float, said: str) -> None:
    assert clock(seconds) == said


def test_metrics_line() -> None:
    metrics = {"loss": 2.0, "perplexity": 7.3890561, "tokens": 93, "exact_match": 0.9995}
    assert metrics_line(metrics) == "exact match 100.0 %  loss 2.0000"
    assert metrics_line({"exact_match": 1.0, "pairs": 1000}) == "exact match 100.0 % of 1,000"
    assert metrics_line({"accuracy": 0.5, "texts": 8}) == "accuracy 50.0 % of 8"
    assert metrics_line({"perplexity": 7.3890561, "loss": 2.0}) == "loss 2.0000  perplexity 7.3891"
    assert metrics_line({"bleu_signature": "nrefs:1", "bleu": 12.345, "tokens": 9}) == "BLEU 12.35"
    assert metrics_line({"perplexity": 1.5e300}) == "perplexity 1.50e+300"
    assert metrics_line({"loss": math.nan, "perplexity": math.inf}) == "loss nan  perplexity inf"


def test_a_named_text_is_broken_between_words_only_and_only_where_it_must_be() -> None:
    text = "one two-three four /a/path/without/any/blank/in/it five"
    assert named("run", text) == f"run      {text}"
    assert named("run", text, 200) == f"run      {text}"
    assert named("run", text, 31).splitlines() == [
        "run      one two-three four",
        "         /a/path/without/any/blank/in/it",
        "         five",
    ]
    assert named("run", "") == named("run", "", 80) == "run      "


@pytest.mark.parametrize(
    ("raw", "lines"),
    [(b"", []), (b"a", ["a"]), (b"a\r\n\r\nb", ["a", "", "b"]), (b"\xef\xbb\xbfa\rb\n\n", ["a", "b", ""])],
)
def test_lines_of_the_standard_input(raw: bytes, lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    assert given_lines(None) == lines


def test_a_wrong_byte_of_the_standard_input_is_found_behind_a_byte_order_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    for mark in (b"", b"\xef\xbb\xbf"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(mark + b"a\r\nb\rc\xff")))
        with pytest.raises(DataError, match=f"byte 0xFF in line 3, at offset {len(mark) + 6}"):
            given_lines(None)


def test_whoever_has_to_type_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(b"rot\n")))
    assert given_lines(None) == ["rot"]
    assert capsys.readouterr().err == "note: reading what is typed; Ctrl-D on an empty line ends it\n"


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (None, ["a       one two three", "longer  four"]),
        (20, ["a", "  one two three", "longer  four"]),
        (45, ["a       one two three", "longer  four"]),
    ],
)
def test_listing_breaks_between_words_only(width: int | None, lines: list[str]) -> None:
    assert list(listing([("a", "one two three"), ("longer", "four")], width)) == lines


def test_listing_keeps_its_column() -> None:
    [first, *rest] = listing([("name", "word " * 20)], 50)
    assert first.startswith("name  word")
    assert all(line.startswith("      word") and len(line) <= 50 for line in rest)
