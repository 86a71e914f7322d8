"""The table of initial values covers every number once, and what it expects is what is drawn."""

from __future__ import annotations

import math

import pytest
import torch

from glassformer.core.attention_config import AttentionConfig
from glassformer.core.config import FeedForwardConfig, InitConfig, InitRule, InputConfig, StackConfig
from glassformer.core.norm_config import NormConfig
from glassformer.models.arguments import ModelArguments
from glassformer.models.transformer import Transformer
from glassformer.parts.attention import Attention
from glassformer.parts.feed_forward import FeedForward
from glassformer.parts.init import TRUNCATED_STD, init_table, initialise
from glassformer.parts.stack import Stack


def tiny_arguments(**arguments: object) -> ModelArguments:
    return ModelArguments(**({"kind": "decoder", "d_model": 16, "n_layers": 2, "n_heads": 2, "d_ff": 24} | arguments))


KINDS = [
    {"kind": "decoder"},
    {"kind": "encoder", "positions": "learned", "max_positions": 8, "norm_place": "pre"},
    {"kind": "encoder_decoder"},
    {"kind": "encoder_decoder", "share_embeddings": False, "tied": False, "head_bias": True},
    {"kind": "decoder", "gated": True, "norm": "rms", "bias": False, "n_kv_heads": 1},
    {"kind": "decoder", "norm_place": "pre", "parallel": True},
]


@pytest.mark.parametrize("arguments", KINDS, ids=lambda a: "-".join(map(str, a.values())))
def test_table_covers_every_number_exactly_once(arguments):
    model = Transformer(tiny_arguments(**arguments).resolve(32))
    rows = init_table(model, model.config.init)
    assert len({row.name for row in rows}) == len(rows)
    assert sum(row.tensor.numel() for row in rows) == sum(p.numel() for p in model.parameters())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(-1)
        for number, row in enumerate(rows):
            assert row.tensor.eq(-1).all(), f"{row.name} was covered before"
            row.tensor.fill_(number)
    for parameter in model.parameters():
        assert parameter.ge(0).all()


def drawn(init: InitConfig, **arguments: object) -> dict[str, tuple[float, float]]:
    """(expected, measured) standard deviation by name, of a model wide enough to measure."""
    wide = {"d_model": 64, "d_ff": 128, "n_heads": 4, "n_layers": 3} | arguments
    model = Transformer(tiny_arguments(**wide, init=init).resolve(300))
    return {
        row.name: (row.expected_std, float(row.tensor.detach().std()))
        for row in init_table(model, init)
        if row.tensor.numel() > 1000
    }


@pytest.mark.parametrize("kind", ["xavier", "xavier_normal", "normal", "truncated_normal", "zeros"])
def test_measured_spread_is_the_expected_one(kind):
    """Of at least 4,096 numbers the standard deviation is known to 1.1 %; 6 % is five times that."""
    rule = InitRule(kind=kind, std=0.05)
    table = drawn(InitConfig(embedding=InitRule(kind="normal"), linear=rule, residual=rule, head=rule), tied=False)
    for name, (expected, measured) in table.items():
        assert measured == pytest.approx(expected, rel=0.06), name


def test_xavier_of_a_fused_projection_knows_three_fans():
    """q is 64 -> 64 with variance 2/128; k and v of one head are 64 -> 16 with 2/80; never 2/(64 + 96)."""
    table = drawn(InitConfig(), n_kv_heads=1)
    first = "decoder.blocks.0.attention"
    assert table[f"{first}.q.weight"][0] == pytest.approx(math.sqrt(2 / 128))
    assert table[f"{first}.k.weight"][0] == pytest.approx(math.sqrt(2 / 80))
    assert table[f"{first}.v.weight"][0] == pytest.approx(math.sqrt(2 / 80))
    assert table["decoder.blocks.2.feed_forward.inner.weight"][0] == pytest.approx(math.sqrt(2 / 192))


