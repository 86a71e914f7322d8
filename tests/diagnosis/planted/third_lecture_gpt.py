"""A character model as a well-known lecture builds it, head by head, and what goes wrong when one types along.

The caller shifts: `targets[b, t]` is the token after `idx[b, t]`. With targets the logits come back flat.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

vocab_size, block_size, n_embd, n_head, n_layer, dropout = 32, 64, 32, 4, 2, 0.1


class Head(nn.Module):
    def __init__(self, head_size: int) -> None:
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        T = x.shape[1]
        k = self.key(x)
        q = self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        wei = F.softmax(wei, dim=-1)
        wei = self.dropout(wei)
        v = self.value(x)
        return wei @ v


class MultiHeadAttention(nn.Module):
    head: type[nn.Module] = Head

    def __init__(self, num_heads: int, head_size: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList([self.head(head_size) for _ in range(num_heads)])
        self.proj = nn.Linear(head_size * num_heads, n_embd)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        out = torch.cat([h(x) for h in self.heads], dim=-1)
        return self.dropout(self.proj(out))


class FeedFoward(nn.Module):
    def __init__(self, n_embd: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.ReLU(), nn.Linear(4 * n_embd, n_embd))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.net(x))


class Block(nn.Module):
    attention: type[nn.Module] = MultiHeadAttention
    feed_forward: type[nn.Module] = FeedFoward

    def __init__(self, n_embd: int, n_head: int) -> None:
        super().__init__()
        self.sa = self.attention(n_head, n_embd // n_head)
        self.ffwd = self.feed_forward(n_embd)
        self.ln1 = nn.LayerNorm(n_embd)
        self.ln2 = nn.LayerNorm(n_embd)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.sa(self.ln1(x))
        return x + self.ffwd(self.ln2(x))


class LectureGPT(nn.Module):
    block: type[nn.Module] = Block

    def __init__(self) -> None:
        super().__init__()
        self.token_embedding_table = nn.Embedding(vocab_size, n_embd)
        self.position_embedding_table = nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(*[self.block(n_embd, n_head=n_head) for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size)
        self.apply(self._init_weights)

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.2 if isinstance(module, nn.Embedding) else 0.05)

    def embed(self, idx: Tensor) -> Tensor:
        T = idx.shape[1]
        tok_emb = self.token_embedding_table(idx)
        pos_emb = self.position_embedding_table(torch.arange(T, device=idx.device))
        return tok_emb + pos_emb

    def loss(self, logits: Tensor, targets: Tensor, idx: Tensor) -> tuple[Tensor, Tensor]:
        B, T, C = logits.shape
        logits = logits.view(B * T, C)
        return logits, F.cross_entropy(logits, targets.view(B * T))

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.embed(idx)
        x = self.blocks(x)
        x = self.ln_f(x)
        logits = self.lm_head(x)
        if targets is None:
            return logits, None
        return self.loss(logits, targets, idx)


# Heads ---------------------------------------------------------------------------------------------------------------


class EmbeddingScaledHead(Head):
    """C is the width of the model, and not that of a head."""

    def forward(self, x: Tensor) -> Tensor:
        _, T, C = x.shape
        k = self.key(x)
        q = self.query(x)
        wei = q @ k.transpose(-2, -1) * C**-0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        wei = self.dropout(F.softmax(wei, dim=-1))
        return wei @ self.value(x)


class EmbeddingScaledAttention(MultiHeadAttention):
    head = EmbeddingScaledHead


class EmbeddingScaledBlock(Block):
    attention = EmbeddingScaledAttention


class EmbeddingScaledGPT(LectureGPT):
    block = EmbeddingScaledBlock


class ZeroFilledHead(Head):
    """Scores of zero are hidden nowhere: the softmax makes a weight of them."""

    def forward(self, x: Tensor) -> Tensor:
        T = x.shape[1]
        k = self.key(x)
        q = self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, 0)
        wei = self.dropout(F.softmax(wei, dim=-1))
        return wei @ self.value(x)


class ZeroFilledAttention(MultiHeadAttention):
    head = ZeroFilledHead


class ZeroFilledBlock(Block):
    attention = ZeroFilledAttention


class ZeroFilledGPT(LectureGPT):
    block = ZeroFilledBlock


class KeyTwiceHead(Head):
    """The line of the key, copied for the value."""

    def forward(self, x: Tensor) -> Tensor:
        T = x.shape[1]
        k = self.key(x)
        q = self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        wei = self.dropout(F.softmax(wei, dim=-1))
        v = self.key(x)
        return wei @ v


class KeyTwiceAttention(MultiHeadAttention):
    head = KeyTwiceHead


class KeyTwiceBlock(Block):
    attention = KeyTwiceAttention


class KeyTwiceGPT(LectureGPT):
    block = KeyTwiceBlock


# The rest of a block -------------------------------------------------------------------------------------------------


class HeadsInAListAttention(MultiHeadAttention):
    """A list of Python: no optimizer and no eval() comes to the heads."""

    def __init__(self, num_heads: int, head_size: int) -> None:
        nn.Module.__init__(self)
        self.heads = [Head(head_size) for _ in range(num_heads)]
        self.proj = nn.Linear(head_size * num_heads, n_embd)
        self.dropout = nn.Dropout(dropout)


class HeadsInAListBlock(Block):
    attention = HeadsInAListAttention


class HeadsInAListGPT(LectureGPT):
    block = HeadsInAListBlock


class UnprojectedAttention(MultiHeadAttention):
    """The projection is made, and what was there before it is returned."""

    def forward(self, x: Tensor) -> Tensor:
        out = torch.cat([h(x) for h in self.heads], dim=-1)
        self.dropout(self.proj(out))
        return out


class UnprojectedBlock(Block):
    attention = UnprojectedAttention


class UnprojectedGPT(LectureGPT):
    block = UnprojectedBlock


class DropFunctionFeedForward(FeedFoward):
    """F.dropout knows of no eval()."""

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.net(x), p=dropout)


class DropFunctionBlock(Block):
    feed_forward = DropFunctionFeedForward


class DropFunctionGPT(LectureGPT):
    block = DropFunctionBlock


class StreamDoubledBlock(Block):
    """x is overwritten first, and then added to itself."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.sa(self.ln1(x))
        x = x + x
        return x + self.ffwd(self.ln2(x))


class StreamDoubledGPT(LectureGPT):
    block = StreamDoubledBlock


# Embedding and loss --------------------------------------------------------------------------------------------------


class PositionsUnusedGPT(LectureGPT):
    """They are looked up and not added."""

    def embed(self, idx: Tensor) -> Tensor:
        T = idx.shape[1]
        tok_emb = self.token_embedding_table(idx)
        self.position_embedding_table(torch.arange(T, device=idx.device))
        return tok_emb


class LossViewedGPT(LectureGPT):
    """cross_entropy wants (B, C, T): a view has the shape, a transpose has the numbers too."""

    def loss(self, logits: Tensor, targets: Tensor, idx: Tensor) -> tuple[Tensor, Tensor]:
        B, T, C = logits.shape
        loss = F.cross_entropy(logits.view(B, C, T), targets)
        return logits.view(B * T, C), loss


class LossOfInputGPT(LectureGPT):
    """The model is asked for the token that it reads."""

    def loss(self, logits: Tensor, targets: Tensor, idx: Tensor) -> tuple[Tensor, Tensor]:
        B, T, C = logits.shape
        logits = logits.view(B * T, C)
        return logits, F.cross_entropy(logits, idx.view(B * T))
