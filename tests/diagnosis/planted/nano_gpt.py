"""A GPT in the style of nanoGPT, and what goes wrong in one: each class below `NanoGPT` carries one mistake.

The caller shifts: `targets[b, t]` is the token after `idx[b, t]`, and -100 marks a place without a target.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class GPTConfig:
    block_size: int = 64
    vocab_size: int = 32
    n_layer: int = 2
    n_head: int = 2
    n_embd: int = 32
    dropout: float = 0.0
    bias: bool = True
    tie_weights: bool = True


class CausalSelfAttention(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.attn_dropout = nn.Dropout(config.dropout)
        self.resid_dropout = nn.Dropout(config.dropout)
        self.n_head = config.n_head
        self.n_embd = config.n_embd
        mask = torch.tril(torch.ones(config.block_size, config.block_size))
        self.register_buffer("bias", mask.view(1, 1, config.block_size, config.block_size), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, nh, T, hs)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        att = self.attn_dropout(att)
        y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


class MLP(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.gelu = nn.GELU()
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.c_fc(x)
        x = self.gelu(x)
        x = self.c_proj(x)
        return self.dropout(x)


class Block(nn.Module):
    attention: type[nn.Module] = CausalSelfAttention
    feed_forward: type[nn.Module] = MLP

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd)
        self.attn = self.attention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd)
        self.mlp = self.feed_forward(config)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class NanoGPT(nn.Module):
    block: type[nn.Module] = Block

    def __init__(self, config: GPTConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or GPTConfig()
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        self.h = nn.ModuleList([self.block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.apply(self._init_weights)
        if config.tie_weights:
            self.wte.weight = self.lm_head.weight

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        _, t = idx.size()
        if t > self.config.block_size:
            raise ValueError(f"{t} tokens, but the block size is {self.config.block_size}")
        pos = torch.arange(0, t, dtype=torch.long, device=idx.device)
        x = self.drop(self.wte(idx) + self.wpe(pos))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        loss = None
        if targets is not None:
            loss = self.loss(logits, targets)
        return logits, loss

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1), ignore_index=-100)

    @torch.no_grad()
    def generate(self, idx: Tensor, max_new_tokens: int) -> Tensor:
        for _ in range(max_new_tokens):
            logits, _ = self(idx[:, -self.config.block_size :])
            idx = torch.cat((idx, logits[:, -1].argmax(-1, keepdim=True)), dim=1)
        return idx


class ParallelBlock(Block):
    """Attention and feed-forward side by side, as in GPT-J and PaLM: unusual, and right."""

    def forward(self, x: Tensor) -> Tensor:
        normed = self.ln_1(x)
        return x + self.attn(normed) + self.mlp(self.ln_2(x))


class ParallelGPT(NanoGPT):
    block = ParallelBlock


# The mask ------------------------------------------------------------------------------------------------------------


class UnmaskedAttention(CausalSelfAttention):
    """No mask at all."""

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v)
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


class LastLayerUnmaskedGPT(NanoGPT):
    """The last layer was rewritten for speed, without is_causal=True."""

    def __init__(self, config: GPTConfig | None = None) -> None:
        super().__init__(config)
        self.h[-1].attn = UnmaskedAttention(self.config)
        self.h[-1].attn.apply(self._init_weights)


class OneTooManyAttention(CausalSelfAttention):
    """The triangle reaches one place too far: each position sees the token it should predict."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__(config)
        self.bias = torch.tril(torch.ones_like(self.bias), diagonal=1)


class OneTooManyBlock(Block):
    attention = OneTooManyAttention


class OneTooManyGPT(NanoGPT):
    block = OneTooManyBlock


class OneTooFewAttention(CausalSelfAttention):
    """A position does not see itself; -1e9 keeps the first row from NaN, and lets it see everything instead."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__(config)
        self.bias = torch.tril(torch.ones_like(self.bias), diagonal=-1)

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, -1e9)
        att = self.attn_dropout(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


class OneTooFewBlock(Block):
    attention = OneTooFewAttention


class OneTooFewGPT(NanoGPT):
    block = OneTooFewBlock


class UpperTriangleAttention(CausalSelfAttention):
    """triu where tril was meant: every position sees only itself and what comes after."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__(config)
        self.bias = torch.triu(torch.ones_like(self.bias))


class UpperTriangleBlock(Block):
    attention = UpperTriangleAttention


