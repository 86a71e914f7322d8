"""Attention as one function, for those who have tensors and no model."""

from __future__ import annotations

import math
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from glassformer.core.call import Sight
from glassformer.core.errors import ConfigError, DataError
from glassformer.core.mask import Mask
from glassformer.core.places import Places
from glassformer.kernels.registry import choose_kernel, known_kernel

Scale = Literal["sqrt", "d_k", "none"] | float


def score_factor(scale: Scale, d_head: int) -> float:
    """Return what scores are multiplied with: 1/sqrt(E), 1/E, 1, or the number itself.

    The dot product of two vectors of E independent numbers of variance 1 has variance E; 1/sqrt(E) brings it
    back to 1, so that softmax starts where its gradient is alive.

    Args:
        scale: "sqrt", "d_k", "none" or a number.
        d_head: Width of a head, E.

    Raises:
        ConfigError: Any other word.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1.
    """
    if not isinstance(scale, str):
        return float(scale)
    factors = {"sqrt": 1.0 / math.sqrt(d_head), "d_k": 1.0 / d_head, "none": 1.0}
    if scale not in factors:
        raise ConfigError(f"scale is {scale!r}; it must be 'sqrt', 'd_k', 'none' or a number")
    return factors[scale]


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

    Without places, all slots are tokens; under a causal mask or a window the queries are the LAST ones of the
    keys, so that it is right for a cached step too.

    Args:
        q: Queries. *Shape:* (B, H, T, E).
        k: Keys. *Shape:* (B, K, S, E).
        v: Values. *Shape:* (B, K, S, E').
        mask: Who may see whom; None = all see all.
        queries: Where the queries stand; say so where the keys are packed.
        keys: Where the keys stand.
        bias: Added to the scores. *Shape:* (B or 1, H or 1, T, S).
        scale: "sqrt", "d_k", "none" or a number.
        soft_cap: Largest size of a score.
        dropout: Share of the weights set to zero; nothing here knows of train or eval.
        kernel: "auto", "windowed", "blocks", "sdpa" or "reference".

    Raises:
        DataError: Shapes that do not fit, or a causal mask on more queries than keys without their places.
        ConfigError: An unknown scale or kernel.
    """
    mask = mask or Mask()
    known_kernel(kernel)
    fits = q.ndim == k.ndim == v.ndim == 4 and q.shape[0] == k.shape[0] and k.shape[:3] == v.shape[:3]
    if not fits or q.shape[-1] != k.shape[-1] or q.shape[1] % k.shape[1]:
        raise DataError(
            f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)} do not fit: expected (B, H, T, E), "
            "(B, K, S, E) and (B, K, S, E') with H a multiple of K"
        )
    T, S = q.shape[2], k.shape[2]
    keys = keys or Places.full(S, k.device)
    queries = queries or _last(T, keys, ordered=mask.causal or mask.window is not None)
    _check_fit("queries", tuple(queries.position.shape), (q.shape[0], T))
    _check_fit("keys", tuple(keys.position.shape), (q.shape[0], S))
    if mask.allow is not None:
        whole = (T, S) if mask.allow.ndim == 2 else (q.shape[0], *q.shape[1 : mask.allow.ndim - 2], T, S)
        _check_fit("allow", tuple(mask.allow.shape), whole)
    if bias is not None:
        _check_fit("bias", tuple(bias.shape), (*q.shape[:2], T, S))
    sight = Sight.of(mask, queries, keys)
    how = choose_kernel(kernel, sight, soft_cap=soft_cap is not None, bias=bias is not None)
    return how.attend(
        q, k, v, sight, bias=bias, scale=score_factor(scale, q.shape[-1]), soft_cap=soft_cap, dropout=dropout
    )


def _last(length: int, keys: Places, *, ordered: bool) -> Places:
    """Where queries stand of which nothing is known: with the last keys, if order matters, else anywhere."""
    if not ordered:
        return Places.full(length, keys.position.device)
    before = keys.length - length
    if before < 0:
        raise DataError(
            f"{length} queries cannot be the last of {keys.length} keys under a causal mask or a window; say "
            "where they stand with queries=Places.from_lengths(...)"
        )
    return keys if before == 0 else Places(keys.position[:, before:], keys.segment[:, before:])


def _check_fit(name: str, shape: tuple[int, ...], whole: tuple[int, ...]) -> None:
    """Refuse a shape that cannot be broadcast to the whole; its last dimension must be there in full."""
    fits = len(shape) == len(whole) and all(a in (1, b) for a, b in zip(shape[:-1], whole[:-1], strict=True))
    if not fits or shape[-1] != whole[-1]:
        raise DataError(f"{name} has shape {shape}; here it must be {whole}, or 1 where all are alike")
