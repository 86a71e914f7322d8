"""Answers against what was expected: equal to the libraries that everybody compares with."""

from __future__ import annotations

import logging

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score

from glassformer.training.metrics import f1_macro, label_metrics, text_metrics

OUTPUTS = ["the red dog sees the cat .", "a blue house", "", "nothing of it"]
EXPECTED = ["the red dog sees a cat .", "a blue house", "a man runs", "something else"]
CHINESE = ["我今天去看山看水。", "天上有云"], ["我们今天去看山。", "天上有云。"]


@pytest.mark.parametrize("tokenizer", ["13a", "intl", "char", "zh"])
def test_bleu_is_that_of_sacrebleu(tokenizer):
    for outputs, expected in ((OUTPUTS, EXPECTED), CHINESE):
        wanted = sacrebleu.corpus_bleu(outputs, [expected], tokenize=tokenizer)
        found = text_metrics(["bleu"], outputs, expected, tokenizer)
        assert found["bleu"] == wanted.score
        assert list(found) == ["bleu", "bleu_signature"]
        said = f"nrefs:1|case:mixed|eff:no|tok:{tokenizer}|smooth:exp|version:{sacrebleu.__version__}"
        assert found["bleu_signature"] == said
    as_words = text_metrics(["bleu"], *CHINESE, "13a")["bleu"]
    assert text_metrics(["bleu"], *CHINESE, "zh")["bleu"] != as_words


def test_chrf_is_that_of_sacrebleu():
    for outputs, expected in ((OUTPUTS, EXPECTED), CHINESE):
        found = text_metrics(["chrf"], outputs, expected, "13a")
        assert found == {"chrf": sacrebleu.corpus_chrf(outputs, [expected]).score}


def test_texts_that_are_all_right_have_the_most_points():
    found = text_metrics(["exact_match", "bleu", "chrf"], EXPECTED, EXPECTED, "13a")
    assert found["exact_match"] == 1.0
    assert found["bleu"] == pytest.approx(100)
    assert found["chrf"] == pytest.approx(100)


def test_only_the_wanted_metrics_come_and_case_counts():
    assert text_metrics(["loss"], OUTPUTS, EXPECTED, "13a") == {}
    assert text_metrics(["loss", "exact_match"], OUTPUTS, EXPECTED, "13a") == {"exact_match": 0.25}
    assert text_metrics(["exact_match"], ["A"], ["a"], "13a") == {"exact_match": 0.0}
    capital = text_metrics(["bleu"], [text.upper() for text in EXPECTED], EXPECTED, "13a")
    assert capital["bleu"] < 50


def test_tokenized_texts_are_measured_in_silence(caplog):
    with caplog.at_level(logging.WARNING):
        text_metrics(["bleu"], ["a b c d ."] * 200, ["a b c d ."] * 200, "13a")
    assert not caplog.records


LABELS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30)


@given(LABELS)
def test_metrics_of_labels_are_those_of_scikit_learn(pairs):
    outputs, expected = [list(column) for column in zip(*pairs, strict=True)]
    found = label_metrics(["accuracy", "f1_macro"], outputs, expected)
    assert found["accuracy"] == pytest.approx(accuracy_score(expected, outputs), abs=1e-12)
    assert found["f1_macro"] == pytest.approx(f1_score(expected, outputs, average="macro", zero_division=0), abs=1e-12)


def test_class_that_is_never_given_and_class_that_is_never_expected_count_as_nothing_found():
    """2 is expected and never given, 3 given and never expected: F1 are 1, 2/3, 0 and 0."""
    outputs, expected = [0, 0, 1, 1, 3], [0, 0, 1, 2, 1]
    assert f1_macro(outputs, expected) == pytest.approx((1 + 2 * 1 / (2 + 2) + 0 + 0) / 4)
    assert label_metrics(["accuracy"], outputs, expected) == {"accuracy": 0.6}
    assert label_metrics(["loss"], outputs, expected) == {}
    assert label_metrics(["accuracy", "f1_macro"], [], []) == {"accuracy": 0.0, "f1_macro": 0.0}
