"""Linear attention by carried sums equals the equation with its square of weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from glassformer.core.call import Sight
from glassformer.core.errors import UnsupportedError
from glassformer.core.mask import Mask
from glassformer.core.pattern import Blocks
from glassformer.core.places import Places
from glassformer.kernels import linear_chunked
from glassformer.kernels.linear import LinearReference
from glassformer.kernels.linear_chunked import LinearChunked, carry_on
from glassformer.kernels.registry import choose_kernel

PADDED = [
    Places.from_lengths([7, 4], 7),
    Places.from_lengths([7, 4], 9, side="left"),
    Places.from_lengths([0, 5], 6),
    Places.from_keep(torch.tensor([[True, False, True, True, False], [False, False, False, False, True]])),
]
"""On the right, on the left, an empty row, and with gaps."""


@pytest.fixture(autouse=True, params=[1, 2, 3, 64])
def _chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_chunked, "CHUNK", request.param)


def draw(length: int, heads: int = 4, groups: int = 2, source: int | None = None, dtype: torch.dtype = torch.float64):
    """q, k and v of two rows; values are of another width than keys."""
    sizes = [(2, heads, length, 3), (2, groups, source or length, 3), (2, groups, source or length, 5)]
    return [torch.randn(size, dtype=dtype).requires_grad_() for size in sizes]


def assert_equal(given: list[Tensor], sight: Sight, tolerance: float = 1e-10) -> None:
    results = []
    for kernel in (LinearChunked(), LinearReference()):
        out = kernel.attend(*given, sight)
        assert out.dtype == given[2].dtype
        gradients = torch.autograd.grad((out * torch.linspace(-1, 1, out.shape[2])[:, None]).sum(), given)
        results.append((out, *gradients))
    for ours, expected in zip(*results, strict=True):
        assert ours.isfinite().all()
        torch.testing.assert_close(ours, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("heads", "groups"), [(2, 2), (4, 2), (3, 1)])
@pytest.mark.parametrize("length", [1, 2, 5, 6, 7])
def test_chunked_equals_the_equation(length: int, heads: int, groups: int, causal: bool) -> None:
    places = Places.full(length)
    assert_equal(draw(length, heads, groups), Sight.of(Mask(causal=causal), places, places))
    assert_equal(
        draw(length, heads, groups, dtype=torch.float32), Sight.of(Mask(causal=causal), places, places), tolerance=1e-5
    )


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("which", range(len(PADDED)))
def test_padded_rows_equal_the_equation_and_padding_is_zero(which: int, causal: bool) -> None:
    places = PADDED[which]
    sight = Sight.of(Mask(causal=causal), places, places)
    given = draw(places.length)
    assert_equal(given, sight)
    out = LinearChunked().attend(*given, sight)
    assert out[~places.is_token[:, None].expand(out.shape[:3])].eq(0).all()


@pytest.mark.parametrize("queries", [Places.full(4), *PADDED])
@pytest.mark.parametrize("keys", [Places.full(6), *PADDED])
def test_o04_queries_look_at_another_text_of_any_layout(queries: Places, keys: Places) -> None:
    """Where a row has no key at all, the output is zero and so is every gradient."""
    assert_equal(draw(queries.length, source=keys.length), Sight.of(Mask(), queries, keys))


def test_sums_by_hand() -> None:
    """phi(0) = 1 and phi(1) = 2: the second query weighs its keys 1 : 2, so (1 * 3 + 2 * 6) / 3 = 5."""
    q, k, v = (torch.tensor(x).view(1, 1, 2, 1) for x in ([0.0, 1.0], [0.0, 1.0], [3.0, 6.0]))
    places = Places.full(2)
    out = LinearChunked().attend(q, k, v, Sight.of(Mask(causal=True), places, places))
    assert out.flatten().tolist() == [3.0, 5.0]
    out = LinearChunked().attend(q, k, v, Sight.of(Mask(), places, places))
    assert out.flatten().tolist() == [5.0, 5.0]


@pytest.mark.parametrize("chunks", [[7], [1] * 7, [3, 1, 3], [5, 2]])
def test_carried_sums_equal_the_whole(chunks: list[int]) -> None:
    """Also of rows that end early, whose sums stay as they are."""
    q, k, v = (x.detach() for x in draw(7))
    for lengths in ([7, 7], [7, 4]):
        places = Places.from_lengths(lengths, 7)
        expected = LinearReference().attend(q, k, v, Sight.of(Mask(causal=True), places, places))
        state = (q.new_zeros(2, 2, 3, 5), q.new_zeros(2, 2, 3))
        parts, begin = [], 0
        for chunk in chunks:
            cut = slice(begin, begin + chunk)
            here = Places(places.position[:, cut], places.segment[:, cut])
            out, state = carry_on(q[:, :, cut], k[:, :, cut], v[:, :, cut], here, state)
            parts.append(out)
            begin += chunk
        torch.testing.assert_close(torch.cat(parts, dim=2), expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_o13_sums_of_half_precision_are_in_float32(dtype: torch.dtype) -> None:
    """4,000 equal values of 1 average to exactly 1, where sums in half precision would stand still."""
    q = torch.ones(1, 1, 4000, 2, dtype=dtype)
    places = Places.full(4000)
    for mask in (Mask(causal=True), Mask()):
        out = LinearChunked().attend(q, q, q, Sight.of(mask, places, places))
        assert out.dtype == dtype
        assert out.eq(1.0).all()
    exact = [x.detach() for x in draw(7, dtype=torch.float32)]
    sight = Sight.of(Mask(causal=True), Places.full(7), Places.full(7))
    rounded = [x.to(dtype) for x in exact]
    expected = LinearReference().attend(*(x.float() for x in rounded), sight)
    got = LinearChunked().attend(*rounded, sight).float()
    torch.testing.assert_close(got, expected, atol=0, rtol=torch.finfo(dtype).eps)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for kernel in (LinearChunked(), LinearReference()):
            torch.testing.assert_close(kernel.attend(*exact, sight), LinearReference().attend(*exact, sight))


def test_queries_and_keys_that_point_away_from_one_another_give_no_nan() -> None:
    """phi(-200) is 0 in every floating type: such queries see keys of no weight."""
    q = torch.full((1, 1, 5, 2), -200.0, requires_grad=True)
    places = Places.full(5)
    for mask in (Mask(causal=True), Mask()):
        out = LinearChunked().attend(q, q, q, Sight.of(mask, places, places))
        assert out.eq(0).all()
        (gradient,) = torch.autograd.grad(out.sum(), q)
        assert gradient.isfinite().all()


FULL, PACKED = Places.full(5), Places.packed([[3, 2], [4]])


@pytest.mark.parametrize(
    ("mask", "queries", "keys"),
    [
        (Mask(causal=True), PACKED, PACKED),
        (Mask(), PACKED, PACKED),
        (Mask(), FULL, PACKED),
        (Mask(causal=True), FULL, Places.full(7)),
        (Mask(causal=True), PADDED[0], Places.from_lengths([7, 4], 7)),
        (Mask(causal=True, window=2), FULL, FULL),
        (Mask(causal=True, patterns=(Blocks(size=2),)), FULL, FULL),
        (Mask(allow=torch.ones(5, 5, dtype=torch.bool)), FULL, FULL),
    ],
)
def test_what_carried_sums_cannot_do_goes_to_the_equation(mask: Mask, queries: Places, keys: Places) -> None:
    sight = Sight.of(mask, queries, keys)
    assert choose_kernel("auto", sight, of="linear").name == "reference"
    with pytest.raises(UnsupportedError, match=r"kernel=chunked cannot do this.*several texts.*kernel=auto"):
        choose_kernel("chunked", sight, of="linear")


def test_padded_rows_and_whole_ones_are_the_kernels() -> None:
    for queries, keys in ((FULL, FULL), (PADDED[0], PADDED[0]), (Places.full(3, begin=4),) * 2):
        assert choose_kernel("auto", Sight.of(Mask(causal=True), queries, keys), of="linear").name == "chunked"
    for queries, keys in ((FULL, PADDED[0]), (PADDED[1], FULL), (Places.packed([[3], [2]]), FULL)):
        assert choose_kernel("auto", Sight.of(Mask(), queries, keys), of="linear").name == "chunked"
    sight = Sight.of(Mask(), FULL, FULL)
    for given in ({"soft_cap": True}, {"bias": True}):
        with pytest.raises(UnsupportedError, match="neither a bias of positions nor a soft cap"):
            choose_kernel("chunked", sight, of="linear", **given)


def test_last_token_alone_sees_all_before_it() -> None:
    given = draw(1, source=6)
    assert_equal(given, Sight.of(Mask(causal=True), Places.full(1, begin=5), Places.full(6)))
