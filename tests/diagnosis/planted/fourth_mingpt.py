"""minGPT in small: a config object, separate key, query and value, `model(idx, targets)` gives (logits, loss)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class GPTConfig:
    vocab_size = 32
    block_size = 64
    n_layer = 2
    n_head = 2
    n_embd = 32
    attn_pdrop = 0.1
    resid_pdrop = 0.1


class CausalSelfAttention(nn.Module):
    mask: Tensor

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.key = nn.Linear(config.n_embd, config.n_embd)
        self.query = nn.Linear(config.n_embd, config.n_embd)
        self.value = nn.Linear(config.n_embd, config.n_embd)
        self.attn_drop = nn.Dropout(config.attn_pdrop)
        self.resid_drop = nn.Dropout(config.resid_pdrop)
        self.proj = nn.Linear(config.n_embd, config.n_embd)
        mask = torch.tril(torch.ones(config.block_size, config.block_size))
        self.register_buffer("mask", mask.view(1, 1, config.block_size, config.block_size))
        self.n_head = config.n_head

    def hide(self, att: Tensor, T: int) -> Tensor:
        return att.masked_fill(self.mask[:, :, :T, :T] == 0, -1e9)

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        k = self.key(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = self.query(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = self.value(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = F.softmax(self.hide(att, T), dim=-1)
        y = self.attn_drop(att) @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_drop(self.proj(y))


class Block(nn.Module):
    attention: type[CausalSelfAttention] = CausalSelfAttention

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(config.n_embd)
        self.ln2 = nn.LayerNorm(config.n_embd)
        self.attn = self.attention(config)
        self.mlp = nn.Sequential(
            nn.Linear(config.n_embd, 4 * config.n_embd),
            nn.GELU(),
            nn.Linear(4 * config.n_embd, config.n_embd),
            nn.Dropout(config.resid_pdrop),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class MinGPT(nn.Module):
    block: type[Block] = Block

    def __init__(self) -> None:
        super().__init__()
        config = GPTConfig()
        self.tok_emb = nn.Embedding(config.vocab_size, config.n_embd)
        self.pos_emb = nn.Embedding(config.block_size, config.n_embd)
        self.blocks = nn.Sequential(*self.stack(config))
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.apply(self._init_weights)

    def stack(self, config: GPTConfig) -> list[Block]:
        return [self.block(config) for _ in range(config.n_layer)]

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.data.normal_(mean=0.0, std=0.1)
            if isinstance(module, nn.Linear) and module.bias is not None:
                module.bias.data.zero_()

    def positions(self, idx: Tensor) -> Tensor:
        return torch.arange(idx.size(1), device=idx.device).unsqueeze(0)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.tok_emb(idx) + self.pos_emb(self.positions(idx))
        logits = self.head(self.ln_f(self.blocks(x)))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1), ignore_index=-100)
        return logits, loss


# Wrong ---------------------------------------------------------------------------------------------------------------


class MinusTinyAttention(CausalSelfAttention):
    def hide(self, att: Tensor, T: int) -> Tensor:
        return att.masked_fill(self.mask[:, :, :T, :T] == 0, -1e-9)


class MinusTinyBlock(Block):
    attention = MinusTinyAttention


class MinusTinyMinGPT(MinGPT):
    block = MinusTinyBlock


class NotInPlaceAttention(CausalSelfAttention):
    def hide(self, att: Tensor, T: int) -> Tensor:
        att.masked_fill(self.mask[:, :, :T, :T] == 0, -1e9)
        return att


class NotInPlaceBlock(Block):
    attention = NotInPlaceAttention


class NotInPlaceMinGPT(MinGPT):
    block = NotInPlaceBlock


class PositionsOfTheBatchMinGPT(MinGPT):
    def positions(self, idx: Tensor) -> Tensor:
        return torch.arange(idx.size(0), device=idx.device).unsqueeze(1)


class TimesListMinGPT(MinGPT):
    def stack(self, config: GPTConfig) -> list[Block]:
        return [self.block(config)] * config.n_layer


class ProbabilitiesMinGPT(MinGPT):
    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.tok_emb(idx) + self.pos_emb(self.positions(idx))
        probs = F.softmax(self.head(self.ln_f(self.blocks(x))), dim=-1)
        loss = None
        if targets is not None:
            loss = F.cross_entropy(probs.view(-1, probs.size(-1)), targets.reshape(-1), ignore_index=-100)
        return probs, loss
