"""One of several texts that a search came up with, and how it is judged."""

from __future__ import annotations

from dataclasses import dataclass

from glassformer.generation.stopping import StopReason


@dataclass(frozen=True)
class Hypothesis:
    """A text that a beam search found.

    Attributes:
        text: Without the prompt and special tokens.
        tokens: All new ids, also the end token.
        logprob: Log-probability of the tokens together, in nats, as the model gave it.
        score: What hypotheses are compared by; see `normalised`.
        stop_reason: Why it ended: "eos", or unfinished: "length" or "context".
    """

    text: str
    tokens: tuple[int, ...]
    logprob: float
    score: float
    stop_reason: StopReason


def normalised(logprob: float, length: int, alpha: float) -> float:
    """Return a log-probability that does not fall just because a text is long.

    score = log P / n^alpha.

    log P is a sum of numbers below 0, so alpha = 0 favours short texts and alpha = 1 compares means. It is also the
    bound of a search: log P never rises, so of all that goes on from a prefix nothing scores higher than
    normalised(log P of the prefix, largest possible n).

    Args:
        logprob: log P, 0 or below, in nats.
        length: n, in tokens, the end token included.
        alpha: 0 or above.

    Source: Wu et al. 2016, arXiv:1609.08144, section 7. Deviation: n^alpha, where the equation there has
    ((5 + n) / 6)^alpha; so alpha = 1 is the mean.
    """
    return logprob / length**alpha if length else logprob
