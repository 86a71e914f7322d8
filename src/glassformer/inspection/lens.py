"""What a model would say if it ended after each of its layers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.core.errors import UnsupportedError
from glassformer.core.tape import Tape
from glassformer.inspection.sample import CHUNK_NUMBERS, Sample, kind_of
from glassformer.models.inference import inference
from glassformer.models.transformer import Transformer

MOST_PRODUCTS = 3e11
"""Multiplications of states with the head's matrix; positions beyond them are left out, the first ones first."""


@dataclass(frozen=True, eq=False)
class Lens:
    """The most probable tokens at each position after each layer.

    Attributes:
        ids: The most probable first. *Shape:* (layers, positions, k).
        probabilities: Of `ids`. *Shape:* (layers, positions, k).
        settled: The first layer from which on the first guess is that of the last layer. *Shape:* (positions).
        first: The first position that was looked at; those before are left out, where all would take too long.
        shift: 1 where a position says the next token, 0 where it says its own.
    """

    ids: Int[Tensor, "layer position k"]
    probabilities: Float[Tensor, "layer position k"]
    settled: Int[Tensor, " position"]
    first: int
    shift: int


def lens(model: Transformer, sample: Sample, *, top: int = 5, most_products: float = MOST_PRODUCTS) -> Lens:
    """Return the guesses of every layer of the stack that speaks.

    p_l = softmax(head(final_norm(x_l))) with x_l the residual stream after block l: the model's own last step, taken
    early. After the last block it is what the model says.

    Args:
        model: One that says a token at each position, in any mode; it is left in it.
        sample: What it reads.
        top: Guesses that are kept of each position, k.
        most_products: Multiplications that may be made; see `MOST_PRODUCTS`.

    Raises:
        UnsupportedError: The model says nothing of single tokens.

    Source: nostalgebraist 2020, "interpreting GPT: the logit lens".
    """
    if kind_of(model) not in ("next", "same"):
        raise UnsupportedError("this model says something of a text as a whole, and nothing of its single tokens")
    stack, head = model.output_stack, model.head
    assert head is not None
    assert head.weight is not None, "what says tokens has a head"
    positions, layers = len(sample.tokens), len(stack.blocks)
    affordable = int(most_products // (layers * head.weight.numel()))
    first = max(0, positions - max(1, affordable))
    tape = Tape(model, f"{stack.site}.blocks.*.residual", reduce=lambda x: x[0, first:])
    ids, probabilities = [], []
    step = max(1, CHUNK_NUMBERS // len(head.weight))
    with inference(model.modules()):
        sample.states(model, tape)
        for layer in range(layers):
            states = tape[f"{stack.site}.blocks.{layer}.residual"]
            found = []
            for part in states.split(step):
                normed = part if stack.final_norm is None else stack.final_norm(part)
                found.append(head(normed).float().softmax(-1).topk(min(top, len(head.weight))))
            ids.append(torch.cat([each.indices for each in found]).cpu())
            probabilities.append(torch.cat([each.values for each in found]).cpu())
    guesses = torch.stack(ids)
    kept = (guesses[:, :, 0] == guesses[-1, :, 0]).int().flip(0).cummin(0).values.flip(0)  # equal from here to the end
    settled = layers - kept.sum(0)
    return Lens(guesses, torch.stack(probabilities), settled, first, int(model.config.output_stack.causal))
