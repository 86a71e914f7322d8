from __future__ import annotations

import math

import pytest
import torch

from glassformer.data.batch import Batch
from glassformer.data.pairs import pair_batch
from glassformer.models.loss import cross_entropy
from glassformer.models.output import Loss
from glassformer.training.objective import objective

LOGITS, LABELS = torch.tensor([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0]]), torch.tensor([0, -100])


def test_o23_label_smoothing_ignores_what_is_ignored():
    """-log p(0) = ln(1 + 2 e^-2) = 0.239545; smoothed 0.9 * 0.239545 + 0.1 / 3 (0.239545 + 2 * 2.239545) = 0.372878."""
    logits = LOGITS.clone().requires_grad_()
    loss = cross_entropy(logits, LABELS, 0.1)
    assert loss.sum.item() == loss.mean.item() == pytest.approx(0.372878, abs=1e-6)
    assert int(loss.count) == 1
    loss.sum.backward()
    assert torch.equal(logits.grad[1], torch.zeros(3))
    assert float(cross_entropy(LOGITS, LABELS).mean) == pytest.approx(math.log(1 + 2 * math.exp(-2)), abs=1e-6)
    assert math.log(1 + 2 * math.exp(-2)) == pytest.approx(0.239545, abs=1e-6)


def test_o08_losses_are_added_and_divided_once():
    """{4} and {2, 2, 2}: 10 / 4 = 2.5, not the mean of means 3; perplexity exp(2.5) = 12.1825."""
    loss = Loss(torch.tensor(4.0), torch.tensor(1)) + Loss(torch.tensor(6.0), torch.tensor(3))
    assert float(loss.mean) == 2.5
    assert math.exp(2.5) == pytest.approx(12.1825, abs=1e-4)
    assert float(Loss(torch.tensor(0.0), torch.tensor(0)).mean) == 0.0


def test_objective_of_a_decoder_is_the_loss_of_its_labels(tiny):
    model = tiny()
    inputs = torch.tensor([[1, 2, 3], [4, 5, 0]])
    labels = torch.tensor([[2, 3, 4], [5, 6, -100]])
    batch = Batch(inputs, (3, 2), labels, (0, 1))
    loss = objective(model, batch)
    assert int(loss.count) == 5
    alone = [model(inputs[:1], labels=labels[:1]), model(inputs[1:, :2], labels=labels[1:, :2])]
    assert loss.sum.item() == pytest.approx(sum(row.sum.item() for row in alone), rel=1e-6)
    assert objective(model, batch, label_smoothing=0.1).sum.item() != loss.sum.item()


def test_objective_of_an_encoder_decoder_reads_the_source(tiny):
    """Rows of different length give together what they give alone: neither side's padding counts."""
    model = tiny(kind="encoder_decoder")
    pairs = [([5, 6, 7, 8], [8, 7]), ([9], [9, 10, 11])]
    together = objective(model, pair_batch(pairs, [0, 1], bos=1, eos=2, pad=0))
    alone = [objective(model, pair_batch([pair], [0], bos=1, eos=2, pad=0)) for pair in pairs]
    assert int(together.count) == 7
    assert together.sum.item() == pytest.approx(sum(loss.sum.item() for loss in alone), rel=1e-6)
    other = objective(model, pair_batch([([5, 6, 7, 9], [8, 7]), pairs[1]], [0, 1], bos=1, eos=2, pad=0))
    assert other.sum.item() != together.sum.item()
