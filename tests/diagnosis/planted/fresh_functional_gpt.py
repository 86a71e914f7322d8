"""GPT-2 as plain functions over a dictionary of parameters, carried over from a NumPy tutorial, and its mistakes."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def softmax(x: Tensor) -> Tensor:
    exp_x = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return exp_x / exp_x.sum(dim=-1, keepdim=True)


def layer_norm(x: Tensor, g: Tensor, b: Tensor, eps: float = 1e-5) -> Tensor:
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return g * (x - mean) / torch.sqrt(variance + eps) + b


def linear(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return x @ w + b


def new_block(n_embd: int) -> dict[str, Tensor]:
    sizes = {"attn": (n_embd, 3 * n_embd), "proj": (n_embd, n_embd), "fc": (n_embd, 4 * n_embd)}
    sizes["out"] = (4 * n_embd, n_embd)
    block = {f"{name}_w": torch.randn(*size) * size[0] ** -0.5 for name, size in sizes.items()}
    block |= {f"{name}_b": torch.zeros(size[1]) for name, size in sizes.items()}
    block |= {f"ln_{i}_g": torch.ones(n_embd) for i in (1, 2)}
    return block | {f"ln_{i}_b": torch.zeros(n_embd) for i in (1, 2)}


class FunctionalGPT(nn.Module):
    def __init__(self, n_vocab: int = 32, n_ctx: int = 64, n_embd: int = 32, n_head: int = 4, n_layer: int = 2) -> None:
        super().__init__()
        self.n_head = n_head
        params = {"wte": torch.randn(n_vocab, n_embd) * 0.02, "wpe": torch.randn(n_ctx, n_embd) * 0.02}
        params |= {"ln_f_g": torch.ones(n_embd), "ln_f_b": torch.zeros(n_embd)}
        self.store(params, [new_block(n_embd) for _ in range(n_layer)])

    def store(self, params: dict[str, Tensor], blocks: list[dict[str, Tensor]]) -> None:
        self.params = nn.ParameterDict(params)
        self.blocks = nn.ModuleList([nn.ParameterDict(block) for block in blocks])

    def normalise(self, x: Tensor, g: Tensor, b: Tensor) -> Tensor:
        return layer_norm(x, g, b)

    def attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return softmax(q @ k.mT / math.sqrt(q.shape[-1]) + mask) @ v

    def causal_mask(self, n: int) -> Tensor:
        return (1 - torch.tril(torch.ones(n, n))) * -1e10

    def mha(self, x: Tensor, block: Any) -> Tensor:
        qkv = linear(x, block["attn_w"], block["attn_b"]).chunk(3, dim=-1)
        heads = zip(*(t.chunk(self.n_head, dim=-1) for t in qkv), strict=True)
        mask = self.causal_mask(x.shape[1])
        out = [self.attention(q, k, v, mask) for q, k, v in heads]
        return linear(torch.cat(out, dim=-1), block["proj_w"], block["proj_b"])

    def ffn(self, x: Tensor, block: Any) -> Tensor:
        return linear(F.gelu(linear(x, block["fc_w"], block["fc_b"])), block["out_w"], block["out_b"])

    def transformer_block(self, x: Tensor, block: Any) -> Tensor:
        x = x + self.mha(self.normalise(x, block["ln_1_g"], block["ln_1_b"]), block)
        return x + self.ffn(self.normalise(x, block["ln_2_g"], block["ln_2_b"]), block)

    def embed(self, inputs: Tensor) -> Tensor:
        return self.params["wte"][inputs] + self.params["wpe"][: inputs.shape[1]]

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.embed(inputs)
        for block in self.blocks:
            x = self.transformer_block(x, block)
        x = self.normalise(x, self.params["ln_f_g"], self.params["ln_f_b"])
        return x @ self.params["wte"].T


class SumOfAllGPT(FunctionalGPT):
    """exp_x.sum() without an axis, right for one row of numbers, sums the whole batch."""

    def attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        scores = q @ k.mT / math.sqrt(q.shape[-1]) + mask
        exp_x = torch.exp(scores - scores.max())
        return exp_x / exp_x.sum() @ v


class ScaledAfterSoftmaxGPT(FunctionalGPT):
    """A bracket closes too early: the weights are divided, not the scores."""

    def attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return softmax(q @ k.mT + mask) / math.sqrt(q.shape[-1]) @ v


class BracketNormGPT(FunctionalGPT):
    """x - mean / sqrt(variance), without the brackets around x - mean."""

    def normalise(self, x: Tensor, g: Tensor, b: Tensor) -> Tensor:
        mean = x.mean(dim=-1, keepdim=True)
        variance = x.var(dim=-1, keepdim=True, unbiased=False)
        return g * (x - mean / torch.sqrt(variance + 1e-5)) + b


class TriTimesMinusGPT(FunctionalGPT):
    """1 - is missing in front of the triangle: the past is hidden and the future is not."""

    def causal_mask(self, n: int) -> Tensor:
        return torch.tril(torch.ones(n, n)) * -1e10


class LenOfBatchGPT(FunctionalGPT):
    """len(inputs) was the number of tokens until there was a batch: crash."""

    def embed(self, inputs: Tensor) -> Tensor:
        return self.params["wte"][inputs] + self.params["wpe"][torch.arange(len(inputs))]


class FirstBlockAgainGPT(FunctionalGPT):
    """blocks[0] in the loop over the blocks."""

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.embed(inputs)
        for _ in range(len(self.blocks)):
            x = self.transformer_block(x, self.blocks[0])
        x = self.normalise(x, self.params["ln_f_g"], self.params["ln_f_b"])
        return x @ self.params["wte"].T


class FirstNormTwiceGPT(FunctionalGPT):
    """ln_1 in front of both, ln_2 nowhere."""

    def transformer_block(self, x: Tensor, block: Any) -> Tensor:
        x = x + self.mha(self.normalise(x, block["ln_1_g"], block["ln_1_b"]), block)
        return x + self.ffn(self.normalise(x, block["ln_1_g"], block["ln_1_b"]), block)


class PlainDictGPT(FunctionalGPT):
    """A dictionary of Python: the blocks are nobody's parameters."""

    def store(self, params: dict[str, Tensor], blocks: list[dict[str, Tensor]]) -> None:
        self.params = nn.ParameterDict(params)
        self.blocks: Any = [{name: nn.Parameter(w) for name, w in block.items()} for block in blocks]


class NormedStreamGPT(FunctionalGPT):
    """The normed value is put under the name of the stream before both sums."""

    def transformer_block(self, x: Tensor, block: Any) -> Tensor:
        x = self.normalise(x, block["ln_1_g"], block["ln_1_b"])
        x = x + self.mha(x, block)
        return x + self.ffn(self.normalise(x, block["ln_2_g"], block["ln_2_b"]), block)
