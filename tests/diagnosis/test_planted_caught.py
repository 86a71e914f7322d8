"""Planted bugs are caught and named, and healthy code is left in peace."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from glassformer.diagnosis.model.properties import MODEL_PROPERTIES
from glassformer.diagnosis.parts.recognise import KINDS

from .planted.catalogue import HEALTHY, PLANTED, PROPERTIES, Healthy, Planted

PATH = Path(__file__).parents[2] / "bench" / "examiner.py"
SPEC = importlib.util.spec_from_file_location("bench_examiner", PATH)
assert SPEC is not None
assert SPEC.loader is not None
bench = importlib.util.module_from_spec(SPEC)
sys.modules["bench_examiner"] = bench  # dataclasses look their module up
SPEC.loader.exec_module(bench)

SPREAD = {(record.kind.partition(".")[0], record.property[0]): record for record in reversed(PLANTED)}
"""One bug of each property, in a whole model and in a part."""

KNOWN = {"attention_mask_added"}
"""Not told from right code: an attention that adds its mask, which is right if the caller hands in 0 and -inf."""


def ids(record: Planted | Healthy) -> str:
    return record.name


@pytest.mark.parametrize("record", SPREAD.values(), ids=ids)
def test_planted_bug_is_named_first(record: Planted) -> None:
    result = bench.examined(record, given=True, seed=0)
    assert result.named, result


@pytest.mark.slow
@pytest.mark.parametrize("given", [True, False], ids=["as", "recognised"])
@pytest.mark.parametrize("record", PLANTED, ids=ids)
def test_every_planted_bug_is_named_first(record: Planted, given: bool) -> None:
    result = bench.examined(record, given=given, seed=0)
    assert result.named == (record.name not in KNOWN), result


@pytest.mark.slow
@pytest.mark.parametrize("given", [True, False], ids=["as", "recognised"])
@pytest.mark.parametrize("record", HEALTHY, ids=ids)
def test_healthy_code_is_left_in_peace(record: Healthy, given: bool) -> None:
    for seed in range(5):
        result = bench.examined(record, given=given, seed=seed)
        assert (result.said, result.refused) == ((), None)


def test_verdicts_mean_words_of_the_catalogue() -> None:
    assert {word for words in bench.MEANS.values() for word in words} <= set(PROPERTIES)
    keys = [each.key for kind in KINDS.values() if kind.name not in ("beam",) for each in kind.properties]
    silent = {key for key in keys if not bench.words_of(key, None)}
    assert silent == {"attention_equation", "attention_weights", "heads_weights"}  # their faults have words
    assert not {each.key for each in MODEL_PROPERTIES if not bench.words_of(each.key, None)} - {"dropout"}
