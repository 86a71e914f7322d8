"""Whole Transformers with one fault each, and the property that has to name it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .healthy import (
    GPT,
    CachedGPT,
    CausalAttention,
    D,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    GPTBlock,
    H,
    KeepSeq2Seq,
    LearnedCachedGPT,
    MultiHead,
    PadEncoder,
    PositionalEncoding,
    RotaryAttention,
    Seq2Seq,
    V,
    sines,
)


class Mixed(CausalAttention):
    """Attention whose scores, mask, softmax and heads can be got wrong one at a time."""

    scale, axis, seen, late = (D // H) ** -0.5, -1, "tril", False

    def mix(self, q: Tensor, k: Tensor, v: Tensor, T: int) -> Tensor:
        att = (q @ k.transpose(-2, -1)) * self.scale
        whole = torch.ones(T, T, dtype=torch.bool)
        allowed = {"tril": whole.tril(), "triu": whole.triu(), "ahead": whole.tril(1), "strict": whole.tril(-1)}
        seen = allowed.get(self.seen, whole)
        if self.late:
            return F.softmax(att, dim=self.axis).masked_fill(~seen, 0.0) @ v
        return F.softmax(att.masked_fill(~seen, -1e9), dim=self.axis) @ v


def attention(**wrong: Any) -> Callable[[], nn.Module]:
    return lambda: type("Wrong", (Mixed,), wrong)()


class NoTranspose(CausalAttention):
    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.shape
        q, k, v = (y.reshape(B, H, T, C // H) for y in self.c_attn(x).split(C, dim=2))
        return self.c_proj(self.mix(q, k, v, T).transpose(1, 2).reshape(B, T, C))


class NoTransposeBack(CausalAttention):
    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.shape
        q, k, v = (y.view(B, T, H, C // H).transpose(1, 2) for y in self.c_attn(x).split(C, dim=2))
        return self.c_proj(self.mix(q, k, v, T).reshape(B, T, C))


class NeverMerged(CausalAttention):
    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.shape
        q, k, v = (y.view(B, T, H, C // H).transpose(1, 2) for y in self.c_attn(x).split(C, dim=2))
        return self.c_proj(self.mix(q, k, v, T))


class ValuesByKeys(CausalAttention):
    def mix(self, q: Tensor, k: Tensor, v: Tensor, T: int) -> Tensor:
        return super().mix(q, k, k, T)


class MixingForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Conv1d(D, 2 * D, 3, padding=1), nn.Conv1d(2 * D, D, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.narrow(F.relu(self.wide(x.transpose(1, 2)))).transpose(1, 2)


class MixingBlock(GPTBlock):
    def __init__(self) -> None:
        super().__init__()
        self.mlp = MixingForward()


class OneLayerLeaks(GPT):
    def __init__(self) -> None:
        super().__init__()
        self.h[1] = GPTBlock(attention(seen="all"))


class NoResidual(GPTBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class NormedResidual(GPTBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = self.ln_1(x)
        x = self.ln_2(x + self.attn(x))
        return x + self.mlp(x)


class SaidPre(GPTBlock):
    norm_first: bool

    def __init__(self) -> None:
        super().__init__()
        self.norm_first = True

    def forward(self, x: Tensor) -> Tensor:
        x = self.ln_1(x + self.attn(x))
        return self.ln_2(x + self.mlp(x))


class BatchNormed(GPTBlock):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1 = OverTheBatch()


class OverTheBatch(nn.Module):
    """A norm whose mean goes over the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(D))

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(0, keepdim=True)) / (x.std(0, keepdim=True, unbiased=False) + 1e-5) * self.weight


class Embedded(GPT):
    """Positions wrong one way or another."""

    how = ""

    def embed(self, idx: Tensor) -> Tensor:
        B, T = idx.shape
        x, p = self.wte(idx), self.wpe(torch.arange(T))
        if self.how == "rows":
            return x + self.wpe(torch.arange(B))[:, None]
        if self.how == "twice":
            return x + p + p
        if self.how == "equal":
            return x + self.wpe(torch.zeros(T, dtype=torch.long))
        return x


