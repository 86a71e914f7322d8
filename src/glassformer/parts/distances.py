"""What a query says of a distance, and what it takes from one: relative positions inside attention."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.core.call import Sight
from glassformer.parts.part import Matrix, Part


class Distances(Part):
    """A learned key and a learned value for each clipped distance, the same for all heads of a layer.

    score[t, s] += scale q_t a_d,   out_t += sum_s weights[t, s] b_d,   with d = clip(position_s - position_t, -c, c)

    Args:
        max_distance: c; all distances beyond are one.
        d_head: Width of a head, E.

    Source: Shaw et al. 2018, arXiv:1803.02155, equations 3 to 5.
    """

    notes = {"scores": "B H T S", "values": "B H T E"}  # noqa: RUF012 - shown by the attention that they belong to

    def __init__(self, max_distance: int, d_head: int) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.key = nn.Parameter(torch.empty(2 * max_distance + 1, d_head))
        self.value = nn.Parameter(torch.empty(2 * max_distance + 1, d_head))

    def matrices(self) -> Iterator[Matrix]:
        """Yield both tables."""
        yield Matrix("key", self.key, "embedding")
        yield Matrix("value", self.value, "embedding")

    def scores(
        self, q: Float[Tensor, "batch head query d_head"], sight: Sight, scale: float
    ) -> Float[Tensor, "batch head query key"]:
        """Return what is added to the scores, in float32 at least. *Shape:* (B, H, T, S)."""
        exact = torch.promote_types(q.dtype, torch.float32)
        each = (q.to(exact) * scale) @ self.key.to(exact).t()  # (B, H, T, 2c + 1)
        index = self._index(sight).unsqueeze(1).expand(*q.shape[:3], -1)
        return each.gather(-1, index)

    def values(
        self, weights: Float[Tensor, "batch head query key"], sight: Sight
    ) -> Float[Tensor, "batch head query d_head"]:
        """Return what is added to the output. *Shape:* (B, H, T, E)."""
        index = self._index(sight).unsqueeze(1).expand(weights.shape)
        each = weights.new_zeros(*weights.shape[:3], len(self.value)).scatter_add(-1, index, weights)
        return each @ self.value.to(weights.dtype)

    def _index(self, sight: Sight) -> Int[Tensor, "#batch query key"]:
        distance = sight.keys.position.unsqueeze(-2) - sight.queries.position.unsqueeze(-1)
        return distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
