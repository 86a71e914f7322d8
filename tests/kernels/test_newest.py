"""Two parts of one softmax, put together, are the equation."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from glassformer.core.call import Sight
from glassformer.core.mask import Mask
from glassformer.core.places import Places
from glassformer.kernels import sdpa
from glassformer.kernels.newest import attend_newest, can_attend_newest
from glassformer.kernels.reference import ReferenceKernel
from glassformer.kernels.sdpa import SdpaKernel

SIGHTS = {
    (new, keys): Sight.of(Mask(causal=True), Places.full(new, begin=keys - new), Places.full(keys))
    for new, keys in ((1, 2), (2, 3), (7, 8), (3, 40), (70, 200))
}


def draw(new: int, keys: int, n_kv_heads: int = 4, size: float = 1.0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(new)
    sizes = ((2, 4, new, 8), (2, n_kv_heads, keys, 8), (2, n_kv_heads, keys, 8))
    return [size * torch.randn(each, generator=generator) for each in sizes]


@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
@pytest.mark.parametrize(("new", "keys"), SIGHTS)
def test_newest_queries_take_what_the_equation_gives(new: int, keys: int, n_kv_heads: int) -> None:
    q, k, v = draw(new, keys, n_kv_heads)
    expected = ReferenceKernel().attend(q, k, v, SIGHTS[new, keys], scale=0.3)
    assert (attend_newest(q, k, v, scale=0.3) - expected).abs().max() < 1e-6
    doubled = [x.double() for x in (q, k, v)]
    expected = ReferenceKernel().attend(*doubled, SIGHTS[new, keys], scale=0.3)
    assert (attend_newest(*doubled, scale=0.3) - expected).abs().max() < 1e-14


def test_large_scores_overflow_nothing() -> None:
    """All of the weight is then on one side, or shared by equals."""
    q, k, v = draw(3, 40, size=100.0)
    expected = ReferenceKernel().attend(q, k, v, SIGHTS[3, 40])
    assert (attend_newest(q, k, v, scale=1.0) - expected).abs().max() < 1e-3


@pytest.mark.parametrize("damaged", [0, 39])
def test_a_key_that_is_no_number_stays_none(damaged: int) -> None:
    q, k, v = draw(3, 40)
    k[:, :, damaged] = torch.nan
    out = attend_newest(q, k, v, scale=1.0)
    assert out[:, :, 2].isnan().all(), "the last query sees it"
    assert damaged == 0 or out[:, :, :2].isfinite().all(), "others do not"


def test_fused_kernel_makes_no_mask_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for gradients, which need one."""
    q, k, v = draw(7, 8)
    with_mask = SdpaKernel().attend(q.requires_grad_(), k, v, SIGHTS[7, 8])
    assert not can_attend_newest(q, k, v)
    with_mask.sum().backward()
    assert q.grad is not None
    monkeypatch.setattr(sdpa.Sight, "dense", lambda self: pytest.fail("no mask is needed"))
    with torch.no_grad():
        assert (SdpaKernel().attend(q, k, v, SIGHTS[7, 8]) - with_mask).abs().max() < 1e-6


def test_arrays_whose_rows_are_not_dense_go_through_a_mask() -> None:
    """torch's kernel for processors takes dense rows for granted, and would be silently wrong."""
    q, k, v = draw(7, 8)
    strided = q.transpose(2, 3).contiguous().transpose(2, 3)
    assert not can_attend_newest(strided, k, v)
    expected = SdpaKernel().attend(q, k, v, SIGHTS[7, 8], scale=0.3)
    assert (SdpaKernel().attend(strided, k, v, SIGHTS[7, 8], scale=0.3) - expected).abs().max() < 1e-6
