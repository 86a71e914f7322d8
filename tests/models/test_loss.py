from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from glassformer.core.config import HeadConfig
from glassformer.core.places import IGNORED
from glassformer.models import fused_loss as fused_module
from glassformer.models import loss as loss_module
from glassformer.models.fused_loss import fused_head_loss
from glassformer.models.loss import cross_entropy, head_loss
from glassformer.models.output import Loss
from glassformer.parts.embedding import Embedding
from glassformer.parts.head import Head

LOGITS = torch.tensor([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
TARGETS = torch.tensor([0, IGNORED])


@pytest.mark.parametrize(("smoothing", "expected"), [(0.0, 0.239545), (0.1, 0.372878)])
def test_o23_ignored_positions_count_nowhere(smoothing, expected):
    """lse([2, 0, 0]) = 2.239545. -log p = 0.239545 and 2.239545 twice; 0.9 * 0.239545 + 0.1 * mean = 0.372878.

    Counting the ignored row would give 0.582370, dividing by two rows 0.186439.
    """
    logits = LOGITS.clone().requires_grad_()
    loss = cross_entropy(logits, TARGETS, smoothing)
    assert int(loss.count) == 1
    assert loss.sum.item() == pytest.approx(expected, abs=1e-6)
    assert loss.mean.item() == pytest.approx(expected, abs=1e-6)
    (gradient,) = torch.autograd.grad(loss.sum, logits)
    assert gradient[1].eq(0).all()
    assert gradient[0].ne(0).all()


def test_o23_smoothing_is_spread_over_the_whole_vocabulary():
    """loss = -(1 - e) log p(label) - e/V sum_v log p(v), written out."""
    logits, labels = torch.randn(4, 7, dtype=torch.float64), torch.tensor([0, 6, IGNORED, 3])
    logp = logits.log_softmax(-1)
    expected = sum(-0.8 * logp[t, labels[t]] - 0.2 / 7 * logp[t].sum() for t in (0, 1, 3))
    torch.testing.assert_close(cross_entropy(logits, labels, 0.2).sum, expected)


def test_o08_loss_is_divided_once_by_the_targets():
    """Targets with losses 4 and 2, 2, 2: mean 2.5 and perplexity 12.1825, not 3.0 or 20.0855."""
    parts = [Loss(torch.tensor(4.0), torch.tensor(1)), Loss(torch.tensor(6.0), torch.tensor(3))]
    whole = parts[0] + parts[1]
    assert whole.mean.item() == 2.5
    assert math.exp(whole.mean.item()) == pytest.approx(12.1825, abs=1e-4)


def test_o08_micro_batches_have_the_gradient_of_the_whole():
    weight = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    x, labels = torch.randn(4, 3, dtype=torch.float64), torch.tensor([1, 0, 4, 2])
    whole = cross_entropy(x @ weight, labels).mean
    split = cross_entropy(x[:1] @ weight, labels[:1]) + cross_entropy(x[1:] @ weight, labels[1:])
    assert split.mean.item() == pytest.approx(whole.item(), abs=1e-12)
    (expected,), (got,) = torch.autograd.grad(whole, weight), torch.autograd.grad(split.mean, weight)
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=0)


def test_loss_over_no_target_is_zero_and_not_nan():
    logits = torch.randn(2, 5, requires_grad=True)
    loss = cross_entropy(logits, torch.full((2,), IGNORED), 0.1)
    assert (loss.sum.item(), loss.count.item(), loss.mean.item()) == (0.0, 0, 0.0)
    (gradient,) = torch.autograd.grad(loss.mean, logits)
    assert gradient.eq(0).all()


def test_loss_is_taken_in_float32_at_least():
    logits = torch.randn(3, 5)
    labels = torch.tensor([0, 1, 2], dtype=torch.int32)
    assert cross_entropy(logits.bfloat16(), labels).sum.dtype == torch.float32
    assert cross_entropy(logits.double(), labels).sum.dtype == torch.float64


def loss_and_gradients(head: Head, x: Tensor, labels: Tensor, smoothing: float) -> list[Tensor]:
    loss = head_loss(head, x, labels, smoothing)
    assert int(loss.count) == int((labels != IGNORED).sum())
    return [loss.sum, *torch.autograd.grad(loss.sum, [x, *head.parameters()])]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("chunk", [4, 14, 49, 210])
def test_fused_loss_equals_the_plain_one(monkeypatch, smoothing, chunk, bias):
    """30 tokens of 7 words are 210 logits; chunks of 1 (4 logits hold no token), of 2, of 7 with a rest, and all."""
    head = Head(HeadConfig(vocab_size=7, tied=False, bias=bias), 3, Embedding(7, 3))
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.normal_()
    x = torch.randn(5, 6, 3, requires_grad=True)
    labels = torch.randint(0, 7, (5, 6))
    labels[1, 2:] = IGNORED
    plain = loss_and_gradients(head, x, labels, smoothing)
    monkeypatch.setattr(loss_module, "PLAIN_LIMIT", 1)
    monkeypatch.setattr(fused_module, "CHUNK_ON_CPU", chunk)
    fused = loss_and_gradients(head, x, labels, smoothing)
    for a, b in zip(fused, plain, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_fused_loss_gradient_is_that_of_finite_differences():
    x, weight = torch.randn(5, 3, dtype=torch.float64), torch.randn(7, 3, dtype=torch.float64)
    bias, labels = torch.randn(7, dtype=torch.float64), torch.tensor([0, 6, IGNORED, 3, 3])
    inputs = [tensor.requires_grad_() for tensor in (x, weight, bias)]
    assert torch.autograd.gradcheck(lambda x, w, b: fused_head_loss(x, w, b, labels, 0.1), inputs)


def test_fused_loss_needs_no_gradient(monkeypatch):
    monkeypatch.setattr(loss_module, "PLAIN_LIMIT", 20)
    head, x = Head(HeadConfig(vocab_size=7), 3, Embedding(7, 3)), torch.randn(2, 4, 3)
    labels = torch.randint(0, 7, (2, 4))
    torch.nn.init.normal_(head.weight)
    with torch.no_grad():
        fused = head_loss(head, x, labels, 0.0)
        torch.testing.assert_close(fused.sum, cross_entropy(head(x), labels).sum)


def test_fused_loss_of_ignored_labels_alone_is_zero_with_zero_gradients():
    x, weight = torch.randn(3, 4, requires_grad=True), torch.randn(6, 4, requires_grad=True)
    total = fused_head_loss(x, weight, None, torch.full((3,), IGNORED), 0.1)
    gradients = torch.autograd.grad(total, [x, weight])
    assert total.item() == 0
    assert all(gradient.eq(0).all() for gradient in gradients)


def test_fused_loss_under_autocast_is_near_the_float32_one():
    x, weight = torch.randn(40, 16, requires_grad=True), torch.randn(50, 16, requires_grad=True)
    labels = torch.randint(0, 50, (40,))
    results = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            total = fused_head_loss(x, weight, None, labels, 0.1)
        assert total.dtype == torch.float32
        results.append([total, *torch.autograd.grad(total, [x, weight])])
    for exact, coarse in zip(*results, strict=True):
        assert coarse.dtype == torch.float32
        torch.testing.assert_close(coarse, exact, atol=0.1, rtol=2**-5)


def test_o01_padded_rows_have_the_loss_and_gradients_of_each_row_alone(monkeypatch):
    """On either side, in any order; what stands in the padding is no matter, and gets no gradient."""
    monkeypatch.setattr(fused_module, "CHUNK_ON_CPU", 14)
    weight = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    rows = [torch.randn(n, 3, dtype=torch.float64) for n in (2, 5, 1)]
    labels = [torch.randint(0, 7, (len(row),)) for row in rows]

    def learned(x: Tensor, targets: Tensor) -> list[Tensor]:
        x = x.clone().requires_grad_()
        total = fused_head_loss(x, weight, None, targets, 0.1)
        return [total, *torch.autograd.grad(total, [x, weight])]

    alone = [learned(row, targets) for row, targets in zip(rows, labels, strict=True)]
    for order in ([0, 1, 2], [2, 0, 1]):
        for left in (True, False):
            x, targets = torch.full((3, 5, 3), 1e6, dtype=torch.float64), torch.full((3, 5), IGNORED)
            real = [slice(5 - len(rows[row]), 5) if left else slice(len(rows[row])) for row in order]
            for at, row in enumerate(order):
                x[at, real[at]], targets[at, real[at]] = rows[row], labels[row]
            total, dx, dw = learned(x.flatten(0, 1), targets.flatten())
            dx = dx.unflatten(0, (3, 5))
            torch.testing.assert_close(total, sum(each[0] for each in alone))
            torch.testing.assert_close(dw, sum(each[2] for each in alone))
            for at, row in enumerate(order):
                torch.testing.assert_close(dx[at, real[at]], alone[row][1])
                dx[at, real[at]] = 0.0
            assert dx.eq(0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_o13_sums_of_half_precision_are_in_float32(monkeypatch, dtype):
    """2,000 chunks of 10 tokens give what one of all gives, each gradient rounded once, at the end.

    Added up in half precision they would come to a stop: bfloat16 knows no number between 256 and 258.
    """
    inputs = [torch.randn(shape).to(dtype).requires_grad_() for shape in ((20_000, 8), (11, 8), (11,))]
    labels = torch.arange(20_000) % 3  # most words are never right: their gradients all have one sign
    results = []
    for chunk in (10 * 11, 20_000 * 11):
        monkeypatch.setattr(fused_module, "CHUNK_ON_CPU", chunk)
        total = fused_head_loss(*inputs, labels, 0.1)
        assert total.dtype == torch.float32
        results.append([total, *torch.autograd.grad(total, inputs)])
    for got, expected in zip(*results, strict=True):
        assert got.isfinite().all()
        size = float(expected.detach().abs().max())
        torch.testing.assert_close(got, expected, atol=1e-6 * size, rtol=torch.finfo(got.dtype).eps + 1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_o13_fused_loss_of_half_precision_is_the_plain_one(monkeypatch, dtype):
    """Of the same rounded logits, and both add up in float32: equal losses, gradients within a unit of the largest."""
    monkeypatch.setattr(fused_module, "CHUNK_ON_CPU", 50)
    inputs = [torch.randn(shape).to(dtype).requires_grad_() for shape in ((40, 8), (11, 8), (11,))]
    labels = torch.randint(0, 11, (40,)).masked_fill(torch.arange(40) % 4 == 1, IGNORED)
    plain = cross_entropy(torch.nn.functional.linear(*inputs), labels, 0.1).sum
    fused = fused_head_loss(*inputs, labels, 0.1)
    torch.testing.assert_close(fused, plain)
    for got, expected in zip(torch.autograd.grad(fused, inputs), torch.autograd.grad(plain, inputs), strict=True):
        unit = torch.finfo(dtype).eps * float(expected.abs().max())
        torch.testing.assert_close(got.float(), expected.float(), atol=unit, rtol=0)


def test_a_label_that_is_no_token_is_never_taken_for_one():
    """On an accelerator nobody looks at labels beforehand: a negative one must not count as token 0."""
    x, weight = torch.randn(2, 3), torch.randn(5, 3)
    for wrong in (-1, 5):
        with pytest.raises(RuntimeError):
            fused_head_loss(x, weight, None, torch.tensor([0, wrong]), 0.0)
