"""Attention by torch's fused kernel."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.call import Sight
from glassformer.core.mask import Mask, Structure
from glassformer.kernels.dropping import attend_dropping
from glassformer.kernels.newest import attend_newest, can_attend_newest


class SdpaKernel:
    """torch's scaled_dot_product_attention: holds no weights, and skips what a causal flag hides.

    With fewer than 16 keys and no mask to add, torch's kernel for processors takes a query whose scores are all NaN for
    one that sees nothing, and gives zeros: that a weight is damaged may be seen in longer texts only.
    """

    name = "sdpa"

    def never(self, mask: Mask, *, soft_cap: bool, bias: bool) -> str | None:
        """It has no soft cap."""
        return "torch's fused kernel has no soft cap" if soft_cap else None

    def refuses(self, sight: Sight) -> str | None:
        """It takes all rows."""
        return None

    def gains(self, sight: Sight) -> bool:
        """It never costs more than the equation."""
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
        """Return the attention's output; see `AttentionKernel`."""
        causal = sight.structure is Structure.CAUSAL
        grouped = q.shape[1] != k.shape[1]
        whole = causal or sight.structure is Structure.FULL
        if dropout and _has_no_fused_dropout(q) and bias is None and not grouped:
            opened = None if whole else sight.dense() | sight.blind()
            out = attend_dropping(q, k, v, causal=causal, mask=opened, scale=scale, dropout=dropout)
            return out if whole else out.masked_fill(sight.blind(), 0.0)
        if bias is None and whole:
            return F.scaled_dot_product_attention(
                q, k, v, is_causal=causal, scale=scale, dropout_p=dropout, enable_gqa=grouped
            )
        if bias is None and not dropout and sight.structure is Structure.NEWEST and can_attend_newest(q, k, v):
            return attend_newest(q, k, v, scale=scale)
        # A query that sees nothing is shown everything and its output is then cleared: not every backend of
        # the fused kernel promises zeros, and none promises finite gradients.
        opened = sight.dense() | sight.blind()
        mask = opened if bias is None else bias.to(q.dtype).masked_fill(~opened, -torch.inf)
        out = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, scale=scale, dropout_p=dropout, enable_gqa=grouped
        )
        return out.masked_fill(sight.blind(), 0.0)


def _has_no_fused_dropout(q: Tensor) -> bool:
    """True where torch would make all weights and their draws in memory."""
    return q.device.type == "cpu" and q.dtype in (torch.float32, torch.float64)
