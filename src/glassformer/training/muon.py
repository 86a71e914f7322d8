"""Muon: matrices are moved in all directions alike, everything else as Adam does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.adamw import adamw

from glassformer.parts.part import Part

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""a, b, c of the polynomial a s + b s^3 + c s^5, which five times in a row takes any s from 0.001 to 1 near 1."""

ADAMS_SIZE = 0.2
"""Root mean square of Adam's usual update, so that one learning rate serves both."""


@dataclass(frozen=True, eq=False)
class HiddenMatrix:
    """A parameter that maps states to states, and how it is cut into matrices of their own.

    Attributes:
        parameter: One matrix, or several on top of each other, such as q, k and v.
        rows: Rows of each.
    """

    parameter: nn.Parameter
    rows: tuple[int, ...]


def hidden_matrices(model: nn.Module) -> list[HiddenMatrix]:
    """Return the matrices inside sublayers; tables, the head, gains and offsets are none.

    Args:
        model: A model built from parts.
    """
    found: dict[int, tuple[nn.Parameter, list[int]]] = {}
    of_storage = {parameter.data_ptr(): parameter for parameter in model.parameters() if parameter.requires_grad}
    for part in model.modules():
        for matrix in part.matrices() if isinstance(part, Part) else ():
            whole = matrix.tensor if matrix.tensor._base is None else matrix.tensor._base
            parameter = of_storage.get(whole.data_ptr())
            if matrix.role in ("linear", "residual") and parameter is not None:
                found.setdefault(id(parameter), (parameter, []))[1].append(len(matrix.tensor))
    return [HiddenMatrix(parameter, tuple(rows)) for parameter, rows in found.values()]


class Muon(Optimizer):
    """Momentum whose singular values are all made about 1, for the matrices inside sublayers; AdamW for the rest.

    m = mu m + (1 - mu) g;  u = (1 - mu) g + mu m;  w = w - lr (decay w + 0.2 sqrt(max(rows, columns)) orthogonal(u)).

    A gradient is usually large in few directions. Made orthogonal, the rare directions count as much as the frequent
    ones, and far fewer updates are needed.

    torch's own Muon takes whole parameters and multiplies in bfloat16: it would mix q, k and v, which are one parameter
    here, and is slow where a processor has no units for bfloat16.

    Args:
        hidden: From `hidden_matrices`.
        others: All other parameters, in two groups: those that decay, and those that do not.
        lr: Learning rate, of all groups.
        momentum: mu.
        betas: Adam's two decay rates.
        eps: Added to Adam's denominator.
        weight_decay: Of the matrices and of the first group of others.

    Source: Jordan et al. 2024, "Muon: an optimizer for hidden layers"; the size of an update: Liu et al. 2025,
    arXiv:2502.16982, equation 4.
    """

    def __init__(
        self,
        hidden: Sequence[HiddenMatrix],
        others: tuple[Sequence[nn.Parameter], Sequence[nn.Parameter]],
        *,
        lr: float,
        momentum: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
    ) -> None:
        self._rows = {id(matrix.parameter): list(matrix.rows) for matrix in hidden}
        decays, stays = (list(group) for group in others)
        groups: list[dict[str, Any]] = [
            {"params": [matrix.parameter for matrix in hidden], "orthogonal": True, "weight_decay": weight_decay},
            {"params": decays, "orthogonal": False, "weight_decay": weight_decay},
            {"params": stays, "orthogonal": False, "weight_decay": 0.0},
        ]
        # "fused" also tells load_state_dict to put the step counts where the parameters are, as the kernel wants them.
        defaults = {"lr": lr, "momentum": momentum, "betas": betas, "eps": eps, "fused": True}
        super().__init__([group for group in groups if group["params"]], defaults)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Make one update."""
        for group in self.param_groups:
            learned = [parameter for parameter in group["params"] if parameter.grad is not None]
            if group["orthogonal"]:
                self._move(learned, group)
            elif learned:
                self._adam(learned, group)

    def _move(self, learned: list[Tensor], group: dict[str, Any]) -> None:
        """Matrices of one shape are made orthogonal together: one by one they are too small to keep a machine busy."""
        of_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = {}
        for parameter in learned:
            rows = self._rows[id(parameter)]
            update = self._with_momentum(parameter, group["momentum"])
            for weight, direction in zip(parameter.split(rows), update.split(rows), strict=True):
                of_shape.setdefault(weight.shape, []).append((weight, direction))
        for shape, pairs in of_shape.items():
            directions = orthogonal(torch.stack([direction for _, direction in pairs]))
            size = group["lr"] * ADAMS_SIZE * math.sqrt(max(shape))
            for (weight, _), direction in zip(pairs, directions, strict=True):
                weight.mul_(1 - group["lr"] * group["weight_decay"]).sub_(direction, alpha=size)

    def _with_momentum(self, parameter: Tensor, momentum: float) -> Tensor:
        assert parameter.grad is not None, "filtered before"
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        state["momentum"].lerp_(parameter.grad, 1 - momentum)
        return parameter.grad.lerp(state["momentum"], momentum)

    def _adam(self, learned: list[Tensor], group: dict[str, Any]) -> None:
        for parameter in learned:
            if not self.state[parameter]:
                self.state[parameter] = {
                    "step": torch.zeros((), device=parameter.device),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }
        states = [self.state[parameter] for parameter in learned]
        beta1, beta2 = group["betas"]
        adamw(
            learned,
            [parameter.grad for parameter in learned if parameter.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=group["fused"],
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )


def orthogonal(matrices: Float[Tensor, "*batch rows columns"], steps: int = 5) -> Float[Tensor, "*batch rows columns"]:
    """Return about U V^T for each matrix U S V^T: the same directions, each of size 0.7 to 1.2.

    X = G / |G|;  five times: A = X X^T,  X = a X + (b A + c A A) X.

    Args:
        matrices: G; of zeros it stays zeros. *Shape:* (..., R, C).
        steps: How often.

    Source: Jordan et al. 2024, as above.
    """
    a, b, c = NEWTON_SCHULZ
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.reshape(-1, *matrices.shape[-2:])
    x = x.mT if tall else x
    x = x / x.flatten(1).norm(dim=1).clamp(min=1e-30)[:, None, None]
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).reshape(matrices.shape)
