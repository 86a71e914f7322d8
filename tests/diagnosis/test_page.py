"""The page of an inspection in a browser: what a person clicks, and what it then says."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer as gf
from conftest import tiny_arguments
from glassformer.checkpoint.loading import Loaded
from glassformer.core.wording import LANGUAGES
from glassformer.diagnosis.look import Look
from glassformer.inspection.inspect_wording import SCRIPT, TEXTS
from glassformer.models.transformer import Transformer
from glassformer.text.build import byte_tokenizer

EVIL = "</script><img src=x>"


def look(kind: str = "decoder", text: str = "abcab", **options: Any) -> Look:
    tokenizer = byte_tokenizer(("<pad>", "<bos>", "<eos>"))
    config = tiny_arguments(kind=kind).resolve(tokenizer.vocab_size)
    model = Transformer(config, generator=torch.Generator().manual_seed(1)).eval()
    return gf.inspect(Loaded(model, tokenizer, "tiny"), text, **options)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def full() -> Look:
    """Everything a page can show."""
    return look(
        generate=4, contrast="abxab", token="b", patches=["decoder.blocks.0.attention.heads[1]=zero"], text="abcab"
    )


@pytest.fixture(scope="module")
def page(full: Look, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its page."""
    file = tmp_path_factory.mktemp("page") / "a.html"
    full.save(file)
    return file


def opened(browser: Any, page: Path, width: int = 1000, scheme: str = "light") -> tuple[Any, list[str]]:
    tab = browser.new_context(
        offline=True, viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce"
    ).new_page()
    said: list[str] = []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.goto(page.as_uri())
    tab.wait_for_selector(".thumb")
    return tab, said


def said_of(tab: Any) -> list[str]:
    """The guesses of the chosen cell, as they are read."""
    found: list[str] = tab.locator("#lens-said .one").all_inner_texts()
    return found


def test_every_head_is_there_and_opens(page: Path, browser: Any, full: Look) -> None:
    tab, said = opened(browser, page)
    thumbs = tab.locator(".thumb")
    assert thumbs.count() == 4
    thumbs.nth(3).click()
    assert tab.input_value("#layer") == "1"
    assert tab.input_value("#head") == "1"
    assert tab.is_visible("#map .cells")
    thumbs.nth(0).focus()
    tab.keyboard.press("ArrowDown")
    assert "layer 1, head 0" in tab.inner_text("#over-said")
    tab.click("#frames [data-by=effect]")
    assert tab.get_attribute("#frames [data-by=effect]", "aria-pressed") == "true"
    assert tab.locator("#keys .key").count() == 3
    assert not said


def test_roles_are_sorted_by_a_click(page: Path, browser: Any, full: Look) -> None:
    tab, said = opened(browser, page)
    assert full.found.ablation is not None
    effects = sorted((each.loss or 0.0 for each in full.found.ablation.effects), reverse=True)

    def shown() -> list[str]:
        return [row.locator("td").nth(2).inner_text() for row in tab.locator("#roles-table tbody tr").all()]

    tab.click("#roles-table th:nth-child(3) button")
    assert [float(text) for text in shown()] == pytest.approx(effects, abs=1e-3)
    tab.click("#roles-table th:nth-child(3) button")
    assert [float(text) for text in shown()] == pytest.approx(effects[::-1], abs=1e-3)
    tab.click("#roles-table tbody tr:nth-child(2) .go")
    assert tab.is_visible("#map .cells")
    assert not said


def test_guesses_are_read_by_keys(page: Path, browser: Any, full: Look) -> None:
    tab, said = opened(browser, page)
    lens = full.found.lens
    assert lens is not None
    assert tab.locator("#lens-table td").count() == 2 * 6
    tab.focus("#lens-table")
    for key in ("ArrowUp", "ArrowRight", "ArrowRight"):
        tab.keyboard.press(key)
    shares = [f"{100 * share:.1f} %" for share in lens.probabilities[0, 2].tolist()]
    assert [text.strip()[-len(share) :] for text, share in zip(said_of(tab), shares, strict=True)] == shares
    assert not said


def test_the_slider_goes_through_the_steps(page: Path, browser: Any, full: Look) -> None:
    tab, said = opened(browser, page)
    written = full.found.written
    assert written is not None
    steps = len(written.read) - written.prompt + 1
    assert tab.get_attribute("#step", "max") == str(steps)
    tab.focus("#step")
    tab.keyboard.press("Home")
    tab.wait_for_selector("#step-said:has-text('Step 1 ')")
    assert "<bos> a b c a b" in tab.inner_text("#step-said")
    tab.keyboard.press("ArrowRight")
    tab.wait_for_selector("#step-said:has-text('Step 2 ')")
    assert f"it read {written.read[6]}" in tab.inner_text("#step-said")
    tab.focus("#step-map")
    for _ in range(7):
        tab.keyboard.press("ArrowDown")
    value = written.attention[0].weights[0, 6, 0].item()
    tab.keyboard.press("ArrowUp")
    assert tab.inner_text("#step-cell strong") == f"{value:.4f}"
    assert not said


