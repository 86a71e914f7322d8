"""The kernels by the type of attention that they compute, and the choice between them."""

from __future__ import annotations

from collections.abc import Mapping

from glassformer.core.call import Sight
from glassformer.core.errors import ConfigError, UnsupportedError, did_you_mean
from glassformer.core.mask import Mask
from glassformer.core.protocols import AttentionKernel
from glassformer.kernels.blocks import BlocksKernel
from glassformer.kernels.linear import LinearReference
from glassformer.kernels.linear_chunked import LinearChunked
from glassformer.kernels.reference import ReferenceKernel
from glassformer.kernels.sdpa import SdpaKernel
from glassformer.kernels.windowed import WindowedKernel

KERNELS: Mapping[str, tuple[AttentionKernel, ...]] = {
    "softmax": (WindowedKernel(), BlocksKernel(), SdpaKernel(), ReferenceKernel()),
    "shaw": (ReferenceKernel(),),
    "linear": (LinearChunked(), LinearReference()),
}
"""Of each type, in the order in which "auto" tries them; the last is the type's own equation and refuses nothing."""

SPARSE = frozenset(
    kernel.name
    for kernels in KERNELS.values()
    for kernel in kernels
    if kernel.never(Mask(), soft_cap=False, bias=False) is not None
)
"""Names of those that are for attention to some keys only."""


def known_kernel(name: str, of: str = "softmax") -> str:
    """Return `name` if it is "auto" or a kernel's.

    Args:
        name: Of a kernel.
        of: The type of attention.

    Raises:
        ConfigError: It is neither.
    """
    names = ["auto", *(kernel.name for kernel in KERNELS[of])]
    if name not in names:
        raise ConfigError(f"unknown kernel {name!r} of {of} attention{did_you_mean(name, names)}")
    return name


def refuse_idle(
    name: str, mask: Mask, *, of: str = "softmax", soft_cap: bool = False, bias: bool = False, at: str = "attention"
) -> None:
    """Refuse a kernel that would never be used, so that nobody waits for what it cannot do.

    Args:
        name: A kernel's name, or "auto".
        mask: The attention's own rule.
        of: The type of attention.
        soft_cap: Whether the size of scores is limited.
        bias: Whether something is added to the scores.
        at: Whose kernel it is: "attention" or "cross_attention".

    Raises:
        ConfigError: It is unknown, or can compute no such attention; the message says why.
    """
    known_kernel(name, of)
    for kernel in KERNELS[of]:
        reason = kernel.never(mask, soft_cap=soft_cap, bias=bias) if kernel.name == name else None
        if reason is not None:
            raise ConfigError(f"{at}.kernel={name} cannot do this: {reason}; use {at}.kernel=auto")


def choose_kernel(
    name: str,
    sight: Sight,
    *,
    of: str = "softmax",
    soft_cap: bool = False,
    bias: bool = False,
    must: bool = True,
) -> AttentionKernel:
    """Return the kernel to use.

    Args:
        name: A kernel's name, or "auto" for the first that does not refuse and that gains by it.
        sight: What the queries see.
        of: The type of attention.
        soft_cap: Whether the size of scores is limited.
        bias: Whether something is added to the scores.
        must: Whether the named kernel is the only one; else rows that it refuses go where "auto" takes them.

    Raises:
        UnsupportedError: The named kernel must, and refuses; the message says why.
    """
    for kernel in KERNELS[of]:
        if name != kernel.name and not (name == "auto" and kernel.gains(sight)):
            continue
        reason = kernel.never(sight.mask, soft_cap=soft_cap, bias=bias) or kernel.refuses(sight)
        if reason is None:
            return kernel
        if name != "auto":
            if not must:
                return choose_kernel("auto", sight, of=of, soft_cap=soft_cap, bias=bias)
            raise UnsupportedError(f"attention.kernel={name} cannot do this: {reason}; use attention.kernel=auto")
    raise AssertionError(f"{known_kernel(name, of)} is a kernel, and was not tried")
