"""What a head does, measured: how much of its attention goes where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glassformer.core.tape import Tape
from glassformer.models.inference import inference
from glassformer.models.transformer import Transformer

ROLES = ("previous", "next", "itself", "diagonal", "first", "last", "same", "induction")
"""Where attention may go; the role of a head is the one with the largest share."""

SURE = 0.5
"""Share of its attention that a head gives to what it is then called after."""

BROAD = 0.9
"""Normalised entropy from which on a head without a role is called "broad"; below, "mixed"."""

CHUNK_NUMBERS = 2**21
"""Squares of a head that are looked at together."""

REPEATED = 24
"""Tokens of the random sequence that is read twice to find induction where the text repeats nothing."""


@dataclass(frozen=True)
class HeadRole:
    """What one head's attention says of it.

    Attributes:
        shares: By the words of `ROLES`: the mean, over the queries it makes sense for, of the attention that goes
            there, from 0 to 1; a word is left out where it makes sense for no query.
        distance: Mean distance from a query to what it looks at, in tokens; None in cross-attention.
        entropy: Mean entropy of a row, in nats.
        spread: Mean of the entropy in shares of the largest possible, ln(visible keys); rows with one key left out.
    """

    shares: Mapping[str, float]
    distance: float | None
    entropy: float
    spread: float

    @property
    def role(self) -> str:
        """A word of `ROLES` if more than `SURE` of the attention goes there; else "broad" or "mixed"."""
        best = max(self.shares, key=lambda name: self.shares[name], default=None)
        if best is not None and self.shares[best] >= SURE:
            return best
        return "broad" if self.spread >= BROAD else "mixed"


def head_roles(
    weights: Float[Tensor, "head query key"],
    rows: Sequence[int],
    columns: Sequence[int],
    *,
    causal: bool = False,
    cross: bool = False,
) -> list[HeadRole]:
    """Return what each head's attention goes to.

    Query t at token x_t, key s at token y_s; of self-attention y = x. The share is the mean over t of

        previous   w[t, t-1]            next      w[t, t+1]             itself   w[t, t]
        first      w[t, 0], t > 0       last      w[t, S-1]             diagonal w[t, s] with s/(S-1) next to t/(T-1)
        same       w over s != t with y_s = x_t                 (queries that have such a key)
        induction  w over s < t with y_{s-1} = x_t              (queries whose token was there before)

    Args:
        weights: Rows that sum to 1, or to 0 where a query sees nothing. *Shape:* (heads, T, S).
        rows: Ids of the queries' tokens; in cross-attention of what is written. *Shape:* (T).
        columns: Ids of the keys' tokens. *Shape:* (S).
        causal: Whether a query sees only what stands before it: "next" and "last" make no sense then.
        cross: Whether the keys are another sequence's: only "first", "last", "diagonal" and "same" make sense then.
    """
    weights, T, S = weights.float(), weights.shape[1], weights.shape[2]
    asking, asked = torch.tensor(list(rows)), torch.tensor(list(columns))
    found: dict[str, Tensor] = {}
    queries: dict[str, int] = {}
    far = weights.new_zeros(len(weights))
    step = max(1, CHUNK_NUMBERS // S)
    for first in range(0, T, step):  # places are as large as a head's weights, and there are many of them
        some = slice(first, min(first + step, T))
        part = weights[:, some]
        for name, where in _places(asking, asked, some, causal=causal, cross=cross).items():
            found[name] = found.get(name, 0.0) + torch.einsum("hts,ts->h", part, where.float())
            queries[name] = queries.get(name, 0) + int(where.any(-1).sum())
        if not cross:
            apart = (torch.arange(T)[some].unsqueeze(1) - torch.arange(S)).abs().float()
            far = far + torch.einsum("hts,ts->h", part, apart)
    shares = {name: (found[name] / number).tolist() for name, number in queries.items() if number}
    entropy, spread = (each.tolist() for each in entropies(weights))
    return [
        HeadRole(
            {name: share[head] for name, share in shares.items()},
            None if cross else float(far[head]) / T,
            entropy[head],
            spread[head],
        )
        for head in range(len(weights))
    ]


def entropies(weights: Float[Tensor, "head query key"]) -> tuple[Float[Tensor, " head"], Float[Tensor, " head"]]:
    """Return each head's mean entropy in nats, and its mean in shares of the largest possible.

    H(w_t) = - sum over s of w[t, s] ln w[t, s]; the largest possible is ln of the number of keys with any weight.

    Args:
        weights: *Shape:* (heads, T, S).
    """
    rows = torch.stack([torch.special.entr(head).sum(-1) for head in weights])  # (heads, T)
    visible = (weights.amax(0) > 0).sum(-1)  # (T): what any head sees
    counted = visible > 0
    entropy = rows[:, counted].mean(-1) if bool(counted.any()) else rows.new_zeros(len(rows))
    several = visible > 1
    if not bool(several.any()):
        return entropy, torch.zeros_like(entropy)
    return entropy, (rows[:, several] / visible[several].float().log()).mean(-1)


def induction_on_random(model: Transformer, begin: Sequence[int] = (), seed: int = 0) -> dict[str, list[float]]:
    """Return, of each head of a causal model, the share that goes to what followed the last time.

    The model reads `begin` and a random sequence twice. In the second half there is one place where a head can read
    what comes next: behind the current token's first occurrence.

    Args:
        model: A decoder-only model, in any mode; it is left in it.
        begin: What stands before every text.
        seed: Of the random tokens.

    Returns:
        By site of the attention weights, one number for each head; empty where the context is too short to repeat.
    """
    stack = model.output_stack
    limit = model.max_positions
    half = REPEATED if limit is None else min(REPEATED, (limit - len(begin)) // 2)
    half = min(half, stack.config.input.vocab_size)
    if half < 2 or not stack.config.causal:
        return {}
    drawn = torch.randperm(stack.config.input.vocab_size, generator=torch.Generator().manual_seed(seed))[:half].tolist()
    tokens = [*begin, *drawn, *drawn]
    tape = Tape(model, f"{stack.site}.blocks.*.attention.weights")
    with inference(model.modules()):
        model(torch.tensor([tokens], device=model.device), outputs="hidden", tape=tape)
    queries = torch.arange(len(begin) + half, len(tokens))
    return {site: tape[site][0].float()[:, queries, queries - half + 1].mean(-1).tolist() for site in tape}


def _places(
    rows: Tensor, columns: Tensor, some: slice, *, causal: bool, cross: bool
) -> dict[str, Bool[Tensor, "query key"]]:
    """Where each role's attention would go, of some queries."""
    T, S = len(rows), len(columns)
    t, s = torch.arange(T)[some].unsqueeze(1), torch.arange(S)
    alike = rows[some].unsqueeze(1) == columns
    if cross:
        places = {"first": (s == 0).expand_as(alike), "last": (s == S - 1).expand_as(alike), "same": alike}
        along = (t * (S - 1) / max(T - 1, 1)).round() == s
        return places | ({"diagonal": along} if T > 1 and S > 1 else {})
    before = torch.zeros_like(alike)
    before[:, 1:] = alike[:, :-1]  # the token before the key is the query's
    places = {
        "previous": s == t - 1,
        "itself": s == t,
        "first": (s == 0) & (t > 1),  # to the second token, the first one is also the previous one
        "same": alike & ((s < t) if causal else (s != t)),
        "induction": before & (s < t),
    }
    if not causal:
        places |= {"next": s == t + 1, "last": (s == S - 1) & (t < S - 2)}
    return places
