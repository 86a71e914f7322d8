"""Every planted bug is found, by the property that it breaks, and comes first in the report."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.diagnosis.parts.examine import examine_part

from . import healthy as parts


def _wrong(part: type[nn.Module], fault: str) -> type[nn.Module]:
    """A class with the same constructor, which makes the part with a fault."""
    return type(part.__name__, (part,), {"fault": fault})


def _attention(
    scale: Callable[[Tensor], float] = lambda q: q.shape[-1] ** -0.5,
    dim: int = -1,
    fill: float = -1e9,
    fault: str = "",
) -> Callable[..., Tensor]:
    def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        scores = (k @ q.transpose(-2, -1) if fault == "swapped" else q @ k.transpose(-2, -1)) * scale(q)
        if mask is not None and fault != "after":
            mask = mask.transpose(-2, -1) if fault == "transposed" else mask
            filled = scores.masked_fill(mask == 0, fill)
            scores = scores if fault == "ignored" else filled
        weights = scores.exp() / scores.exp().sum(-1, keepdim=True) if fault == "plain" else scores.softmax(dim)
        if mask is not None and fault == "after":
            weights = weights * mask
        if fault == "dropout":
            weights = F.dropout(weights, 0.1)
        return weights @ (k if fault == "values" else v)

    return attention


def _filled_before_scaling(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = q @ k.transpose(-2, -1)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -20.0)
    return (scores / math.sqrt(q.shape[-1])).softmax(-1) @ v


def _infinite(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1)
    return weights @ v, weights


def _strict(n: int) -> Tensor:
    return torch.ones(n, n).tril(-1).bool()


def _ahead(n: int) -> Tensor:
    return torch.ones(n, n).tril(1).bool()


def _all(n: int) -> Tensor:
    return torch.ones(n, n).bool()


def _future(n: int) -> Tensor:
    return torch.ones(n, n).triu().bool()


def _queries(tokens: Tensor, pad: int) -> Tensor:
    return (tokens != pad)[:, None, :, None].expand(-1, 1, -1, tokens.shape[1])


def _last_hidden(lengths: Tensor, n: int) -> Tensor:
    return torch.arange(n) < lengths[:, None] - 1


def _or(tokens: Tensor, pad: int = 0) -> Tensor:
    return (tokens != pad)[:, None, None] | torch.ones(tokens.shape[1], tokens.shape[1]).tril().bool()


def _late_table(n: int, d_model: int) -> Tensor:
    return parts.numpy_table(n + 1, d_model)[1:]


def _whole_division(n: int, d_model: int) -> Tensor:
    angle = (torch.arange(n)[:, None] // 2) * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(1)


def _stretched(x: Tensor) -> Tensor:
    angle = parts._angles(x.shape[-2], x.shape[-1]).repeat(1, 2)
    a, b = x.chunk(2, -1)
    return x * angle.cos() + torch.cat((b, a), -1) * angle.sin()


def _mixed_pairs(x: Tensor) -> Tensor:
    angle = parts._angles(x.shape[-2], x.shape[-1]).repeat_interleave(2, -1)
    a, b = x.chunk(2, -1)
    return x * angle.cos() + torch.cat((-b, a), -1) * angle.sin()


def _begins_at_one(x: Tensor) -> Tensor:
    longer = torch.cat((x[..., :1, :], x), -2)
    return parts.rotary_halves(longer)[..., 1:, :]


def _no_guard(step: int, d_model: int, warmup: int) -> float:
    return float(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))


def _late(step: int, d_model: int, warmup: int) -> float:
    return parts.noam(max(step - 1, 1), d_model, warmup)


class _Counting:
    """Every question moves it."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, step: int) -> float:
        self.asked += 1
        return parts.noam(self.asked, 24, 40)


def _wasted(optimizer: torch.optim.Optimizer) -> Any:
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(step / 40, (40 / max(step, 1)) ** 0.5))


def _restarts(step: int) -> float:
    return step / 20 if step <= 20 else 0.9 - 0.8 * (step % 100) / 100


def _beam(fault: str) -> Callable[..., Any]:
    def search(next_log_probs: Any, begin: int, end: int, width: int, max_new: int, length_penalty: float = 0.0) -> Any:
        return parts.beam_search(next_log_probs, begin, end, width, max_new, length_penalty, fault)

    return search


