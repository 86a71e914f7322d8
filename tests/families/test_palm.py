from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from glassformer.checkpoint.foreign import to_foreign
from glassformer.core.errors import UnsupportedError
from glassformer.families.palm import PALM
from glassformer.models.transformer import Transformer
from glassformer.parts.init import init_table

from .parity import parameters_of, rows
from .tiny import VOCAB_SIZE, drawn

TINY = PALM.presets["palm-tiny"].arguments


def palm(weights: dict[str, Tensor], tokens: Tensor) -> Tensor:
    """The paper's sections 2 and 5 for one row, written down by themselves. *Shape:* (T,) -> (T, V)."""
    n_heads, d_head, d_model = TINY.n_heads, TINY.d_head, TINY.d_model
    embedding = weights["decoder.input.embedding.weight"]
    positions = torch.arange(len(tokens), dtype=embedding.dtype)
    speeds = 10_000.0 ** (-torch.arange(0, d_head, 2, dtype=embedding.dtype) / d_head)
    turn = torch.exp(1j * positions[:, None] * speeds)  # (T, E/2)
    hidden = torch.ones(len(tokens), len(tokens), dtype=torch.bool).triu(1)

    def norm(x: Tensor, gain: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * gain

    def turned(x: Tensor) -> Tensor:
        z = torch.complex(x[:, : d_head // 2], x[:, d_head // 2 :]) * turn
        return torch.cat((z.real, z.imag), dim=1)

    x = embedding[tokens]
    for layer in range(TINY.n_layers):
        part = {
            name.removeprefix(f"decoder.blocks.{layer}."): weight
            for name, weight in weights.items()
            if name.startswith(f"decoder.blocks.{layer}.")
        }
        h = norm(x, part["attention_norm.weight"])
        qkv = h @ part["attention.qkv.weight"].T
        *queries, key, value = qkv.split(d_head, dim=1)
        assert len(queries) == n_heads
        heads = []
        for query in queries:
            scores = turned(query) @ turned(key).T / math.sqrt(d_head)
            heads.append(scores.masked_fill(hidden, -math.inf).softmax(-1) @ value)
        attention = torch.cat(heads, dim=1) @ part["attention.output.weight"].T
        gate = h @ part["feed_forward.gate.weight"].T
        inner = gate * gate.sigmoid() * (h @ part["feed_forward.inner.weight"].T)
        x = x + inner @ part["feed_forward.output.weight"].T + attention
    return norm(x, weights["decoder.final_norm.weight"]) @ embedding.T / math.sqrt(d_model)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize(("dtype", "most"), [(torch.float64, 1e-9), (torch.float32, 2e-5)])
@torch.no_grad()
def test_logits_are_the_papers(side, dtype, most):
    model = drawn(TINY.resolve(VOCAB_SIZE)).to(dtype)
    weights = dict(model.named_parameters())
    given = rows(VOCAB_SIZE, side)
    logits = model(given.tokens, places=given.places)
    for row, real in enumerate(given.places.is_token):
        expected = palm(weights, given.tokens[row, real])
        difference = (logits[row, real] - expected).abs().max() / expected.abs().max()
        assert float(difference) <= most


def test_gradients_are_the_papers():
    model = drawn(TINY.resolve(VOCAB_SIZE)).double()
    weights = dict(model.named_parameters())
    tokens, labels = torch.randint(VOCAB_SIZE, (2, 7))
    ours = torch.nn.functional.cross_entropy(model(tokens[None])[0], labels)
    theirs = torch.nn.functional.cross_entropy(palm(weights, tokens), labels)
    for (name, parameter), one in zip(weights.items(), torch.autograd.grad(ours, list(weights.values())), strict=True):
        (other,) = torch.autograd.grad(theirs, parameter, retain_graph=True)
        assert float((one - other).abs().max() / other.abs().max()) <= 1e-8, name


@pytest.mark.parametrize(("name", "printed"), [("palm-8b", "8.63"), ("palm-62b", "62.50"), ("palm-540b", "540.35")])
def test_published_sizes_have_the_published_numbers_of_parameters(name, printed):
    """To all printed digits, if the gains of layer norm are left out; with them the largest has 540.36."""
    size = PALM.presets[name]
    arguments = size.arguments
    assert parameters_of(arguments.resolve(size.vocab_size)) == size.parameters
    gains = (arguments.n_layers + 1) * arguments.d_model
    assert f"{(size.parameters - gains) / 1e9:.2f}" == printed


def test_model_is_drawn_as_the_paper_says():
    """Embedding 1, every other matrix 1 / sqrt of the numbers that go in; so the first scores are near 1."""
    with torch.device("meta"):
        table = init_table(Transformer(TINY.resolve(300)), TINY.init)
    for row in table:
        if row.role == "embedding":
            assert row.expected_std == 1.0
        elif row.role != "gain":
            assert row.expected_std == pytest.approx(row.tensor.shape[1] ** -0.5)
    logits = Transformer(TINY.resolve(300))(torch.randint(300, (4, 20))).detach()
    assert 0.5 < float(logits.std()) < 2.0


def test_there_is_no_checkpoint_of_it():
    with pytest.raises(UnsupportedError, match="there are no checkpoints of palm"):
        PALM.read({"model_type": "palm"})
    with pytest.raises(UnsupportedError, match="no checkpoints"):
        to_foreign(drawn(TINY.resolve(VOCAB_SIZE)), PALM)
