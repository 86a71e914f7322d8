"""Linear attention: a feature map in place of softmax, so that sums over keys can be carried along."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.call import Sight
from glassformer.core.mask import Mask
from glassformer.kernels.reference import as_written, for_each_query_head, mix


def feature(x: Float[Tensor, "*batch d_head"]) -> Float[Tensor, "*batch d_head"]:
    """Return phi(x) = elu(x) + 1, which is above 0 everywhere, in float32 at least."""
    return F.elu(x.to(torch.promote_types(x.dtype, torch.float32))) + 1


def linear_scores(
    q: Float[Tensor, "batch head query d_head"], k: Float[Tensor, "batch kv_head key d_head"]
) -> Float[Tensor, "batch head query key"]:
    """Return phi(q) phi(k)^T, before any mask."""
    with as_written(q):
        return feature(q) @ for_each_query_head(feature(k), q).transpose(-2, -1)


def linear_weights(
    scores: Float[Tensor, "batch head query key"], sight: Sight
) -> Float[Tensor, "batch head query key"]:
    """Return each query's scores over those it may see, divided by their sum; all 0 for a query that sees none."""
    seen = scores.masked_fill(~sight.dense(), 0.0)
    total = seen.sum(-1, keepdim=True)
    return seen / total.masked_fill(total == 0, 1.0)


class LinearReference:
    """out_t = sum_s phi(q_t) phi(k_s)^T v_s / sum_s phi(q_t) phi(k_s)^T over the keys it sees, written as it reads.

    The square of weights is there; the oracle of the kernels that never make it.

    Source: Katharopoulos et al. 2020, arXiv:2006.16236, equations 5 and 7.
    """

    name = "reference"

    def never(self, mask: Mask, *, soft_cap: bool, bias: bool) -> str | None:
        """Nothing is added to its scores, and they are not bent."""
        return "linear attention has neither a bias of positions nor a soft cap" if soft_cap or bias else None

    def refuses(self, sight: Sight) -> str | None:
        """It takes all rows."""
        return None

    def gains(self, sight: Sight) -> bool:
        """It is the last that is tried."""
        return True

    def attend(
        self,
        q: Float[Tensor, "batch head query d_head"],
        k: Float[Tensor, "batch kv_head key d_head"],
        v: Float[Tensor, "batch kv_head key d_value"],
        sight: Sight,
        *,
        bias: Float[Tensor, "#batch #head query key"] | None = None,
        scale: float = 1.0,
        soft_cap: float | None = None,
        dropout: float = 0.0,
    ) -> Float[Tensor, "batch head query d_value"]:
        """Return the attention's output; see `AttentionKernel`. The scale has no place in it."""
        return mix(linear_weights(linear_scores(q, k), sight), v)
