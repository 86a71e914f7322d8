from __future__ import annotations

import pytest
import torch

from glassformer.training.config import TrainingConfig
from glassformer.training.optimizer import build_optimizer


@pytest.mark.parametrize(
    ("name", "kind"), [("adamw", torch.optim.AdamW), ("adam", torch.optim.Adam), ("sgd", torch.optim.SGD)]
)
def test_every_parameter_is_in_one_group_and_vectors_do_not_decay(tiny, name, kind):
    model = tiny()
    optimizer = build_optimizer(model, TrainingConfig(optimizer=name, weight_decay=0.1))
    assert type(optimizer) is kind
    groups = optimizer.param_groups
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    assert {p.ndim for p in groups[0]["params"]} == {2}
    assert {p.ndim for p in groups[1]["params"]} == {1}
    held = [id(p) for group in groups for p in group["params"]]
    assert sorted(held) == sorted(id(p) for p in model.parameters())


def test_o11_tied_matrix_is_updated_once(tiny):
    for tied, matrices in ((True, 1), (False, 2)):
        model = tiny(tied=tied)
        tables = [p for p in model.parameters() if p.shape == (32, 16)]
        assert len(tables) == matrices
        optimizer = build_optimizer(model, TrainingConfig())
        model(torch.tensor([[1, 2]]), labels=torch.tensor([[2, 3]])).mean.backward()
        optimizer.step()
        assert len(optimizer.state) == len(list(model.parameters()))


def test_frozen_parameters_are_left_out(tiny):
    model = tiny()
    model.head.weight.requires_grad_(False)
    optimizer = build_optimizer(model, TrainingConfig())
    assert all(p is not model.head.weight for group in optimizer.param_groups for p in group["params"])


def test_model_without_vectors_has_one_group(tiny):
    model = tiny(bias=False, norm="none")
    assert len(build_optimizer(model, TrainingConfig()).param_groups) == 1


@pytest.mark.parametrize("name", ["adamw", "adam", "sgd"])
def test_first_step_is_the_documented_one(name):
    """One weight 1, gradient 0.5, rate 0.1, decay 0.2; with the bias corrected, Adam's first step has the size lr.

    adamw: 1 - 0.1 * 0.2 * 1 - 0.1 = 0.88;  adam adds the decay to the gradient, whose size does not matter: 1 - 0.1
    = 0.9;  sgd: 1 - 0.1 (0.5 + 0.2 * 1) = 0.93.
    """
    layer = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(layer.weight)
    optimizer = build_optimizer(layer, TrainingConfig(optimizer=name, lr=0.1, weight_decay=0.2))
    layer.weight.grad = torch.tensor([[0.5]])
    optimizer.step()
    assert layer.weight.item() == pytest.approx({"adamw": 0.88, "adam": 0.9, "sgd": 0.93}[name], abs=1e-6)
