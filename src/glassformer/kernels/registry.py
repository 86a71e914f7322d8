"""The kernels by name, and the choice between them."""

from __future__ import annotations

from glassformer.core.errors import ConfigError, UnsupportedError, did_you_mean
from glassformer.core.mask import Structure
from glassformer.core.protocols import AttentionKernel
from glassformer.kernels.reference import ReferenceKernel
from glassformer.kernels.sdpa import SdpaKernel

KERNELS: tuple[AttentionKernel, ...] = (SdpaKernel(), ReferenceKernel())
"""In the order in which "auto" tries them."""


def known_kernel(name: str) -> str:
    """Return `name` if it is "auto" or a kernel's.

    Raises:
        ConfigError: It is neither.
    """
    names = ["auto", *(kernel.name for kernel in KERNELS)]
    if name not in names:
        raise ConfigError(f"unknown attention kernel {name!r}{did_you_mean(name, names)}")
    return name


def choose_kernel(name: str, structure: Structure, soft_cap: float | None = None) -> AttentionKernel:
    """Return the kernel to use.

    Args:
        name: A kernel's name, or "auto" for the first that does not refuse.
        structure: What is known of the mask.
        soft_cap: Largest size of a score, or None.

    Raises:
        UnsupportedError: The named kernel refuses; the message says why.
    """
    for kernel in KERNELS:
        if name not in ("auto", kernel.name):
            continue
        reason = kernel.refuses(structure, soft_cap)
        if reason is None:
            return kernel
        if name != "auto":
            raise UnsupportedError(f"attention.kernel={name} cannot do this: {reason}; use attention.kernel=auto")
    raise AssertionError(f"{known_kernel(name)} is a kernel, and was not tried")
