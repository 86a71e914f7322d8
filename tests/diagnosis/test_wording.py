"""Every message of the examiner is said somewhere."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import glassformer.diagnosis
from glassformer.diagnosis.model.wording import MESSAGES as MODEL
from glassformer.diagnosis.parts.hypotheses import Attending
from glassformer.diagnosis.parts.layers_wording import WORDS as LAYERS
from glassformer.diagnosis.parts.other_wording import WORDS as OTHERS
from glassformer.diagnosis.wording import MESSAGES

ROOM = Path(glassformer.diagnosis.__file__).parent


def test_no_message_is_unused() -> None:
    files = [file for file in ROOM.rglob("*.py") if "wording" not in file.name and file.name != "explanations.py"]
    code = "\n".join(file.read_text("utf-8") for file in files)
    said = set(re.findall(r'"([\w.]+)"', code))
    begun = set(re.findall(r'f"([\w.]+[._])\{', code)) | {f"{each.name}_" for each in fields(Attending)}
    keys = {key for words in (MODEL, LAYERS, OTHERS, MESSAGES) for key in words}
    bare = {re.sub(r"\.(name|why|look|keep|hide|additive|keep_number|hide_number|length)$", "", key) for key in keys}
    assert {key for key in bare - said if not key.startswith(tuple(begun))} == set()
