"""Parts as people write them, all of them right."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.call import Call
from glassformer.core.mask import Mask
from glassformer.core.places import Places
from glassformer.kernels.attend import attend
from glassformer.models.arguments import ModelArguments
from glassformer.parts.block import Block
from glassformer.parts.init import initialise
from glassformer.parts.position import sinusoid


def keep_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = scores.softmax(-1)
    return weights @ v, weights


def hide_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = torch.einsum("bhqe,bhke->bhqk", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
    return torch.einsum("bhqk,bhke->bhqe", F.softmax(scores, dim=-1), value)


def adding_attention(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if attn_mask is not None:
        scores = scores + attn_mask
    return scores.softmax(-1).nan_to_num(0.0) @ v


def flat_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.bmm(torch.softmax(torch.bmm(q, k.transpose(1, 2)) / q.shape[2] ** 0.5, dim=2), v)


def own_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return attend(q, k, v, mask=None if mask is None else Mask(allow=mask))


class ScaledDotProduct(nn.Module):
    def __init__(self, temperature: float, attn_dropout: float = 0.1) -> None:
        super().__init__()
        self.temperature, self.dropout = temperature, nn.Dropout(attn_dropout)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        scores = torch.matmul(q / self.temperature, k.transpose(2, 3))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = self.dropout(F.softmax(scores, dim=-1))
        return torch.matmul(weights, v), weights


class FourLinears(nn.Module):
    """(x, mask), True = may be seen; the attention and its faults, which a subclass turns on."""

    fault = ""

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.1) -> None:
        super().__init__()
        assert d_model % n_heads == 0, f"d_model {d_model} is not divisible by n_heads {n_heads}"
        self.h = n_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        B, T, D = x.shape
        fault = self.fault

        def split(y: Tensor) -> Tensor:
            if fault == "split":
                return y.view(B, self.h, T, D // self.h)
            return y.view(B, T, self.h, D // self.h).transpose(1, 2)

        values = self.w_k(x) if fault == "values" else self.w_v(x)
        q, k, v = split(self.w_q(x)), split(self.w_k(x)), split(values)
        width = {"scale": D, "unscaled": 1}.get(fault, D // self.h)
        scores = q @ k.transpose(-2, -1) / math.sqrt(width)
        if mask is not None and fault not in ("unmasked", "after"):
            mask = mask.unsqueeze(1) if mask.ndim == 3 else mask
            if fault == "one_head":
                scores = torch.cat((scores[:, :1].masked_fill(mask == 0, -1e9), scores[:, 1:]), 1)
            else:
                scores = scores.masked_fill(mask == 0, -1e9)
        weights = scores.softmax(-2 if fault == "axis" else -1)
        if mask is not None and fault == "after":
            weights = weights * mask
        weights = F.dropout(weights, 0.1) if fault == "dropout" else self.dropout(weights)
        out = weights @ v
        if fault == "unmerged":
            return self.w_o(out), weights
        if fault == "merge":
            return self.w_o(out.reshape(B, T, D)), weights
        return self.w_o(out.transpose(1, 2).reshape(B, T, D)), weights


class Fused(nn.Module):
    """One matrix for all three; causal by itself (nanoGPT)."""

    def __init__(self, n_embd: int, n_head: int) -> None:
        super().__init__()
        if n_embd % n_head:
            raise ValueError(f"n_embd {n_embd} is not divisible by n_head {n_head}")
        self.n_head = n_head
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)

    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        q, k, v = (y.view(B, T, self.n_head, D // self.n_head).transpose(1, 2) for y in self.c_attn(x).split(D, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, D))


class HeadList(nn.Module):
    """A list of heads, each with small matrices of its own."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"{n_heads} heads do not divide {d_model}")
        width = d_model // n_heads
        self.heads = nn.ModuleList(
            nn.ModuleList(nn.Linear(d_model, width, bias=False) for _ in range(3)) for _ in range(n_heads)
        )
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        outs = []
        for q, k, v in self.heads:  # type: ignore[misc]
            queries, keys, values = q(x), k(x), v(x)
            outs.append((queries @ keys.transpose(1, 2) / queries.shape[-1] ** 0.5).softmax(-1) @ values)
        return self.out(torch.cat(outs, -1))


