"""What turns gradients into new parameters."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from glassformer.training.config import TrainingConfig
from glassformer.training.muon import Muon, hidden_matrices


def build_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Return the optimizer that a config describes, over two groups: matrices, which may decay, and vectors.

    adam:  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  w = w - lr m^ / (sqrt(v^) + eps), ^ = bias-corrected;
    adamw: the same, and w = w - lr * decay * w;  sgd: m = momentum m + g;  w = w - lr m.
    adam and sgd add decay * w to the gradient g instead. muon: see `Muon`.

    A tied matrix is one parameter and is updated once.

    Source: Kingma and Ba 2014, arXiv:1412.6980; Loshchilov and Hutter 2017, arXiv:1711.05101.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    lr = config.lr if config.lr is not None else 1.0  # the loop sets every update's rate before it is used
    if config.optimizer == "muon":
        hidden = hidden_matrices(model)
        taken = {id(matrix.parameter) for matrix in hidden}
        parameters = [p for p in parameters if id(p) not in taken]
    matrices, vectors = [p for p in parameters if p.ndim >= 2], [p for p in parameters if p.ndim < 2]
    if config.optimizer == "muon":
        return Muon(
            hidden,
            (matrices, vectors),
            lr=lr,
            momentum=config.momentum,
            betas=config.betas,
            eps=config.eps,
            weight_decay=config.weight_decay,
        )
    groups: list[dict[str, Any]] = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=lr, momentum=config.momentum)
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, lr=lr, betas=config.betas, eps=config.eps, fused=True)