def test_two_texts_stand_side_by_side(page: Path, browser: Any, full: Look) -> None:
    tab, said = opened(browser, page)
    pair = full.found.pair
    assert pair is not None
    rows = tab.locator("#moves tbody tr")
    assert rows.count() == len(pair.contrast.moves)
    move = pair.contrast.moves[1]
    rows.nth(1).locator(".go").click()
    tab.wait_for_selector(f"#pair-said:has-text('layer {move.site.split('.')[2]}, head {move.head}')")
    assert tab.input_value("#pair-layer") == move.site.split(".")[2]
    tab.focus("#pair-1")
    tab.keyboard.press("Home")
    row = pair.attention[0][int(move.site.split(".")[2])].weights[move.head, move.rows[0]]
    tab.wait_for_selector("#pair-said:has-text('First text')")
    assert tab.inner_text("#pair-said strong") == f"{row[0]:.4f}"
    assert not said


def test_what_was_changed_is_told(page: Path, browser: Any, full: Look) -> None:
    tab, _ = opened(browser, page)
    outcome = full.found.outcome
    assert outcome is not None
    shown = tab.inner_text("#patched")
    assert "decoder.blocks.0.attention.heads[1]=zero" in shown
    assert f"{outcome.divergence:.4g}" in shown
    assert tab.locator("#patched tbody tr").count() == 1 + len(outcome.positions)


@pytest.mark.parametrize(("kind", "language"), list(zip(("encoder", "encoder_decoder"), LANGUAGES, strict=True)))
def test_no_page_is_wider_than_a_telephone(tmp_path: Path, browser: Any, kind: str, language: str) -> None:
    options = {} if kind == "encoder" else {"generate": 3}
    made = look(kind, "闫ab" + EVIL, contrast="闫axb", patches=["encoder.blocks.*.residual=mean"], **options)
    found = Look(made.title, made.texts, made.notes, made.reading, made.inspection, made.found, language)
    found.save(tmp_path / "a.html")
    for scheme in ("light", "dark"):
        tab, said = opened(browser, tmp_path / "a.html", 375, scheme)
        tab.wait_for_selector("#pair-2 canvas")
        assert tab.evaluate("document.documentElement.scrollWidth") <= 375
        assert tab.locator("img").count() == 0
        assert not said
        tab.close()


def test_a_notebook_runs_the_page_in_its_frame(tmp_path: Path, browser: Any, full: Look) -> None:
    (tmp_path / "notebook.html").write_text(f"<!DOCTYPE html><body>{full._repr_html_()}</body>", encoding="utf-8")
    tab = browser.new_context(offline=True).new_page()
    tab.goto((tmp_path / "notebook.html").as_uri())
    frame = tab.frame_locator("iframe")
    frame.locator(".thumb").nth(3).click()
    assert frame.locator("#head").input_value() == "1"


class Texts(HTMLParser):
    """The texts of a page that are no script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tag = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tag = tag

    def handle_data(self, data: str) -> None:
        if self.tag not in ("script", "style"):
            self.found.append(data)


def test_words_of_the_script_are_all_offered() -> None:
    """What the script asks for, also by a name that it puts together, is sent to it."""
    code = (Path(gf.__file__).parent / "inspection" / "sections.js").read_text(encoding="utf-8")
    asked = set(re.findall(r"terms\.(\w+)", code)) | {key for key in SCRIPT if key.startswith(("role_", "text_"))}
    assert asked == set(SCRIPT)
    assert set(SCRIPT) <= set(TEXTS)


def test_the_page_says_how_heads_were_judged(full: Look) -> None:
    told = " ".join(Texts(full.html()).found)
    assert "Effect: how much the loss of this text rises when the head's output is set to zero" in told
    some = " ".join(Texts(look(most_heads=1).html()).found)
    assert "1 of 4 heads were taken away one by one" in some
    assert "--ablate-heads 4" in some
    one = " ".join(Texts(look(text="").html()).found)
    assert "a text of one token has nothing to predict" in one
    repeats = " ".join(Texts(look(text="abc").html()).found)
    assert "a random sequence that is read twice" in repeats
    assert "a random sequence" not in told, "this text repeats itself"


def test_pictures_of_all_heads_are_small(full: Look) -> None:
    (content,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', full.html())
    thumbs = json.loads(content)["more"]["thumbs"]
    assert [(each["layer"], each["size"]) for each in thumbs] == [(0, [6, 6]), (1, [6, 6])]


def test_o29_page_with_everything_stays_under_its_limit(tmp_path: Path) -> None:
    from glassformer.inspection.viewer import inspection_page

    made = look(text="abcdefgh" * 8, generate=8, contrast="abcdefgx" * 8, ablate=None)
    arguments = {"title": "t", "texts": {}, "found": made.found}
    whole, _ = inspection_page(made.inspection, **arguments)
    limit = int(0.75 * len(whole.encode()))
    small, left_out = inspection_page(made.inspection, **arguments, limit_bytes=limit)
    assert len(small.encode()) <= limit
    assert left_out or "some layers of the sections below" in small
