"""An alarm for layers whose residual stream keeps growing."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import pairwise


class GrowthWatch:
    """Warns once, before the NaN, when a layer's norm keeps growing.

    It is fed the root mean square of the residual stream after every block, and speaks when a layer

    - grew from each of the last 5 observations to the next, and by half or more over the five, and
    - is now more than 20 times what it was at first, or 20 if it was below 1 at first.

    Why these numbers. A stream below 1 has not filled up yet: drawn with a standard deviation of 0.02 it
    starts at 0.03 and reaches 1 within the first steps of every healthy run, so growth is counted from 1, the
    size that a norm layer gives out. Pre-norm models of 2 to 6 layers that trained well, with and without
    warm-up, grew to at most 12 times that. Runs with a learning rate that rose until they broke passed 20
    times more than a hundred steps before the loss showed it, and 1,000 times later on. A post-norm stream is
    normed itself, and stays near 1. The half over five observations lets a long run that grows by a percent
    at a time pass.

    Args:
        factor: How many times the first norm is too much.
        rounds: How many observations in a row have to grow.
    """

    def __init__(self, factor: float = 20.0, rounds: int = 5) -> None:
        self.factor = factor
        self.rounds = rounds
        self.warned = False
        self._first: dict[str, float] = {}
        self._recent: dict[str, deque[float]] = {}

    def observe(self, step: int, norms: Mapping[str, float]) -> str | None:
        """Take one more observation; return the warning when it is due, once, and else None.

        Args:
            step: How many updates there have been; observations are best some ten of them apart.
            norms: The norm after each layer, by its site.
        """
        for site, norm in norms.items():
            self._first.setdefault(site, norm)
            self._recent.setdefault(site, deque(maxlen=self.rounds + 1)).append(norm)
        growing = [site for site in norms if self._keeps_growing(site)]
        if self.warned or not growing:
            return None
        self.warned = True
        site = max(growing, key=lambda site: norms[site] / max(self._first[site], 1.0))
        return (
            f"the residual stream after {site} keeps growing: its root mean square was "
            f"{self._first[site]:.3g} at first and is {norms[site]:.3g} at step {step}, after {self.rounds} "
            "rises in a row. This usually ends in NaN: lower the learning rate, warm up longer, or clip "
            "gradients"
        )

    def _keeps_growing(self, site: str) -> bool:
        recent = list(self._recent[site])
        rising = all(later > earlier for earlier, later in pairwise(recent))
        return (
            len(recent) > self.rounds
            and rising
            and recent[-1] >= 1.5 * recent[0]
            and recent[-1] > self.factor * max(self._first[site], 1.0)
        )
