"""The original Transformer, and small models of its kind.

Source: Vaswani et al. 2017, arXiv:1706.03762, table 3.
"""

from __future__ import annotations

from collections.abc import Mapping

from glassformer.core.config import InitConfig, InitRule
from glassformer.models.arguments import ModelArguments

PAPER_BASE = ModelArguments(
    kind="encoder_decoder",
    n_layers=6,
    d_model=512,
    n_heads=8,
    d_ff=2048,
    dropout=0.1,
    positions="sinusoidal",
    norm_place="post",
    activation="relu",
)

GPT_LIKE_INIT = InitConfig(
    embedding=InitRule(kind="normal", std=0.02),
    linear=InitRule(kind="normal", std=0.02),
    residual=InitRule(kind="normal", std=0.02, depth_scaled=True),
    head=InitRule(kind="normal", std=0.02),
)

TINY = ModelArguments(
    kind="decoder",
    n_layers=2,
    d_model=64,
    n_heads=4,
    d_ff=256,
    dropout=0.0,
    positions="learned",
    max_positions=256,
    embedding_scale=False,
    norm_place="pre",
    activation="gelu",
    init=GPT_LIKE_INIT,
)

SMALL = PAPER_BASE.model_copy(update={"n_layers": 2, "d_model": 128, "n_heads": 4, "d_ff": 512})

PRESETS: Mapping[str, ModelArguments] = {"paper-base": PAPER_BASE, "tiny": TINY, "small": SMALL}
"""`paper-base`: 6 layers, 512, 8 heads, 2048, dropout 0.1. `small`: the same with 2 layers of 128, to start
with.
`tiny`: a decoder-only model of 2 layers of 64."""
