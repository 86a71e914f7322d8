"""The page about `check` says every property, in the order in which they are examined."""

from __future__ import annotations

import re

import pytest

from glassformer.diagnosis.model.properties import MODEL_PROPERTIES

from .test_tour import ROOT, read


@pytest.mark.parametrize("page", ["check.md", "check.zh-CN.md"])
def test_page_says_every_property(page: str) -> None:
    language = "zh" if "zh" in page else "en"
    told = re.findall(r"^### `(\w+)`[:：] (.+)$", read(ROOT / "docs" / page), re.M)
    assert told == [(each.key, each.words.say(f"{each.key}.name", language)) for each in MODEL_PROPERTIES]
