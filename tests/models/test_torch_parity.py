"""Our block with torch's weights gives torch's numbers, in float64, where noise shrinks and a bug does not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from glassformer.checkpoint.torch_modules import load_torch
from glassformer.core.attention_config import AttentionConfig
from glassformer.core.call import Call
from glassformer.core.config import BlockConfig, FeedForwardConfig
from glassformer.core.mask import Mask
from glassformer.core.places import Places
from glassformer.parts.block import Block

D, HEADS, D_FF = 16, 4, 24
LENGTHS = [5, 3]


def a_block(activation: str, norm_first: bool, *, cross: bool) -> Block:
    attention = AttentionConfig(n_heads=HEADS, n_kv_heads=HEADS, d_head=D // HEADS)
    config = BlockConfig(
        attention=attention,
        cross_attention=attention if cross else None,
        feed_forward=FeedForwardConfig(d_ff=D_FF, activation=activation),
        norm_place="pre" if norm_first else "post",
    )
    return Block(config, D).double()


def torchs(kind: type[nn.Module], activation: str, norm_first: bool) -> nn.Module:
    layer = kind(D, HEADS, D_FF, dropout=0.0, activation=activation, norm_first=norm_first, batch_first=True).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0, 0.3)
    return layer


def assert_real_rows_equal(ours: Tensor, theirs: Tensor) -> None:
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(ours[row, :length], theirs[row, :length], atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("causal", [False, True])
def test_encoder_layer_is_torchs(activation, norm_first, causal):
    theirs = torchs(nn.TransformerEncoderLayer, activation, norm_first)
    ours = a_block(activation, norm_first, cross=False)
    load_torch(ours, theirs.state_dict())
    x = torch.randn(2, 5, D, dtype=torch.float64)
    places = Places.from_lengths(LENGTHS)
    hidden = ~torch.ones(5, 5, dtype=torch.bool).tril() if causal else None
    expected = theirs(x, src_mask=hidden, src_key_padding_mask=~places.is_token)
    assert_real_rows_equal(ours(x, Call(places, Mask(causal=causal)).at(0)), expected)
    plain = Call(Places.full(5), Mask(causal=causal)).at(0)
    torch.testing.assert_close(ours(x, plain), theirs(x, src_mask=hidden), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_decoder_layer_is_torchs(activation, norm_first):
    theirs = torchs(nn.TransformerDecoderLayer, activation, norm_first)
    ours = a_block(activation, norm_first, cross=True)
    load_torch(ours, theirs.state_dict())
    x, memory = torch.randn(2, 5, D, dtype=torch.float64), torch.randn(2, 7, D, dtype=torch.float64)
    places, source = Places.from_lengths(LENGTHS), Places.from_lengths([2, 7])
    expected = theirs(
        x,
        memory,
        tgt_mask=~torch.ones(5, 5, dtype=torch.bool).tril(),
        tgt_key_padding_mask=~places.is_token,
        memory_key_padding_mask=~source.is_token,
    )
    assert_real_rows_equal(ours(x, Call(places, Mask(causal=True), source).at(0), memory), expected)


def test_gradients_are_torchs():
    theirs = torchs(nn.TransformerEncoderLayer, "gelu", True)
    ours = a_block("gelu", True, cross=False)
    load_torch(ours, theirs.state_dict())
    x = torch.randn(2, 5, D, dtype=torch.float64)
    ours(x, Call(Places.full(5)).at(0)).square().sum().backward()
    theirs(x).square().sum().backward()
    for mine, other in (
        (ours.attention.qkv.weight, theirs.self_attn.in_proj_weight),
        (ours.attention.output.bias, theirs.self_attn.out_proj.bias),
        (ours.feed_forward.inner.weight, theirs.linear1.weight),
        (ours.feed_forward_norm.weight, theirs.norm2.weight),
    ):
        torch.testing.assert_close(mine.grad, other.grad, atol=1e-9, rtol=1e-9)
