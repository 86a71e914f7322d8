"""Attention as one function, for those who have tensors and no model."""

from __future__ import annotations

import math
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from glassformer.core.call import Sight
from glassformer.core.errors import DataError
from glassformer.core.mask import Mask
from glassformer.core.places import Places
from glassformer.kernels.registry import choose_kernel, known_kernel

Scale = Literal["sqrt", "d_k", "none"] | float


def score_factor(scale: Scale, d_head: int) -> float:
    """Return what scores are multiplied with: 1/sqrt(E), 1/E, 1, or the number itself.

    The dot product of two vectors of E independent numbers of variance 1 has variance E; 1/sqrt(E) brings it back to
    1, so that softmax starts where its gradient is alive.

    Args:
        scale: "sqrt", "d_k", "none" or a number.
        d_head: Width of a head, E.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1.
    """
    if scale == "sqrt":
        return 1.0 / math.sqrt(d_head)
    if scale == "d_k":
        return 1.0 / d_head
    return 1.0 if scale == "none" else float(scale)


def attend(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch kv_head key d_head"],
    v: Float[Tensor, "batch kv_head key d_value"],
    *,
    mask: Mask | None = None,
    queries: Places | None = None,
    keys: Places | None = None,
    bias: Float[Tensor, "#batch #head query key"] | None = None,
    scale: Scale = "sqrt",
    soft_cap: float | None = None,
    dropout: float = 0.0,
    kernel: str = "auto",
) -> Float[Tensor, "batch head query d_value"]:
    """Return softmax(scale q k^T + bias) v over the keys each query may see.

    Without places, all slots are tokens and the queries are the LAST ones of the keys, so that a causal mask is
    right for a cached step too.

    Args:
        q: Queries. *Shape:* (B, H, T, E).
        k: Keys. *Shape:* (B, K, S, E).
        v: Values. *Shape:* (B, K, S, E').
        mask: Who may see whom; None = all see all.
        queries: Where the queries stand.
        keys: Where the keys stand.
        bias: Added to the scores. *Shape:* (B or 1, H or 1, T, S).
        scale: "sqrt", "d_k", "none" or a number.
        soft_cap: Largest size of a score.
        dropout: Share of the weights set to zero; nothing here knows of train or eval.
        kernel: "auto", "sdpa" or "reference".

    Raises:
        DataError: Shapes that do not fit, or a causal mask on more queries than keys without their places.
    """
    mask = mask or Mask()
    known_kernel(kernel)
    fits = q.shape[0] == k.shape[0] and q.shape[-1] == k.shape[-1] and k.shape[:3] == v.shape[:3]
    if not fits or q.shape[1] % k.shape[1]:
        raise DataError(
            f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)} do not fit: expected (B, H, T, E), (B, K, S, E) "
            "and (B, K, S, E') with H a multiple of K"
        )
    T, S = q.shape[2], k.shape[2]
    if queries is None:
        before = S - T if mask.causal or mask.window is not None else 0
        if before < 0:
            raise DataError(
                f"{T} queries cannot be the last of {S} keys under a causal mask or a window; say where they stand "
                "with queries=Places.from_lengths(...)"
            )
        queries = Places.full(T, q.device) if before == 0 else _shifted(T, before, q)
    sight = Sight.of(mask, queries, keys or Places.full(S, k.device))
    how = choose_kernel(kernel, sight.structure, soft_cap)
    return how.attend(
        q, k, v, sight, bias=bias, scale=score_factor(scale, q.shape[-1]), soft_cap=soft_cap, dropout=dropout
    )


def _shifted(length: int, start: int, like: Tensor) -> Places:
    return Places.from_lengths([length], length, start=[start], device=like.device)
