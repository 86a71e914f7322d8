"""Every registered kernel, with each kind of rule that it is for: a new kernel is tested by being registered."""

from __future__ import annotations

from typing import Any, NamedTuple

from glassformer.core.mask import Mask
from glassformer.core.pattern import Blocks
from glassformer.core.protocols import AttentionKernel
from glassformer.kernels.registry import KERNELS

PATTERN = {"block": 2, "near": 0, "first": 1, "every": 3, "random": 1}
BLOCKS = Blocks(size=2, near=0, first=1, every=3, random=1)


class Case(NamedTuple):
    """A kernel with something to compute.

    Attributes:
        type: What is computed.
        kernel: How.
        mask: The rule of the layer.
        settings: How a model's settings say all that.
    """

    type: str
    kernel: AttentionKernel
    mask: Mask
    settings: dict[str, Any]

    @property
    def equation(self) -> AttentionKernel:
        """What it must be equal to."""
        return KERNELS[self.type][-1]


def _cases() -> dict[str, Case]:
    """Those of softmax may have a window or a pattern; shaw's too; linear attention has neither."""
    rules = {"all": (Mask(), {}), "window": (Mask(window=3), {"window": 3})}
    rules["pattern"] = (Mask(patterns=(BLOCKS,)), {"pattern": PATTERN})
    cases = {}
    for of, kernels in KERNELS.items():
        for kernel in kernels:
            for name, (mask, settings) in rules.items():
                if (of == "linear" and settings) or kernel.never(mask, soft_cap=False, bias=False) is not None:
                    continue
                said = {"type": of, "kernel": kernel.name, **settings, **({"max_distance": 2} if of == "shaw" else {})}
                cases[f"{of}-{kernel.name}-{name}"] = Case(of, kernel, mask, said)
    return cases


CASES = _cases()
