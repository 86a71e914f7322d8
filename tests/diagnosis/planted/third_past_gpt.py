"""GPT-2 as it is ported again and again: one matrix for q, k and v, `past` in and `presents` out.

A past is one tensor (2, B, heads, length, width) a layer. Logits and presents come back.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Past = list[Tensor] | None


class LayerNorm(nn.Module):
    def __init__(self, nx: int, e: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(nx))
        self.bias = nn.Parameter(torch.zeros(nx))
        self.e = e

    def forward(self, x: Tensor) -> Tensor:
        u = x.mean(-1, keepdim=True)
        s = (x - u).pow(2).mean(-1, keepdim=True)
        return self.weight * (x - u) / torch.sqrt(s + self.e) + self.bias


class Attention(nn.Module):
    def __init__(self, nx: int, n_head: int, n_ctx: int) -> None:
        super().__init__()
        self.n_head = n_head
        self.register_buffer("bias", torch.tril(torch.ones(n_ctx, n_ctx)).view(1, 1, n_ctx, n_ctx))
        self.c_attn = nn.Linear(nx, 3 * nx)
        self.c_proj = nn.Linear(nx, nx)

    def hide(self, w: Tensor) -> Tensor:
        nd, ns = w.size(-2), w.size(-1)
        b = self.bias[:, :, ns - nd : ns, :ns]
        return w * b - 1e10 * (1 - b)

    def _attn(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        w = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(v.size(-1))
        return torch.matmul(F.softmax(self.hide(w), dim=-1), v)

    def split_heads(self, x: Tensor) -> Tensor:
        return x.view(*x.size()[:-1], self.n_head, x.size(-1) // self.n_head).permute(0, 2, 1, 3)

    def merge_heads(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 1, 3).contiguous()
        return x.view(*x.size()[:-2], x.size(-2) * x.size(-1))

    def remember(self, key: Tensor, value: Tensor, layer_past: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        if layer_past is not None:
            key = torch.cat((layer_past[0], key), dim=-2)
            value = torch.cat((layer_past[1], value), dim=-2)
        return key, value, torch.stack((key, value))

    def forward(self, x: Tensor, layer_past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        query, key, value = map(self.split_heads, self.c_attn(x).chunk(3, dim=2))
        key, value, present = self.remember(key, value, layer_past)
        return self.c_proj(self.merge_heads(self._attn(query, key, value))), present


class MLP(nn.Module):
    def __init__(self, nx: int) -> None:
        super().__init__()
        self.c_fc = nn.Linear(nx, 4 * nx)
        self.c_proj = nn.Linear(4 * nx, nx)

    def forward(self, x: Tensor) -> Tensor:
        x = self.c_fc(x)
        x = 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))
        return self.c_proj(x)


class Block(nn.Module):
    attention: type[Attention] = Attention
    norm: type[nn.Module] = LayerNorm

    def __init__(self, nx: int, n_head: int, n_ctx: int) -> None:
        super().__init__()
        self.ln_1 = self.norm(nx)
        self.attn = self.attention(nx, n_head, n_ctx)
        self.ln_2 = self.norm(nx)
        self.mlp = MLP(nx)

    def forward(self, x: Tensor, layer_past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        a, present = self.attn(self.ln_1(x), layer_past)
        x = x + a
        return x + self.mlp(self.ln_2(x)), present


class PastGPT(nn.Module):
    block: type[Block] = Block

    def __init__(
        self, vocab_size: int = 32, n_ctx: int = 64, n_embd: int = 32, n_head: int = 2, n_layer: int = 2
    ) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.wpe = nn.Embedding(n_ctx, n_embd)
        self.h = nn.ModuleList([self.block(n_embd, n_head, n_ctx) for _ in range(n_layer)])
        self.ln_f = self.block.norm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        nn.init.normal_(self.wte.weight, std=0.1)
        nn.init.normal_(self.wpe.weight, std=0.1)
        nn.init.normal_(self.lm_head.weight, std=0.1)
        self.set_tied()

    def set_tied(self) -> None:
        self.lm_head.weight = self.wte.weight

    def position_ids(self, input_ids: Tensor, past: Past) -> Tensor:
        past_length = 0 if past is None else past[0].size(-2)
        return torch.arange(past_length, input_ids.size(-1) + past_length, device=input_ids.device)

    def forward(self, input_ids: Tensor, past: Past = None) -> tuple[Tensor, list[Tensor]]:
        hidden_states = self.wte(input_ids) + self.wpe(self.position_ids(input_ids, past))
        presents = []
        for i, block in enumerate(self.h):
            hidden_states, present = block(hidden_states, None if past is None else past[i])
            presents.append(present)
        return self.lm_head(self.ln_f(hidden_states)), presents


# Wrong ---------------------------------------------------------------------------------------------------------------


class PositionPlusOneGPT(PastGPT):
    """With a past of three the next word is the fourth: its place is 3, and not 4."""

    def position_ids(self, input_ids: Tensor, past: Past) -> Tensor:
        start = 0 if past is None else past[0].size(-2) + 1
        return torch.arange(start, input_ids.size(-1) + start, device=input_ids.device)


class PositionFromZeroGPT(PastGPT):
    """Each call begins at place 0."""

    def position_ids(self, input_ids: Tensor, past: Past) -> Tensor:
        return torch.arange(input_ids.size(-1), device=input_ids.device)


class TopRowsAttention(Attention):
    """The first rows of the triangle, and not the last ones."""

    def hide(self, w: Tensor) -> Tensor:
        nd, ns = w.size(-2), w.size(-1)
        b = self.bias[:, :, :nd, :ns]
        return w * b - 1e10 * (1 - b)


class TopRowsBlock(Block):
    attention = TopRowsAttention


class TopRowsGPT(PastGPT):
    block = TopRowsBlock


class OnlyNewKeptAttention(Attention):
    """The present is made before the past is joined to it."""

    def remember(self, key: Tensor, value: Tensor, layer_past: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        present = torch.stack((key, value))
        if layer_past is not None:
            key = torch.cat((layer_past[0], key), dim=-2)
            value = torch.cat((layer_past[1], value), dim=-2)
        return key, value, present


class OnlyNewKeptBlock(Block):
    attention = OnlyNewKeptAttention


class OnlyNewKeptGPT(PastGPT):
    block = OnlyNewKeptBlock


class ValuesNotJoinedAttention(Attention):
    """The keys of the past stand in for its values."""

    def remember(self, key: Tensor, value: Tensor, layer_past: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        if layer_past is not None:
            past_key, past_value = layer_past[0], layer_past[0]
            key = torch.cat((past_key, key), dim=-2)
            value = torch.cat((past_value, value), dim=-2)
        return key, value, torch.stack((key, value))


class ValuesNotJoinedBlock(Block):
    attention = ValuesNotJoinedAttention


class ValuesNotJoinedGPT(PastGPT):
    block = ValuesNotJoinedBlock


class SmallPenaltyAttention(Attention):
    """1e-4 where 1e4 was meant."""

    def hide(self, w: Tensor) -> Tensor:
        nd, ns = w.size(-2), w.size(-1)
        b = self.bias[:, :, ns - nd : ns, :ns]
        return w * b - 1e-4 * (1 - b)


class SmallPenaltyBlock(Block):
    attention = SmallPenaltyAttention


class SmallPenaltyGPT(PastGPT):
    block = SmallPenaltyBlock


class WholeNorm(LayerNorm):
    """Mean and variance of the whole batch."""

    def forward(self, x: Tensor) -> Tensor:
        u = x.mean()
        s = (x - u).pow(2).mean()
        return self.weight * (x - u) / torch.sqrt(s + self.e) + self.bias


class WholeNormBlock(Block):
    norm = WholeNorm


class WholeNormGPT(PastGPT):
    block = WholeNormBlock


class TiedByCopyGPT(PastGPT):
    """The two begin alike and part at the first step."""

    def set_tied(self) -> None:
        self.lm_head.weight.data.copy_(self.wte.weight.data)
