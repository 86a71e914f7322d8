"""Relative positions inside attention, against a loop over every query and key."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from glassformer.core.attention_config import AttentionConfig
from glassformer.core.call import Call, Sight
from glassformer.core.mask import Mask
from glassformer.core.places import Places
from glassformer.core.tape import Tape
from glassformer.models.arguments import AttentionArguments, ModelArguments
from glassformer.models.transformer import Transformer
from glassformer.parts.attention import Attention
from glassformer.parts.distances import Distances

LAYOUTS = [
    Places.full(5),
    Places.from_lengths([5, 3], 6),
    Places.from_lengths([4, 2], 6, side="left"),
    Places.packed([[3, 2], [1, 4]]),
]


def drawn(max_distance: int, d_head: int, dtype: torch.dtype = torch.float64) -> Distances:
    part = Distances(max_distance, d_head).to(dtype)
    with torch.no_grad():
        part.key.normal_()
        part.value.normal_()
    return part


def loop(q: Tensor, k: Tensor, v: Tensor, part: Distances, sight: Sight, scale: float) -> Tensor:
    """Equations 3 to 5 read out loud; one query head for each key head."""
    seen, out = sight.dense(), torch.zeros_like(q)
    n_rows, n_heads, length, _ = q.shape
    for b in range(n_rows):
        position = sight.queries.position.expand(n_rows, -1)[b].tolist()
        for h in range(n_heads):
            for t in range(length):
                keys = [s for s in range(length) if seen.expand(n_rows, -1, -1, -1)[b, 0, t, s]]
                if not keys:
                    continue
                clipped = [max(-part.max_distance, min(part.max_distance, position[s] - position[t])) for s in keys]
                at = [distance + part.max_distance for distance in clipped]
                scores = [scale * q[b, h, t] @ (k[b, h, s] + part.key[i]) for s, i in zip(keys, at, strict=True)]
                weights = torch.stack(scores).softmax(0)
                out[b, h, t] = sum(
                    weight * (v[b, h, s] + part.value[i]) for weight, s, i in zip(weights, keys, at, strict=True)
                )
    return out


def shaw(max_distance: int, kernel: str = "auto", **settings: object) -> Attention:
    config = AttentionConfig(
        type="shaw", n_heads=2, n_kv_heads=2, d_head=3, max_distance=max_distance, kernel=kernel, **settings
    )
    attention = Attention(config, 6).double()
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.normal_()
    return attention


def test_scores_and_values_by_hand():
    """c = 1, so distances -1, 0 and 1 have a vector each, and -2 counts as -1.

    Query 2 times (10, 20, 30) is 20, 40, 60; its keys are 2 and 1 before it, and itself.
    """
    part, places = Distances(1, 1), Places.full(3)
    with torch.no_grad():
        part.key.copy_(torch.tensor([[10.0], [20.0], [30.0]]))
        part.value.copy_(torch.tensor([[1.0], [100.0], [10_000.0]]))
    sight = Sight.of(Mask(), places, places)
    q = torch.tensor([1.0, 1.0, 2.0]).view(1, 1, 3, 1)
    assert part.scores(q, sight, 0.5)[0, 0].tolist() == [[10.0, 15.0, 15.0], [5.0, 10.0, 15.0], [10.0, 10.0, 20.0]]
    weights = torch.tensor([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]])[None, None]
    assert part.values(weights, sight).flatten().tolist() == [
        0.5 * 100 + 0.5 * 10_000,
        0.25 * 1 + 0.5 * 100 + 0.25 * 10_000,
        0.5 * 1 + 0.5 * 100,
    ]


def test_attention_by_hand():
    """One head of width 1, no projection: scores ln 2 and 0 give weights 2/3 and 1/3.

    Query 1 is 1; the key of distance -1 is ln 2, all else 0. Values 3 and 6, plus 30 for distance -1 and 0 for 0:
    2/3 (3 + 30) + 1/3 6 = 24.
    """
    attention = Attention(AttentionConfig(type="shaw", n_heads=1, n_kv_heads=1, d_head=1, max_distance=4), 1)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.zero_()
        attention.qkv.bias.copy_(torch.tensor([1.0, 0.0, 0.0]))
        attention.qkv.weight[2] = 1.0
        attention.output.weight.fill_(1.0)
        attention.distances.key[3] = torch.log(torch.tensor(2.0))
        attention.distances.value[3] = 30.0
    out = attention(torch.tensor([[[3.0], [6.0]]]), Call(Places.full(2), Mask(causal=True)))
    torch.testing.assert_close(out.flatten(), torch.tensor([3.0, 24.0]))


@pytest.mark.parametrize("max_distance", [1, 2, 9])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("places", LAYOUTS)
def test_attention_and_its_gradients_equal_the_loop(places, causal, max_distance):
    attention, x = shaw(max_distance), torch.randn(2, places.length, 6, dtype=torch.float64, requires_grad=True)
    call = Call(places, Mask(causal=causal))
    q, k, v = (each.unflatten(-1, (2, 3)).transpose(1, 2) for each in attention.qkv(x).chunk(3, dim=-1))
    heads = loop(q, k, v, attention.distances, call.sight(call.mask), 3**-0.5)
    expected = attention.output(heads.transpose(1, 2).flatten(2))
    got = attention(x, call)
    torch.testing.assert_close(got, expected, atol=1e-10, rtol=1e-10)
    wanted = [x, *attention.parameters()]
    for ours, theirs in zip(
        torch.autograd.grad(got.square().sum(), wanted),
        torch.autograd.grad(expected.square().sum(), wanted),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


def test_distances_beyond_the_limit_are_one():
    """A first token 3, 4 or 5 positions away says the same where c = 2; at c = 4 it does not."""
    x = torch.randn(1, 6, 6, dtype=torch.float64)
    x[:, 1:] = x[:, 1:2]
    for max_distance, alike in ((2, True), (4, False)):
        torch.manual_seed(0)
        attention = shaw(max_distance)
        sight = Sight.of(Mask(causal=True), Places.full(6), Places.full(6))
        said = attention.distances.scores(torch.ones(1, 2, 6, 3, dtype=torch.float64), sight, 1.0)
        assert torch.equal(said[:, :, 3, 0], said[:, :, 5, 0]) is alike


def test_two_tables_are_drawn_and_belong_to_each_layer(tiny):
    model = tiny(attention={"type": "shaw", "max_distance": 2})
    first, second = (block.attention.distances for block in model.decoder.blocks)
    assert first.key.shape == first.value.shape == (5, 8)
    assert not torch.equal(first.key, second.key)
    assert first.key.ne(0).all()
    assert first.value.ne(0).all()
    loss = model(torch.tensor([[5, 6, 7, 8]]), labels=torch.tensor([[6, 7, 8, 9]])).sum
    for gradient in torch.autograd.grad(loss, [first.key, first.value, second.key, second.value]):
        assert gradient[:3].ne(0).any()
        assert gradient[3:].eq(0).all(), "a causal stack sees no key after the query"


def test_weights_on_a_tape_are_those_that_are_used(tiny):
    model: Transformer = tiny(attention={"type": "shaw", "max_distance": 2})
    tape = Tape(model, "*.attention.scores", "*.attention.weights")
    tokens = torch.tensor([[5, 6, 7, 8]])
    assert torch.equal(model(tokens, tape=tape), model(tokens))
    site = "decoder.blocks.0.attention"
    scores = tape[f"{site}.scores"].masked_fill(torch.ones(4, 4, dtype=torch.bool).triu(1), -torch.inf)
    torch.testing.assert_close(tape[f"{site}.weights"], scores.softmax(-1))


@pytest.mark.parametrize("chunks", [[9], [1] * 9, [4, 1, 4]])
def test_o03_cached_distances_equal_the_full_forward(tiny, chunks):
    model = tiny(positions="none", attention={"type": "shaw", "max_distance": 3}).double()
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5]])
    with torch.no_grad():
        full, cache, parts = model(tokens), model.new_cache(1, 9), []
        for chunk in tokens.split(chunks, dim=1):
            parts.append(model(chunk, cache=cache))
            cache.advance([chunk.shape[1]])
    torch.testing.assert_close(torch.cat(parts, dim=1), full, atol=1e-10, rtol=1e-10)


@torch.no_grad()
def test_distances_come_on_top_of_a_bias_of_positions():
    """scores = scale (q k^T + q a_d) + bias, where the stack has a bias too."""
    arguments = ModelArguments(
        kind="decoder",
        d_model=8,
        n_layers=1,
        n_heads=2,
        positions="alibi",
        attention=AttentionArguments(type="shaw", max_distance=2),
    )
    model = Transformer(arguments.resolve(10), generator=torch.Generator().manual_seed(0)).double().eval()
    part, site = model.decoder.blocks[0].attention, "decoder.blocks.0.attention"
    tape = Tape(model, f"{site}.q", f"{site}.k", f"{site}.scores", "decoder.position_bias.bias")
    model(torch.tensor([[1, 2, 3, 4, 5]]), tape=tape)
    q, k, places = tape[f"{site}.q"], tape[f"{site}.k"], Places.full(5)
    distances = part.distances.scores(q, Sight.of(Mask(causal=True), places, places), part.scale)
    expected = part.scale * q @ k.transpose(-2, -1) + distances + tape["decoder.position_bias.bias"]
    assert distances.abs().max() > 1e-3
    torch.testing.assert_close(tape[f"{site}.scores"], expected, atol=1e-12, rtol=0)
