from __future__ import annotations

import pytest
import torch

from glassformer.core.attention_config import AttentionConfig, PatternConfig
from glassformer.core.call import Call
from glassformer.core.errors import ConfigError
from glassformer.core.mask import Mask
from glassformer.core.places import Places
from glassformer.core.position_config import RotaryConfig
from glassformer.kernels.attend import attend
from glassformer.parts.attention import Attention


def test_projections_heads_and_their_order():
    """Written out with slices and one head at a time."""
    config = AttentionConfig(n_heads=4, n_kv_heads=2, d_head=3)
    part, x = Attention(config, 6), torch.randn(2, 5, 6)
    w, b = part.qkv.weight, part.qkv.bias
    rows = []
    for head in range(4):
        q_rows = slice(head * 3, head * 3 + 3)
        k_rows = slice(12 + head // 2 * 3, 12 + head // 2 * 3 + 3)
        v_rows = slice(18 + head // 2 * 3, 18 + head // 2 * 3 + 3)
        q, k, v = (x @ w[rows_].T + b[rows_] for rows_ in (q_rows, k_rows, v_rows))
        scores = q @ k.transpose(1, 2) / 3**0.5
        hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
        rows.append(scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v)
    expected = torch.cat(rows, dim=-1) @ part.output.weight.T + part.output.bias
    got = part(x, Call(Places.full(5), Mask(causal=True)))
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-5)


def test_window_of_a_layer_is_intersected_with_the_stacks_mask():
    config = AttentionConfig(n_heads=2, n_kv_heads=2, d_head=3, window=2)
    part, x = Attention(config, 6), torch.randn(2, 5, 6)
    q, k, v = (y.unflatten(-1, (2, 3)).transpose(1, 2) for y in part.qkv(x).chunk(3, dim=-1))
    for mask in (Mask(causal=True), Mask()):
        heads = attend(q, k, v, mask=Mask(causal=mask.causal, window=2), kernel="reference")
        got = part(x, Call(Places.full(5), mask))
        torch.testing.assert_close(got, part.output(heads.transpose(1, 2).flatten(2)), atol=1e-6, rtol=1e-5)


def test_cross_attention_takes_keys_and_values_from_the_memory():
    config = AttentionConfig(n_heads=2, n_kv_heads=1, d_head=3)
    part, x, memory = Attention(config, 6, cross=True), torch.randn(2, 3, 6), torch.randn(2, 5, 6)
    places = Places.from_lengths([5, 2], 5)
    q = part.q(x).unflatten(-1, (2, 3)).transpose(1, 2)
    k, v = (half.unflatten(-1, (1, 3)).transpose(1, 2) for half in part.kv(memory).chunk(2, dim=-1))
    heads = attend(q, k, v, keys=places, kernel="reference")
    expected = part.output(heads.transpose(1, 2).flatten(2))
    got = part(x, Call(Places.full(3), Mask(causal=True), places), memory)
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-5)


def test_rows_that_share_a_memory_equal_rows_with_copies_of_it():
    config = AttentionConfig(n_heads=4, n_kv_heads=2, d_head=3)
    part, x, memory = Attention(config, 6, cross=True), torch.randn(6, 5, 6), torch.randn(2, 4, 6)
    rows, keys = torch.arange(2).repeat_interleave(3), Places.from_lengths([4, 1], 4)
    places = Places.from_lengths([5, 1, 2, 3, 0, 4])
    copies = Places(keys.position[rows], keys.segment[rows])
    expected = part(x, Call(places, Mask(causal=True), copies), memory[rows])
    torch.testing.assert_close(part(x, Call(places, Mask(causal=True), keys), memory), expected, atol=1e-6, rtol=1e-5)


