"""`check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .calling import call, refused

MINE = """
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, d_model, leaks):
        super().__init__()
        self.norm, self.leaks = nn.LayerNorm(d_model), leaks
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (2, -1)).transpose(1, 2).chunk(3, -1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=not self.leaks)
        return x + self.out(y.transpose(1, 2).flatten(2))


class Model(nn.Module):
    def __init__(self, leaks=False):
        super().__init__()
        self.word, self.place, self.head = nn.Embedding(30, 16), nn.Embedding(32, 16), nn.Linear(16, 30)
        self.blocks = nn.ModuleList([Block(16, False), Block(16, leaks)])

    def forward(self, tokens):
        x = self.word(tokens) + self.place(torch.arange(tokens.size(1)))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def leaky():
    return Model(leaks=True)


def raises():
    raise RuntimeError("no disk")


class Needs(Model):
    def __init__(self, secret):
        super().__init__()


class Three(Model):
    def forward(self, a, b, c):
        return super().forward(a)


class Two(Model):
    def __init__(self):
        super().__init__(leaks=True)

    def forward(self, tokens, extra, more, other):
        return super().forward(tokens)


number = 3
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    return file


def test_check_passes_a_preset() -> None:
    said = call("check", "preset:tiny", "--only", "causality,padding,cache,scale").stdout
    assert said.splitlines()[0] == "preset:tiny  (decoder-only model)"
    assert said.endswith("properties that hold: 4; that do not apply: 0. Nothing wrong was found.\n")


def test_check_names_the_leak_in_a_file_of_ones_own(mine: Path) -> None:
    found = call("check", f"{mine}:leaky", "--only", "causality,scale")
    assert found.exit_code == 1
    lines = [line.split() for line in found.stdout.splitlines()]
    assert ["at", "blocks.1"] in lines
    assert call("check", f"{mine}:Model", "--only", "causality,scale").exit_code == 0


def test_check_as_json_in_chinese(mine: Path) -> None:
    result = call("check", f"{mine}:leaky", "--only", "causality", "--json", "--language", "zh")
    found = json.loads(result.stdout)
    [verdict] = found["verdicts"]
    assert result.exit_code == 1
    assert (found["ok"], verdict["status"], verdict["where"]) == (False, "fail", "blocks.1")
    assert verdict["name"] == "后面的词元不影响前面的输出"


def test_check_lists_the_properties_of_models_and_parts() -> None:
    models = call("check", "--list").stdout
    assert "no token changes an output before it" in models
    assert "memorise" in models
    assert call("check", "--list", "--as", "schedule").stdout != models


def test_check_asks_how_to_call_what_it_cannot_call(mine: Path, tmp_path: Path) -> None:
    refused(call("check", f"{mine}:Two"), "takes 4 texts, as far as can be told")
    file = tmp_path / "how.py"
    assert f"glassformer check {file}" in call("check", f"{mine}:Two", "--template", file).stdout
    refused(call("check", f"{mine}:Two", "--template", file), "exists already")
    text = file.read_text().replace("VOCAB = 100", "VOCAB = 30")
    file.write_text(text.replace("    return model(tokens)\n\n\nTAKES", "    return model(tokens, 1, 2, 3)\n\n\nTAKES"))
    found = call("check", file, "--only", "shapes,causality")
    assert found.exit_code == 1
    assert ["at", "blocks.1"] in [line.split() for line in found.stdout.splitlines()]


def test_check_says_what_is_wrong_with_a_name(mine: Path, tmp_path: Path) -> None:
    refused(call("check"), "name a model, or FILE.py:NAME", code=2)
    refused(call("check", mine), "name what is to be examined in it")
    refused(call("check", f"{mine}:Modell"), "did you mean 'Model'")
    refused(call("check", f"{mine}:raises"), "raises() cannot be made: RuntimeError: no disk")
    refused(call("check", f"{mine}:Needs"), "its arguments secret are not known here")
    refused(call("check", f"{tmp_path / 'none.py'}:Model"), "there is no file")
    refused(call("check", f"{mine}:number", "--as", "decoder"), "it cannot be a decoder")
    refused(call("check", f"{mine}:number"), "number is of type int; name a function, a class or a module")
    refused(call("check", "preset:tiny", "--as", "multihead"), "did you mean 'multi_head'")
    refused(call("check", "preset:tiny", "--as", "multi_head"), "preset:tiny is a whole model", code=2)
    refused(call("check", "preset:tiny", "--as", "encoder_decoder"), "cannot be examined as encoder_decoder")
    refused(call("check", "preset:tiny", "--only", "causalty"), "did you mean 'causality'")
    refused(call("check", "preset:tiny", "--language", "fr"), "no language 'fr'")
    broken = tmp_path / "broken.py"
    broken.write_text("def f(:\n")
    refused(call("check", f"{broken}:f"), "SyntaxError")


def test_check_keeps_what_the_code_prints_out_of_the_json(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("print('loaded')\n\ndef attention(q, k, v):\n    print('called')\n    return v\n", encoding="utf-8")
    told = json.loads(call("check", f"{file}:attention", "--json").stdout)
    assert told["ok"] is False


def test_check_says_where_make_of_a_template_failed(tmp_path: Path) -> None:
    file = tmp_path / "how.py"
    file.write_text("KIND, VOCAB = 'decoder', 9\ndef make():\n    return {}['x']\ndef call():\n    pass\n")
    refused(call("check", file), "failed: KeyError: 'x' (line 3)")
