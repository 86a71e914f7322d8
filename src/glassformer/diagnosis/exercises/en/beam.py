"""Rung 10: beam search."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


def beam_search(
    next_log_probs: Callable[[list[list[int]]], Tensor],
    begin: int,
    end: int,
    width: int,
    max_new: int,
    length_penalty: float = 0.0,
) -> list[tuple[list[int], float]]:
    """Return the best texts as (tokens, score), the best first.

    next_log_probs takes prefixes, each with the begin token, and returns the log-probabilities of what may follow,
    (N, V). A score is the sum of the log-probabilities of all tokens after the begin token, the end token included,
    divided by n ** length_penalty for n tokens.

    At each step, all live prefixes are extended by every token and the `width` best go on. What ends is kept aside
    and extended no further; at most max_new tokens are written. A width of 1 is greedy.
    """
    raise NotImplementedError