class BareMatrices(nn.Module):
    """(q, k, v, mask) with parameters in place of linear layers; True = hidden."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError("heads must divide the width")
        self.h = num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Parameter(torch.randn(d_model, d_model) * 0.2) for _ in range(4))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        def split(y: Tensor) -> Tensor:
            return y.reshape(y.shape[0], y.shape[1], self.h, -1).permute(0, 2, 1, 3)

        q, k, v = split(query @ self.wq), split(key @ self.wk), split(value @ self.wv)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask, -1e9)
        out = (scores.softmax(-1) @ v).permute(0, 2, 1, 3).flatten(2)
        return out @ self.wo


class FeedForward(nn.Module):
    fault = ""

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.w_1, self.w_2, self.dropout = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model), nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        if self.fault == "linear":
            return self.w_2(self.w_1(x))
        y = self.w_1(x).relu()
        if self.fault == "mixes":
            y = y.cumsum(1)
        if self.fault == "dropout":
            y = F.dropout(y, 0.2)
        return self.w_2(self.dropout(y))


class Gated(nn.Module):
    def __init__(self, dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.w1, self.w2, self.w3 = (
            nn.Linear(dim, hidden_dim, bias=False),
            nn.Linear(hidden_dim, dim, bias=False),
            nn.Linear(dim, hidden_dim, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class EncoderLayer(nn.Module):
    fault, pre = "", False

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.attention, self.feed_forward = FourLinears(d_model, n_heads, dropout), FeedForward(d_model, d_ff, dropout)
        self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        def attend(y: Tensor) -> Tensor:
            return self.dropout(self.attention(y, None if self.fault == "unmasked" else mask)[0])

        def feed(y: Tensor) -> Tensor:
            return self.dropout(self.feed_forward(y))

        if self.fault == "stream":
            x = self.norm_1(x)
            x = self.norm_2(x + attend(x))
            return x + feed(x)
        if self.fault == "inside":
            x = x + self.norm_1(attend(x))
            return x + self.norm_2(feed(x))
        if self.fault == "residual":
            x = self.norm_1(attend(x))
            return self.norm_2(x + feed(x))
        if self.fault == "residual_2":
            x = self.norm_1(x + attend(x))
            return self.norm_2(feed(x))
        if self.pre:
            x = x + attend(self.norm_1(x))
            return x + feed(self.norm_2(x))
        x = self.norm_1(x + attend(x))
        return self.norm_2(x + feed(x))


class PreEncoderLayer(EncoderLayer):
    pre = True


class OwnLayer(nn.Module):
    """A block of this library."""

    def __init__(self, norm_place: str = "post", *, cross: bool = False) -> None:
        super().__init__()
        kind = "encoder_decoder" if cross else "encoder"
        arguments = ModelArguments.parse(
            {"kind": kind, "d_model": 24, "n_heads": 4, "n_layers": 1, "d_ff": 40, "norm_place": norm_place}
        )
        config = arguments.resolve(11)
        stack = config.decoder if cross else config.encoder
        assert stack is not None
        self.block, self.causal = Block(stack.blocks[0], 24), stack.causal
        initialise(self.block, config.init, torch.Generator().manual_seed(0))


class OwnEncoderLayer(OwnLayer):
    def forward(self, x: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        return self.block(x, Call(_places(x, key_padding_mask)))


class OwnDecoderLayer(OwnLayer):
    def __init__(self, norm_place: str = "post") -> None:
        super().__init__(norm_place, cross=True)

    def forward(self, x: Tensor, memory: Tensor, memory_key_padding_mask: Tensor | None = None) -> Tensor:
        call = Call(_places(x, None), Mask(causal=True), _places(memory, memory_key_padding_mask))
        return self.block(x, call, memory)


def _places(x: Tensor, hidden: Tensor | None) -> Places:
    lengths = [x.shape[1]] * x.shape[0] if hidden is None else (~hidden).sum(1).tolist()
    return Places.from_lengths(lengths, x.shape[1])


class Cross(nn.Module):
    """(q, k, v, mask), True = may be seen."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"{n_heads} heads do not divide {d_model}")
        self.h = n_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        B, T, D = q.shape

        def split(y: Tensor) -> Tensor:
            return y.view(B, -1, self.h, D // self.h).transpose(1, 2)

        q, k, v = split(self.w_q(q)), split(self.w_k(k)), split(self.w_v(v))
        return self.w_o(keep_attention(q, k, v, mask)[0].transpose(1, 2).reshape(B, T, D))


class DecoderLayer(nn.Module):
    fault = ""

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.self_attention, self.cross_attention = Cross(d_model, n_heads), Cross(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))

    def forward(
        self, x: Tensor, memory: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        fault = self.fault
        if fault == "future":
            tgt_mask = None
        if fault == "transposed" and tgt_mask is not None:
            tgt_mask = tgt_mask.transpose(-1, -2)
        x = self.norms[0](x + self.self_attention(x, x, x, tgt_mask))
        q, k, v = {
            "values": (x, memory, x),
            "ignored": (x, x, x),
            "queries": (memory, x, x),
        }.get(fault, (x, memory, memory))
        seen = self.cross_attention(q, k, v, None if fault == "unmasked" else src_mask)
        x = self.norms[1](seen if fault == "residual" else x + seen)
        return self.norms[2](x + self.feed_forward(x))


def causal_keep(n: int) -> Tensor:
    return torch.tril(torch.ones(n, n)).bool()


def causal_hide(size: int) -> Tensor:
    return torch.triu(torch.ones(1, size, size), diagonal=1) == 1


def causal_added(sz: int) -> Tensor:
    return nn.Transformer.generate_square_subsequent_mask(sz)


def padding_keep(tokens: Tensor, pad: int) -> Tensor:
    return (tokens != pad)[:, None, None]


def padding_lengths(lengths: Tensor, max_len: int) -> Tensor:
    return torch.arange(max_len)[None] >= lengths[:, None]


def target_mask(tgt: Tensor, pad: int = 0) -> Tensor:
    return (tgt != pad)[:, None, None] & torch.ones(tgt.shape[1], tgt.shape[1]).tril().bool()


def paper_table(n: int, d_model: int) -> Tensor:
    return sinusoid(torch.arange(n)[None], d_model)[0]


def numpy_table(max_len: int, d_model: int) -> Tensor:
    table = torch.zeros(max_len, d_model)
    position = torch.arange(max_len).unsqueeze(1).float()
    turns = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
    table[:, 0::2], table[:, 1::2] = torch.sin(position * turns), torch.cos(position * turns)
    return table


class AddedPositions(nn.Module):
    fault = ""

    def __init__(self, d_model: int, dropout: float = 0.1, max_len: int = 5000) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        table = numpy_table(max_len + 1, d_model)
        if self.fault == "exponent":
            turn = torch.exp(torch.arange(d_model).float() * (-math.log(10000.0) / d_model))
            angle = torch.arange(max_len + 1)[:, None] * turn
            table = torch.where(torch.arange(d_model) % 2 == 0, angle.sin(), angle.cos())
        self.register_buffer("pe", table[1:] if self.fault == "begins" else table[:-1])

    def forward(self, x: Tensor) -> Tensor:
        pe: Tensor = self.pe  # type: ignore[assignment]
        if self.fault == "rows":
            return self.dropout(x + pe[: x.size(0), None])
        if self.fault == "same":
            return self.dropout(x + pe[x.size(1)])
        times = 2 if self.fault == "twice" else 1
        return self.dropout(x + times * pe[: x.size(1)])


class TimeFirstPositions(nn.Module):
    def __init__(self, d_model: int, max_len: int = 100) -> None:
        super().__init__()
        self.register_buffer("pe", numpy_table(max_len, d_model)[:, None])

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[: x.size(0)]  # type: ignore[index]


class LearnedPositions(nn.Module):
    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.table.embedding_dim**0.5 + self.table(torch.arange(x.shape[1]))


class LearnedTable(nn.Module):
    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, positions: Tensor) -> Tensor:
        return self.table(positions)


