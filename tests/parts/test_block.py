"""The wiring of a block, with sublayers and norms that multiply by a known number."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from glassformer.core.attention_config import AttentionConfig
from glassformer.core.call import Call
from glassformer.core.config import BlockConfig, FeedForwardConfig
from glassformer.core.places import Places
from glassformer.parts.block import Block


class Times(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor, *_: object) -> Tensor:
        return self.factor * x


def a_block(cross: bool, **settings: object) -> Block:
    """Attention 3x, cross-attention 7x, feed-forward 5x; their norms x/2, x/4, x/8."""
    attention = AttentionConfig(n_heads=1, n_kv_heads=1, d_head=2)
    config = BlockConfig(
        attention=attention,
        cross_attention=attention if cross else None,
        feed_forward=FeedForwardConfig(d_ff=2),
        **settings,
    )
    block = Block(config, 2)
    block.attention, block.attention_norm, block.feed_forward = Times(3), Times(1 / 2), Times(5)
    if block.cross_attention is not None:
        block.cross_attention, block.cross_attention_norm = Times(7), Times(1 / 4)
    if block.feed_forward_norm is not None:
        block.feed_forward_norm = Times(1 / 8)
    return block


@pytest.mark.parametrize(
    ("cross", "settings", "expected"),
    [
        # (1 + 3) / 2 = 2;  (2 + 7 * 2) / 4 = 4;  (4 + 5 * 4) / 8 = 3
        (True, {"norm_place": "post"}, 3.0),
        (False, {"norm_place": "post"}, (2 + 5 * 2) / 8),
        # 1 + 3/2 = 2.5;  2.5 + 7 * 2.5/4 = 6.875;  6.875 + 5 * 6.875/8
        (True, {"norm_place": "pre"}, 6.875 * (1 + 5 / 8)),
        (False, {"norm_place": "pre"}, 2.5 * (1 + 5 / 8)),
        # one norm for both: 1 + 3/2 + 5/2
        (False, {"norm_place": "pre", "parallel": True}, 5.0),
        # nothing is added: 3/2 * 5/8, whichever way round
        (False, {"norm_place": "post", "residual": False}, 15 / 16),
        (False, {"norm_place": "pre", "residual": False}, 15 / 16),
        (False, {"norm_place": "pre", "residual": False, "parallel": True}, 4.0),
    ],
)
def test_block_joins_its_sublayers(cross, settings, expected):
    block = a_block(cross, **settings)
    out = block(torch.ones(1, 1, 2), Call(Places.full(1)), torch.ones(1, 1, 2))
    assert out.tolist() == [[[expected, expected]]]


def test_dropout_falls_on_the_change_and_never_on_the_stream():
    """With p = 1/2 a change of 3 becomes 0 or 6; the 1 of the stream is always there."""
    block = a_block(False, norm_place="pre", parallel=True, dropout=0.5).train()
    out = block(torch.ones(1, 200, 2), Call(Places.full(200)))
    assert set(out.flatten().tolist()) == {1.0, 9.0}
    assert set(block.eval()(torch.ones(1, 200, 2), Call(Places.full(200))).flatten().tolist()) == {5.0}


def test_block_without_cross_attention_has_no_parts_for_it():
    assert a_block(False).cross_attention is None
    assert "cross" not in " ".join(name for name, _ in a_block(False).named_parameters())