def test_xavier_is_uniform_up_to_its_bound_and_gain_scales_it():
    model = Transformer(tiny_arguments(d_model=64, init=InitConfig(linear=InitRule(gain=0.5))).resolve(300))
    q = model.decoder.blocks[0].attention.qkv.weight[:64].detach()
    bound = 0.5 * math.sqrt(6 / 128)
    assert float(q.abs().max()) == pytest.approx(bound, rel=0.01)
    assert float(q.abs().max()) <= bound


def test_truncated_normal_is_cut_at_two_deviations():
    rule = InitRule(kind="truncated_normal", std=0.1)
    model = Transformer(tiny_arguments(d_model=64, init=InitConfig(embedding=rule)).resolve(300))
    weight = model.decoder.input.embedding.weight.detach()
    assert 0.19 < float(weight.abs().max()) <= 0.2
    assert float(weight.std()) == pytest.approx(0.1 * TRUNCATED_STD, rel=0.03)
    # Var of a standard normal cut at +-2: 1 - 2 * 2 phi(2) / (2 Phi(2) - 1)
    phi, inside = math.exp(-2) / math.sqrt(2 * math.pi), math.erf(2 / math.sqrt(2))
    assert pytest.approx(1 - 4 * phi / inside, rel=1e-6) == TRUNCATED_STD**2


def test_depth_scaling_divides_by_the_additions_of_its_own_stack():
    """3 layers: 6 additions in an encoder, 9 in a decoder with cross-attention."""
    init = InitConfig(residual=InitRule(kind="normal", std=0.09, depth_scaled=True))
    table = drawn(init, kind="encoder_decoder")
    for name, (expected, measured) in table.items():
        if name.endswith("output.weight"):
            additions = 6 if name.startswith("encoder") else 9
            assert expected == pytest.approx(0.09 / math.sqrt(additions))
            assert measured == pytest.approx(expected, rel=0.06)
    rows = init_table(Transformer(tiny_arguments(init=init).resolve(32)), init)
    assert {row.words for row in rows if row.role == "residual"} == {"normal / sqrt(4)"}
    assert {row.additions for row in rows if row.role != "residual"} == {1}


def test_std_of_d_model_means_the_width_of_the_stream_everywhere():
    """The last projection of a feed-forward network is d_ff wide; its deviation is still d_model^-1/2 = 1/8."""
    rule = InitRule(kind="normal", std="d_model")
    table = drawn(InitConfig(embedding=rule, linear=rule, residual=rule, head=rule), tied=False, d_head=32)
    for name, (expected, measured) in table.items():
        assert expected == 0.125, name
        assert measured == pytest.approx(0.125, rel=0.06)


def test_norms_start_at_one_and_offsets_at_zero():
    model = Transformer(tiny_arguments(head_bias=True).resolve(32))
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            assert parameter.eq(1.0 if name.endswith("norm.weight") else 0.0).all(), name


def test_parts_can_be_drawn_without_a_model():
    """Outside of any stack nothing is divided by a depth; a stack alone knows its own."""
    init = InitConfig(residual=InitRule(kind="normal", std=0.1, depth_scaled=True))
    part = Attention(AttentionConfig(n_heads=1, n_kv_heads=1, d_head=4), 4)
    assert next(row.name for row in init_table(part, init)) == "q.weight"
    assert {row.additions for row in init_table(part, init)} == {1}
    initialise(FeedForward(FeedForwardConfig(d_ff=4), 4), init)
    block = tiny_arguments().resolve(32).decoder.blocks[0]
    stack = Stack(
        StackConfig(input=InputConfig(vocab_size=8, d_model=16), blocks=(block,) * 3, final_norm=NormConfig())
    )
    assert {row.additions for row in init_table(stack, init) if row.role == "residual"} == {6}


def test_generator_alone_decides_the_values():
    config = tiny_arguments(kind="encoder_decoder").resolve(32)
    models = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        models.append(Transformer(config, generator=torch.Generator().manual_seed(7)))
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(a, b)
    torch.manual_seed(3)
    first = Transformer(config)
    torch.manual_seed(3)
    assert torch.equal(first.head.weight, Transformer(config).head.weight)