def embedded(how: str) -> Callable[[], nn.Module]:
    return lambda: type("Wrong", (Embedded,), {"how": how})()


class DropoutLeftOn(GPTBlock):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.dropout(x, 0.1))


class IdleDropout(GPT):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.2)


class DoubleShift(GPT):
    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return super().loss(logits[:, :-1].contiguous(), targets[:, 1:].contiguous())


class NoShift(GPT):
    """As in the reference library, labels are the tokens, and the model shifts them."""

    def forward(self, idx: Tensor, labels: Tensor | None = None) -> Any:
        logits, _ = super().forward(idx)
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return {"logits": logits, "loss": loss}


class MeanOfMeans(GPT):
    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        each = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none", ignore_index=-1)
        return (each.sum(1) / (targets != -1).sum(1)).mean()


class CountsPadding(GPT):
    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits.transpose(1, 2), targets, reduction="none", ignore_index=-1).mean()


class Copied(GPT):
    def __init__(self) -> None:
        super().__init__(tie=False)
        self.lm_head.weight = nn.Parameter(self.wte.weight.detach().clone())


class Idle(GPT):
    def __init__(self) -> None:
        super().__init__()
        self.extra = nn.Linear(D, D)


class Detached(GPT):
    def embed(self, idx: Tensor) -> Tensor:
        return super().embed(idx).detach()


class PlainList(GPT):
    def __init__(self) -> None:
        super().__init__()
        layers = list(self.h)
        del self.h
        self.h = layers


class LastOnly(GPT):
    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.embed(idx)
        for block in self.h:
            out = block(x)
        logits = self.lm_head(self.ln_f(out))
        return logits, None if targets is None else self.loss(logits, targets)


class OneForAll(GPT):
    def __init__(self) -> None:
        super().__init__()
        self.h = nn.ModuleList([GPTBlock()] * 2)


class Probabilities(GPT):
    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, loss = super().forward(idx, targets)
        return logits.softmax(-1), loss


class Loud(GPT):
    def __init__(self) -> None:
        super().__init__(tie=False)
        nn.init.normal_(self.lm_head.weight, std=2.0)


class Overwrites(GPT):
    def embed(self, idx: Tensor) -> Tensor:
        out = super().embed(idx)
        idx[:, 0] = 0
        return out


class WrongMask(Encoder):
    how = ""

    def forward(self, tokens: Tensor, keep: Tensor | None = None) -> Tensor:
        if keep is None:
            return super().forward(tokens)
        x = self.position(self.embedding(tokens) * math.sqrt(D))
        mask = {
            "inverted": ~keep[:, None, None, :],
            "queries": keep[:, None, :, None],
            "ignored": torch.ones_like(keep)[:, None, None, :],
        }.get(self.how, keep[:, None, None, :])
        for number, layer in enumerate(self.layers):
            x = layer(x, None if self.how == "one" and number == 1 else mask)
        return x


def wrong_mask(how: str) -> Callable[[], nn.Module]:
    return lambda: type("Wrong", (WrongMask,), {"how": how})()


class LatePadding(MultiHead):
    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        weights = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).softmax(-1)
        return (weights if mask is None else weights * mask) @ v


class AddedPadding(MultiHead):
    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        return (scores if mask is None else scores + mask.to(scores.dtype)).softmax(-1) @ v