def _angles(length: int, width: int) -> Tensor:
    turns = 10000 ** (-torch.arange(0, width, 2) / width)
    return torch.arange(length)[:, None] * turns


def rotary_halves(x: Tensor) -> Tensor:
    angle = _angles(x.shape[-2], x.shape[-1]).repeat(1, 2)
    a, b = x.chunk(2, -1)
    return (x * angle.cos() + torch.cat((-b, a), -1) * angle.sin()).to(x.dtype)


def rotary_pairs(xq: Tensor, xk: Tensor) -> tuple[Tensor, Tensor]:
    """(B, T, H, E), as complex numbers."""
    turn = torch.polar(torch.ones(()), _angles(xq.shape[1], xq.shape[-1]).float())[:, None]

    def turned(x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turn).flatten(-2).type_as(x)

    return turned(xq), turned(xk)


def noam(step: int, d_model: int, warmup: int) -> float:
    step = max(step, 1)
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def cosine(it: int) -> float:
    warmup, total, top, low = 100, 1000, 1e-3, 1e-4
    if it < warmup:
        return top * (it + 1) / (warmup + 1)
    if it > total:
        return low
    return low + 0.5 * (1 + math.cos(math.pi * (it - warmup) / (total - warmup))) * (top - low)


def linear_scheduler(optimizer: torch.optim.Optimizer, warmup: int, max_steps: int) -> Any:
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min((step + 1) / warmup, max(0.0, (max_steps - step - 1) / (max_steps - warmup))),
    )


