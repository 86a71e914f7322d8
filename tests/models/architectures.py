"""Models that differ in all that can differ, and one way to run them."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.core.attention_config import PatternConfig
from glassformer.models.transformer import Transformer

TOKENS = torch.tensor([[5, 6, 7], [8, 9, 10]])
KINDS = ["decoder", "encoder", "encoder_decoder"]

ARCHITECTURES = [
    {"kind": "decoder", "positions": "learned", "max_positions": 16, "norm_place": "pre", "activation": "gelu"},
    {"kind": "decoder", "positions": "rotary", "norm_place": "pre", "parallel": True, "n_kv_heads": 1, "bias": False},
    {"kind": "decoder", "positions": "rotary", "norm_place": "pre", "norm": "rms", "gated": True, "n_kv_heads": 1},
    {"kind": "encoder_decoder"},
    {"kind": "decoder", "attention": {"window": 3}},
    {"kind": "decoder", "positions": "alibi", "norm_place": "pre"},
    {"kind": "encoder_decoder", "positions": "relative", "norm_place": "pre", "attention": {"scale": "none"}},
    {"kind": "decoder", "positions": "rotary", "attention": {"type": "linear"}, "n_kv_heads": 1},
    {"kind": "encoder_decoder", "attention": {"type": "linear"}},
    {"kind": "decoder", "positions": "alibi", "attention": {"window": 3, "window_layers": (0,)}},
    {"kind": "decoder", "positions": "none", "attention": {"type": "shaw", "max_distance": 3, "window": 4}},
    {"kind": "decoder", "attention": {"soft_cap": 1.0}},
    {"kind": "decoder", "attention": {"pattern": PatternConfig(block=2, near=0, first=1, random=1)}},
]


def run(model: Transformer, tokens: Tensor = TOKENS, **given: object) -> Tensor:
    if model.encoder is not None and model.decoder is not None:
        given["memory"] = model.encode(tokens)
    return model(tokens, **given)
