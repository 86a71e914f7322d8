"""The documents keep their word: the tour prints what it says, both languages agree, and links lead somewhere."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
TOUR, TOUR_ZH = ROOT / "docs/tour.md", ROOT / "docs/tour.zh-CN.md"
README, README_ZH = ROOT / "README.md", ROOT / "README.zh-CN.md"
DOCUMENTS = [README, README_ZH, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CHINESE = [path for path in DOCUMENTS if path.name.endswith(".zh-CN.md")]
"""Each belongs to an English document of the same name."""

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
TOLERANCE = 0.011
"""Two digits are printed, and the last one may round the other way on another processor."""


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def without_code(text: str) -> str:
    return FENCE.sub("", text)


def headings(path: Path) -> list[int]:
    return [len(found) for found in re.findall(r"^(#+) ", without_code(read(path)), re.MULTILINE)]


def promised(code: str) -> str:
    """What the comments of a block say that it prints."""
    return "\n".join(line.split("# ", 1)[1] for line in code.splitlines() if re.search(r"(^|  )# ", line))


def agrees(promise: str, printed: str) -> bool:
    """True if both have the same words and, up to rounding, the same numbers."""
    if "".join(NUMBER.sub("N", promise).split()) != "".join(NUMBER.sub("N", printed).split()):
        return False
    pairs = zip(NUMBER.findall(promise), NUMBER.findall(printed), strict=True)
    return all(a == b or ("." in a and "." in b and abs(float(a) - float(b)) <= TOLERANCE) for a, b in pairs)


@pytest.fixture
def _print_options() -> Iterator[None]:
    yield
    torch.set_printoptions(profile="default")


@pytest.mark.usefixtures("_print_options")
def test_tour_prints_what_its_comments_say():
    blocks = [code for language, code in FENCE.findall(read(TOUR)) if language == "python"]
    assert len(blocks) >= 10
    namespace: dict[str, object] = {}
    for number, code in enumerate(blocks, start=1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"<block {number} of docs/tour.md>", "exec"), namespace)
        promise = promised(code)
        assert agrees(promise, printed.getvalue()), (
            f"block {number} of docs/tour.md promises\n{promise}\nand prints\n{printed.getvalue()}"
        )


def test_a_wrong_promise_is_noticed():
    assert agrees("tensor([0.49, -1.00]) True", "tensor([ 0.50, -1.00])  True\n")
    assert not agrees("0.49 True", "0.49 False")
    assert not agrees("0.49", "0.53")
    assert not agrees("13", "12")
    assert not agrees("0.49", "")


def code(document: Path) -> Iterator[str]:
    """Yield what is run of a page, without what is said in its language: comments, and the option that names it."""
    for kind, block in FENCE.findall(read(document)):
        if kind == "bash":
            yield from (line.split("#")[0].replace(" --language zh", "").strip() for line in block.splitlines())
        elif kind:
            yield block


@pytest.mark.parametrize(
    ("english", "chinese"),
    [(path.with_name(f"{path.name.split('.')[0]}.md"), path) for path in CHINESE],
    ids=lambda p: p.stem,
)
def test_both_languages_have_the_same_headings_and_code(english: Path, chinese: Path):
    assert headings(chinese) == headings(english)
    assert [*code(chinese)] == [*code(english)]
    assert f"]({chinese.name})" in read(english)
    assert f"]({english.name})" in read(chinese)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file(document: Path):
    for _, target in LINK.findall(without_code(read(document))):
        if "://" in target or target.startswith(("#", "mailto:")):
            continue
        path = (document.parent / target.split("#")[0]).resolve()
        assert path.exists(), f"{target} does not exist"


@pytest.mark.parametrize("tour", [TOUR, TOUR_ZH], ids=lambda path: path.name)
def test_tour_names_only_what_is_in_the_linked_file(tour: Path):
    named = 0
    for words, target in LINK.findall(without_code(read(tour))):
        if not target.endswith(".py"):
            continue
        text = read((tour.parent / target).resolve())
        for name in re.findall(r"`([^`]+)`", words):
            named += 1
            defined = re.search(rf"^\s*(?:def|class) {re.escape(name.rpartition('.')[2])}\b", text, re.MULTILINE)
            assert defined, f"{target} defines no {name}"
    assert named >= 30


@pytest.mark.parametrize("record", sorted((ROOT / "docs/decisions").glob("*.md")), ids=lambda path: path.stem)
def test_decision_names_only_files_that_exist(record: Path):
    assert re.fullmatch(r"\d{3}-[a-z0-9-]+", record.stem)
    for name in re.findall(r"`([\w/]+/[\w.]+\.(?:py|yaml|md))`", read(record)):
        assert (ROOT / name).exists() or (ROOT / "src/glassformer" / name).exists(), f"{name} does not exist"
