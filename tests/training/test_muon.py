from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer.models.loss import cross_entropy
from glassformer.training.config import TrainingConfig
from glassformer.training.muon import HiddenMatrix, Muon, hidden_matrices, orthogonal
from glassformer.training.optimizer import build_optimizer

MUON = TrainingConfig(optimizer="muon", momentum=0.95, lr=0.1, weight_decay=0.0)


@pytest.mark.parametrize("shape", [(8, 8), (4, 16), (16, 4), (1, 5)])
def test_orthogonal_keeps_directions_and_makes_all_alike(shape):
    matrix = torch.randn(shape, dtype=torch.float64)
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    made = orthogonal(matrix)
    sizes = u.t() @ made @ v.t()
    assert ((sizes.diagonal() > 0.6) & (sizes.diagonal() < 1.3)).all()
    torch.testing.assert_close(sizes, torch.diag(sizes.diagonal()), atol=1e-6, rtol=0)


def test_orthogonal_does_not_depend_on_the_size_of_a_matrix_and_leaves_zeros():
    matrix = torch.randn(4, 6, dtype=torch.float64)
    torch.testing.assert_close(orthogonal(1e-12 * matrix), orthogonal(matrix))
    assert orthogonal(torch.zeros(4, 6)).eq(0).all()


def test_hidden_matrices_are_those_of_sublayers_cut_where_they_are_several(tiny):
    """Width 16, two heads of 8: q, k and v of self-attention in one parameter, k and v of cross-attention in one."""
    model = tiny(kind="encoder_decoder", n_layers=1)
    named = {id(parameter): name for name, parameter in model.named_parameters()}
    found = {named[id(matrix.parameter)]: matrix.rows for matrix in hidden_matrices(model)}
    assert found == {
        "encoder.blocks.0.attention.qkv.weight": (16, 16, 16),
        "encoder.blocks.0.attention.output.weight": (16,),
        "encoder.blocks.0.feed_forward.inner.weight": (24,),
        "encoder.blocks.0.feed_forward.output.weight": (16,),
        "decoder.blocks.0.attention.qkv.weight": (16, 16, 16),
        "decoder.blocks.0.attention.output.weight": (16,),
        "decoder.blocks.0.cross_attention.q.weight": (16,),
        "decoder.blocks.0.cross_attention.kv.weight": (16, 16),
        "decoder.blocks.0.cross_attention.output.weight": (16,),
        "decoder.blocks.0.feed_forward.inner.weight": (24,),
        "decoder.blocks.0.feed_forward.output.weight": (16,),
    }


def test_every_parameter_is_moved_once(tiny):
    model = tiny(kind="encoder_decoder")
    optimizer = build_optimizer(model, MUON)
    held = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(held) == sorted(id(p) for p in model.parameters())


def test_first_step_of_a_matrix_is_the_documented_one(tiny):
    """With no momentum yet u is g but for its size, so w becomes w - lr 0.2 sqrt(16) orthogonal(g) for q, k and v."""
    model = tiny()
    optimizer = build_optimizer(model, MUON)
    weight = model.decoder.blocks[0].attention.qkv.weight
    before, gradient = weight.detach().clone(), torch.randn_like(weight)
    weight.grad = gradient
    optimizer.step()
    moved = torch.cat([0.1 * 0.2 * 16**0.5 * orthogonal(part) for part in gradient.split(16)])
    torch.testing.assert_close(before - weight.detach(), moved, atol=1e-5, rtol=1e-4)


def test_what_is_no_hidden_matrix_moves_as_with_adamw(tiny):
    results = []
    for name in ("muon", "adamw"):
        model = tiny()
        optimizer = build_optimizer(model, TrainingConfig(optimizer=name, lr=0.01, weight_decay=0.1))
        for _ in range(3):
            optimizer.zero_grad()
            for index, parameter in enumerate(model.parameters()):
                parameter.grad = torch.full_like(parameter, 0.1 * (index + 1))
            optimizer.step()
        hidden = {id(matrix.parameter) for matrix in hidden_matrices(model)}
        results.append([p for p in model.parameters() if id(p) not in hidden])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_one_whole_matrix_moves_as_with_torchs_muon():
    """Theirs multiplies in bfloat16, hence the tolerance: 2^-8 of each of the five rounds' numbers, near 1."""
    weight, gradient = torch.randn(12, 20), torch.randn(12, 20)
    ours, theirs = nn.Parameter(weight.clone()), nn.Parameter(weight.clone())
    settings = {"momentum": 0.95, "weight_decay": 0.0}
    mine = Muon([HiddenMatrix(ours, (12,))], ([], []), lr=0.1, betas=(0.9, 0.98), eps=1e-9, **settings)
    other = torch.optim.Muon([theirs], lr=0.1, adjust_lr_fn="match_rms_adamw", **settings)
    for _ in range(3):
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        mine.step()
        other.step()
    size = 3 * 0.1 * 0.2 * 20**0.5
    torch.testing.assert_close(ours, theirs, atol=0.06 * size, rtol=0)


def test_muon_learns_and_its_state_can_be_saved(tiny):
    tokens = torch.randint(0, 32, (4, 9))
    losses = []
    for again in (False, True):
        model = tiny()
        optimizer = build_optimizer(model, TrainingConfig(optimizer="muon", lr=0.01, momentum=0.95))
        for step in range(12):
            if again and step == 6:
                fresh = build_optimizer(model, TrainingConfig(optimizer="muon", lr=0.01, momentum=0.95))
                fresh.load_state_dict(optimizer.state_dict())
                optimizer = fresh
            optimizer.zero_grad()
            loss = cross_entropy(model(tokens[:, :-1]), tokens[:, 1:]).mean
            loss.backward()
            optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[0] == losses[1] < 2.5


def test_restored_step_counts_stand_where_the_parameters_do():
    """What is saved lies in the memory of the processor; the kernel wants the counts on the parameters' device."""
    settings = {"lr": 0.1, "momentum": 0.95, "betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": 0.0}
    saved, other = nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(2, 3, device="meta"))
    optimizer, restored = (Muon([], ([parameter], []), **settings) for parameter in (saved, other))
    saved.grad = torch.ones(2, 3)
    optimizer.step()
    groups = restored.state_dict()["param_groups"]
    restored.load_state_dict({"state": optimizer.state_dict()["state"], "param_groups": groups})
    assert {name: value.device.type for name, value in restored.state[other].items()} == dict.fromkeys(
        ("step", "exp_avg", "exp_avg_sq"), "meta"
    )
