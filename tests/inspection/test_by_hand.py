"""Attention on three words, every number against one worked out on paper."""

from __future__ import annotations

import math

import pytest
import torch

from glassformer.core.errors import DataError
from glassformer.inspection.by_hand import FORMAT, attend_by_hand, example, number, parse_matrices
from glassformer.inspection.trace_text import hand_lines

CSV = """words
a,b
X
1,0
0,2

W_q
1,0
0,1
W_k
2,0
0,2
W_v
1,2,3
4,5,6
"""


def values(causal: bool = False) -> dict[str, torch.Tensor]:
    return {step.name: step.value for step in attend_by_hand(example(), causal=causal)}


def test_example_is_what_comes_out_on_paper():
    found = values()
    assert found["q"].tolist() == [[1, 1, 2, 0], [2, 1, 0, 3], [2, 1, 1, 2]]
    assert found["k"].tolist() == [[0, 2, 1, 1], [3, 0, 1, 2], [2, 1, 2, 1]]
    assert found["v"].tolist() == [[2, 2, 3, 0], [0, 2, 1, 7], [1, 3, 1, 4]]
    assert found["products"].tolist() == [[4, 5, 7], [5, 12, 8], [5, 11, 9]]
    assert found["scaled"].tolist() == [[2, 2.5, 3.5], [2.5, 6, 4], [2.5, 5.5, 4.5]]
    powers = [math.exp(2), math.exp(2.5), math.exp(3.5)]
    shares = [power / sum(powers) for power in powers]
    assert found["weights"][0].tolist() == pytest.approx(shares)
    assert float(found["output"][0, 0]) == pytest.approx(2 * shares[0] + shares[2])


def test_values_are_made_with_w_v_and_not_with_w_k():
    matrices = example()
    assert torch.equal(values()["v"], matrices.X @ matrices.W_v)
    assert not torch.equal(values()["v"], matrices.X @ matrices.W_k)


def test_causal_first_word_takes_itself_alone():
    found = values(causal=True)
    assert found["mask"].tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert found["weights"][0].tolist() == [1, 0, 0]
    assert found["output"][0].tolist() == found["v"][0].tolist()


def test_worked_numbers_agree_with_the_matrices():
    worked = {step.name: step.worked for step in attend_by_hand(example()) if step.worked}
    assert worked["v"] == "v[1,1] = 1·1 + 0·0 + 1·1 + 0·0 = 2"
    assert worked["products"] == "products[3,1] = 2·0 + 1·2 + 1·1 + 2·1 = 5"
    assert worked["scaled"] == "scores[3,1] = 5 / 2 = 2.50"
    assert worked["weights"].endswith("= 12.18 / 346.89 = 0.035")
    assert worked["output"] == "output[3,1] = 0.035 · 2 + 0.705 · 0 + 0.259 · 1 = 0.33"


def test_csv_and_json_say_the_same():
    told = '{"X": [[1, 0], [0, 2]], "W_q": [[1, 0], [0, 1]], "W_k": [[2, 0], [0, 2]], "W_v": [[1, 2, 3], [4, 5, 6]]}'
    one, other = parse_matrices(CSV, "m.csv"), parse_matrices(told, "m.json")
    assert (one.words, other.words) == (("a", "b"), ("x1", "x2"))
    for name in ("X", "W_q", "W_k", "W_v"):
        assert torch.equal(getattr(one, name), getattr(other, name))
    found = {step.name: step.value for step in attend_by_hand(one)}
    assert found["scaled"].tolist() == [[2 / math.sqrt(2), 0], [0, 8 / math.sqrt(2)]]
    assert found["output"].shape == (2, 3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("X\n1,0\n", "without W_q, W_k, W_v"),
        ("1,0\nX\n", "line 1: '1' stands before any name"),
        ("{", "is no JSON"),
        (CSV.replace("4,5,6", "4,5"), "W_v is no matrix of numbers"),
        (CSV.replace("4,5,6", "4,x,6"), "W_v is no matrix of numbers"),
        (CSV.replace("4,5,6", "4,nan,6"), "W_v has a number that is not finite"),
        (CSV.replace("4,5,6", "4,1e200,6"), "W_v has a number that is not finite or beyond ±1e+09"),
        (CSV + "7,8,9\n", "X has 2 columns, so W_q, W_k and W_v must have 2 rows"),
        (CSV.replace("2,0\n0,2\nW_v", "2\n0\nW_v"), "W_q and W_k must have as many columns"),
        (CSV.replace("a,b", "a,b,c"), "3 words for 2 rows of X"),
        ('{"X": 3, "W_q": [[1]], "W_k": [[1]], "W_v": [[1]]}', "X is no matrix of numbers"),
        ('{"X": [[1%s]], "W_q": [[1]], "W_k": [[1]], "W_v": [[1]]}' % ("0" * 400), "X is no matrix of numbers"),
        ("[1, 2]", "holds a JSON list and no names"),
        ("[" * 100_000, "cannot be read"),
        ('{"X": [[1]], "W_q": [[1]], "W_k": [[1]], "W_v": [[1]], "W_o": [[1]]}', "W_o is not known"),
        ("X\n" + "1\n" * 33 + "W_q\n1\nW_k\n1\nW_v\n1\n", r"X has shape (33, 1)"),
    ],
)
def test_file_that_does_not_fit_is_refused_by_name(text, says):
    with pytest.raises(DataError) as error:
        parse_matrices(text, "m.csv")
    assert says in str(error.value)
    assert "m.csv" in str(error.value)


def test_format_is_told_where_something_is_missing():
    with pytest.raises(DataError, match="CSV: a line with a name"):
        parse_matrices("words\na\n", "m.csv")
    assert FORMAT.startswith("JSON")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_lines_show_every_number(language):
    matrices = example()
    shown = "\n".join(hand_lines(attend_by_hand(matrices, causal=True), matrices.words, language, 2.0))
    for line in ("    love         2      1      0      3", "    you          2      1      1      2"):
        assert line in shown
    assert "    love         ■      ■      ·" in shown
    assert "v = X W_v" in shown


def test_numbers_are_written_as_one_would():
    assert [number(value) for value in (2.0, 2.5, -1.0, 1 / 3)] == ["2", "2.50", "-1", "0.33"]
