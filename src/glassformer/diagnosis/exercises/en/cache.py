"""Rung 9: a cache of keys and values."""

from __future__ import annotations

from torch import Tensor, nn

Cache = tuple[Tensor, Tensor]


class CachedAttention(nn.Module):
    """Causal attention with several heads that goes on where it stopped.

    x (B, T, D) are the new tokens only; the cache holds the keys and values of all before, (B, H, S, E) each; None =
    there are none. Returns the output for the new tokens and the cache with them in it.

    Token by token, the outputs must be those of the whole at once. Hint: T new queries are the LAST of S keys, so the
    causal mask is torch.ones(T, S).tril(S - T). The cache belongs to the caller: keep nothing on self.
    """

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        raise NotImplementedError
