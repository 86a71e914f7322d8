"""A trace as text and as a page, in both languages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.inspection.by_hand import attend_by_hand, example
from glassformer.inspection.trace import Trace, trace
from glassformer.inspection.trace_generation import trace_generation
from glassformer.inspection.trace_page import write_by_hand, write_generation, write_trace
from glassformer.inspection.trace_text import (
    columns,
    fitted,
    generation_lines,
    part_title,
    trace_json,
    trace_lines,
    who_rows,
    whole_lines,
    wrapped,
)
from glassformer.inspection.trace_wording import REASONS, TITLES
from glassformer.models.transformer import Transformer

Make = Callable[..., Transformer]
WORDS = {1: "<bos>", 2: "我", 3: "爱", 4: "你"}


def followed(model: Transformer) -> Trace:
    sources = [5, 6] if model.config.kind == "encoder_decoder" else None
    return trace(model, [1, 2, 3, 4], sources=sources, name=lambda token: WORDS.get(token, f"w{token}"))


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("width", [60, 100])
def test_no_line_is_wider_than_the_terminal(tiny: Make, language, width):
    lines = list(trace_lines(followed(tiny(kind="encoder_decoder", positions="rotary")), language, width))
    assert [line for line in lines if columns(line) > width] == []
    long = trace(tiny(), [1, 2, 3, 4] * 12, name=lambda token: "longer than a label")
    assert max(map(columns, trace_lines(long, language, width))) <= width


def test_mask_is_a_picture_with_the_tokens_beside_it(tiny: Make):
    lines = list(trace_lines(followed(tiny()), "en", 100))
    at = lines.index("       <bos>  ■ · · ·")
    assert lines[at - 1 : at + 4] == [
        "       the same in every head",
        "       <bos>  ■ · · ·",
        "          我  ■ ■ · ·",
        "          爱  ■ ■ ■ ·",
        "          你  ■ ■ ■ ■",
    ]


def test_every_step_says_shape_equation_source_and_line(tiny: Make):
    found = followed(tiny(kind="encoder_decoder"))
    shown = "\n".join(trace_lines(found, "en", 100))
    for step in found.steps:
        if step.name != "block":
            assert f"{step.number}. {TITLES[step.name]['en']}" in shown
            for part in step.equation.split(",  "):
                assert part in shown
            assert step.where in shown
            assert step.site in shown
    assert "(B, H, T, S) = (1, 2, 4, 2)" in shown
    assert "(B, H, S, S) = (1, 2, 2, 2)" in shown
    assert len(re.findall(r"block 1, as block 0  ·  root mean square \d", shown)) == 2


def test_who_gives_what_is_a_table_of_three_rows(tiny: Make):
    rows = who_rows(followed(tiny(kind="encoder_decoder")), "en")
    assert [row[:3] for row in rows[1:]] == [
        ["encoder self-attention", "encoder", "encoder"],
        ["decoder masked self-attention", "decoder", "decoder"],
        ["cross-attention", "decoder", "encoder's last layer"],
    ]
    assert who_rows(followed(tiny(kind="decoder", causal=False)), "zh")[1][0] == "解码器自注意力"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_whole_step_has_all_its_numbers(tiny: Make, language):
    found = followed(tiny())
    [step] = [step for step in found.steps if step.name == "q"]
    shown = "\n".join(whole_lines(step, found, language, 40))
    numbers = re.findall(r"-?\d+\.\d{3}", shown)
    expected = [f"{value:.3f}" for value in step.value.flatten().tolist()]
    assert numbers == expected
    assert ("head 1 of 2" if language == "en" else "第 1 头，共 2 头") in shown


def test_json_has_every_step_and_one_step_all_its_values(tiny: Make):
    found = followed(tiny())
    told = json.loads(json.dumps(trace_json(found, "zh")))
    assert [step["number"] for step in told["steps"]] == [step.number for step in found.steps]
    assert told["steps"][5]["title"] == TITLES[found.steps[5].name]["zh"]
    assert told["labels"]["T"] == ["<bos>", "我", "爱", "你"]
    assert told["attention"] == [{"kind": "decoder", "causal": True, "layers": 2, "narrow": False}]
    whole = trace_json(found, "en", 6)
    assert whole["values"] == found.steps[5].value.tolist()
    assert whole["sizes"] == list(found.steps[5].sizes)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_generation_is_told_pass_by_pass(tiny: Make, language):
    found = trace_generation(tiny(), [1, 2, 3], 3)
    lines = list(generation_lines(found, language, 100))
    assert all(columns(line) <= 100 for line in lines)
    rows = [line for line in lines if re.match(r"\d +\(", line)]
    assert len(rows) == 3
    assert "(1, 3): 1 2 3" in rows[0]
    assert "768 B" in rows[0]
    assert "(1, 1): " in rows[1]
    shown = "\n".join(lines)
    assert f"{found.difference:.1e}" in shown
    for number in (5, 12):  # 3 + 1 + 1 with a cache, 3 + 4 + 5 without
        assert re.search(rf"\b{number}\b", shown)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_page_needs_nothing_else_and_has_every_step(tiny: Make, tmp_path: Path, language):
    found = followed(tiny(kind="encoder_decoder"))
    page = tmp_path / "page.html"
    write_trace(page, found, title="<b>", texts={"input": "<我>", "output": "y"}, notes=["n"], language=language)
    html = page.read_text("utf-8")
    assert "<b>" not in html
    assert "&lt;我&gt;" in html
    assert not re.findall(r"(?:src|href)=|https?://|<script", html)
    for step in found.steps:
        assert f"<h3>{step.number}. " in html
        assert part_title(step, language) in html
        if step.name != "block":
            assert REASONS[step.name][language].replace("'", "&#x27;") in html
    assert html.count('style="--w: 1.00">■') == 2 * 2 + 10 + 4 * 2  # encoder, decoder, across


@pytest.mark.parametrize("language", ["en", "zh"])
def test_pages_of_generation_and_by_hand_hold_their_numbers(tiny: Make, tmp_path: Path, language):
    page = tmp_path / "page.html"
    found = trace_generation(tiny(), [1, 2, 3], 2)
    write_generation(page, found, title="m", texts={"input": "x"}, language=language)
    assert page.read_text("utf-8").count(f"{found.passes[1].difference:.1e}") >= 1
    write_by_hand(page, attend_by_hand(example(), causal=True), example().words, 2.0, language)
    html = page.read_text("utf-8")
    assert "v[1,1] = 1·1 + 0·0 + 1·1 + 0·0 = 2" in html
    assert "<td" in html


def test_words_of_both_catalogues_are_of_the_same_steps():
    assert set(TITLES) == set(REASONS)


def test_lines_break_at_blanks_and_between_chinese_characters():
    assert list(wrapped("one two three", 9, "  ")) == ["  one two", "  three"]
    assert list(wrapped("我爱你，你爱我", 6)) == ["我爱", "你，你", "爱我"]
    assert list(wrapped("", 9)) == []
    assert (fitted("我爱你", 5), fitted("ab", 4, right=True)) == ("我爱…", "  ab")
