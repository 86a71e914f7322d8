"""Every family is one graph without breaks, and the same numbers: the tiny presets of the registry."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from glassformer.core.config import StackConfig, TransformerConfig
from glassformer.core.places import Places
from glassformer.families.registry import FAMILIES
from glassformer.models.transformer import Transformer

from .tiny import VOCAB_SIZE, drawn

TOKENS = torch.tensor([[5, 6, 7, 8, 9], [2, 2, 10, 11, 12]])
PADDED = Places.from_lengths([5, 3], side="left")

SIZES = [
    pytest.param(size.arguments.resolve(VOCAB_SIZE), id=name)
    for family in FAMILIES
    for name, size in family.presets.items()
    if name.endswith("-tiny")
]


class Whole(torch.nn.Module):
    """Encoder and decoder in one call."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, places: Places) -> Tensor:
        both = self.model.encoder is not None and self.model.decoder is not None
        memory = self.model.encode(tokens, places=places) if both else None
        logits: Tensor = self.model(tokens, places=places, memory=memory)
        return logits


def _one_layer(stack: StackConfig | None) -> StackConfig | None:
    """All layers of a tiny preset are alike, and each is traced anew."""
    if stack is None:
        return None
    assert len(set(stack.blocks)) == 1
    return stack.model_copy(update={"blocks": stack.blocks[:1]})


def _same(config: TransformerConfig, backend: str, limit: float, *layouts: Places) -> None:
    torch._dynamo.reset()
    stacks = {name: _one_layer(stack) for name, stack in (("encoder", config.encoder), ("decoder", config.decoder))}
    model = Whole(drawn(config.model_copy(update=stacks)))
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    for places in layouts:
        with torch.no_grad():
            expected, found = model(TOKENS, places), compiled(TOKENS, places)
        real = places.is_token.expand(2, -1)
        size = float(expected[real].abs().max())
        torch.testing.assert_close(found[real], expected[real], atol=limit * size, rtol=0)


@pytest.mark.parametrize("config", SIZES)
def test_o37_compiled_equals_eager(config):
    _same(config, "eager", 2e-6, Places.full(5), PADDED)  # a graph writes the GELU of T5 v1.1 with an exponential


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's compiler warns of torch itself
@pytest.mark.parametrize("config", SIZES)
def test_o37_compiled_to_code_equals_eager(config):
    _same(config, "inductor", 2e-5, PADDED)
