"""Attention of the newest tokens to all that came before them and to each other, without a mask."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def can_attend_newest(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Return whether torch's kernel for processors takes these, and no gradient is wanted, which it has not."""
    wanted = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
    dense = all(x.stride(-1) == 1 for x in (q, k, v))  # it takes that for granted
    return q.device.type == "cpu" and q.shape[3] == v.shape[3] and dense and not wanted


def attend_newest(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch kv_head key d_head"],
    v: Float[Tensor, "batch kv_head key d_head"],
    *,
    scale: float,
) -> Float[Tensor, "batch head query d_head"]:
    """Return the attention's output, where query t is that of key S - T + t and sees the keys up to its own.

    out = own + sigmoid(l_earlier - l_own) (earlier - own), with l = log sum exp of the scores: what a query takes from
    the S - T earlier keys, of which it sees all, and from the newest T, causally, weighed by how much each part has of
    the one softmax. Adding a mask to all scores costs a third more.

    Args:
        q: Queries. *Shape:* (B, H, T, E).
        k: Keys. *Shape:* (B, K, S, E), S > T.
        v: Values. *Shape:* (B, K, S, E).
        scale: Factor of the scores.

    Source: Dao et al. 2022, arXiv:2205.14135, section 3.1.
    """
    groups, before = q.shape[1] // k.shape[1], k.shape[2] - q.shape[2]
    k, v = (x if groups == 1 else x.repeat_interleave(groups, dim=1) for x in (k, v))
    attend = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    earlier, of_earlier = attend(q, k[:, :, :before], v[:, :, :before], scale=scale)
    own, of_own = attend(q, k[:, :, before:], v[:, :, before:], is_causal=True, scale=scale)
    share = torch.sigmoid(of_earlier - of_own).unsqueeze(-1)  # (B, H, T, 1)
    mixed: Tensor = own.lerp(earlier, share.to(own.dtype))
    return mixed
