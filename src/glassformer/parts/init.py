"""The table of initial values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.core.config import InitConfig, InitRule
from glassformer.parts.part import Matrix, Part, Role
from glassformer.parts.stack import Stack

TRUNCATED_STD = 0.87962566
"""Standard deviation of a normal distribution of std 1 that is cut at -2 and +2."""


@dataclass(frozen=True, eq=False)
class InitRow:
    """How one matrix of a model is drawn.

    Attributes:
        name: Its full name ("decoder.blocks.0.attention.q.weight").
        tensor: The parameter, or the slice of it.
        role: What it is for.
        kind: An `InitRule`'s kind, or "ones".
        expected_std: Standard deviation it should have after drawing.
        additions: By how many residual additions the variance is divided; 1 = not.
    """

    name: str
    tensor: Tensor
    role: Role
    kind: str
    expected_std: float
    additions: int = 1

    @property
    def words(self) -> str:
        """The rule as `summary` prints it."""
        return self.kind if self.additions == 1 else f"{self.kind} / sqrt({self.additions})"


def init_table(model: nn.Module, config: InitConfig) -> list[InitRow]:
    """Return how every parameter of a model is drawn, in the order in which it is drawn.

    Args:
        model: A model built from parts.
        config: The rules by role.
    """
    rules: dict[str, InitRule] = {
        "embedding": config.embedding,
        "linear": config.linear,
        "residual": config.residual,
        "head": config.head,
        "offset": InitRule(kind="zeros"),
    }
    rows = []
    for path, matrix in _matrices(model):
        name = f"{path}.{matrix.name}" if path else matrix.name
        if matrix.role == "gain":
            rows.append(InitRow(name, matrix.tensor, matrix.role, "ones", 0.0))
            continue
        rule = rules[matrix.role]
        depth = _residual_additions(model, path) if rule.depth_scaled else 1
        std = _std(rule, matrix) / math.sqrt(depth)
        rows.append(InitRow(name, matrix.tensor, matrix.role, rule.kind, std, depth))
    return rows


@torch.no_grad()
def initialise(model: nn.Module, config: InitConfig, generator: torch.Generator | None = None) -> None:
    """Draw every parameter of a model by the table.

    Args:
        model: A model built from parts.
        config: The rules by role.
        generator: Source of randomness; torch's global one when None.

    Source: Xavier: Glorot and Bengio 2010, equation 16; depth scaling: Radford et al. 2019 (GPT-2), section
    2.3.
    """
    for row in init_table(model, config):
        std = row.expected_std
        if row.kind == "ones":
            row.tensor.fill_(1.0)
        elif row.kind == "zeros":
            row.tensor.zero_()
        elif row.kind == "xavier":
            bound = math.sqrt(3.0) * std  # a uniform distribution on (-a, a) has variance a^2 / 3
            row.tensor.uniform_(-bound, bound, generator=generator)
        elif row.kind == "truncated_normal":
            wide = std / TRUNCATED_STD
            nn.init.trunc_normal_(row.tensor, 0.0, wide, -2 * wide, 2 * wide, generator=generator)
        else:
            row.tensor.normal_(0.0, std, generator=generator)


def _std(rule: InitRule, matrix: Matrix) -> float:
    if rule.kind == "zeros":
        return 0.0
    fan_out, fan_in = matrix.tensor.shape
    if rule.kind.startswith("xavier"):
        return rule.gain * math.sqrt(2.0 / (fan_in + fan_out))
    d_model = fan_out if matrix.role == "residual" else fan_in  # one writes to the stream, the others read it
    widths = {"d_model": d_model, "fan_in": fan_in}
    std = 1.0 / math.sqrt(widths[rule.std]) if isinstance(rule.std, str) else rule.std
    return std * TRUNCATED_STD if rule.kind == "truncated_normal" else std


def _matrices(model: nn.Module) -> Iterator[tuple[str, Matrix]]:
    """Every matrix once: a shared table is one module, and a tied head does not list it again."""
    for path, module in model.named_modules():
        for matrix in module.matrices() if isinstance(module, Part) else ():
            yield path, matrix


def _residual_additions(model: nn.Module, path: str) -> int:
    """How many sublayers write to the residual stream around the part at `path`; 1 outside of any stack."""
    for begin, module in model.named_modules():
        if isinstance(module, Stack) and (not begin or path.startswith(f"{begin}.")):
            return sum(2 + (block.cross_attention is not None) for block in module.config.blocks)
    return 1