def test_o18_width_of_a_head_is_free_of_the_model():
    """2,560 wide, 32 heads of 128, 8 key/value heads: q 2560 -> 4096, k and v -> 1024, output 4096 -> 2560."""
    config = AttentionConfig(n_heads=32, n_kv_heads=8, d_head=128)
    with torch.device("meta"):
        part = Attention(config, 2560)
        out = part(torch.empty(1, 2, 2560), Call(Places.full(2)))
    shapes = {matrix.name: tuple(matrix.tensor.shape) for matrix in part.matrices()}
    assert shapes["q.weight"] == (4096, 2560)
    assert shapes["k.weight"] == shapes["v.weight"] == (1024, 2560)
    assert shapes["output.weight"] == (2560, 4096)
    assert out.shape == (1, 2, 2560)


@pytest.mark.parametrize("scale", ["sqrt", "d_k", "none", 0.3])
def test_scale_multiplies_the_scores(scale):
    config = AttentionConfig(n_heads=1, n_kv_heads=1, d_head=4, scale=scale)
    factor = {"sqrt": 0.5, "d_k": 0.25, "none": 1.0}.get(scale, scale)
    assert Attention(config, 4).scale == factor


def test_rotary_positions_see_distances_only():
    config = AttentionConfig(n_heads=2, n_kv_heads=2, d_head=4, rotary=RotaryConfig())
    part, x = Attention(config, 8).double(), torch.randn(1, 4, 8, dtype=torch.float64)
    far = Places.from_lengths([4], start=[1000])
    torch.testing.assert_close(part(x, Call(far)), part(x, Call(Places.full(4))))


def test_without_positions_order_is_invisible():
    """Permuting the words permutes the outputs: attention alone cannot tell an order."""
    part, x = Attention(AttentionConfig(n_heads=2, n_kv_heads=2, d_head=4), 8), torch.randn(1, 4, 8)
    order = [2, 0, 3, 1]
    call = Call(Places.full(4))
    torch.testing.assert_close(part(x[:, order], call), part(x, call)[:, order])


def test_offsets_are_there_as_asked():
    names = lambda **k: {  # noqa: E731
        name for name, _ in Attention(AttentionConfig(n_heads=1, n_kv_heads=1, d_head=4, **k), 4).named_parameters()
    }
    assert names() == {"qkv.weight", "qkv.bias", "output.weight", "output.bias"}
    assert names(bias=False) == {"qkv.weight", "output.weight", "output.bias"}
    assert names(out_bias=False) == {"qkv.weight", "qkv.bias", "output.weight"}


def test_unknown_kernel_is_refused_when_the_part_is_made():
    with pytest.raises(ConfigError, match="unknown kernel 'flash' of softmax attention"):
        Attention(AttentionConfig(n_heads=1, n_kv_heads=1, d_head=4, kernel="flash"), 4)


@pytest.mark.parametrize(
    ("settings", "how", "message"),
    [
        ({"kernel": "windowed"}, {}, r"^attention\.kernel=windowed cannot do this: it is for a window and no other"),
        ({"kernel": "windowed", "window": 3, "pattern": PatternConfig()}, {}, "it is for a window and no other"),
        ({"kernel": "windowed", "window": 3}, {"biased": True}, "it adds no bias of positions"),
        ({"kernel": "blocks", "window": 3}, {}, r"it is for one pattern.*attention\.pattern\.block=64"),
        ({"kernel": "blocks", "pattern": PatternConfig()}, {"biased": True}, "it adds no bias of positions"),
        ({"kernel": "windowed"}, {"cross": True}, r"^cross_attention\.kernel=.* use cross_attention\.kernel=auto"),
        ({"kernel": "sdpa", "soft_cap": 2.0}, {}, r"no soft cap; use attention\.kernel=auto"),
        ({"kernel": "chunked", "type": "linear"}, {"biased": True}, "neither a bias of positions"),
    ],
)
def test_kernel_that_could_do_no_rows_at_all_is_refused_when_the_part_is_made(settings, how, message):
    with pytest.raises(ConfigError, match=message):
        Attention(AttentionConfig(n_heads=1, n_kv_heads=1, d_head=4, **settings), 4, **how)
