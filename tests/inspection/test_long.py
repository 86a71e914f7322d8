from __future__ import annotations

import numpy as np
import pytest
import torch

from glassformer.core.attention_config import PatternConfig
from glassformer.core.errors import ConfigError, DataError
from glassformer.inspection.attention import attention_weights
from glassformer.inspection.inspect import Axis, inspect_sample
from glassformer.inspection.long import long_attention_weights

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"kind": "encoder", "positions": "relative"},
        {"positions": "alibi", "n_heads": 4, "n_kv_heads": 2},
        {"positions": "rotary", "attention": {"qk_norm": True, "soft_cap": 5.0}},
        {"attention": {"window": 3}},
        {"attention": {"pattern": PatternConfig(block=2, near=1, first=1)}},
        {"attention": {"type": "shaw", "max_distance": 2}},
        {"attention": {"type": "linear"}},
        {"kind": "encoder_decoder"},
    ],
)
def test_rows_made_a_few_at_a_time_are_the_rows(tiny, monkeypatch, arguments):
    model = tiny(**arguments)
    sources = [7, 8, 9, 1, 2] if model.config.kind == "encoder_decoder" else None
    monkeypatch.setattr("glassformer.inspection.long.CHUNK_NUMBERS", 40)
    for site, expected in attention_weights(model, TOKENS, sources=sources).items():
        torch.testing.assert_close(
            long_attention_weights(model, TOKENS, site, sources=sources), expected, atol=1e-6, rtol=1e-5
        )
        some = long_attention_weights(model, TOKENS, site, sources=sources, heads=[1], queries=range(2, 5))
        torch.testing.assert_close(some, expected[[1], 2:5], atol=1e-6, rtol=1e-5)


def test_o29_two_heads_of_a_layer_are_exactly_so_many_numbers_also_halved_and_on_disk(tiny, tmp_path):
    model, length = tiny(n_heads=4, n_layers=4), len(TOKENS)
    site = "decoder.blocks.3.attention.weights"
    whole = long_attention_weights(model, TOKENS, site, heads=[0, 2])
    assert whole.numel() == 2 * length**2
    assert whole.untyped_storage().nbytes() == 4 * 2 * length**2
    assert not whole.requires_grad
    half = long_attention_weights(model, TOKENS, site, heads=[0, 2], dtype=torch.float16)
    assert half.untyped_storage().nbytes() == 2 * 2 * length**2
    torch.testing.assert_close(half.float(), whole, atol=1e-3, rtol=0)
    stored = long_attention_weights(model, TOKENS, site, heads=[0, 2], file=tmp_path / "weights.npy")
    assert torch.equal(stored, whole)
    del stored
    assert np.array_equal(np.load(tmp_path / "weights.npy"), whole.numpy())


def test_pooled_rows_still_sum_to_one(tiny, monkeypatch):
    model, site = tiny(), "decoder.blocks.1.attention.weights"
    whole = long_attention_weights(model, TOKENS, site)
    pooled = long_attention_weights(model, TOKENS, site, pool=4)
    assert pooled.shape == (2, 3, 3)
    torch.testing.assert_close(pooled.sum(-1), torch.ones(2, 3))
    torch.testing.assert_close(pooled[:, 1, 0], whole[:, 4:8, :4].sum(-1).mean(-1))
    torch.testing.assert_close(pooled[:, 2, 2], whole[:, 8:, 8:].sum(-1).mean(-1))
    monkeypatch.setattr("glassformer.inspection.long.CHUNK_NUMBERS", 1)
    torch.testing.assert_close(long_attention_weights(model, TOKENS, site, pool=4), pooled)


def test_o29_a_large_layer_is_inspected_in_pieces(tiny, monkeypatch):
    model = tiny(kind="encoder_decoder", n_kv_heads=1)
    axis, sources = Axis.grouped([(range(4), "a"), (range(4, 11), "b")]), [4, 5, 6]
    arguments = {"sources": sources, "source_labels": Axis.single("xyz"), "heads": [1]}
    whole = inspect_sample(model, TOKENS, axis, **arguments)
    monkeypatch.setattr("glassformer.inspection.inspect.LARGE_BYTES", 1)
    pieces = inspect_sample(model, TOKENS, axis, **arguments)
    for one, other in zip(whole.attention, pieces.attention, strict=True):
        torch.testing.assert_close(one.weights, other.weights, atol=1e-6, rtol=1e-5)
        assert one.heads == other.heads == (1,)
        assert one.roles[0].shares == pytest.approx(other.roles[0].shares, abs=1e-5)


@pytest.mark.slow
def test_o29_4096_tokens(tiny):
    """Two heads of one layer: 128 MiB, and no more than a quarter of that besides."""
    model = tiny(d_model=48, n_heads=12)
    tokens = [index % 31 for index in range(4096)]
    seen = inspect_sample(model, tokens, Axis.single(map(str, range(4096))), layers=[1], heads=[0, 5])
    (layer,) = seen.attention
    assert layer.weights.numel() == 2 * 4096**2
    torch.testing.assert_close(layer.weights.sum(-1), torch.ones(2, 4096))


def test_mistakes_are_named(tiny):
    model, site = tiny(), "decoder.blocks.1.attention.weights"
    with pytest.raises(ConfigError, match="holds no attention weights; known: decoder"):
        long_attention_weights(model, TOKENS, "decoder.blocks.1.residual")
    with pytest.raises(ConfigError, match="pool is 0"):
        long_attention_weights(model, TOKENS, site, pool=0)
    with pytest.raises(DataError, match=r"heads \[2\] are not all in 0\.\.1"):
        long_attention_weights(model, TOKENS, site, heads=[2])
    with pytest.raises(DataError, match=r"not all in 0\.\.10"):
        long_attention_weights(model, TOKENS, site, queries=range(9, 12))
