"""The pictures of the README: `python docs/pictures/make.py WHAT ARGUMENT`.

    attention RUN      the demo's attention, from a run of it
    heads ENCODER      all heads of a sentence encoder, and the two that turn with a pronoun (needs Chromium)
    guesses MODEL      what a small language model would say after each layer (needs Chromium)

That of a translation is what `glassformer inspect RUN TEXT --png FOLDER --layers 1 --heads 2` writes.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import glassformer as gf
from glassformer.checkpoint.loading import load
from glassformer.inspection.canvas import save_png
from glassformer.inspection.figures import heat_map
from glassformer.training.report import cross_attention

HERE = Path(__file__).parent
CROSSED = "The animal didn't cross the street because it was "
STORY = "Once upon a time there was a little girl named Lily."


def attention(run: str) -> None:
    surest = next(iter(cross_attention(load(Path(run)), "3141592653")))
    figure = heat_map(surest.weights, surest.rows, surest.columns, title=surest.caption)
    save_png(figure, HERE / "reverse-attention.png")


def heads(model: str) -> None:
    look = gf.inspect(model, f"{CROSSED}tired", contrast=f"{CROSSED}too wide", token="it")
    _shot(look, HERE / "inspect-two-texts.png", ".pair", 1000)


def guesses(model: str) -> None:
    _shot(gf.inspect(model, STORY), HERE / "inspect-guesses.png", "#lens-table table", 1100)


def _shot(look: gf.Look, file: Path, part: str, width: int) -> None:
    """A part of the page as a browser draws it."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with TemporaryDirectory() as folder, sync_playwright() as driver:
        page = Path(folder) / "page.html"
        look.save(page)
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": width, "height": 900})
        tab.goto(page.as_uri())
        tab.wait_for_selector("#pair-2 canvas" if look.found.pair else "#lens-table td")
        tab.locator(part).screenshot(path=file)
        browser.close()


def main() -> None:
    wanted = {"attention": attention, "heads": heads, "guesses": guesses}
    if len(sys.argv) != 3 or sys.argv[1] not in wanted:
        raise SystemExit(__doc__)
    wanted[sys.argv[1]](sys.argv[2])


if __name__ == "__main__":
    main()
