"""Softmax in C++ of our own (softmax.cpp), for writing: attention of few queries, and log-probabilities."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.core.call import Sight
from glassformer.core.mask import Mask, Structure
from glassformer.core.protocols import AttentionKernel
from glassformer.kernels.operators import OPERATORS, has_operators
from glassformer.kernels.registry import choose_kernel
from glassformer.kernels.sdpa import SdpaKernel

QUERIES = 8
"""Up to how many queries a row it is faster than torch's kernel, which is made for as many queries as keys."""

OPERATORS.define("attend(Tensor q, Tensor k, Tensor v, Tensor? seen, float scale) -> Tensor")
OPERATORS.define("log_softmax(Tensor x) -> Tensor")
OPERATORS.define("most_probable(Tensor x, int n, int width) -> (Tensor, Tensor)")


def _shape(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None, scale: float) -> Tensor:
    return q.new_empty(*q.shape[:3], v.shape[3])


torch.library.register_fake("glassformer::attend", _shape)
torch.library.register_fake("glassformer::log_softmax", torch.empty_like)


def _largest(x: Tensor, n: int, width: int) -> tuple[Tensor, Tensor]:
    return x.new_empty(len(x), n), x.new_empty(len(x), n, dtype=torch.long)


torch.library.register_fake("glassformer::most_probable", _largest)

_attend: Callable[[Tensor, Tensor, Tensor, Tensor | None, float], Tensor] = torch.ops.glassformer.attend.default
_log_softmax: Callable[[Tensor], Tensor] = torch.ops.glassformer.log_softmax.default
_most_probable: Callable[[Tensor, int, int], tuple[Tensor, Tensor]] = torch.ops.glassformer.most_probable.default


class FewKernel:
    """Attention of few queries to many keys, as a step of writing has it, in float32 on a processor; no gradient.

    Only where `choose_quick_kernel` is asked; what it does not do goes to torch's kernel.
    """

    name = "few"

    def never(self, mask: Mask, *, soft_cap: bool, bias: bool) -> str | None:
        """It has neither a soft cap nor a bias."""
        return "attention of few queries has neither a soft cap nor a bias" if soft_cap or bias else None

    def refuses(self, sight: Sight) -> str | None:
        """It takes few queries."""
        return None if sight.queries.length <= QUERIES else f"it is for at most {QUERIES} queries a row"

    def gains(self, sight: Sight) -> bool:
        """It gains where it does not refuse."""
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
        if dropout or any(x.dtype != torch.float32 for x in (q, k, v)):
            return SdpaKernel().attend(q, k, v, sight, bias=bias, scale=scale, dropout=dropout)
        seen: Bool[Tensor, "#batch #head query key"] | None = None
        if sight.structure is not Structure.FULL:
            seen = sight.dense()
        return _attend(q, k, v, seen, scale)


_FEW = FewKernel()


def choose_quick_kernel(
    name: str, sight: Sight, *, of: str = "softmax", soft_cap: bool = False, bias: bool = False, must: bool = True
) -> AttentionKernel:
    """Return this kernel where "auto" may take it, else what `choose_kernel` returns."""
    reasons = _FEW.never(sight.mask, soft_cap=soft_cap, bias=bias), _FEW.refuses(sight)
    if name == "auto" and of == "softmax" and reasons == (None, None):
        return _FEW
    return choose_kernel(name, sight, of=of, soft_cap=soft_cap, bias=bias, must=must)


def has_quick_softmax(x: Tensor) -> bool:
    """Return whether these are numbers for the functions below: in float32, on a processor with a compiler."""
    return x.dtype == torch.float32 and x.device.type == "cpu" and has_operators()


def quick_log_softmax(x: Float[Tensor, "row column"]) -> Float[Tensor, "row column"]:
    """Return log softmax of each row, in float32 at least. *Shape:* that of x."""
    if has_quick_softmax(x):
        return _log_softmax(x)
    return torch.log_softmax(x, -1, dtype=torch.promote_types(x.dtype, torch.float32))


def quick_most_probable(
    x: Float[Tensor, "row column"], n: int, width: int
) -> tuple[Float[Tensor, "row n"], Int[Tensor, "row n"]]:
    """Return the n largest of log softmax of each row and their places; of equal scores, those with the lower place.

    Args:
        x: Scores, for which `has_quick_softmax`. *Shape:* (R, V).
        n: How many, or all of them.
        width: Only the first so many of a row are looked at; all are in the sum.

    Returns:
        Values in falling order, places. *Shape:* (R, min(n, width)). NaN where one of a row is NaN or +inf.
    """
    return _most_probable(x, min(n, width), width)
