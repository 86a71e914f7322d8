"""Positions that are added to the scores: what a query thinks of a key by their distance alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.places import Places
from glassformer.core.position_config import AlibiConfig, PositionBiasConfig, RelativeBiasConfig
from glassformer.parts.part import Matrix, Part


def alibi_slopes(n_heads: int) -> tuple[float, ...]:
    """Return the penalty of one position of distance, for each head.

    For n a power of two: 2^(-8/n), 2^(-16/n) .. 2^-8. For any other n: those of the next lower power of two, p, then
    every second one of 2p, until there are n. Trained models have exactly this order.

    Args:
        n_heads: Number of heads, H.

    Source: Press et al. 2021, arXiv:2108.12409, section 3, and its released code, `get_slopes`.
    """
    power = 2 ** int(math.log2(n_heads))

    def series(n: int) -> list[float]:
        return [2.0 ** (-8.0 * (i + 1) / n) for i in range(n)]

    return (*series(power), *series(2 * power)[0::2][: n_heads - power])


def relative_buckets(
    distance: Int[Tensor, "*shape"], config: RelativeBiasConfig, *, causal: bool
) -> Int[Tensor, "*shape"]:
    """Return the bucket of each distance, key position - query position.

    Near distances have a bucket each, farther ones share buckets whose width grows with the logarithm of the
    distance. A causal stack uses all buckets for keys before the query; else half of them are for keys after it.

    Args:
        distance: Any shape.
        config: Number of buckets, and the distance from which on all is one bucket.
        causal: Whether queries see no key after themselves.

    Source: Raffel et al. 2019, arXiv:1910.10683, section 2.1, and the released code.
    """
    n_buckets = config.n_buckets if causal else config.n_buckets // 2
    after = torch.zeros_like(distance) if causal else (distance > 0) * n_buckets
    far = (-distance).clamp(min=0) if causal else distance.abs()
    exact = n_buckets // 2
    # in float32 whatever the model's type: the borders of the buckets depend on the rounding
    growth = torch.log(far.clamp(min=1).float() / exact) / math.log(config.max_distance / exact)
    shared = (exact + (growth * (n_buckets - exact)).long()).clamp(max=n_buckets - 1)
    return after + torch.where(far < exact, far, shared)


class RelativeBias(Part):
    """One learned number for each head and each bucket of distances, the same in every layer of a stack.

    bias[h, t, s] = weight[bucket(position_s - position_t), h]

    Args:
        config: The buckets.
        n_heads: Number of heads, H.
        causal: Whether the stack is; then no bucket is spent on keys after the query.

    Source: Raffel et al. 2019, arXiv:1910.10683, section 2.1.
    """

    notes = {"bias": "B H T S"}  # noqa: RUF012

    def __init__(self, config: RelativeBiasConfig, n_heads: int, *, causal: bool) -> None:
        super().__init__()
        self.config, self.causal = config, causal
        self.weight = nn.Parameter(torch.empty(config.n_buckets, n_heads))

    def matrices(self) -> Iterator[Matrix]:
        """Yield the table."""
        yield Matrix("weight", self.weight, "embedding")

    def forward(
        self, queries: Places, keys: Places, dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "#batch head query key"]:
        """Return what is added to the scores. *Shape:* (B or 1, H, T, S)."""
        buckets = relative_buckets(_distance(queries, keys), self.config, causal=self.causal)
        return F.embedding(buckets, self.weight).permute(0, 3, 1, 2).to(dtype)


class Alibi(Part):
    """A penalty in proportion to the distance, at a rate of its own for each head.

    bias[h, t, s] = -slope_h |position_t - position_s|

    Nothing is learned, and texts longer than those trained on have nothing new but larger penalties.

    Args:
        n_heads: Number of heads, H.

    Source: Press et al. 2021, arXiv:2108.12409, section 3; in a stack that is not causal the distance counts to both
    sides, which the paper leaves open.
    """

    notes = {"bias": "B H T S"}  # noqa: RUF012

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.slopes = alibi_slopes(n_heads)

    def forward(
        self, queries: Places, keys: Places, dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "#batch head query key"]:
        """Return what is added to the scores. *Shape:* (B or 1, H, T, S)."""
        distance = _distance(queries, keys).abs().unsqueeze(1)  # (B, 1, T, S)
        slopes = torch.tensor(self.slopes, device=distance.device, dtype=torch.promote_types(dtype, torch.float32))
        return -(slopes[:, None, None] * distance).to(dtype)


def build_position_bias(config: PositionBiasConfig, n_heads: int, *, causal: bool) -> RelativeBias | Alibi:
    """Return the position bias that a config describes."""
    if isinstance(config, AlibiConfig):
        return Alibi(n_heads)
    return RelativeBias(config, n_heads, causal=causal)


def _distance(queries: Places, keys: Places) -> Int[Tensor, "#batch query key"]:
    """Key position - query position."""
    return keys.position.unsqueeze(-2) - queries.position.unsqueeze(-1)
