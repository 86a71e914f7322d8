"""Two texts that differ in a few tokens: the heads that notice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.core.errors import DataError

MOST_ROWS = 3
"""Tokens that are looked at where nobody named one."""


@dataclass(frozen=True)
class Move:
    """How one head's attention from one token differs between two texts.

    Attributes:
        site: Of the weights.
        head: Its number, from 0.
        rows: The token's position in each text.
        change: Half the sum of |difference| over the tokens that both texts have, 0..1. What goes to the others is not
            counted: a head that looks at the word that differs need not have noticed anything else.
        leaves: Position, in each text, of the token that both have and that loses most; None = none loses.
        gains: The same, of the one that gains most.
        left: Weight of `leaves` in the first and in the second text.
        gained: The same, of `gains`.
    """

    site: str
    head: int
    rows: tuple[int, int]
    change: float
    leaves: tuple[int, int] | None
    gains: tuple[int, int] | None
    left: tuple[float, float]
    gained: tuple[float, float]

    @property
    def turns(self) -> bool:
        """Whether it looks more at `leaves` than at `gains` in the first text, and less in the second."""
        if self.leaves is None or self.gains is None:
            return False
        return self.left[0] > self.gained[0] and self.gained[1] > self.left[1]

    @property
    def moved(self) -> float:
        """What surely went from `leaves` to `gains`: the smaller of the loss and the gain."""
        return max(0.0, min(self.left[0] - self.left[1], self.gained[1] - self.gained[0]))


@dataclass(frozen=True, eq=False)
class Contrast:
    """Where two texts make heads look elsewhere.

    Attributes:
        rows: The tokens whose attention was compared: their positions in each text.
        named: Whether the user named them; else they are those whose attention changes most.
        moves: Of every head and row, the largest change first.
    """

    rows: tuple[tuple[int, int], ...]
    named: bool
    moves: tuple[Move, ...]

    @property
    def turning(self) -> tuple[Move, ...]:
        """The heads that turn from one token to another, those that move most first."""
        return tuple(sorted((move for move in self.moves if move.turns), key=lambda move: -move.moved))


def contrast(
    first: dict[str, Float[Tensor, "head query key"]],
    second: dict[str, Float[Tensor, "head query key"]],
    tokens: tuple[Sequence[int], Sequence[int]],
    *,
    rows: Sequence[tuple[int, int]] = (),
    skipped: Sequence[int] = (),
    most_rows: int = MOST_ROWS,
) -> Contrast:
    """Rank heads by how differently they look from the same token in two texts.

    Args:
        first: Weights of one text, of one stack's self-attention, by site.
        second: Of the other.
        tokens: The ids of both.
        rows: Positions of a token in both; empty = the tokens whose attention changes most.
        skipped: Ids, as those of begin and end, that `leaves` and `gains` are not to be.
        most_rows: Tokens to choose where none is named.

    Raises:
        DataError: The texts are the same, or have no token in common.
    """
    if list(tokens[0]) == list(tokens[1]):
        raise DataError("the two texts are the same tokens; give one that differs")
    pairs = shared_positions(*tokens)
    if not pairs:
        raise DataError("the two texts have no token in common, so that no token can be looked at in both")
    mine, other = (torch.tensor(positions) for positions in zip(*pairs, strict=True))
    if not rows:
        # Where the change is felt: special tokens, which no one asks about, only if there is nothing else.
        wanted = [pair for pair in pairs if tokens[0][pair[0]] not in skipped] or pairs
        totals = dict.fromkeys(wanted, 0.0)
        for site in first:
            for pair in wanted:
                totals[pair] += float(_changes(first[site], second[site], pair, mine, other).sum())
        rows = sorted(wanted, key=lambda pair: -totals[pair])[:most_rows]
        named = False
    else:
        named = True
    content = [(a, b) for a, b in pairs if tokens[0][a] not in skipped]
    moves = [
        move
        for site in first
        for pair in rows
        for move in _moves(site, first[site], second[site], pair, pairs, content)
    ]
    return Contrast(tuple(rows), named, tuple(sorted(moves, key=lambda move: -move.change)))


def shared_positions(first: Sequence[int], second: Sequence[int]) -> list[tuple[int, int]]:
    """Return the positions of the tokens that two texts share, in order."""
    blocks = SequenceMatcher(None, list(first), list(second), autojunk=False).get_matching_blocks()
    return [(block.a + i, block.b + i) for block in blocks for i in range(block.size)]


def _changes(first: Tensor, second: Tensor, pair: tuple[int, int], mine: Tensor, other: Tensor) -> Tensor:
    """Half of the sum of |difference| of each head's row, over the tokens that both texts have."""
    return (first[:, pair[0], mine] - second[:, pair[1], other]).abs().sum(-1) / 2


def _moves(
    site: str,
    first: Tensor,
    second: Tensor,
    pair: tuple[int, int],
    pairs: Sequence[tuple[int, int]],
    content: Sequence[tuple[int, int]],
) -> list[Move]:
    mine, other = (torch.tensor(positions) for positions in zip(*pairs, strict=True))
    changes = _changes(first, second, pair, mine, other)
    found = []
    for head, change in enumerate(changes.tolist()):
        a, b = first[head, pair[0]].tolist(), second[head, pair[1]].tolist()
        by_gain = sorted(content, key=lambda each: b[each[1]] - a[each[0]])
        leaves = by_gain[0] if by_gain and b[by_gain[0][1]] < a[by_gain[0][0]] else None
        gains = by_gain[-1] if by_gain and b[by_gain[-1][1]] > a[by_gain[-1][0]] else None
        left = (0.0, 0.0) if leaves is None else (a[leaves[0]], b[leaves[1]])
        gained = (0.0, 0.0) if gains is None else (a[gains[0]], b[gains[1]])
        found.append(Move(site, head, pair, change, leaves, gains, left, gained))
    return found