ATTENTION, HEADS, LAYER = "attention", "multi_head", "encoder_layer"
BUGS: list[tuple[str, str, Any, str, str | None]] = [
    (ATTENTION, "no scale", _attention(lambda q: 1.0), "attention_equation", "scale_none"),
    (ATTENTION, "by d_k", _attention(lambda q: 1 / q.shape[-1]), "attention_equation", "scale_d_k"),
    (ATTENTION, "times", _attention(lambda q: q.shape[-1] ** 0.5), "attention_equation", "scale_times"),
    (ATTENTION, "other scale", _attention(lambda q: 0.3), "attention_equation", "scale_other"),
    (ATTENTION, "queries", _attention(dim=-2), "attention_equation", "axis_queries"),
    (ATTENTION, "heads", _attention(dim=1), "attention_equation", "axis_heads"),
    (ATTENTION, "values", _attention(fault="values"), "attention_equation", "values_k"),
    (ATTENTION, "swapped", _attention(fault="swapped"), "attention_equation", "sides_swapped"),
    (ATTENTION, "after", _attention(fault="after"), "attention_mask", "mask_after"),
    (ATTENTION, "transposed", _attention(fault="transposed"), "attention_mask", "mask_transposed"),
    (ATTENTION, "ignored", _attention(fault="ignored"), "attention_mask", "mask_ignored"),
    (ATTENTION, "weak", _filled_before_scaling, "attention_mask", None),
    (ATTENTION, "weak fill", _attention(fill=-10.0), "attention_mask", None),
    (ATTENTION, "plain", _attention(fault="plain"), "attention_large", "large_nan"),
    (ATTENTION, "dropout", _attention(fault="dropout"), "attention_repeats", "dropout_on"),
    (HEADS, "split", _wrong(parts.FourLinears, "split"), "heads_equation", "split_view"),
    (HEADS, "merge", _wrong(parts.FourLinears, "merge"), "heads_equation", "merge_view"),
    (HEADS, "unmerged", _wrong(parts.FourLinears, "unmerged"), "heads_run", "heads_unmerged"),
    (HEADS, "values", _wrong(parts.FourLinears, "values"), "heads_equation", "values_k"),
    (HEADS, "scale", _wrong(parts.FourLinears, "scale"), "heads_equation", "scale_d_model"),
    (HEADS, "unscaled", _wrong(parts.FourLinears, "unscaled"), "heads_equation", "scale_none"),
    (HEADS, "axis", _wrong(parts.FourLinears, "axis"), "heads_equation", "axis_queries"),
    (HEADS, "unmasked", _wrong(parts.FourLinears, "unmasked"), "heads_mask", "mask_ignored"),
    (HEADS, "after", _wrong(parts.FourLinears, "after"), "heads_mask", "mask_after"),
    (HEADS, "one head", _wrong(parts.FourLinears, "one_head"), "heads_mask", "mask_first_head"),
    (HEADS, "dropout", _wrong(parts.FourLinears, "dropout"), "heads_repeat", "dropout_on"),
    ("feed_forward", "linear", _wrong(parts.FeedForward, "linear"), "feed_forward_curved", "feed_forward_linear"),
    ("feed_forward", "mixes", _wrong(parts.FeedForward, "mixes"), "feed_forward_local", "feed_forward_mixes"),
    ("feed_forward", "dropout", _wrong(parts.FeedForward, "dropout"), "layer_repeat", "dropout_on"),
    (LAYER, "stream", _wrong(parts.EncoderLayer, "stream"), "layer_norm", None),
    (LAYER, "inside", _wrong(parts.EncoderLayer, "inside"), "layer_norm", "norm_missing"),
    (LAYER, "residual", _wrong(parts.EncoderLayer, "residual"), "layer_residual", "residual_attention"),
    (LAYER, "residual 2", _wrong(parts.EncoderLayer, "residual_2"), "layer_residual", "residual_feed_forward"),
    (LAYER, "unmasked", _wrong(parts.EncoderLayer, "unmasked"), "layer_padding", "padding_seen"),
    ("decoder_layer", "future", _wrong(parts.DecoderLayer, "future"), "layer_causal", "future_seen"),
    ("decoder_layer", "transposed", _wrong(parts.DecoderLayer, "transposed"), "layer_causal", "future_seen"),
    ("decoder_layer", "values", _wrong(parts.DecoderLayer, "values"), "layer_cross", "cross_sides"),
    ("decoder_layer", "queries", _wrong(parts.DecoderLayer, "queries"), "layer_cross", "cross_sides"),
    ("decoder_layer", "ignored", _wrong(parts.DecoderLayer, "ignored"), "layer_cross", "memory_ignored"),
    ("decoder_layer", "unmasked", _wrong(parts.DecoderLayer, "unmasked"), "layer_memory_padding", None),
    ("decoder_layer", "residual", _wrong(parts.DecoderLayer, "residual"), "layer_residual", "residual_attention"),
    ("mask", "strict", _strict, "mask_hides", "causal_no_self"),
    ("mask", "ahead", _ahead, "mask_hides", "causal_one_ahead"),
    ("mask", "all", _all, "mask_hides", "causal_all"),
    ("mask", "queries", _queries, "mask_hides", "padding_queries"),
    ("mask", "last", _last_hidden, "mask_hides", "padding_last"),
    ("mask", "or", _or, "mask_hides", "both_or"),
    ("position", "late", _late_table, "position_begins", "position_begins"),
    ("position", "division", _whole_division, "position_distinct", "position_same"),
    ("position", "rows", _wrong(parts.AddedPositions, "rows"), "position_over_time", "position_over_rows"),
    ("position", "same", _wrong(parts.AddedPositions, "same"), "position_over_time", "position_same"),
    ("position", "twice", _wrong(parts.AddedPositions, "twice"), "position_adds", "position_twice"),
    ("position", "begins", _wrong(parts.AddedPositions, "begins"), "position_begins", "position_begins"),
    ("position", "exponent", _wrong(parts.AddedPositions, "exponent"), "position_shift", "shift_none"),
    ("position", "stretched", _stretched, "rotary_norms", "rotary_norm"),
    ("position", "pairs", _mixed_pairs, "rotary_norms", "rotary_norm"),
    ("position", "rotary begins", _begins_at_one, "position_begins", "rotary_begins"),
    ("schedule", "zero", _no_guard, "schedule_zero", "schedule_zero"),
    ("schedule", "twice", _late, "schedule_rises", "schedule_twice"),
    ("schedule", "counts", _Counting(), "schedule_once", "schedule_counts"),
    ("schedule", "wasted", _wasted, "schedule_first", "schedule_first"),
    ("schedule", "restarts", _restarts, "schedule_falls", "schedule_rises_again"),
    ("cache", "positions", _wrong(parts.CachedAttention, "positions"), "cache_steps", "cache_positions"),
    ("cache", "off by one", _wrong(parts.CachedAttention, "off_by_one"), "cache_steps", "cache_positions"),
    ("cache", "forgets", _wrong(parts.CachedAttention, "forgets"), "cache_steps", "cache_forgets"),
    ("cache", "drops", _wrong(parts.CachedAttention, "drops"), "cache_steps", None),
    ("cache", "doubled", _wrong(parts.CachedAttention, "doubled"), "cache_steps", "cache_doubled"),
    ("cache", "diagonal", _wrong(parts.CachedAttention, "diagonal"), "cache_chunks", "chunks_bad"),
    ("cache", "module", _wrong(parts.CachedAttention, "module"), "cache_apart", "cache_kept"),
    ("beam", "probabilities", _beam("probabilities"), "beam_scores", None),
    ("beam", "end", _beam("end"), "beam_scores", "beam_end_free"),
    ("beam", "means", _beam("means"), "beam_scores", "beam_always_mean"),
    ("beam", "loses", _beam("loses"), "beam_finished", "beam_loses"),
    ("beam", "unsorted", _beam("unsorted"), "beam_sorted", "beam_unsorted"),
    ("beam", "narrow", _beam("narrow"), "beam_best", "beam_not_best"),
]


