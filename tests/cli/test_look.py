"""`summary` and `sites`."""

from __future__ import annotations

import json
from pathlib import Path

from glassformer.checkpoint.loading import load
from glassformer.inspection.summary import summarise, table

from .calling import call, refused


def test_summary_prints_the_table(text_run: Path) -> None:
    model = load(text_run).model
    first = f"{text_run}: decoder, vocabulary {model.config.output_stack.input.vocab_size}\n\n"
    assert call("summary", text_run).stdout == first + table(summarise(model)) + "\n"
    assert "FLOPs of one forward pass over 16 tokens" in call("summary", text_run).stdout, "all that fit"
    assert "FLOPs of one forward pass over 8 tokens" in call("summary", text_run, "--length", "8").stdout


def test_summary_says_the_vocabulary_of_a_preset_and_takes_another(text_run: Path) -> None:
    said = call("summary", "preset:tiny").stdout.splitlines()[0]
    assert said == "preset:tiny: decoder, vocabulary 259 (bytes; another one: --vocab N)"
    found = call("summary", "preset:tiny", "--vocab", "1000").stdout
    assert found.splitlines()[0] == "preset:tiny: decoder, vocabulary 1,000"
    refused(call("summary", text_run, "--vocab", "1000"), "has its own vocabulary; --vocab is for presets", code=2)
    refused(call("summary", "preset:tini", "--vocab", "1000"), "did you mean 'tiny'")


def test_summary_as_json(text_run: Path) -> None:
    found = json.loads(call("summary", text_run, "--json").stdout)
    assert found == json.loads(json.dumps(summarise(load(text_run).model).to_dict()))


def test_summary_refuses_a_length_that_cannot_be(text_run: Path) -> None:
    refused(call("summary", text_run, "--length", "1000"), "length is 1000; choose from 1 to 16")
    refused(call("summary", text_run, "--length", "0"), "--length", code=2)
    refused(call("summary", text_run, "--length", "x"), "--length", code=2)


def test_sites_lists_all_that_can_be_looked_at(text_run: Path, reverse_run: Path) -> None:
    for run in (text_run, reverse_run, "preset:tiny"):
        known = load(run).model.sites()
        lines = call("sites", run).stdout.splitlines()
        assert [line.split()[0] for line in lines] == [site.name for site in known]
        assert "(B, T, D)" in lines[0]
        found = json.loads(call("sites", run, "--json").stdout)
        assert found == [{"site": site.name, "shape": site.shape} for site in known]


def test_letters_of_the_shapes_are_explained(text_run: Path) -> None:
    explained = " ".join(call("sites", "--help").stdout.split())
    for site in json.loads(call("sites", text_run, "--json").stdout):
        for letter in site["shape"].split():
            assert f"{letter} " in explained
