from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from glassformer.core.config import HeadConfig
from glassformer.core.places import IGNORED
from glassformer.models import loss as loss_module
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


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("limit", [4, 40, 60, 209])
def test_chunked_loss_equals_the_plain_one(monkeypatch, smoothing, limit):
    """30 tokens of 7 words are 210 logits; chunks of 1 (a quarter of 4 holds none), 1, 2 and 7 tokens, and a rest."""
    head = Head(HeadConfig(vocab_size=7, tied=False, bias=True), 3, Embedding(7, 3))
    with torch.no_grad():
        head.weight.normal_()
        head.bias.normal_()
    x = torch.randn(5, 6, 3, requires_grad=True)
    labels = torch.randint(0, 7, (5, 6))
    labels[1, 2:] = IGNORED
    plain = loss_and_gradients(head, x, labels, smoothing)

    widths = []

    def counted(states: Tensor) -> Tensor:
        widths.append(states.shape[0])
        return Head.forward(head, states)

    monkeypatch.setattr(loss_module, "PLAIN_LIMIT", limit)
    monkeypatch.setattr(head, "forward", counted)
    chunked = loss_and_gradients(head, x, labels, smoothing)
    assert max(widths) == max(1, limit // 4 // 7)
    for a, b in zip(chunked, plain, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_chunked_loss_needs_no_gradient(monkeypatch):
    monkeypatch.setattr(loss_module, "PLAIN_LIMIT", 20)
    head, x = Head(HeadConfig(vocab_size=7), 3, Embedding(7, 3)), torch.randn(2, 4, 3)
    labels = torch.randint(0, 7, (2, 4))
    torch.nn.init.normal_(head.weight)
    with torch.no_grad():
        chunked = head_loss(head, x, labels, 0.0)
        torch.testing.assert_close(chunked.sum, cross_entropy(head(x), labels).sum)
