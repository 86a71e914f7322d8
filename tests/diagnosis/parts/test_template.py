from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.core.errors import ConfigError
from glassformer.core.user_code import load_user_code
from glassformer.diagnosis.parts.examine import examine_part
from glassformer.diagnosis.parts.recognise import KINDS
from glassformer.diagnosis.parts.template import write_part_template

ODD = """
import torch

def odd(batch, unused, scale_by):
    q, k, v, mask = batch
    scores = q @ k.mT * scale_by
    scores = scores if mask is None else scores.masked_fill(~mask, -1e9)
    return scores.softmax(-1) @ v

class Thing:
    pass
"""


@pytest.mark.parametrize("kind", KINDS)
def test_every_template_is_a_python_file(kind: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ODD, encoding="utf-8")
    name = write_part_template(tmp_path / "form.py", f"{tmp_path / 'mine.py'}:Thing", kind)
    assert callable(load_user_code(f"{tmp_path / 'form.py'}:{name}").value)


def test_a_filled_in_template_is_examined(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ODD, encoding="utf-8")
    form = tmp_path / "form.py"
    name = write_part_template(form, f"{tmp_path / 'mine.py'}:odd", "attention")
    filled = form.read_text(encoding="utf-8").replace("odd(...)", "odd((q, k, v, mask), None, q.shape[-1] ** -0.5)")
    form.write_text(filled, encoding="utf-8")
    assert examine_part(load_user_code(f"{form}:{name}").value, name, kind="attention").ok


def test_a_template_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "form.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="is there already"):
        write_part_template(tmp_path / "form.py", "mine.py:odd", "attention")
