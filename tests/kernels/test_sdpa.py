"""The fused kernel is the reference, on every structure, forward and backward."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from glassformer.core.mask import Mask, Structure
from glassformer.core.places import Places
from glassformer.kernels.attend import attend

B, H, T, E = 2, 4, 5, 8


def general() -> Mask:
    allow = torch.rand(B, 1, T, T, generator=torch.Generator().manual_seed(3)) < 0.5
    return Mask(allow=allow)


STRUCTURES: dict[str, Callable[[], dict[str, object]]] = {
    "full": dict,
    "causal": lambda: {"mask": Mask(causal=True)},
    "windowed": lambda: {"mask": Mask(causal=True, window=2)},
    "two_sided_window": lambda: {"mask": Mask(window=2)},
    "general": lambda: {"mask": general()},
    "padded": lambda: {"keys": Places.from_lengths([3, 5], T)},
    "left_padded_causal": lambda: {
        "mask": Mask(causal=True),
        "queries": Places.from_lengths([3, 5], T, side="left"),
        "keys": Places.from_lengths([3, 5], T, side="left"),
    },
    "empty_row": lambda: {
        "mask": Mask(causal=True),
        "queries": Places.from_lengths([3, 0], T),
        "keys": Places.from_lengths([3, 0], T),
    },
    "packed": lambda: {
        "mask": Mask(causal=True),
        "queries": Places.packed([[2, 2], [4]], T),
        "keys": Places.packed([[2, 2], [4]], T),
    },
}


def inputs(kv_heads: int, dtype: torch.dtype, d_value: int = E) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((B, H, T, E), (B, kv_heads, T, E), (B, kv_heads, T, d_value))
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_sdpa_equals_the_reference(structure, kv_heads, bias, dtype):
    settings = STRUCTURES[structure]()
    leaves = [x.requires_grad_() for x in inputs(kv_heads, dtype)]
    if bias:
        leaves.append(torch.randn(1, H, T, T, dtype=dtype).requires_grad_())
        settings["bias"] = leaves[-1]
    pull = torch.randn(B, H, T, E, dtype=dtype)
    results = {}
    for kernel in ("reference", "sdpa"):
        out = attend(*leaves[:3], **settings, kernel=kernel)
        results[kernel] = [out, *torch.autograd.grad(out, leaves, pull)]
    tolerance = 1e-5 if dtype == torch.float32 else 1e-10
    for a, b in zip(results["sdpa"], results["reference"], strict=True):
        assert a.isfinite().all()
        torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_sdpa_equals_the_reference_in_half_precision(structure, kv_heads, dtype):
    """Scores and softmax are float32 in both, but the fused kernel rounds its weights before it mixes the values:
    that is half a unit in the last place of a sum of values near 1, 2^-11 in float16 and 2^-8 in bfloat16. So 2e-3
    holds for float16; bfloat16 has only 8 bits and gets one unit, 2^-7."""
    settings = STRUCTURES[structure]()
    q, k, v = inputs(kv_heads, dtype)
    fused = attend(q, k, v, **settings, kernel="sdpa").float()
    exact = attend(q, k, v, **settings, kernel="reference").float()
    unit = torch.finfo(dtype).eps
    torch.testing.assert_close(fused, exact, atol=max(2e-3, unit), rtol=unit)


@pytest.mark.parametrize("kernel", ["reference", "sdpa"])
def test_values_may_have_another_width(kernel):
    q, k, v = inputs(2, torch.float32, d_value=3)
    out = attend(q, k, v, mask=Mask(causal=True), kernel=kernel)
    assert out.shape == (B, H, T, 3)
    expected = attend(q, k, v, mask=Mask(causal=True), kernel="reference")
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kernel", ["reference", "sdpa"])
def test_inputs_need_not_be_contiguous(kernel):
    q, k, v = inputs(4, torch.float32)
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    assert not turned[0].is_contiguous()
    for settings in (STRUCTURES["causal"](), STRUCTURES["left_padded_causal"]()):
        assert torch.equal(attend(*turned, **settings, kernel=kernel), attend(q, k, v, **settings, kernel=kernel))


@pytest.mark.parametrize("kernel", ["reference", "sdpa"])
@pytest.mark.parametrize("masked", [False, True])
def test_dropout_has_the_right_mean_and_share(kernel, masked):
    """Equal weights over 8 keys with value 1: kept or dropped, the mean stays 1; each survives with 1 - p."""
    keys = 8
    x = torch.zeros(500, 1, keys, 4)
    v = torch.ones(500, 1, keys, 1)
    places = Places.from_keep(torch.ones(500, keys, dtype=torch.bool)) if masked else None
    out = attend(x, x, v, queries=places, keys=places, dropout=0.25, kernel=kernel)
    kept = out * keys * 0.75
    torch.testing.assert_close(kept, kept.round(), atol=1e-4, rtol=0)
    assert float(out.mean()) == pytest.approx(1.0, abs=0.01)
    assert float(out.var()) == pytest.approx(0.25 / 0.75 / keys, rel=0.15)


@pytest.mark.parametrize("kernel", ["reference", "sdpa"])
def test_dropout_leaves_empty_rows_at_zero(kernel):
    q, k, v = inputs(4, torch.float32)
    out = attend(q, k, v, **STRUCTURES["empty_row"](), dropout=0.5, kernel=kernel)
    assert out[1].eq(0).all()
    assert out[0, :, 3:].eq(0).all()


def test_structures_are_what_their_names_say():
    plain = Places.full(T)
    for name, structure in (
        ("causal", Structure.CAUSAL),
        ("windowed", Structure.WINDOWED),
        ("general", Structure.GENERAL),
    ):
        assert STRUCTURES[name]()["mask"].structure(plain, plain) is structure
