"""The n-gram opponent must be right, or a comparison with it says nothing."""

import gzip
import importlib.util
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

# bench/ holds scripts, not an importable package.
PATH = Path(__file__).parents[2] / "bench" / "kneser_ney.py"
spec = importlib.util.spec_from_file_location("kneser_ney", PATH)
kneser_ney = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kneser_ney)
KneserNey = kneser_ney.KneserNey

V = 12  # the random texts use 0 to 9 and a rare 10; 11 never occurs


def random_text(n: int = 3000, seed: int = 0) -> list[int]:
    """Ids with a Zipf-like shape, so that grams of count 1, 2, 3 and more all occur."""
    weights = 1 / np.arange(1, 12) ** 1.5
    return np.random.default_rng(seed).choice(11, size=n, p=weights / weights.sum()).tolist()


def slow_probability(text: list[int], order: int, context: tuple[int, ...], w: int) -> float:
    """The module's equation, word for word, with dictionaries and recursion."""

    def counts_of(k: int) -> Counter:
        if k == order:
            return Counter(tuple(text[i : i + k]) for i in range(len(text) - k + 1))
        return Counter(gram[1:] for gram in {tuple(text[i : i + k + 1]) for i in range(len(text) - k)})

    def p(k: int, h: tuple[int, ...]) -> float:
        if k == 0:
            return 1 / V
        below = p(k - 1, h[1:])
        counts = counts_of(k)
        d = (0.0, *kneser_ney.discounts(np.array(list(counts.values()))))
        following = {gram[-1]: c for gram, c in counts.items() if gram[:-1] == h}
        if not following:
            return below
        total = sum(following.values())
        c = following.get(w, 0)
        return (c - d[min(c, 3)] + sum(d[min(n, 3)] for n in following.values()) * below) / total

    k = min(order, len(context) + 1)
    return p(k, context[len(context) - k + 1 :])


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_distribution_sums_to_one_and_leaves_no_id_out(order: int) -> None:
    text = random_text()
    model = KneserNey.fit(text, V, order)
    seen, partly_seen, unseen = text[100:104], [11, *text[100:103]], [11, 11, 11, 11]
    at_the_end, ends_unseen, longer_than_needed = text[-4:], [*text[100:103], 11], text[:50]
    for context in (seen, partly_seen, unseen, at_the_end, ends_unseen, longer_than_needed, [], [3]):
        p = model.distribution(context)
        assert p.shape == (V,)
        assert p.sum() == pytest.approx(1, abs=1e-9)
        assert p.min() > 0


def test_order_two_by_hand() -> None:
    """Text a b a a b, V = 3 (c never occurs); too small for estimated discounts, so D = 0.5, 1, 1.5.

    Order 1 counts different left neighbours: a has {a, b} = 2, b has {a} = 1, in sum 3.
        gamma = (1 + 0.5) / 3 = 1/2, and each id gets 1/2 * 1/3 = 1/6 from the uniform distribution
        p(a) = (2 - 1)/3 + 1/6 = 1/2      p(b) = (1 - 0.5)/3 + 1/6 = 1/3      p(c) = 1/6
    Order 2 counts occurrences: after a come b, a, b (in sum 3), after b comes a (in sum 1).
        gamma(a) = (1 + 0.5) / 3 = 1/2                gamma(b) = 0.5 / 1 = 1/2
        p(a | a) = (1 - 0.5)/3 + 1/2 * 1/2 = 5/12     p(a | b) = (1 - 0.5)/1 + 1/2 * 1/2 = 3/4
        p(b | a) = (2 - 1)/3   + 1/2 * 1/3 = 1/2      p(b | b) = 1/2 * 1/3 = 1/6
        p(c | a) = 1/2 * 1/6 = 1/12                   p(c | b) = 1/2 * 1/6 = 1/12
    c was never a context, so order 1 speaks alone.
    """
    a, b, c = 0, 1, 2
    model = KneserNey.fit([a, b, a, a, b], vocab_size=3, order=2)
    np.testing.assert_allclose(model.distribution([]), [1 / 2, 1 / 3, 1 / 6])
    np.testing.assert_allclose(model.distribution([a]), [5 / 12, 1 / 2, 1 / 12])
    np.testing.assert_allclose(model.distribution([b]), [3 / 4, 1 / 6, 1 / 12])
    np.testing.assert_allclose(model.distribution([c]), [1 / 2, 1 / 3, 1 / 6])


