"""What the tests of sparse kernels share: one attention by two kernels, outputs and gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.core.mask import Mask
from glassformer.kernels.attend import attend

HEADS, D_HEAD = 4, 8
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def inputs(length: int, kv_heads: int = 2, d_value: int = D_HEAD, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(length)
    shapes = ((2, HEADS, length, D_HEAD), (2, kv_heads, length, D_HEAD), (2, kv_heads, length, d_value))
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def assert_equals_reference(
    kernel: str,
    mask: Mask,
    length: int,
    kv_heads: int = 2,
    d_value: int = D_HEAD,
    dtype: torch.dtype = torch.float64,
    soft_cap: float | None = None,
) -> None:
    """Outputs and gradients of the kernel are the equation's."""
    leaves = [x.requires_grad_() for x in inputs(length, kv_heads, d_value, dtype)]
    pull = torch.randn(2, HEADS, length, d_value, generator=torch.Generator().manual_seed(9), dtype=dtype)
    results = []
    for name in (kernel, "reference"):
        out = attend(*leaves, mask=mask, soft_cap=soft_cap, kernel=name)
        results.append([out, *torch.autograd.grad(out, leaves, pull)])
    for got, expected in zip(*results, strict=True):
        assert got.isfinite().all()
        torch.testing.assert_close(got, expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


def assert_compiled_equals_eager(kernel: str, mask: Mask, soft_cap: float | None) -> None:
    """No graph breaks, at a first length and a second, with gradients."""

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, mask=mask, soft_cap=soft_cap, kernel=kernel)

    torch._dynamo.reset()
    compiled = torch.compile(run, backend="eager", fullgraph=True)
    for length in (150, 75):
        leaves, results = [x.requires_grad_() for x in inputs(length)], []
        for forward in (run, compiled):
            out = forward(*leaves)
            results.append([out, *torch.autograd.grad(out.sum(), leaves)])
        for got, expected in zip(*results, strict=True):
            torch.testing.assert_close(got, expected, atol=1e-10, rtol=1e-10)