class UpperTriangleGPT(NanoGPT):
    block = UpperTriangleBlock


class MaskAfterSoftmaxAttention(CausalSelfAttention):
    """The future is set to zero after the softmax has already counted it."""

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = F.softmax(att, dim=-1)
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, 0.0)
        y = (self.attn_dropout(att) @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


class MaskAfterSoftmaxBlock(Block):
    attention = MaskAfterSoftmaxAttention


class MaskAfterSoftmaxGPT(NanoGPT):
    block = MaskAfterSoftmaxBlock


# Inside the attention ------------------------------------------------------------------------------------------------


class QueryAxisSoftmaxAttention(CausalSelfAttention):
    """The softmax runs over the queries: columns sum to one, rows do not."""

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = self.attn_dropout(F.softmax(att, dim=-2))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


class QueryAxisSoftmaxBlock(Block):
    attention = QueryAxisSoftmaxAttention


class QueryAxisSoftmaxGPT(NanoGPT):
    block = QueryAxisSoftmaxBlock


class UnscaledAttention(CausalSelfAttention):
    """1 / sqrt(d) is forgotten."""

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = q @ k.transpose(-2, -1)
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = self.attn_dropout(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


class UnscaledBlock(Block):
    attention = UnscaledAttention


class UnscaledGPT(NanoGPT):
    block = UnscaledBlock


class HeadsViewedAttention(CausalSelfAttention):
    """view(B, nh, T, hs) without a transpose: a head holds stretches of tokens, not a slice of each token."""

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.reshape(B, self.n_head, T, C // self.n_head)
        q = q.reshape(B, self.n_head, T, C // self.n_head)
        v = v.reshape(B, self.n_head, T, C // self.n_head)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = self.attn_dropout(F.softmax(att, dim=-1))
        y = (att @ v).reshape(B, T, C)
        return self.resid_dropout(self.c_proj(y))


class HeadsViewedBlock(Block):
    attention = HeadsViewedAttention


class HeadsViewedGPT(NanoGPT):
    block = HeadsViewedBlock


class MergedWithoutTransposeAttention(CausalSelfAttention):
    """The heads are put together again without turning the axes back."""

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


class MergedWithoutTransposeBlock(Block):
    attention = MergedWithoutTransposeAttention


class MergedWithoutTransposeGPT(NanoGPT):
    block = MergedWithoutTransposeBlock


# The block -----------------------------------------------------------------------------------------------------------


class NoResidualBlock(Block):
    """The feed-forward replaces the stream instead of adding to it."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return self.mlp(self.ln_2(x))


class NoResidualGPT(NanoGPT):
    block = NoResidualBlock


class ResidualFromNormedBlock(Block):
    """The name x is used twice: what is added to is the normed value."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.ln_1(x)
        x = x + self.attn(x)
        x = self.ln_2(x)
        return x + self.mlp(x)


class ResidualFromNormedGPT(NanoGPT):
    block = ResidualFromNormedBlock


class ConvMLP(MLP):
    """A convolution of width three in place of the first linear layer: neighbours mix, the right one too."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__(config)
        self.c_fc = nn.Conv1d(config.n_embd, 4 * config.n_embd, kernel_size=3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.gelu(self.c_fc(x.transpose(1, 2)).transpose(1, 2))
        return self.dropout(self.c_proj(x))


class ConvBlock(Block):
    feed_forward = ConvMLP


class ConvGPT(NanoGPT):
    block = ConvBlock


class LinearMLP(MLP):
    """Two linear layers with nothing between them."""

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.c_proj(self.c_fc(x)))


class LinearBlock(Block):
    feed_forward = LinearMLP


class LinearGPT(NanoGPT):
    block = LinearBlock


class NormOverTimeBlock(Block):
    """The norm is taken over the whole sentence, F.layer_norm(x, x.shape[1:])."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(F.layer_norm(x, x.shape[1:]) * self.ln_1.weight + self.ln_1.bias)
        return x + self.mlp(F.layer_norm(x, x.shape[1:]) * self.ln_2.weight + self.ln_2.bias)


class NormOverTimeGPT(NanoGPT):
    block = NormOverTimeBlock


class AlwaysDropBlock(Block):
    """F.dropout drops in evaluation too, unless it is told self.training."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + F.dropout(self.attn(self.ln_1(x)), 0.1)
        return x + F.dropout(self.mlp(self.ln_2(x)), 0.1)


class AlwaysDropGPT(NanoGPT):
    block = AlwaysDropBlock


# The whole model -----------------------------------------------------------------------------------------------------


class NoPositionsGPT(NanoGPT):
    """The table of positions is made, and never added."""

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.drop(self.wte(idx))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, None if targets is None else self.loss(logits, targets)


class EqualPositionsGPT(NanoGPT):
    """Every token is told it stands at place 0."""

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        pos = torch.zeros_like(idx)
        x = self.drop(self.wte(idx) + self.wpe(pos))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, None if targets is None else self.loss(logits, targets)


class PositionsOverBatchGPT(NanoGPT):
    """The positions count the rows of the batch."""

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        b, t = idx.size()
        pos = torch.arange(b, device=idx.device).unsqueeze(1).expand(b, t)
        x = self.drop(self.wte(idx) + self.wpe(pos))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, None if targets is None else self.loss(logits, targets)


class FinalNormForgottenGPT(NanoGPT):
    """ln_f is made, and the logits are read from the bare stream."""

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        pos = torch.arange(idx.size(1), device=idx.device)
        x = self.drop(self.wte(idx) + self.wpe(pos))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(x)
        return logits, None if targets is None else self.loss(logits, targets)


class DetachedGPT(NanoGPT):
    """A .detach() left over from looking at the activations: the first block never learns."""

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        pos = torch.arange(idx.size(1), device=idx.device)
        x = self.drop(self.wte(idx) + self.wpe(pos))
        for i, block in enumerate(self.h):
            x = block(x)
            if i == 0:
                x = x.detach().requires_grad_()
        logits = self.lm_head(self.ln_f(x))
        return logits, None if targets is None else self.loss(logits, targets)


class PlainListGPT(NanoGPT):
    """The blocks stand in a Python list, so the optimiser never hears of them."""

    def __init__(self, config: GPTConfig | None = None) -> None:
        super().__init__(config)
        blocks = list(self.h)
        del self.h
        self.h = blocks


class OneBlockGPT(NanoGPT):
    """[block] * n holds one block n times."""

    def __init__(self, config: GPTConfig | None = None) -> None:
        super().__init__(config)
        self.h = nn.ModuleList([self.block(self.config)] * self.config.n_layer)
        self.h.apply(self._init_weights)


class CopiedHeadGPT(NanoGPT):
    """tie_weights copies the numbers; from the first step on there are two matrices."""

    def __init__(self, config: GPTConfig | None = None) -> None:
        super().__init__(config)
        if self.config.tie_weights:
            self.lm_head.weight = nn.Parameter(self.wte.weight.detach().clone())


class LargeInitGPT(NanoGPT):
    """std=1.0 where 0.02 was meant: the first loss is far above ln(vocab_size)."""

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=1.0)


class InputEditedGPT(NanoGPT):
    """Unknown tokens are replaced in the caller's own tensor."""

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        idx[idx == 0] = 1  # 0 is <unk>
        return super().forward(idx, targets)


# The loss ------------------------------------------------------------------------------------------------------------


class ShiftedTwiceGPT(NanoGPT):
    """The batch is shifted already, and the loss shifts again."""

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        logits = logits[:, :-1].contiguous()
        targets = targets[:, 1:].contiguous()
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-100)


class NeverShiftedGPT(NanoGPT):
    """The loss compares with the input itself: the model learns to copy."""

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, _ = super().forward(idx)
        if targets is None:
            return logits, None
        return logits, self.loss(logits, idx.masked_fill(targets == -100, -100))


class LossOverPaddingGPT(NanoGPT):
    """-100 crashed the embedding once, so it was clamped: padding counts as token 0."""

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.clamp(min=0).view(-1))


class DividedByAllGPT(NanoGPT):
    """The padded places add nothing to the sum, but are counted in the mean."""

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        losses = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=-100, reduction="none")
        return losses.mean()


class MeanOfMeansGPT(NanoGPT):
    """A mean for each row, then the mean of the rows: short rows weigh more for each token."""

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        rows = [F.cross_entropy(row, target, ignore_index=-100) for row, target in zip(logits, targets, strict=True)]
        return torch.stack(rows).mean()


class SoftmaxInFrontGPT(NanoGPT):
    """cross_entropy gets probabilities, and takes their softmax once more."""

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, _ = super().forward(idx)
        probs = F.softmax(logits, dim=-1)
        return probs, None if targets is None else self.loss(probs, targets)
