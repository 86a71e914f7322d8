"""Softmax in C++ of our own (softmax.cpp), for writing: attention of few queries, and log-probabilities."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glassformer.core.call import Sight
from glassformer.core.mask import Mask, Structure
from glassformer.core.native import load_library
from glassformer.core.protocols import AttentionKernel
from glassformer.kernels.operators import OPERATORS
from glassformer.kernels.registry import choose_kernel
from glassformer.kernels.sdpa import SdpaKernel

QUERIES = 8
"""Up to how many queries a row it is faster than torch's kernel, which is made for as many queries as keys."""

OPERATORS.define("attend(Tensor q, Tensor k, Tensor v, Tensor? seen, float scale) -> Tensor")


@cache
def library() -> ctypes.CDLL | None:
    """Return the functions of softmax.cpp; None where they cannot be compiled."""
    found = load_library(Path(__file__).with_suffix(".cpp"))
    if found is not None:
        array, size, number, threads = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_int
        found.attend.argtypes = [*[array] * 7, number, threads]
        found.log_softmax.argtypes = [array, array, size, size, threads]
    return found


def _attend(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None, scale: float) -> Tensor:
    functions = library()
    assert functions is not None, "asked for only where it is there"
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    (B, H, T, E), S, V = q.shape, k.shape[2], v.shape[3]
    if k.shape != (B, k.shape[1], S, E) or v.shape != (B, k.shape[1], S, V) or H % k.shape[1]:
        raise RuntimeError(f"q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)} do not fit")
    out = q.new_empty(B, H, T, V)
    shown = None if seen is None else seen.expand(B, H, T, S)
    places = [*q.stride(), *k.stride(), *v.stride(), *((0,) * 4 if shown is None else shown.stride())]
    sizes = B, H, H // k.shape[1], T, S, E, V
    arrays = q.data_ptr(), k.data_ptr(), v.data_ptr(), None if shown is None else shown.data_ptr(), out.data_ptr()
    functions.attend(
        *arrays, (ctypes.c_int64 * 16)(*places), (ctypes.c_int64 * 7)(*sizes), scale, torch.get_num_threads()
    )
    return out


OPERATORS.impl("attend", _attend, "CPU")


def _shape(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None, scale: float) -> Tensor:
    return q.new_empty(*q.shape[:3], v.shape[3])


torch.library.register_fake("glassformer::attend", _shape)

_operator: Callable[[Tensor, Tensor, Tensor, Tensor | None, float], Tensor] = torch.ops.glassformer.attend.default


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
        return _operator(q, k, v, seen, scale)


_FEW = FewKernel()


def choose_quick_kernel(
    name: str, sight: Sight, *, of: str = "softmax", soft_cap: bool = False, bias: bool = False, must: bool = True
) -> AttentionKernel:
    """Return this kernel where "auto" may take it, else what `choose_kernel` returns."""
    reasons = _FEW.never(sight.mask, soft_cap=soft_cap, bias=bias), _FEW.refuses(sight)
    if name == "auto" and of == "softmax" and reasons == (None, None):
        return _FEW
    return choose_kernel(name, sight, of=of, soft_cap=soft_cap, bias=bias, must=must)


def quick_log_softmax(x: Float[Tensor, "row column"]) -> Float[Tensor, "row column"]:
    """Return log softmax of each row, in float32 at least. *Shape:* that of x."""
    functions = library() if x.dtype == torch.float32 and x.device.type == "cpu" else None
    if functions is None:
        return torch.log_softmax(x, -1, dtype=torch.promote_types(x.dtype, torch.float32))
    x = x.contiguous()
    out = torch.empty_like(x)
    functions.log_softmax(x.data_ptr(), out.data_ptr(), *x.shape, torch.get_num_threads())
    return out
