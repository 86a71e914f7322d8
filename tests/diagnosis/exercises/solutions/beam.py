"""Rung 10."""

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
    live = [([begin], 0.0)]
    done: list[tuple[list[int], float]] = []
    for _ in range(max_new):
        rows = next_log_probs([tokens for tokens, _ in live]).tolist()
        found = [
            ([*tokens, token], total + logprob)
            for (tokens, total), row in zip(live, rows, strict=True)
            for token, logprob in enumerate(row)
            if logprob > float("-inf")
        ]
        best = sorted(found, key=lambda each: -each[1])[:width]
        done += [each for each in best if each[0][-1] == end]
        live = [each for each in best if each[0][-1] != end]
        if not live:
            break
    texts = [(tokens[1:], total / (len(tokens) - 1) ** length_penalty) for tokens, total in done + live]
    return sorted(texts, key=lambda each: -each[1])[:width]
