"""The kernels by the type of attention that they compute, and the choice between them."""

from __future__ import annotations

from collections.abc import Mapping

from glassformer.core.call import Sight
from glassformer.core.errors import ConfigError, UnsupportedError, did_you_mean
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


def choose_kernel(
    name: str, sight: Sight, *, of: str = "softmax", soft_cap: bool = False, bias: bool = False
) -> AttentionKernel:
    """Return the kernel to use.

    Args:
        name: A kernel's name, or "auto" for the first that does not refuse and that gains by it.
        sight: What the queries see.
        of: The type of attention.
        soft_cap: Whether the size of scores is limited.
        bias: Whether something is added to the scores.

    Raises:
        UnsupportedError: The named kernel refuses; the message says why.
    """
    for kernel in KERNELS[of]:
        if name != kernel.name and not (name == "auto" and kernel.gains(sight)):
            continue
        reason = kernel.refuses(sight, soft_cap=soft_cap, bias=bias)
        if reason is None:
            return kernel
        if name != "auto":
            raise UnsupportedError(f"attention.kernel={name} cannot do this: {reason}; use attention.kernel=auto")
    raise AssertionError(f"{known_kernel(name, of)} is a kernel, and was not tried")
