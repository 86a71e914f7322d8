"""From scores to a token: what changes the scores, in this order, and the draw.

    model -> penalise -> forbid -> temper -> keep_top_k -> keep_top_p -> pick

The penalty belongs to the scores as the model gave them. What is forbidden goes before the filters, so that
they fill up with what is left. The temperature comes before top-p, which looks at probabilities; top-k does
not mind. Each function leaves the tensor it is given as it is. A score of -inf is a probability of 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.core.errors import DataError

ROUNDING = 1e-6
"""Probabilities this close to top-p have reached it: float32 sums of 0.5 and 0.25 may miss 0.75 by less."""


def log_probabilities(logits: Float[Tensor, "*batch vocab"]) -> Float[Tensor, "*batch vocab"]:
    """Return log softmax(logits), in float32 at least. *Shape:* (..., V)."""
    return torch.log_softmax(logits, dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def require_numbers(logits: Float[Tensor, "batch vocab"], step: int, rows: Sequence[int]) -> None:
    """Refuse scores that no distribution can be made of.

    Args:
        logits: As the model gave them. *Shape:* (B, V).
        step: Number of the step, from 1, for the message.
        rows: Each row's number in the list of prompts, for the message.

    Raises:
        DataError: A score is NaN or +inf.
    """
    largest = logits.amax(-1)  # (B,); NaN where one is
    if not bool((largest < torch.inf).all()):
        row, token = (logits.isnan() | (logits == torch.inf)).nonzero()[0].tolist()
        raise DataError(
            f"step {step}, row {rows[row]}: the score of token {token} is {float(logits[row, token])}, so "
            "nothing can be chosen; the weights are damaged or the precision is too low: load another "
            "checkpoint or use float32"
        )


def require_choice(logits: Float[Tensor, "batch vocab"], step: int, rows: Sequence[int]) -> None:
    """Refuse a row in which every token is forbidden.

    Args:
        logits: After `forbid`. *Shape:* (B, V).
        step: Number of the step, from 1, for the message.
        rows: Each row's number in the list of prompts, for the message.

    Raises:
        DataError: A row has no token left.
    """
    none_left = logits.amax(-1) == -torch.inf
    if bool(none_left.any()):
        row = rows[int(none_left.nonzero()[0])]
        raise DataError(
            f"step {step}, row {row}: all {logits.shape[1]} tokens are forbidden, so nothing can be chosen; "
            "lower min_new_tokens or forbid fewer tokens"
        )


def penalise(
    logits: Float[Tensor, "batch vocab"], seen: Sequence[Sequence[int]], penalty: float
) -> Float[Tensor, "batch vocab"]:
    """Make tokens that a row has already less probable.

    l_v = l_v / penalty if l_v > 0 else l_v penalty, for every v in `seen`.

    How often and how long ago a token was seen does not count.

    Args:
        logits: *Shape:* (B, V).
        seen: Each row's tokens so far, prompt and generated.
        penalty: Above 0; above 1 fewer repetitions, below 1 more, 1 = no change.

    Source: Keskar et al. 2019, arXiv:1909.05858, section 4.1. Deviation: the equation there always divides,
    which would reward a token with a negative score; here it is multiplied.
    """
    if penalty == 1.0:
        return logits
    changed = logits.clone()
    for row, tokens in enumerate(seen):
        ids = torch.tensor(sorted(set(tokens)), dtype=torch.long, device=logits.device)
        scores = logits[row, ids]
        changed[row, ids] = torch.where(scores > 0, scores / penalty, scores * penalty)
    return changed


def forbid(
    logits: Float[Tensor, "batch vocab"], *, vocab_size: int, tokens: Sequence[int] = ()
) -> Float[Tensor, "batch vocab"]:
    """Make tokens impossible.

    l_v = -inf for every v >= vocab_size and every v in `tokens`.

    A model's table may have more rows than its tokenizer has tokens (rounded up for speed): ids that mean
    nothing.

    Args:
        logits: *Shape:* (B, V).
        vocab_size: Number of ids that mean something.
        tokens: Further ids, such as the end token's before its time.
    """
    if vocab_size >= logits.shape[1] and not tokens:
        return logits
    logits = logits.clone()
    logits[:, vocab_size:] = -torch.inf
    logits[:, list(tokens)] = -torch.inf
    return logits


def temper(logits: Float[Tensor, "batch vocab"], temperature: float) -> Float[Tensor, "batch vocab"]:
    """Sharpen or flatten the distribution.

    l_v = (l_v - max l) / T.

    T < 1 favours the probable tokens, T > 1 the others; T -> 0 leaves the top token only.

    Args:
        logits: *Shape:* (B, V).
        temperature: T, above 0. The maximum is taken off first, so that no T makes a score overflow.
    """
    smallest = torch.finfo(torch.float32).tiny
    return (logits - logits.amax(-1, keepdim=True)) / max(temperature, smallest)


def keep_top_k(logits: Float[Tensor, "batch vocab"], k: int | None) -> Float[Tensor, "batch vocab"]:
    """Make all but the k most probable tokens impossible.

    Args:
        logits: *Shape:* (B, V).
        k: How many stay, among equals any; 0, None, or more than there are = all.

    Source: Fan et al. 2018, arXiv:1805.04833.
    """
    if not k or k >= logits.shape[1]:
        return logits
    values, ids = logits.topk(k)
    return torch.full_like(logits, -torch.inf).scatter(1, ids, values)


def keep_top_p(logits: Float[Tensor, "batch vocab"], p: float | None) -> Float[Tensor, "batch vocab"]:
    """Make all tokens impossible but the nucleus: the fewest most probable ones that sum to p or more.

    In falling order, token i stays iff p_1 + ... + p_{i-1} < p. The first one always stays.

    Args:
        logits: *Shape:* (B, V).
        p: From 0 (the top token only) to 1; 1 or None = all stay.

    Source: Holtzman et al. 2019, arXiv:1904.09751, section 3.1.
    """
    if p is None or p == 1.0:
        return logits
    ordered, ids = logits.sort(dim=-1, descending=True, stable=True)
    probabilities = ordered.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    beyond = before >= p - ROUNDING
    beyond[:, 0] = False
    return torch.full_like(logits, -torch.inf).scatter(1, ids, ordered.masked_fill(beyond, -torch.inf))


def pick(logits: Float[Tensor, "batch vocab"], draws: Float[Tensor, " batch"] | None = None) -> Int[Tensor, " batch"]:
    """Return one token a row: the most probable one, or a drawn one.

    token = the first v with p_0 + ... + p_v > u (p_0 + ... + p_{V-1}), for a draw u uniform in [0, 1).

    One number a row and step, drawn outside, decides: so a row's choices depend on its own source of
    randomness and on nothing else, on any device. A token of probability 0 is never the first to satisfy the
    inequality.

    Args:
        logits: At least one finite score a row. *Shape:* (B, V).
        draws: u, in [0, 1); None = greedy. *Shape:* (B,).

    Returns:
        Token ids. *Shape:* (B,).
    """
    if draws is None:
        return logits.argmax(-1)
    probabilities = logits.softmax(-1)
    reached = probabilities.cumsum(-1)  # (B, V)
    threshold = draws.to(reached).unsqueeze(1) * reached[:, -1:]
    # Asked for in words: a sum that is taken in parallel may round downwards where nothing is added.
    found = (reached > threshold) & (probabilities > 0)
    return torch.where(found.any(-1), found.int().argmax(-1), probabilities.argmax(-1))
