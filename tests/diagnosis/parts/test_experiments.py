"""Each kind of observation that parts are examined by, at a bug that no other one sees or names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.errors import UnsupportedError
from glassformer.diagnosis.parts.examine import examine_part

from ..planted.catalogue import FOURTH_HEALTHY, FRESH, FRESH_HEALTHY, THIRD, THIRD_HEALTHY

FAULTS = {
    "reference_mask_as_it_is": "mask_inverted",
    "blockwise_last_block_lost": "keys_unread",
    "blockwise_mean_of_blocks": "axis_parts",
    "flat_mask_repeated": "mask_row",
    "flat_keys_reshaped": "sides_reshaped",
    "flat_queries_as_values": "values_q",
    "KerasKeyIsQuery": "cross_default",
    "KerasHeadSoftmax": "axis_heads",
    "ContextOrX": "cross_crash",
    "ContextUnread": "cross_unread",
    "OutputInAList": "unlisted",
    "FusedScaleInverse": "scale_times",
    "position_table_order": "position_still",
    "position_table_log10": "position_base",
    "PolarExchanged": "rotary_norm",
    "OffsetUnused": "position_offset_bad",
    "RotatedByLast": "position_of_length",
    "alibi_bias_upwards": "bias_far",
    "alibi_bias_by_query": "bias_queries",
    "PaddingSeen": "padding_seen",
    "NormedAtBothEnds": "norm_twice",
    "GateFromNeighbour": "feed_forward_mixes",
    "PaddingsExchanged": "cross_own_mask",
    "PaddingEndsTriangle": "future_with_padding",
    "CrossPaddingOnly": "meanings_differ",
    "CrossFromTheStart": "residual_lost",
    "book_one_too_many": "mask_leaks",
    "book_hides_the_valid": "mask_inverted",
    "HalfTheScale": "scale_other",
    "BatchNotFirstLayer": "rows_mixed",
    "CrossHasTargetMask": "cross_own_mask",
    "OneConnectionThrice": "weights_again",
}
RECORDS = {record.name: record for record in (*FRESH, *THIRD)}


@pytest.mark.parametrize("name", FAULTS)
def test_bug_is_named_by_its_experiment(name: str) -> None:
    torch.manual_seed(0)
    report = examine_part(RECORDS[name].factory(), name)
    assert report.failures[0].finding.fault == FAULTS[name], "\n".join(report.lines())
    assert list(report.lines("zh"))


PARTS = [record for record in (*FRESH_HEALTHY, *THIRD_HEALTHY, *FOURTH_HEALTHY) if record.kind.startswith("part.")]
PARTS = [record for record in PARTS if record.name != "relative_buckets"]  # numbers of buckets are no positions yet


@pytest.mark.parametrize("record", PARTS, ids=[record.name for record in PARTS])
def test_parts_in_other_styles_are_recognised_and_pass(record: Any) -> None:
    torch.manual_seed(0)
    report = examine_part(record.factory(), record.name)
    assert report.ok, "\n".join(report.lines())
    assert report.kind.key == record.kind.replace("part.", "kind.")


def test_triangle_in_a_layer_that_is_said_to_be_of_an_encoder_is_named() -> None:
    layer = RECORDS["TriangleKeptLayer"].factory
    assert examine_part(layer(), "layer", kind="encoder_layer").failures[0].finding.fault == "mixes_past"
    assert examine_part(layer(), "layer").ok  # nobody said so, and a decoder has such layers


class _Lengths(nn.Module):
    """Heads folded into the batch, and with them the lengths."""

    def __init__(self, spread: Callable[[Tensor], Tensor], factor: float = 1.0) -> None:
        super().__init__()
        self.spread, self.factor = spread, factor
        self.q, self.k, self.v, self.o = (nn.Linear(24, 24) for _ in range(4))

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor | None = None) -> Tensor:
        given = (self.q(queries), self.k(keys), self.v(values))
        q, k, v = (each.unflatten(-1, (4, 6)).transpose(1, 2).flatten(0, 1) for each in given)
        scores = torch.bmm(q, k.transpose(1, 2)) * self.factor / 6**0.5
        if valid_lens is not None:
            hidden = torch.arange(k.shape[1]) >= self.spread(valid_lens)[:, None]
            scores = scores.masked_fill(hidden[:, None], -1e6)
        return self.o(torch.bmm(scores.softmax(-1), v).unflatten(0, (-1, 4)).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    ("spread", "factor", "fault"),
    [
        (lambda lengths: lengths.repeat_interleave(4), 1.0, None),
        (lambda lengths: lengths.repeat(4), 1.0, "mask_rows"),
        (lambda lengths: lengths.repeat_interleave(4), 0.7, "scale_other"),
    ],
)
def test_lengths_and_factors_of_folded_heads(
    spread: Callable[[Tensor], Tensor], factor: float, fault: str | None
) -> None:
    torch.manual_seed(0)
    failures = examine_part(_Lengths(spread, factor), "folded").failures
    assert [each.finding.fault for each in failures][:1] == ([fault] if fault else [])


def _upper(n: int) -> Tensor:
    return torch.ones(n, n).triu()


def _columns(tokens: Tensor, pad: int) -> Tensor:
    return (tokens != pad)[:, None, :, None]


def _zero(tokens: Tensor, pad: int = 0) -> Tensor:
    return (tokens != 0)[:, None, None]


@pytest.mark.parametrize(
    ("function", "fault"), [(_upper, "causal_upper"), (_columns, "padding_queries"), (_zero, "padding_fixed")]
)
def test_mask_function_is_named(function: Callable[..., Tensor], fault: str) -> None:
    report = examine_part(function, "mask", kind="mask")
    assert report.failures[0].finding.fault == fault, "\n".join(report.lines())


def test_mask_function_with_a_default_for_padding_passes() -> None:
    def padding(tokens: Tensor, pad_idx: int = 0) -> Tensor:
        return (tokens != pad_idx)[:, None, None]

    assert examine_part(padding, "padding", kind="mask").ok


def test_what_takes_no_rows_is_said_and_does_not_warn() -> None:
    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.T / q.shape[-1] ** 0.5).softmax(-1) @ v

    report = examine_part(attention, "attention")
    assert report.ok
    assert any("one row and one head only" in line for line in report.lines())


def test_async_functions_and_unknown_parts_are_refused_in_a_few_lines() -> None:
    async def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return q

    with pytest.raises(UnsupportedError, match="write def"):
        examine_part(attention, "attention")

    def odd(text: str) -> str:
        return text.upper()

    with pytest.raises(UnsupportedError, match="beam") as told:
        examine_part(odd, "odd")
    assert len(str(told.value).splitlines()) < 8


class Rotated(nn.Module):
    """Rotary positions inside; `fault` turns the queries only."""

    fault = ""

    def __init__(self, dim: int = 24, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def turn(self, x: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        angle = torch.arange(x.shape[-2])[:, None] * 100 ** -(torch.arange(half) / half)
        a, b = x.chunk(2, -1)
        return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (m(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for m in (self.wq, self.wk, self.wv))
        k = k if self.fault else self.turn(k)
        return self.wo(F.scaled_dot_product_attention(self.turn(q), k, v, attn_mask=mask).transpose(1, 2).flatten(2))


class QueriesRotated(Rotated):
    fault = "queries"


def test_scores_that_know_the_distance_are_no_fault() -> None:
    assert examine_part(Rotated, "Rotated").ok
    assert examine_part(QueriesRotated, "QueriesRotated").failures[0].finding.fault == "heads_other"


class ValuesFirst(nn.Module):
    """forward(values, keys, query, mask), as a well-known video has it."""

    def __init__(self, embed_size: int = 24, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.v, self.k, self.q, self.out = (nn.Linear(embed_size, embed_size) for _ in range(4))

    def forward(self, values: Tensor, keys: Tensor, query: Tensor, mask: Tensor | None = None) -> Tensor:
        v, k, q = (m(t).unflatten(-1, (self.heads, -1)) for m, t in ((self.v, values), (self.k, keys), (self.q, query)))
        energy = torch.einsum("nqhd,nkhd->nhqk", q, k) / q.shape[-1] ** 0.5
        if mask is not None:
            energy = energy.masked_fill(mask == 0, -1e20)
        return self.out(torch.einsum("nhqk,nkhd->nqhd", energy.softmax(3), v).flatten(2))


def test_values_keys_query_are_given_in_that_order() -> None:
    report = examine_part(ValuesFirst, "ValuesFirst")
    assert report.ok, "\n".join(report.lines())
    assert report.kind.key == "kind.multi_head"


def test_cosines_and_sines_that_come_apart_are_one_table() -> None:
    def precompute(dim: int = 16, end: int = 64) -> tuple[Tensor, Tensor]:
        angle = torch.arange(end)[:, None] * 10000 ** -(torch.arange(0, dim, 2) / dim)
        return angle.cos(), angle.sin()

    assert examine_part(precompute, "precompute", kind="position").ok
