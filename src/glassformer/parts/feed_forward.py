"""The position-wise network, where most parameters live."""

from __future__ import annotations

from collections.abc import Iterator

from jaxtyping import Float
from torch import Tensor, nn

from glassformer.core.call import Call
from glassformer.core.config import FeedForwardConfig
from glassformer.parts.activation import ACTIVATIONS
from glassformer.parts.dropout import dropout
from glassformer.parts.part import Matrix, Part, linear_matrices


class FeedForward(Part):
    """Widen each position's vector, bend it, and narrow it again; no position sees another.

    plain: y = W_out act(W_in x + b_in) + b_out;  gated: y = W_out (act(W_gate x) * W_in x).

    Args:
        config: Inner width, activation, gate, offsets, dropout.
        d_model: Width of the residual stream, D.

    Source: Vaswani et al. 2017, arXiv:1706.03762, equation 2; gated: Shazeer 2020, arXiv:2002.05202, equation
    6.
    """

    notes = {  # noqa: RUF012 - read-only by its declaration in Part
        "before_activation": "B T F",
        "factor": "B T F",
        "inner": "B T F",
        "output": "B T D",
    }

    def __init__(self, config: FeedForwardConfig, d_model: int) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.gate = nn.Linear(d_model, config.d_ff, bias=config.bias) if config.gated else None
        self.inner = nn.Linear(d_model, config.d_ff, bias=config.bias)
        self.output = nn.Linear(config.d_ff, d_model, bias=config.bias)
        self.dropout = config.dropout
        if self.gate is None:
            self.notes = {name: shape for name, shape in self.notes.items() if name != "factor"}

    def matrices(self) -> Iterator[Matrix]:
        """Yield the projections."""
        if self.gate is not None:
            yield from linear_matrices("gate", self.gate, "linear")
        yield from linear_matrices("inner", self.inner, "linear")
        yield from linear_matrices("output", self.output, "residual")

    def forward(self, x: Float[Tensor, "batch length d_model"], call: Call) -> Float[Tensor, "batch length d_model"]:
        """Return the network's output for every position. *Shape:* (B, T, D)."""
        bent = self.activation(call.note(self, "before_activation", (self.gate or self.inner)(x)))  # (B, T, F)
        inner = bent if self.gate is None else bent * call.note(self, "factor", self.inner(x))
        inner = call.note(self, "inner", dropout(inner, self.dropout, self.training))
        return call.note(self, "output", self.output(inner))
