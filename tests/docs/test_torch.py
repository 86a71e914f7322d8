"""The page about torch's modules keeps its word: its blocks print what they say, and no argument is left out."""

from __future__ import annotations

import contextlib
import inspect
import io
import re

import pytest
from torch import nn

from .test_tour import FENCE, ROOT, headings, promised, read, without_code

PAGES = [ROOT / "docs/torch.md", ROOT / "docs/torch.zh-CN.md"]

MODULES = {
    "nn.MultiheadAttention": (nn.MultiheadAttention,),
    "nn.TransformerEncoderLayer": (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer),
    "nn.TransformerEncoder": (nn.TransformerEncoder,),
    "nn.Transformer": (nn.Transformer,),
}


def test_page_prints_what_its_comments_say():
    blocks = [code for language, code in FENCE.findall(read(PAGES[0])) if language == "python"]
    assert len(blocks) == 3
    namespace: dict[str, object] = {}
    for number, code in enumerate(blocks, start=1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"<block {number} of docs/torch.md>", "exec"), namespace)
        lines = [line for line in code.splitlines() if line.startswith("print(")]
        assert printed.getvalue().splitlines() == promised("\n".join(lines)).splitlines()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
@pytest.mark.parametrize("heading", MODULES)
def test_every_argument_is_in_a_table(page, heading):
    begin = re.search(rf"^## {re.escape(heading)}\b.*$", read(page), re.MULTILINE)
    assert begin is not None
    section = read(page)[begin.end() :].partition("\n## ")[0]
    named = {
        name
        for line in section.splitlines()
        if line.startswith("|")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    for module in MODULES[heading]:
        functions = [module] if module is nn.TransformerEncoder else [module, module.forward]
        for function in functions:
            arguments = [name for name in inspect.signature(function).parameters if name != "self"]
            assert not [name for name in arguments if name not in named]


def test_both_languages_have_the_same_headings_and_code():
    english, chinese = PAGES
    assert headings(chinese) == headings(english)
    assert FENCE.findall(read(chinese)) == FENCE.findall(read(english))
    assert len(re.findall(r"^\|", without_code(read(chinese)), re.MULTILINE)) == len(
        re.findall(r"^\|", without_code(read(english)), re.MULTILINE)
    )
    assert "](torch.zh-CN.md)" in read(english)
    assert "](torch.md)" in read(chinese)
