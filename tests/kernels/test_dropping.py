from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from glassformer.core.call import Sight
from glassformer.core.mask import Mask
from glassformer.core.places import Places
from glassformer.kernels import dropping
from glassformer.kernels.dropping import attend_dropping
from glassformer.kernels.sdpa import SdpaKernel

SHAPE = (3, 2, 7, 4)


def tensors(shape=SHAPE, keys=None):
    torch.manual_seed(0)
    other = shape if keys is None else (*shape[:2], keys, shape[3])
    return [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in (shape, other, other)]


def reachable(causal: bool, masked: bool):
    mask = torch.ones(7, 7, dtype=torch.bool)
    mask = mask.tril() if causal else mask
    return mask & (torch.arange(7) % 3 != 1) | torch.eye(7, dtype=torch.bool) if masked else mask


@pytest.mark.parametrize("at_once", [1, 30, 1 << 18], ids=["a query", "a few", "all"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_dropping_nothing_is_the_plain_equation_with_its_gradients(monkeypatch, at_once, causal, masked):
    """However many weights are made at once."""
    monkeypatch.setattr(dropping, "AT_ONCE", at_once)
    q, k, v = tensors()
    seen = reachable(causal, masked)
    mask = seen[None, None] if masked else None
    out = attend_dropping(q, k, v, causal=causal, mask=mask, scale=0.3, dropout=0.0)
    plain = (q @ k.mT * 0.3).masked_fill(~seen, -torch.inf).softmax(-1) @ v
    torch.testing.assert_close(out, plain)
    back = torch.randn_like(out)
    torch.testing.assert_close(torch.autograd.grad(out, (q, k, v), back), torch.autograd.grad(plain, (q, k, v), back))


@pytest.mark.parametrize("causal", [False, True])
def test_dropping_sends_gradients_through_the_weights_that_stay(monkeypatch, causal):
    """With v one-hot the output IS the dropped weights; the plain equation with them has the same gradients."""
    monkeypatch.setattr(dropping, "AT_ONCE", 40)
    q, k, v = tensors()
    state = torch.get_rng_state()
    one_hot = torch.eye(7, dtype=torch.float64).expand(3, 2, 7, 7)
    dropped = attend_dropping(q, k, one_hot, causal=causal, mask=None, scale=0.5, dropout=0.4)
    torch.set_rng_state(state)
    out = attend_dropping(q, k, v, causal=causal, mask=None, scale=0.5, dropout=0.4)
    seen = reachable(causal, masked=False)
    weights = (q @ k.mT * 0.5).masked_fill(~seen, -torch.inf).softmax(-1)
    stays = (dropped / weights.masked_fill(~seen, 1.0)).detach()  # 0 or 1 / (1 - p)
    plain = (weights * stays) @ v
    torch.testing.assert_close(out, plain)
    back = torch.randn_like(out)
    torch.testing.assert_close(torch.autograd.grad(out, (q, k, v), back), torch.autograd.grad(plain, (q, k, v), back))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("causal", "masked"), [(True, False), (False, True)])
def test_a_graph_draws_and_gives_what_it_gives_without(dynamic, causal, masked):
    """To the last digit, gradients too, for two lengths."""
    torch._dynamo.reset()

    def attended(q, k, v, mask):
        return attend_dropping(q, k, v, causal=causal, mask=mask, scale=0.5, dropout=0.4)

    graph = torch.compile(attended, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for length in (7, 5):
        q, k, v = tensors((3, 2, length, 4))
        mask = reachable(causal, masked)[None, None, :length, :length] if masked else None
        results = []
        for attend in (attended, graph):
            torch.manual_seed(1)
            out = attend(q, k, v, mask)
            results.append([out, *torch.autograd.grad(out.square().sum(), (q, k, v))])
        assert all(map(torch.equal, *results))
    torch._dynamo.reset()


def test_dropping_drops_its_share_and_keeps_the_expectation():
    """640,000 weights: the share is within five standard deviations, the sum of each row's weights is 1 on average."""
    q = torch.randn(2, 2, 400, 4)
    out = attend_dropping(q, q, torch.eye(400).expand(2, 2, 400, 400), causal=False, mask=None, scale=0.1, dropout=0.3)
    assert abs(float((out == 0).float().mean()) - 0.3) < 5 * (0.21 / out.numel()) ** 0.5
    assert float(out.sum(-1).mean()) == pytest.approx(1.0, abs=0.01)


def test_a_query_that_sees_nothing_gets_zeros_with_dropout_too():
    places = Places.from_lengths([5, 2, 0])
    q, k, v = tensors((3, 2, 5, 4))
    out = SdpaKernel().attend(q, k, v, Sight.of(Mask(causal=True), places, places), scale=0.5, dropout=0.3)
    assert not out[1, :, 2:].any()
    assert not out[2].any()
    gradients = torch.autograd.grad(out.square().sum(), (q, k, v))
    assert all(torch.isfinite(gradient).all() and not gradient[2].any() for gradient in gradients)


@pytest.mark.parametrize("at_once", [1, 60, 1 << 18], ids=["a query", "a few", "all"])
def test_o01_padded_rows_are_what_each_is_alone(monkeypatch, at_once):
    """Nothing is dropped; on either side, in any order, with gradients, however many weights are made at once."""
    monkeypatch.setattr(dropping, "AT_ONCE", at_once)
    rows = [tensors((1, 2, length, 4)) for length in (2, 6, 1)]

    def learned(inputs, places):
        sight = Sight.of(Mask(causal=True), places, places)
        mask = (sight.dense() | sight.blind()).expand(len(inputs[0]), 1, places.length, places.length)
        out = attend_dropping(*inputs, causal=False, mask=mask, scale=0.5, dropout=0.0)
        out = out.masked_fill(sight.blind(), 0.0)
        return [out, *torch.autograd.grad(out.square().sum(), inputs)]

    alone = [learned(row, Places.from_lengths([row[0].shape[2]])) for row in rows]
    for order in ([0, 1, 2], [2, 0, 1]):
        for side in ("left", "right"):
            lengths = [rows[row][0].shape[2] for row in order]
            places = Places.from_lengths(lengths, 6, side=side)
            inputs = [torch.full((3, 2, 6, 4), 30.0, dtype=torch.float64) for _ in range(3)]
            for at, row in enumerate(order):
                for given, own in zip(inputs, rows[row], strict=True):
                    given[at, :, places.is_token[at]] = own[0].detach()
            found = learned([given.requires_grad_() for given in inputs], places)
            for at, row in enumerate(order):
                for got, expected in zip(found, alone[row], strict=True):
                    torch.testing.assert_close(got[at, :, places.is_token[at]], expected[0])
                    assert got[at, :, ~places.is_token[at]].eq(0).all()


@pytest.mark.parametrize("at_once", [1, 60, 1 << 18], ids=["a query", "a few", "all"])
def test_o01_what_stands_in_the_padding_is_no_matter_with_the_same_draws(monkeypatch, at_once):
    monkeypatch.setattr(dropping, "AT_ONCE", at_once)
    places = Places.from_lengths([7, 3, 0], side="left")
    sight, results = Sight.of(Mask(causal=True), places, places), []
    for filler in (0.0, 1e3):
        inputs = [
            x.detach().masked_fill(~places.is_token[:, None, :, None], filler).requires_grad_() for x in tensors()
        ]
        torch.manual_seed(1)
        out = SdpaKernel().attend(*inputs, sight, scale=0.5, dropout=0.3)
        results.append([out, *torch.autograd.grad(out.square().sum(), inputs)])
    for got, expected in zip(*results, strict=True):
        assert torch.equal(got, expected)
        assert got.transpose(1, 2)[~places.is_token].eq(0).all()


def test_o03_the_last_queries_of_a_cache_are_the_last_rows_of_the_whole():
    """Fewer queries than keys, which are not causal by their number."""
    q, k, v = tensors()
    whole = attend_dropping(q, k, v, causal=True, mask=None, scale=0.3, dropout=0.0)
    for n in (1, 3):
        mask = reachable(True, masked=False)[-n:].expand(1, 1, n, 7)
        last = attend_dropping(q[:, :, -n:], k, v, causal=False, mask=mask, scale=0.3, dropout=0.0)
        torch.testing.assert_close(last, whole[:, :, -n:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [[7, 7, 7], [7, 3, 0]])
def test_o13_with_dropout_hidden_keys_weigh_nothing_and_large_products_stay_finite(dtype, causal, lengths):
    """Whether this file or torch makes the weights: q k = 4 * 300 * 300 = 360,000 > 65,504, all equal, so that each key
    that is seen and stays weighs 1 / (n (1 - p)) of n, as the rows of an identity for values show."""
    places = Places.from_lengths(lengths, 7, side="left")
    sight = Sight.of(Mask(causal=causal), places, places)
    q, identity = torch.full(SHAPE, 300.0, dtype=dtype), torch.eye(7, dtype=dtype).expand(3, 2, 7, 7)
    weights = SdpaKernel().attend(q, q, identity, sight, scale=0.5, dropout=0.25).float()
    seen = sight.dense().expand(3, 1, 7, 7)
    weight = 1 / (0.75 * seen.sum(-1, keepdim=True).clamp(min=1))
    off = torch.minimum(weights.abs(), (weights - weight).abs())
    assert (off <= 2 * torch.finfo(dtype).eps).all()
    assert weights.masked_fill(seen, 0.0).eq(0).all()
    assert weights.ne(0).any()


def test_what_it_cannot_do_is_left_to_torch():
    """Grouped heads, and other numbers: the same expectation, by torch's own dropout."""
    places = Places.full(5)
    sight = Sight.of(Mask(causal=True), places, places)
    q, k = torch.randn(1, 4, 5, 8), torch.randn(1, 2, 5, 8)
    torch.manual_seed(3)
    out = SdpaKernel().attend(q, k, k, sight, scale=0.5, dropout=0.2)
    torch.manual_seed(3)
    plain = F.scaled_dot_product_attention(q, k, k, is_causal=True, scale=0.5, dropout_p=0.2, enable_gqa=True)
    assert torch.equal(out, plain)