class DeclaredPad(PadEncoder):
    """The id 0 is padding, and nothing hides it."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(V, D, padding_idx=0)

    def forward(self, tokens: Tensor) -> Tensor:
        return Encoder.forward(self, tokens)


class NoPlace(PositionalEncoding):
    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x)


class PlacedByRow(PositionalEncoding):
    """A table of shape (L, 1, D) for texts that come with the batch first."""

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x + self.pe.transpose(0, 1)[: x.size(0)])


class NowherePlaced(Encoder):
    def __init__(self) -> None:
        super().__init__()
        self.position = NoPlace()


class PlacedOverBatch(Encoder):
    def __init__(self) -> None:
        super().__init__()
        self.position = PlacedByRow()


class PlacedTwice(Encoder):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", sines(64, D))

    def forward(self, tokens: Tensor, keep: Tensor | None = None) -> Tensor:
        x = self.position(self.embedding(tokens)) + self.table[: tokens.size(1)]
        for layer in self.layers:
            x = layer(x, None if keep is None else keep[:, None, None, :])
        return x


class CrossLayer(DecoderLayer):
    how = ""

    def forward(self, x: Tensor, memory: Tensor, source_mask: Tensor | None, target_mask: Tensor | None) -> Tensor:
        x = self.norms[0](x + self.own(x, x, x, None if self.how == "open" else target_mask))
        across = {
            "no_mask": lambda: self.cross(x, memory, memory, None),
            "deaf": lambda: self.cross(x, x, x, target_mask),
            "values": lambda: self.cross(x, memory, x, source_mask),
            "query": lambda: self.cross(memory, memory, memory, source_mask),
        }.get(self.how, lambda: self.cross(x, memory, memory, source_mask))
        x = self.norms[1](x + across())
        return self.norms[2](x + self.feed_forward(x))


def crossing(how: str, model: type[Seq2Seq] = KeepSeq2Seq) -> Callable[[], nn.Module]:
    return lambda: model(decoder_layer=type("Wrong", (CrossLayer,), {"how": how}))


class OpenSource(KeepSeq2Seq):
    """The encoder does not hide the source's padding; the cross-attention does."""

    def run(self, src: Tensor, tgt: Tensor, src_mask: Tensor | None, tgt_mask: Tensor | None) -> Tensor:
        memory = self.src_embed(src)
        for layer in self.encoder:
            memory = layer(memory, None)
        x = self.tgt_embed(tgt)
        for layer in self.decoder:
            x = layer(x, memory, src_mask, tgt_mask)
        return self.generator(x)


class OpenTarget(KeepSeq2Seq):
    """The target's padding is not hidden; on the right nobody sees it."""

    def forward(
        self, source: Tensor, target: Tensor, source_keep: Tensor | None = None, target_keep: Tensor | None = None
    ) -> Tensor:
        return super().forward(source, target, source_keep)


class UnplacedSource(KeepSeq2Seq):
    def __init__(self) -> None:
        super().__init__()
        self.src_embed = nn.Sequential(nn.Embedding(V, D), NoPlace())


class FromOne(RotaryAttention):
    def position(self, past: int) -> int:
        return past + 1


class FromZero(RotaryAttention):
    def position(self, past: int) -> int:
        return 0


class LosesOne(RotaryAttention):
    def join(self, old: Tensor, new: Tensor) -> Tensor:
        return torch.cat([old[:, :, 1:], new], 2)


class Overwritten(RotaryAttention):
    def join(self, old: Tensor, new: Tensor) -> Tensor:
        return torch.cat([old[:, :, :-1], new, new], 2)[:, :, : old.size(2) + new.size(2)]


class LearnedFromOne(LearnedCachedGPT):
    def first(self, cache: dict[int, Tensor]) -> int:
        return super().first(cache) + bool(cache)


