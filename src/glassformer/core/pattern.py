"""Which blocks of keys the queries of a block may see: sparse attention that skips the rest."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor

PRIMES = (2_654_435_761, 40_503, 2_246_822_519)
"""Odd numbers that mix the bits of a block's index, a draw's and the seed."""


@dataclass(frozen=True)
class Blocks:
    """A rule over blocks of positions: a query sees a key iff one of these lets their blocks see each other.

        near:    |i - j| <= near                                 (a window, Longformer and BigBird)
        first:   i < first or j < first                          (global tokens: all see them, they see all)
        every:   j mod every = every - 1                         (strided, Sparse Transformer)
        random:  j is one of `random` blocks drawn for i, or i one of those drawn for j     (BigBird)

    with i = floor(query position / size) and j = floor(key position / size). It compares positions, so it is right for
    cached, padded and packed rows; a block of `size` positions is what a kernel can skip.

    Attributes:
        size: Positions of a block.
        near: Blocks to either side that stay visible, besides a query's own.
        first: Blocks at the beginning of a segment that all see and that see all.
        every: Each how-many-th block all see; None = none.
        random: Blocks drawn for each block, among those before it and itself.
        seed: Of the drawing.

    Source: Child et al. 2019, arXiv:1904.10509, section 4.2; Beltagy et al. 2020, arXiv:2004.05150, section 3; Zaheer
    et al. 2020, arXiv:2007.14062, section 2.
    """

    size: int = 64
    near: int = 1
    first: int = 0
    every: int | None = None
    random: int = 0
    seed: int = 0

    def sees(
        self, queries: Int[Tensor, "#batch #query #key"], keys: Int[Tensor, "#batch #query #key"]
    ) -> Bool[Tensor, "#batch #query #key"]:
        """Return whether blocks of queries see blocks of keys.

        Args:
            queries: Indices of blocks of queries, broadcast against `keys`.
            keys: Indices of blocks of keys.
        """
        seen = (queries - keys).abs() <= self.near
        if self.first:
            seen = seen | (keys < self.first) | (queries < self.first)
        if self.every is not None:
            seen = seen | (keys % self.every == self.every - 1)
        for draw in range(self.random):
            seen = seen | (keys == self.drawn(queries, draw)) | (queries == self.drawn(keys, draw))
        return seen

    def drawn(self, blocks: Int[Tensor, "*shape"], draw: int) -> Int[Tensor, "*shape"]:
        """Return which block was drawn for each block: one of those before it, or itself; the same at every length."""
        a, b, c = PRIMES
        mixed = (blocks + 1) * a + ((draw + 1) * b + (self.seed + 1) * c) % 2**32
        mixed = (mixed ^ (mixed >> 15)) * b & 0x7FFFFFFF
        return (mixed ^ (mixed >> 13)) % (blocks + 1)
