"""Answers against what was expected."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from glassformer.tasks.task import BleuTokenizer

TEXT_METRICS = ("exact_match", "bleu", "chrf")
LABEL_METRICS = ("accuracy", "f1_macro")


def text_metrics(
    names: Sequence[str], outputs: Sequence[str], expected: Sequence[str], bleu_tokenizer: BleuTokenizer
) -> dict[str, float | str]:
    """Return metrics of written texts.

    exact_match: share of outputs that are the expected text; bleu and chrf: sacreBLEU's, cased, over the corpus, with
    one reference each; bleu brings its signature along, without which two scores cannot be compared.

    Args:
        names: Which of `TEXT_METRICS`; others are left out.
        outputs: What was written.
        expected: What should have been.
        bleu_tokenizer: How BLEU splits both.

    Source: BLEU: Papineni et al. 2002; chrF: Popović 2015; both as in Post 2018, arXiv:1804.08771.
    """
    found: dict[str, float | str] = {}
    if "exact_match" in names:
        found["exact_match"] = _share(outputs, expected)
    if "bleu" in names:
        from sacrebleu.metrics.bleu import BLEU

        bleu = BLEU(tokenize=bleu_tokenizer, force=True)  # else it writes its doubts to the log at every evaluation
        found["bleu"] = bleu.corpus_score(list(outputs), [list(expected)]).score
        found["bleu_signature"] = str(bleu.get_signature())
    if "chrf" in names:
        from sacrebleu.metrics.chrf import CHRF

        found["chrf"] = CHRF().corpus_score(list(outputs), [list(expected)]).score
    return found


def label_metrics(names: Sequence[str], outputs: Sequence[int], expected: Sequence[int]) -> dict[str, float | str]:
    """Return metrics of labels.

    accuracy: share of the rows whose label is right; f1_macro: mean over the classes that occur, expected or given, of
    F1 = 2 TP / (2 TP + FP + FN), so that a rare class counts as much as a frequent one.

    Args:
        names: Which of `LABEL_METRICS`; others are left out.
        outputs: The class given to each row.
        expected: The class of each row.
    """
    measures: dict[str, Callable[[Sequence[int], Sequence[int]], float]] = {"accuracy": _share, "f1_macro": f1_macro}
    return {name: measures[name](outputs, expected) for name in names if name in measures}


def f1_macro(outputs: Sequence[int], expected: Sequence[int]) -> float:
    """Return the mean F1 over the classes that occur; 0 without any row."""
    scores = []
    for label in sorted({*outputs, *expected}):
        right = sum(a == b == label for a, b in zip(outputs, expected, strict=True))
        scores.append(2 * right / (outputs.count(label) + expected.count(label)))
    return sum(scores) / max(1, len(scores))


def _share(outputs: Sequence[str] | Sequence[int], expected: Sequence[str] | Sequence[int]) -> float:
    right = sum(output == target for output, target in zip(outputs, expected, strict=True))
    return right / max(1, len(outputs))