@pytest.mark.parametrize(("kind", "name", "part", "wanted", "fault"), BUGS, ids=[f"{b[0]}-{b[1]}" for b in BUGS])
def test_planted_bugs_are_named(kind: str, name: str, part: Any, wanted: str, fault: str | None) -> None:
    report = examine_part(part, name, kind=kind)
    assert report.failures, f"{name} was not found"
    first = report.failures[0]
    assert first.key == wanted, "\n".join(report.lines())
    if fault is not None:
        assert first.finding.fault == fault, "\n".join(report.lines())
    for language in ("en", "zh"):
        assert list(report.lines(language))


def test_nan_of_a_query_that_sees_nothing_is_a_failure_where_numbers_are_asked_for() -> None:
    """Many who write softmax as it stands never have such a query."""
    assert not examine_part(_infinite, "blind", kind=ATTENTION).failures
    report = examine_part(_infinite, "blind", kind=ATTENTION, expect="safe")
    assert [verdict.finding.fault for verdict in report.failures] == ["blind_nan"]


def test_the_other_side_of_the_norm_is_a_failure_where_one_is_named() -> None:
    report = examine_part(parts.EncoderLayer, "layer", expect="pre")
    assert [verdict.finding.fault for verdict in report.failures] == ["norm_other_side"]


def test_the_papers_schedule_is_told_from_a_late_one() -> None:
    def late(step: int, d_model: int, warmup: int) -> float:
        return parts.noam(step + 1, d_model, warmup)

    report = examine_part(late, "late", kind="schedule", expect="paper")
    assert [verdict.key for verdict in report.failures][-1] == "schedule_paper"
