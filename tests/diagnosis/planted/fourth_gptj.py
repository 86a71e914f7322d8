"""GPT-J in small: attention and feed-forward side by side behind one norm, part of each head rotated.

`model(input_ids, labels=input_ids)`; the model shifts the labels itself and returns a dataclass.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class GPTJConfig:
    vocab_size: int = 32
    n_positions: int = 64
    n_embd: int = 32
    n_layer: int = 2
    n_head: int = 2
    rotary_dim: int = 8
    n_kv_head: int = 2


@dataclass
class CausalLMOutput:
    logits: Tensor
    loss: Tensor | None = None


def rotate_every_two(x: Tensor) -> Tensor:
    return torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)


def causal_lm_loss(logits: Tensor, labels: Tensor) -> Tensor:
    shift_logits, shift_labels = logits[:, :-1, :], labels[:, 1:]
    return F.cross_entropy(shift_logits.reshape(-1, logits.size(-1)), shift_labels.reshape(-1), ignore_index=-100)


class GPTJAttention(nn.Module):
    def __init__(self, config: GPTJConfig) -> None:
        super().__init__()
        self.num_heads, self.num_kv, self.rotary_dim = config.n_head, config.n_kv_head, config.rotary_dim
        self.head_dim = config.n_embd // config.n_head
        self.q_proj = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.k_proj = nn.Linear(config.n_embd, self.num_kv * self.head_dim, bias=False)
        self.v_proj = nn.Linear(config.n_embd, self.num_kv * self.head_dim, bias=False)
        self.out_proj = nn.Linear(config.n_embd, config.n_embd, bias=False)
        inv_freq = 1.0 / (10000 ** (torch.arange(0, self.rotary_dim, 2) / self.rotary_dim))
        sinusoid = torch.outer(torch.arange(config.n_positions).float(), inv_freq)
        self.register_buffer("sin", sinusoid.sin().repeat_interleave(2, -1), persistent=False)
        self.register_buffer("cos", sinusoid.cos().repeat_interleave(2, -1), persistent=False)

    def rotate(self, x: Tensor) -> Tensor:
        return rotate_every_two(x)

    def rotary(self, x: Tensor) -> Tensor:
        rot, rest = x[..., : self.rotary_dim], x[..., self.rotary_dim :]
        rot = rot * self.cos[: x.size(-2)] + self.rotate(rot) * self.sin[: x.size(-2)]
        return torch.cat((rot, rest), dim=-1)

    def masked(self, scores: Tensor) -> Tensor:
        mask = torch.triu(torch.full(scores.shape[-2:], float("-inf"), device=scores.device), diagonal=1)
        return scores + mask

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q = self.q_proj(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(b, t, self.num_kv, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(b, t, self.num_kv, self.head_dim).transpose(1, 2)
        scores = self.rotary(q) @ self.rotary(k).transpose(-1, -2) / self.head_dim**0.5
        out = self.masked(scores).softmax(dim=-1) @ v
        return self.out_proj(out.transpose(1, 2).reshape(b, t, c))


class GPTJBlock(nn.Module):
    attention: type[GPTJAttention] = GPTJAttention

    def __init__(self, config: GPTJConfig) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd)
        self.attn = self.attention(config)
        self.fc_in = nn.Linear(config.n_embd, 4 * config.n_embd)
        self.fc_out = nn.Linear(4 * config.n_embd, config.n_embd)

    def mlp(self, x: Tensor) -> Tensor:
        return self.fc_out(F.gelu(self.fc_in(x)))

    def forward(self, x: Tensor) -> Tensor:
        residual = x
        x = self.ln_1(x)
        return self.attn(x) + self.mlp(x) + residual


class GPTJForCausalLM(nn.Module):
    block: type[GPTJBlock] = GPTJBlock
    n_kv_head = 2

    def __init__(self) -> None:
        super().__init__()
        config = GPTJConfig(n_kv_head=self.n_kv_head)
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.h = nn.ModuleList([self.block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.1)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return causal_lm_loss(logits, labels)

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> CausalLMOutput:
        x = self.wte(input_ids)
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return CausalLMOutput(logits, None if labels is None else self.loss(logits, labels))


class MultiQueryGPTJ(GPTJForCausalLM):
    """A variant that is right: one key and one value for all heads."""

    n_kv_head = 1


# Wrong ---------------------------------------------------------------------------------------------------------------


class NoMinusAttention(GPTJAttention):
    def rotate(self, x: Tensor) -> Tensor:
        return torch.stack((x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)


class NoMinusBlock(GPTJBlock):
    attention = NoMinusAttention


class NoMinusGPTJ(GPTJForCausalLM):
    block = NoMinusBlock


class NormReassignedBlock(GPTJBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = self.ln_1(x)
        return x + self.attn(x) + self.mlp(x)


class NormReassignedGPTJ(GPTJForCausalLM):
    block = NormReassignedBlock


class TrilAddedAttention(GPTJAttention):
    def masked(self, scores: Tensor) -> Tensor:
        mask = torch.tril(torch.ones(scores.shape[-2:], device=scores.device))
        return scores + mask


class TrilAddedBlock(GPTJBlock):
    attention = TrilAddedAttention


class TrilAddedGPTJ(GPTJForCausalLM):
    block = TrilAddedBlock


class LabelsAsTheyAreGPTJ(GPTJForCausalLM):
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1), ignore_index=-100)


class ShiftedByBothGPTJ(GPTJForCausalLM):
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        shift_logits = logits[..., :-1, :].contiguous()
        shift_labels = labels[..., 1:].contiguous()
        return causal_lm_loss(shift_logits, shift_labels)


class NoReductionMeanGPTJ(GPTJForCausalLM):
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        shift_logits, shift_labels = logits[:, :-1, :].transpose(1, 2), labels[:, 1:]
        return F.cross_entropy(shift_logits, shift_labels, reduction="none").mean()
