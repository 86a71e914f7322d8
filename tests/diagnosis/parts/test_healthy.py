"""No false alarm: parts that are right pass, however they are written and whatever is drawn."""

from __future__ import annotations

from typing import Any

import pytest
from torch import nn
from torch.nn import functional as F

from glassformer.diagnosis.parts.examine import examine_part

from . import healthy as parts


def _layer(kind: type[nn.Module], **options: Any) -> nn.Module:
    return kind(16, 4, 32, **options)


PARTS = [
    ("attention", parts.keep_attention, None),
    ("attention", parts.hide_attention, None),
    ("attention", parts.adding_attention, None),
    ("attention", parts.flat_attention, None),
    ("attention", parts.own_attention, None),
    ("attention", parts.ScaledDotProduct, None),
    ("attention", F.scaled_dot_product_attention, None),
    ("multi_head", parts.FourLinears, None),
    ("multi_head", parts.Fused, None),
    ("multi_head", parts.HeadList, None),
    ("multi_head", parts.BareMatrices, None),
    ("multi_head", parts.Cross, None),
    ("multi_head", nn.MultiheadAttention, None),
    ("multi_head", nn.MultiheadAttention(16, 4), None),
    ("multi_head", nn.MultiheadAttention(16, 4, batch_first=True), None),
    ("feed_forward", parts.FeedForward, None),
    ("feed_forward", parts.Gated, None),
    ("encoder_layer", parts.EncoderLayer, "post"),
    ("encoder_layer", parts.PreEncoderLayer, "pre"),
    ("encoder_layer", parts.OwnEncoderLayer("post"), "post"),
    ("encoder_layer", parts.OwnEncoderLayer("pre"), "pre"),
    ("encoder_layer", nn.TransformerEncoderLayer, "post"),
    ("encoder_layer", _layer(nn.TransformerEncoderLayer), "post"),
    ("encoder_layer", _layer(nn.TransformerEncoderLayer, batch_first=True, norm_first=True), "pre"),
    ("decoder_layer", parts.DecoderLayer, "post"),
    ("decoder_layer", parts.OwnDecoderLayer("post"), "post"),
    ("decoder_layer", parts.OwnDecoderLayer("pre"), "pre"),
    ("decoder_layer", nn.TransformerDecoderLayer, "post"),
    ("decoder_layer", _layer(nn.TransformerDecoderLayer), "post"),
    ("decoder_layer", _layer(nn.TransformerDecoderLayer, batch_first=True, norm_first=True), "pre"),
    ("mask", parts.causal_keep, None),
    ("mask", parts.causal_hide, None),
    ("mask", parts.causal_added, None),
    ("mask", parts.padding_keep, None),
    ("mask", parts.padding_lengths, None),
    ("mask", parts.target_mask, None),
    ("position", parts.paper_table, "paper"),
    ("position", parts.numpy_table, "paper"),
    ("position", parts.AddedPositions, "paper"),
    ("position", parts.TimeFirstPositions, "time_first"),
    ("position", parts.LearnedPositions, None),
    ("position", parts.LearnedTable, None),
    ("position", parts.rotary_halves, None),
    ("position", parts.rotary_pairs, None),
    ("schedule", parts.noam, "paper"),
    ("schedule", parts.cosine, "cosine"),
    ("schedule", parts.linear_scheduler, "linear"),
    ("cache", parts.CachedAttention, None),
    ("beam", parts.beam_search, None),
]


def _name(part: Any) -> str:
    return getattr(part, "__name__", type(part).__name__)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("kind", "part", "expect"), PARTS, ids=[f"{kind}-{_name(part)}" for kind, part, _ in PARTS])
def test_healthy_parts_pass(kind: str, part: Any, expect: str | None, seed: int) -> None:
    report = examine_part(part, _name(part), kind=None if seed % 2 else kind, expect=expect, seed=seed)
    assert report.kind.key == f"kind.{kind}"
    assert report.ok, "\n".join(report.lines())
    assert any(verdict.status == "pass" for verdict in report.verdicts)
    for language in ("en", "zh"):
        assert list(report.lines(language))
