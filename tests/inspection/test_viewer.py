from __future__ import annotations

import json
import math
import re
import shutil
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.wording import LANGUAGES
from glassformer.inspection.inspect import Axis, Inspection, LayerAttention, LayerSize, inspect_sample
from glassformer.inspection.viewer import LIMIT_BYTES, WORDS, layer_names, write_inspection
from glassformer.inspection.wording import MESSAGES, word
from glassformer.models.transformer import Transformer

EVIL = "</script><img src=x onerror=alert(1)><!--<script>"


class Page(HTMLParser):
    """What a browser sees of a page: tags, attributes, and the text of each element with its kind."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.html = path.read_text(encoding="utf-8")
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(self.html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append((self.tags[-1] if self.tags else "", data))

    @property
    def scripts(self) -> list[str]:
        """Data, then code."""
        return [text for tag, text in self.texts if tag == "script" and text.strip()]

    @property
    def data(self) -> Any:
        return json.loads(self.scripts[0])


def weights_of(data: Any, layer: int) -> np.ndarray:
    """Unpack as the page does."""
    found = data["attention"][layer]
    packed = np.frombuffer(zlib.decompress(b64decode(found["weights"])), np.uint8).astype(int)
    low, high = np.split(packed, 2)
    shape = len(found["heads"]), len(data["axes"][found["rows"]]), len(data["axes"][found["columns"]])
    return ((low + 256 * high) / data["scale"]).reshape(shape)


def sample(labels: list[str], layers: int = 2, heads: int = 4, seed: int = 0) -> Inspection:
    generator = torch.Generator().manual_seed(seed)
    size, names = len(labels), tuple(labels)
    numbers = tuple(range(heads))
    drawn = (torch.randn(heads, size, size, generator=generator).softmax(-1) for _ in range(layers))
    return Inspection(
        tuple(LayerAttention("decoder", i, numbers, weights, names, names) for i, weights in enumerate(drawn)),
        tuple(LayerSize("decoder", i, 1.5, torch.ones(size), names) for i in range(layers)),
    )


def written(tmp_path: Path, inspection: Inspection, **options: Any) -> Page:
    write_inspection(tmp_path / "a.html", inspection, **({"title": "t", "texts": {"input": "abc"}} | options))
    return Page(tmp_path / "a.html")


def test_page_holds_every_number_label_and_word(tmp_path: Path, tiny: Callable[..., Transformer]):
    source, target = Axis.single("闫同学"), Axis.grouped([(range(1), "<bos>"), (range(1, 3), "é")])
    seen = inspect_sample(
        tiny(kind="encoder_decoder"), [1, 2, 3], target, sources=[4, 5, 6], source_labels=source, heads=[1]
    )
    for language in LANGUAGES:
        page = written(tmp_path, seen, language=language, notes=["a note"], title="my run")
        data = page.data
        assert [(layer["part"], layer["layer"]) for layer in data["attention"]] == [
            (layer.part, layer.layer) for layer in seen.attention
        ]
        for index, layer in enumerate(seen.attention):
            found = data["attention"][index]
            assert np.abs(weights_of(data, index) - layer.weights.numpy()).max() <= 0.51e-4
            assert data["axes"][found["rows"]] == list(layer.rows)
            assert data["axes"][found["columns"]] == list(layer.columns)
            assert found["heads"] == [1]
        assert data["sizes"][0]["tokens"] == pytest.approx(seen.sizes[0].tokens.tolist(), rel=1e-3)
        assert data["words"] == {key: word(key, language) for key in WORDS}
        shown = " ".join(text for tag, text in page.texts if tag not in ("script", "style"))
        for text in ("my run", "a note", "abc", "decoder.blocks.1", word("attention_hint", language)):
            assert text in shown
        assert ("html", "lang", language) in page.attributes


def test_words_of_the_script_are_all_offered():
    """What the script asks for, also by a name that it puts together, is sent to it."""
    code = (Path(__file__).parents[2] / "src/glassformer/inspection/viewer.js").read_text(encoding="utf-8")
    asked = set(re.findall(r"words\.(\w+)", code))
    assert asked | {key for key in WORDS if key.startswith(("part_", "axes_"))} == set(WORDS)
    assert set(WORDS) <= set(MESSAGES)


def test_controls_have_labels_and_the_script_finds_its_elements(tmp_path: Path):
    page = written(tmp_path, sample(list("abc")))
    ids = {value for _, name, value in page.attributes if name == "id"}
    assert set(re.findall(r'byId\("(\w+)"\)', page.scripts[1])) <= ids
    assert page.tags.count("select") == 3
    assert page.tags.count("label") == 3
    assert page.tags.count("noscript") == 1


def test_any_text_stays_text(tmp_path: Path):
    labels = [EVIL, "\u2028", '"', "\\", "\u202e", "&lt;"]
    page = written(tmp_path, sample(labels), texts={"input": EVIL, "output": EVIL}, notes=[EVIL], title=EVIL)
    assert page.tags.count("script") == 2, "the data and the code"
    assert "img" not in page.tags
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert page.data["axes"][0] == [EVIL, "\\u2028", '"', "\\", "\\u202e", "&lt;"]


def test_page_of_a_classifier_says_what_it_decided(tmp_path: Path):
    labels = {f"label {number}": 0.5 if number == 0 else 0.5 / 14 for number in range(15)}
    page = written(tmp_path, replace(sample(list("abc")), labels=labels))
    shown = [text for tag, text in page.texts if tag in ("dt", "dd") and text.strip()]
    assert shown[:4] == ["label 0", "50.0 %", "label 1", "3.6 %"]
    assert "3 less probable labels are not shown." in page.html
    assert word("decision_hint", "en") not in written(tmp_path, sample(list("abc"))).html


def test_short_texts_of_the_head_are_not_broken(tmp_path: Path):
    page = written(tmp_path, sample(list("abc")), texts={"model": "runs/mine", "output": "long text " * 9})
    assert '<td data-name="Model" class=short>' in page.html
    assert '<td data-name="Output">' in page.html


def test_only_its_own_script_may_run_and_nothing_is_loaded(tmp_path: Path):
    page = written(tmp_path, sample(list("abc")))
    (policy,) = [value for tag, name, value in page.attributes if (tag, name) == ("meta", "content") and "src" in value]
    digest = b64encode(sha256(page.scripts[1].encode()).digest()).decode()
    assert policy == (f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'")
    assert not {"link", "iframe", "object", "form"} & set(page.tags)
    loaded = [(tag, value or "") for tag, name, value in page.attributes if name in ("src", "href")]
    assert not [value for tag, value in loaded if tag != "use" and not (tag == "a" and value.startswith("#"))]
    assert "innerHTML" not in page.scripts[1]


def test_o29_page_stays_under_its_limit_and_says_what_was_left_out(tmp_path: Path):
    seen = sample([f"t{index}" for index in range(96)], layers=6)
    whole = written(tmp_path, seen)
    assert whole.data["scale"] == 10_000
    limit = len(whole.html.encode()) - 1000
    coarse = written(tmp_path, seen, limit_bytes=limit)
    assert coarse.data["scale"] == 1000, "a digit less is enough"
    assert len(coarse.data["attention"]) == 6
    assert np.abs(weights_of(coarse.data, 5) - seen.attention[5].weights.numpy()).max() <= 0.51e-3

    limit = len(coarse.html.encode()) - 1000
    left_out = write_inspection(tmp_path / "b.html", seen, title="t", texts={}, limit_bytes=limit)
    assert left_out == seen.attention[5:]
    page = Page(tmp_path / "b.html")
    assert len(page.html.encode()) <= limit
    assert [layer["layer"] for layer in page.data["attention"]] == [0, 1, 2, 3, 4]
    assert f"to keep this page below {limit / 1e6:g} MB: Decoder 5." in page.html
    with pytest.raises(DataError, match=r"not a single layer fits a page of 0\.06 MB; choose heads"):
        write_inspection(tmp_path / "c.html", seen, title="t", texts={}, limit_bytes=60_000)
    assert not (tmp_path / "c.html").exists()


def test_o29_the_first_layers_of_every_stack_are_kept(tmp_path: Path):
    seen = sample([f"t{index}" for index in range(64)], layers=4)
    parts = [*(replace(layer, part="encoder") for layer in seen.attention), *seen.attention]
    both = Inspection(tuple(parts), ())
    full = len(written(tmp_path, both).html)
    left_out = write_inspection(tmp_path / "a.html", both, title="t", texts={}, limit_bytes=int(0.6 * full))
    assert {layer.layer for layer in left_out} <= {2, 3}
    assert {layer.part for layer in left_out} == {"encoder", "decoder"}
    assert layer_names(seen.attention[2:], "zh") == "解码器 2, 3"


@pytest.mark.slow
def test_o29_all_of_512_tokens_of_12_layers_and_12_heads(tmp_path: Path):
    """37,748,736 weights: with heads that look everywhere alike 11 MB, so that the last layer is left out."""
    labels = tuple(f"t{index}" for index in range(512))
    causal = torch.full((512, 512), -math.inf).triu(1)
    layers = [
        LayerAttention(
            "decoder", i, tuple(range(12)), (torch.randn(12, 512, 512) / 3 + causal).softmax(-1), labels, labels
        )
        for i in range(12)
    ]
    left_out = write_inspection(tmp_path / "a.html", Inspection(tuple(layers), ()), title="t", texts={})
    assert (tmp_path / "a.html").stat().st_size <= LIMIT_BYTES
    assert len(left_out) <= 2


def test_numbers_that_are_none(tmp_path: Path):
    seen = sample(list("ab"), layers=1)
    seen.attention[0].weights[0, 1] = math.nan
    spoilt = replace(seen, sizes=(LayerSize("decoder", 0, math.nan, torch.tensor([math.inf, 1.0]), ("a", "b")),))
    data = written(tmp_path, spoilt).data
    assert (weights_of(data, 0)[0, 1] == 6.5535).all()
    assert data["sizes"][0]["tokens"] == [None, 1.0]


def test_mistakes_are_named(tmp_path: Path):
    with pytest.raises(ConfigError, match="no language 'fr'"):
        written(tmp_path, sample(list("ab")), language="fr")
    assert not list(tmp_path.iterdir())


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


def test_page_in_a_browser_without_network(tmp_path: Path, browser: Any):
    labels = [EVIL, "b", "闫", "d"]
    seen = sample(labels)
    written(tmp_path, seen, texts={"input": EVIL})
    tab = browser.new_context(offline=True, viewport={"width": 400, "height": 800}).new_page()
    said: list[str] = []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("dialog", lambda dialog: said.append("alert"))
    tab.goto((tmp_path / "a.html").as_uri())
    tab.wait_for_selector("#heads button")
    assert tab.locator("#heads button").count() == 4
    assert tab.evaluate("document.documentElement.scrollWidth") <= 400, "nothing sticks out on a telephone"

    tab.select_option("#layer", "1")
    tab.select_option("#head", "2")
    tab.focus("#map")
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowRight"):
        tab.keyboard.press(key)
    row = seen.attention[1].weights[2, 2]
    assert tab.inner_text("#readout strong") == f"{row[1]:.4f}"
    most = tab.locator("#readout .one").all_inner_texts()
    assert [text.split()[-1] for text in most] == [f"{value:.4f}" for value in row.sort(descending=True).values]
    assert "闫" in tab.inner_text("#readout .cell")

    cells = tab.locator("#map .cells")
    size = cells.bounding_box()["width"]
    cells.hover(position={"x": 0.1 * size, "y": 0.9 * size})
    assert tab.inner_text("#readout strong") == f"{seen.attention[1].weights[2, 3, 0]:.4f}"
    assert EVIL in tab.inner_text("#readout .cell")
    assert tab.locator("img").count() == 0
    assert not said