FAULTY: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "mask_transposed": ("causality", lambda: GPT(attention=attention(seen="triu"))),
    "mask_one_ahead": ("causality", lambda: GPT(attention=attention(seen="ahead"))),
    "mask_hides_itself": ("causality", lambda: GPT(attention=attention(seen="strict"))),
    "mask_nowhere": ("causality", lambda: GPT(attention=attention(seen="all"))),
    "mask_after_softmax": ("causality", lambda: GPT(attention=attention(late=True))),
    "mask_missing_in_one_layer": ("causality", OneLayerLeaks),
    "softmax_over_queries": ("softmax_axis", lambda: GPT(attention=attention(axis=-2))),
    "softmax_over_heads": ("softmax_axis", lambda: GPT(attention=attention(axis=1))),
    "no_scale": ("scale", lambda: GPT(attention=attention(scale=1.0))),
    "scale_by_d_k": ("scale", lambda: GPT(attention=attention(scale=H / D))),
    "scale_by_d_model": ("scale", lambda: GPT(attention=attention(scale=D**-0.5))),
    "values_by_keys": ("own_values", lambda: GPT(attention=ValuesByKeys)),
    "heads_without_transpose": ("heads", lambda: GPT(attention=NoTranspose)),
    "heads_merged_without_transpose": ("heads", lambda: GPT(attention=NoTransposeBack)),
    "heads_never_merged": ("heads", lambda: GPT(attention=NeverMerged)),
    "feed_forward_mixes": ("position_wise", lambda: GPT(MixingBlock)),
    "norm_over_batch": ("position_wise", lambda: GPT(BatchNormed)),
    "no_residual": ("residual", lambda: GPT(NoResidual)),
    "normed_residual": ("residual", lambda: GPT(NormedResidual)),
    "norm_on_the_wrong_side": ("norm", lambda: GPT(SaidPre)),
    "positions_over_rows": ("position", embedded("rows")),
    "positions_twice": ("position", embedded("twice")),
    "positions_equal": ("position", embedded("equal")),
    "positions_missing": ("position", embedded("none")),
    "encoder_positions_missing": ("position", NowherePlaced),
    "encoder_positions_over_batch": ("position", PlacedOverBatch),
    "encoder_positions_twice": ("position", PlacedTwice),
    "source_positions_missing": ("position", UnplacedSource),
    "dropout_left_on": ("determinism", lambda: GPT(DropoutLeftOn)),
    "dropout_idle": ("dropout", IdleDropout),
    "double_shift": ("label_shift", DoubleShift),
    "no_shift": ("label_shift", NoShift),
    "mean_of_means": ("accumulation", MeanOfMeans),
    "loss_counts_padding": ("loss_padding", CountsPadding),
    "copied_tie": ("tied", Copied),
    "idle_parameter": ("gradient", Idle),
    "detached": ("gradient", Detached),
    "plain_list": ("gradient", PlainList),
    "last_layer_only": ("layers", LastOnly),
    "one_layer_for_all": ("layers", OneForAll),
    "softmax_at_the_end": ("shapes", Probabilities),
    "input_overwritten": ("determinism", Overwrites),
    "loud_head": ("initial_loss", Loud),
    "padding_inverted": ("padding", wrong_mask("inverted")),
    "padding_on_queries": ("padding", wrong_mask("queries")),
    "padding_ignored": ("padding", wrong_mask("ignored")),
    "padding_missing_in_one_layer": ("padding", wrong_mask("one")),
    "padding_after_softmax": ("padding", lambda: Encoder(partial(EncoderLayer, LatePadding))),
    "padding_added_as_ones": ("padding", lambda: Encoder(partial(EncoderLayer, AddedPadding))),
    "padding_declared_only": ("padding", DeclaredPad),
    "source_padding_open": ("padding", OpenSource),
    "target_padding_open": ("padding", OpenTarget),
    "cross_mask_missing": ("cross_attention", crossing("no_mask")),
    "cross_mask_missing_given": ("cross_attention", crossing("no_mask", Seq2Seq)),
    "cross_deaf": ("cross_attention", crossing("deaf")),
    "cross_values_from_target": ("cross_attention", crossing("values")),
    "cross_query_from_source": ("cross_attention", crossing("query")),
    "target_mask_missing": ("causality", crossing("open")),
    "cache_from_one": ("cache", lambda: CachedGPT(FromOne)),
    "cache_from_zero": ("cache", lambda: CachedGPT(FromZero)),
    "cache_loses_one": ("cache", lambda: CachedGPT(LosesOne)),
    "cache_overwritten": ("cache", lambda: CachedGPT(Overwritten)),
    "cache_learned_from_one": ("cache", LearnedFromOne),
}
"""By name: the property that fails first, and the model."""
