"""The state of a layer that carries sums along in place of keys and values."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.core.slots import LayerCache, refuse_gradients

State = tuple[Float[Tensor, "batch kv_head d_head d_value"], Float[Tensor, "batch kv_head d_head"]]
"""S, the sum of phi(k) v^T over all tokens so far, and z, that of phi(k): (B, K, E, E') and (B, K, E)."""


class StateCache(LayerCache):
    """The sums of one layer over all final tokens, and those that the last forward pass arrived at.

    They are of one size whatever the number of tokens, and the second ones take the place of the first when the pass
    is made final: so a pass can be run again, but not be made final in part.

    Args:
        batch_size: Number of rows, B.
        n_kv_heads: Number of key/value heads, K.
        d_head: Width of a head, E.
        device: Where the tensors live.
        dtype: Type of the sums, float32 or float64.
    """

    def __init__(
        self,
        batch_size: int,
        n_kv_heads: int,
        d_head: int,
        *,
        device: torch.device | str | None,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.state: State = (
            torch.zeros(batch_size, n_kv_heads, d_head, d_head, device=device, dtype=dtype),
            torch.zeros(batch_size, n_kv_heads, d_head, device=device, dtype=dtype),
        )
        self._reached: State | None = None

    def tensors(self) -> list[Tensor]:
        """Return all that is kept."""
        return [*self.state, *(self._reached or ()), *super().tensors()]

    def write(self, state: State) -> None:
        """Remember the sums that a forward pass arrived at.

        Raises:
            UnsupportedError: They have a gradient.
        """
        refuse_gradients(state[0])
        self._reached = state

    def advance(self) -> None:
        """Make the last forward pass final; without one, nothing changes."""
        if self._reached is not None:
            self.state, self._reached = self._reached, None

    def gather(self, rows: Sequence[int]) -> None:
        """Let row i go on from row `rows[i]`."""
        index = torch.tensor(rows, device=self.state[0].device)
        self.state, self._reached = (self.state[0][index], self.state[1][index]), None

    def clear(self, rows: Sequence[int]) -> None:
        """Forget all tokens of the given rows."""
        index = torch.tensor(rows, dtype=torch.long, device=self.state[0].device)
        sums, total = (each.index_fill(0, index, 0.0) for each in self.state)
        self.state, self._reached = (sums, total), None