class CachedAttention(nn.Module):
    """One sequence (B, T, D), causal, with rotary positions that go on from the cache."""

    fault = ""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.h = n_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.kept: Any = None

    def forward(self, x: Tensor, cache: Any = None) -> tuple[Tensor, Any]:
        B, T, D = x.shape
        fault = self.fault
        q, k, v = (y.view(B, T, self.h, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if fault == "module":
            cache = self.kept
        past = 0 if cache is None else cache[0].shape[2]
        begin = 0 if fault == "positions" else past + 1 if fault == "off_by_one" and past else past
        q, k = self._turned(q, begin), self._turned(k, begin)
        if cache is not None:
            old_k, old_v = cache
            if fault == "forgets":
                old_k, old_v = old_k[:, :, :0], old_v[:, :, :0]
            if fault == "drops":
                old_k, old_v = old_k[:, :, :-1], old_v[:, :, :-1]
            k, v = torch.cat((old_k, k), 2), torch.cat((old_v, v), 2)
            if fault == "doubled":
                k, v = torch.cat((old_k, k), 2), torch.cat((old_v, v), 2)
        S = k.shape[2]
        visible = torch.ones(T, S, dtype=torch.bool).tril(0 if fault == "diagonal" and T > 1 else S - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        self.kept = (k, v)
        return self.out(y.transpose(1, 2).reshape(B, T, D)), (k, v)

    def _turned(self, x: Tensor, begin: int) -> Tensor:
        length, width = x.shape[2], x.shape[3]
        angle = _angles(begin + length, width)[begin:].repeat(1, 2)
        a, b = x.chunk(2, -1)
        return x * angle.cos() + torch.cat((-b, a), -1) * angle.sin()


def beam_search(
    next_log_probs: Callable[[list[list[int]]], Tensor],
    begin: int,
    end: int,
    width: int,
    max_new: int,
    length_penalty: float = 0.0,
    fault: str = "",
) -> list[tuple[list[int], float]]:
    live: list[tuple[list[int], float]] = [([begin], 0.0)]
    done: list[tuple[list[int], float]] = []

    def score(tokens: list[int], total: float) -> float:
        n = len(tokens) - 1
        if fault == "means":
            return total / n
        return total / n**length_penalty

    for _ in range(max_new):
        found = []
        for (tokens, total), row in zip(live, next_log_probs([tokens for tokens, _ in live]), strict=True):
            for token, logprob in enumerate(row.tolist()):
                if logprob > -math.inf:
                    gained = math.exp(logprob) if fault == "probabilities" else logprob
                    found.append(([*tokens, token], total if fault == "end" and token == end else total + gained))
        found.sort(key=lambda each: -each[1])
        best = found[: max(1, width - 1) if fault == "narrow" and width > 8 else width]
        if fault == "narrow":
            best = best[:2]
        done += [each for each in best if each[0][-1] == end]
        live = [each for each in best if each[0][-1] != end]
        if fault == "loses":
            done = [each for each in best if each[0][-1] == end]
        if not live:
            break
    ranked = [(tokens[1:], score(tokens, total)) for tokens, total in [*done, *live]]
    if fault == "unsorted":
        return ranked
    return sorted(ranked, key=lambda each: -each[1])[:width]
