from __future__ import annotations

import math

import pytest

from glassformer.core.errors import ConfigError
from glassformer.core.metric import METRICS, in_order, known_metric, spoken


def test_every_metric_stands_under_its_name() -> None:
    assert all(metric.name == name for name, metric in METRICS.items())


def test_only_losses_are_better_when_lower() -> None:
    lower = {name for name, metric in METRICS.items() if metric.judges and not metric.higher_is_better}
    assert lower == {"loss", "perplexity"}


def test_counts_and_notes_do_not_judge() -> None:
    assert {name for name, metric in METRICS.items() if not metric.judges} == {
        "tokens",
        "texts",
        "pairs",
        "bleu_signature",
    }


def test_a_metric_is_found_by_its_name() -> None:
    assert known_metric("bleu").label == "BLEU"
    with pytest.raises(ConfigError, match="there is no metric 'acuracy'; did you mean 'accuracy'"):
        known_metric("acuracy")
    with pytest.raises(ConfigError, match="there is no metric 'wer'; known: accuracy, bleu"):
        known_metric("wer")


def test_values_come_in_the_order_in_which_they_are_looked_for() -> None:
    measured = {"seconds": 3.0, "tokens": 9, "loss": 1.5, "step": 4, "bleu": 30.1}
    assert list(in_order(measured)) == ["bleu", "loss", "tokens", "seconds", "step"]
    assert in_order(measured) == measured
    assert in_order({}) == {}


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("accuracy", 0.98765, "98.8 %"),
        ("exact_match", 1, "100.0 %"),
        ("f1_macro", 0.0, "0.0 %"),
        ("bleu", 34.256, "34.26"),
        ("chrf", 100.0, "100.00"),
        ("loss", 1.23456, "1.2346"),
        ("perplexity", 12.18249, "12.1825"),
        ("perplexity", 1234567.8, "1.23e+06"),
        ("perplexity", math.inf, "inf"),
        ("loss", math.nan, "nan"),
        ("tokens", 1234567, "1,234,567"),
        ("texts", 500, "500"),
        ("bleu_signature", "nrefs:1", "nrefs:1"),
        ("seconds", 1234.5678, "1,235"),
        ("step", 1500, "1,500"),
    ],
)
def test_values_are_read_as_people_read_them(name: str, value: float | str, text: str) -> None:
    assert spoken(name, value) == text
