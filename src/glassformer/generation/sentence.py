"""One sentence that is being searched for."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from glassformer.core.protocols import Tokenizer
from glassformer.generation.config import BeamConfig
from glassformer.generation.hypothesis import Hypothesis, normalised
from glassformer.generation.stopping import StopReason

Continuation = tuple[float, int, int]
"""Log-probability of a prefix with one more token, the place of the prefix, the token."""


class Prefix(NamedTuple):
    """The beginning of a text.

    Attributes:
        tokens: New ids so far.
        logprob: Their log-probability together, in nats; -inf marks a copy that only fills up a batch.
        parent: Place, one step before, of the prefix that it continues.
    """

    tokens: tuple[int, ...] = ()
    logprob: float = 0.0
    parent: int = 0


class Sentence:
    """The search for one sentence: its live prefixes, its ended ones, and when it is done.

    Args:
        index: Its number in the list of prompts, from 0.
        context: What the model sees before everything new: begin token and prompt.
        config: The search's settings.
        ends: The tokens that end a text.
        max_new: Tokens that a hypothesis may get.
        room: Tokens that fit the model's context behind `context`; None = as many as you like.

    Attributes:
        live: Prefixes that go on, the most probable first, `beam` at most.
        places: The same ones in the order of their rows; where one can, it stays in the row of what it continues.
    """

    def __init__(
        self,
        index: int,
        context: Sequence[int],
        config: BeamConfig,
        *,
        ends: Sequence[int],
        max_new: int,
        room: int | None,
    ) -> None:
        self.index, self.context = index, tuple(context)
        self.limit = max_new if room is None else min(max_new, room)
        """The largest possible number of new tokens."""
        self.live = self.places = [Prefix()]
        self._ended: list[tuple[float, Prefix]] = []
        self._cut: list[Prefix] = []
        self._cut_reason: StopReason = "length" if self.limit == max_new else "context"
        self._config, self._ends = config, frozenset(ends)
        self._cut_at_limit()

    def take(self, continuations: Iterable[Continuation]) -> None:
        """Go on by one token.

        The end token competes like any other: a hypothesis ends where fewer than `beam` continuations that go on are
        better than it. It does not cost one of the `beam` places, so ends cannot crowd out what is live.

        Args:
            continuations: The best ones of all live prefixes together, the best first: enough for `beam` that go
                on beside all that may end, or all there are.
        """
        live: list[Prefix] = []
        for logprob, parent, token in continuations:
            if len(live) == self._config.beam or logprob == -math.inf:
                break
            prefix = Prefix((*self.places[parent].tokens, token), logprob, parent)
            if token in self._ends:
                insort(self._ended, (self._score(prefix), prefix), key=lambda ended: -ended[0])  # of equals the older
            else:
                live.append(prefix)
        self._ended = self._ended[: self._config.n_best]
        self.live, self.places = live, _placed(live)
        self._cut_at_limit()

    @property
    def done(self) -> bool:
        """True once nothing live can become better than the worst ended hypothesis that counts.

        A live prefix with log-probability s reaches at best s / limit^alpha, for what is yet to come adds 0 at most.
        The first end is not enough: with alpha > 0 a longer text may still come out better.
        """
        if not self.live:
            return True
        if len(self._ended) < self._config.n_best:
            return False
        best = normalised(self.live[0].logprob, self.limit, self._config.length_penalty)
        return best <= self._ended[-1][0]

    def rows(self, width: int) -> list[Prefix]:
        """Return the live prefixes by place, and copies that can never be chosen, `width` in all."""
        filling = Prefix(self.live[0].tokens, -math.inf, self.live[0].parent)
        return [*self.places, *[filling] * (width - len(self.places))]

    def results(self, tokenizer: Tokenizer) -> list[Hypothesis]:
        """Return what was found, best first: those that ended, then, if they are too few, those that were cut."""
        found: list[tuple[Prefix, StopReason]] = [(prefix, "eos") for _, prefix in self._ended]
        found += [(prefix, self._cut_reason) for prefix in self._cut]
        return [
            Hypothesis(
                text=tokenizer.decode(prefix.tokens[:-1] if reason == "eos" else prefix.tokens, after=self.context),
                tokens=prefix.tokens,
                logprob=prefix.logprob,
                score=self._score(prefix),
                stop_reason=reason,
            )
            for prefix, reason in found[: self._config.n_best]
        ]

    def _score(self, prefix: Prefix) -> float:
        return normalised(prefix.logprob, len(prefix.tokens), self._config.length_penalty)

    def _cut_at_limit(self) -> None:
        if self.live and len(self.live[0].tokens) == self.limit:
            self._cut, self.live = self.live, []


def _placed(live: Sequence[Prefix]) -> list[Prefix]:
    """Give each prefix the place of its parent, if no better one has it; the others take what is free."""
    places: list[Prefix | None] = [None] * len(live)
    others = []
    for prefix in live:
        if prefix.parent < len(live) and places[prefix.parent] is None:
            places[prefix.parent] = prefix
        else:
            others.append(prefix)
    free = iter(others)
    return [next(free) if prefix is None else prefix for prefix in places]
