from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from glassformer.core.errors import DataError
from glassformer.generation.sampling import (
    forbid,
    keep_top_k,
    keep_top_p,
    log_probabilities,
    penalise,
    pick,
    require_choice,
    require_numbers,
    temper,
)


def kept(logits: Tensor) -> list[set[int]]:
    return [set(row.isfinite().nonzero().flatten().tolist()) for row in logits]


def logs(*probabilities: float) -> Tensor:
    return torch.tensor([probabilities]).log()


def test_o16_greedy_and_its_limit_agree() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0]])
    assert pick(logits).tolist() == [1]
    for temperature in (1e-8, 1e-30, 1e-300):
        for draw in (0.0, 0.5, 1 - 2**-24):
            assert pick(temper(logits, temperature), torch.tensor([draw])).tolist() == [1]


def test_temper_never_overflows() -> None:
    tempered = temper(torch.tensor([[3e38, -3e38, 0.0]]), 1e-8).softmax(-1)
    assert tempered.tolist() == [[1.0, 0.0, 0.0]]


def test_temper_by_hand() -> None:
    # (0, log 2) / 0.5 = (0, log 4), so 1/5 and 4/5.
    probabilities = temper(torch.tensor([[0.0, math.log(2)]]), 0.5).softmax(-1)
    torch.testing.assert_close(probabilities, torch.tensor([[0.2, 0.8]]))


def test_o16_top_k() -> None:
    logits = torch.tensor([[1.0, 5.0, 3.0, 4.0, 2.0]])
    for k in (None, 0, 5, 100):
        assert keep_top_k(logits, k) is logits
    assert kept(keep_top_k(logits, 2)) == [{1, 3}]
    assert len(kept(keep_top_k(torch.zeros(1, 5), 2))[0]) == 2  # among equals still exactly k


def test_o16_top_p_boundary_is_exact() -> None:
    assert kept(keep_top_p(logs(0.125, 0.5, 0.25, 0.125), 0.75)) == [{1, 2}]
    assert kept(keep_top_p(logs(0.125, 0.5, 0.25, 0.125).double(), 0.75)) == [{1, 2}]
    assert kept(keep_top_p(logs(1.0, 0.0, 0.0), 0.1)) == [{0}]
    assert kept(keep_top_p(logs(0.125, 0.5, 0.25, 0.125), 0.0)) == [{1}]
    logits = logs(0.125, 0.5, 0.25, 0.125)
    assert keep_top_p(logits, 1.0) is logits
    assert keep_top_p(logits, None) is logits


def test_top_p_boundary_survives_rounding() -> None:
    # 0.6 + 0.3 is just below 0.9 in float32, so a third token would slip in.
    assert kept(keep_top_p(logs(0.6, 0.3, 0.05, 0.05), 0.9)) == [{0, 1}]
    assert kept(keep_top_p(logs(0.3, 0.25, 0.25, 0.2), 0.8)) == [{0, 1, 2}]
    assert len(kept(keep_top_p(logs(*[0.1] * 10), 0.3))[0]) == 3


def test_top_p_is_for_each_row() -> None:
    rows = torch.cat([logs(0.9, 0.05, 0.05), logs(0.3, 0.3, 0.4)])
    assert kept(keep_top_p(rows, 0.6)) == [{0}, {0, 2}]


def test_penalise_by_hand() -> None:
    logits = torch.tensor([[2.0, -2.0, 4.0, 0.0], [2.0, -2.0, 4.0, 0.0]])
    changed = penalise(logits, [[0, 1, 0], [2]], 2.0)
    assert changed.tolist() == [[1.0, -4.0, 4.0, 0.0], [2.0, -2.0, 2.0, 0.0]]
    assert logits[0, 0] == 2.0  # the given scores stay
    assert penalise(logits, [[0], [1]], 1.0) is logits
    assert penalise(logits, [[], []], 2.0).equal(logits)


def test_forbid_hides_padded_rows_and_tokens() -> None:
    logits = torch.zeros(2, 5)
    assert kept(forbid(logits, vocab_size=4, tokens=[2])) == [{0, 1, 3}] * 2
    assert kept(logits) == [{0, 1, 2, 3, 4}] * 2


def test_o16_all_forbidden_names_the_step() -> None:
    logits = forbid(torch.zeros(2, 3), vocab_size=3, tokens=[0, 1, 2])
    with pytest.raises(DataError, match=r"step 4, row 7: all 3 tokens are forbidden"):
        require_choice(logits, 4, [7, 9])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_o16_no_number_names_step_row_and_token(bad: float) -> None:
    logits = torch.zeros(2, 3)
    require_numbers(logits, 1, [0, 1])
    logits[1, 2] = bad
    with pytest.raises(DataError, match=rf"step 4, row 9: the score of token 2 is {bad}"):
        require_numbers(logits, 4, [7, 9])


def test_pick_draws_from_the_distribution() -> None:
    probabilities = torch.tensor([0.1, 0.0, 0.6, 0.3])
    draws = torch.arange(0, 1, 0.001)
    chosen = pick(probabilities.log().expand(len(draws), -1), draws)
    share = chosen.bincount(minlength=4) / len(draws)
    torch.testing.assert_close(share, probabilities, atol=2e-3, rtol=0)


def test_pick_never_takes_what_has_no_probability() -> None:
    logits = torch.full((2, 1000), -torch.inf)
    logits[:, 100:900] = torch.randn(800, generator=torch.Generator().manual_seed(0))
    for draw in (0.0, 1 - 2**-24):
        assert all(100 <= token < 900 for token in pick(logits, torch.tensor([draw, draw])).tolist())


def test_filtered_scores_sum_to_one() -> None:
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(0))
    scores = keep_top_p(keep_top_k(temper(logits, 0.7), 10), 0.9)
    torch.testing.assert_close(scores.softmax(-1).sum(-1), torch.ones(3))


def test_log_probabilities_are_float32_at_least() -> None:
    assert log_probabilities(torch.zeros(1, 4, dtype=torch.bfloat16)).dtype == torch.float32
    assert log_probabilities(torch.zeros(1, 4, dtype=torch.float64)).dtype == torch.float64


def test_pick_never_takes_a_forbidden_token_even_if_the_draw_rounds_to_the_whole() -> None:
    """u = 1 is no draw, but it stands for one that rounding has brought there."""
    logits = torch.tensor([[-torch.inf, 0.0, 1.0, -torch.inf]])
    assert pick(logits, torch.tensor([1.0])).tolist() == [2]