def test_order_one_with_estimated_discounts() -> None:
    """Counts 1, 1, 1, 1, 2, 2, 3, 4 and 0: n1 = 4, n2 = 2, n3 = 1, n4 = 1, in sum 15.

    Y = 4/(4 + 4) = 1/2, D1 = 1 - 2/4 = 0.5, D2 = 2 - 1.5/2 = 1.25, D3+ = 3 - 2 = 1
    gamma = (4 * 0.5 + 2 * 1.25 + 2 * 1)/15 = 6.5/15
    """
    counts = np.array([1, 1, 1, 1, 2, 2, 3, 4, 0])
    assert kneser_ney.discounts(counts) == pytest.approx((0.5, 1.25, 1.0))
    model = KneserNey.fit(np.repeat(np.arange(9), counts), vocab_size=9, order=1)
    expected = np.array([0.5, 0.5, 0.5, 0.5, 0.75, 0.75, 2, 3, 0]) / 15 + 6.5 / 15 / 9
    np.testing.assert_allclose(model.distribution([]), expected)
    np.testing.assert_allclose(np.exp(model.log_probabilities([5], [0, 8])), expected[[0, 8]])


@pytest.mark.parametrize("counts", [[1, 1, 2], [5, 6, 7], [1, 2, 3, 4, 4, 4, 4, 4, 4, 4]])
def test_discounts_fall_back_where_the_estimate_is_undefined_or_not_positive(counts: list[int]) -> None:
    assert kneser_ney.discounts(np.array(counts)) == kneser_ney.FALLBACK_DISCOUNTS


@pytest.mark.parametrize("history_length", [0, 2, 10])
@pytest.mark.parametrize("order", [1, 3, 5])
def test_log_probabilities_are_the_logs_of_the_distributions(order: int, history_length: int) -> None:
    model = KneserNey.fit(random_text(), V, order)
    run = [*random_text(80, seed=1), 11, 11, 3, 11, 0]
    history, ids = run[:history_length], run[history_length:]
    expected = [math.log(model.distribution(run[:i])[run[i]]) for i in range(history_length, len(run))]
    np.testing.assert_allclose(model.log_probabilities(history, ids), expected, rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_agrees_with_the_equation_written_slowly(order: int) -> None:
    text = random_text(600)
    model = KneserNey.fit(text, V, order)
    contexts = [(), (2,), (0, 1), tuple(text[:3]), tuple(text[-3:]), (0, 0, 0), (1, 10, 4), (11, 0, 0)]
    for context in contexts:
        expected = [slow_probability(text, order, context, w) for w in range(V)]
        np.testing.assert_allclose(model.distribution(context), expected, rtol=1e-12)


def test_nothing_to_score_gives_an_empty_array() -> None:
    assert KneserNey.fit(random_text(), V).log_probabilities([1, 2], []).shape == (0,)


def test_a_text_too_short_to_count_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 5 ids, not 0"):
        KneserNey.fit([], vocab_size=3)
    with pytest.raises(ValueError, match="at least 2 ids, not 1"):
        KneserNey.fit([0], vocab_size=3, order=2)


def test_bad_orders_and_ids_are_refused() -> None:
    with pytest.raises(ValueError, match="order must be at least 1"):
        KneserNey.fit([0, 1], vocab_size=2, order=0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        KneserNey.fit([0, 2], vocab_size=2, order=1)
    with pytest.raises(ValueError, match="between 0 and 1"):
        KneserNey.fit([0, 1], vocab_size=2, order=1).log_probabilities([], [-1])


def test_command_line_scores_the_end_of_the_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Byte order mark and returns gone, 90 characters of "ab\\n" are fitted; of the last 10 only c is new."""
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(("\ufeff" + "ab\r\n" * 30 + "abcab\r\nab\r\na").encode()))
    kneser_ney.main([str(path), "--all-orders", "--json"])
    measured = json.loads(capsys.readouterr().out)
    assert (measured["vocab_size"], measured["unknown_characters"]) == (4, 1)
    assert (measured["fitted_characters"], measured["scored_characters"]) == (90, 10)
    assert [result["order"] for result in measured["orders"]] == [3, 4, 5, 6]
    for result in measured["orders"]:
        assert result["perplexity"] == pytest.approx(math.exp(result["loss"]))
        assert result["perplexity_known"] < result["perplexity"]


def test_command_line_prints_one_line_per_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "text.txt"
    path.write_text("so it goes, " * 50, encoding="utf-8")
    kneser_ney.main([str(path), "--order", "2", "--held-out", "0.2"])
    lines = capsys.readouterr().out.splitlines()
    assert "480 characters fitted, 120 scored, 0 of them unknown" in lines[0]
    assert len(lines) == 2
    assert lines[1].startswith("order 2: ")


@pytest.mark.parametrize("arguments", [["--held-out", "0"], ["--held-out", "1"], ["--order", "0"], []])
def test_command_line_explains_what_it_cannot_do(arguments: list[str], tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.write_text("", encoding="utf-8")
    with pytest.raises(SystemExit) as stopped:
        kneser_ney.main([str(path), *arguments])
    assert stopped.value.code == 2


def test_no_known_character_to_score_gives_no_second_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "text.txt"
    path.write_text("a" * 90 + "b" * 10, encoding="utf-8")
    kneser_ney.main([str(path), "--json"])
    assert json.loads(capsys.readouterr().out)["orders"][0]["perplexity_known"] is None
    kneser_ney.main([str(path)])
    assert "known characters only" not in capsys.readouterr().out
