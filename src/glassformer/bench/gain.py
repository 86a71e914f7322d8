"""What an optimisation is: two ways to one result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Gain:
    """One optimisation, on a piece of work that takes a second at most.

    Attributes:
        name: Short.
        changed: What is done differently, in a sentence.
        slow: The work without it.
        fast: The work with it.
        differ: Returns how far the two results are apart, as a share of the larger; 0.0 = bit for bit. Where chance
            makes them differ, it is compared without it, or with the same draws.
        compiles: Whether a graph is made at the first call, which takes a minute.
    """

    name: str
    changed: str
    slow: Callable[[], object]
    fast: Callable[[], object]
    differ: Callable[[], float]
    compiles: bool = False
