"""Whole Transformers without a fault, in the styles in which people write them."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

V, D, H, N = 41, 32, 4, 2


class CausalAttention(nn.Module):
    """As in nanoGPT: one matrix for q, k and v, a buffer for the mask."""

    def __init__(self, fused: bool = False) -> None:
        super().__init__()
        self.c_attn = nn.Linear(D, 3 * D)
        self.c_proj = nn.Linear(D, D)
        self.fused = fused
        self.register_buffer("bias", torch.tril(torch.ones(64, 64)).view(1, 1, 64, 64))

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (y.view(B, T, H, C // H).transpose(1, 2) for y in (q, k, v))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = self.mix(q, k, v, T)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))

    def mix(self, q: Tensor, k: Tensor, v: Tensor, T: int) -> Tensor:
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        return F.softmax(att, dim=-1) @ v


class GPTBlock(nn.Module):
    def __init__(self, attention: Callable[[], nn.Module] = CausalAttention, dropout: float = 0.0) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn = attention()
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D), nn.Dropout(dropout))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """forward(idx, targets) -> (logits, loss); the targets are shifted by the caller."""

    def __init__(
        self,
        block: Callable[[], nn.Module] = GPTBlock,
        attention: Callable[[], nn.Module] | None = None,
        tie: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(V, D), nn.Embedding(64, D)
        self.drop = nn.Dropout(dropout)
        self.h = nn.ModuleList([block() if attention is None else GPTBlock(attention, dropout) for _ in range(N)])
        self.ln_f = nn.LayerNorm(D)
        self.lm_head = nn.Linear(D, V, bias=False)
        for parameter in (self.wte.weight, self.wpe.weight, self.lm_head.weight):
            nn.init.normal_(parameter, std=0.02)
        if tie:
            self.lm_head.weight = self.wte.weight

    def embed(self, idx: Tensor) -> Tensor:
        return self.drop(self.wte(idx) + self.wpe(torch.arange(idx.shape[1], device=idx.device)))

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.embed(idx)
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, None if targets is None else self.loss(logits, targets)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)


def sines(length: int, width: int) -> Tensor:
    position = torch.arange(length).unsqueeze(1)
    rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2], table[:, 1::2] = torch.sin(position * rate), torch.cos(position * rate)
    return table


class PositionalEncoding(nn.Module):
    def __init__(self, dropout: float = 0.1) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("pe", sines(64, D).unsqueeze(0))

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x + self.pe[:, : x.size(1)])


class MultiHead(nn.Module):
    """As in the annotated Transformer: four matrices, a mask of zeros and ones."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), -1, H, D // H).transpose(1, 2)

    def merge(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).contiguous().view(x.size(0), -1, D)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return torch.matmul(scores.softmax(dim=-1), v)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.split(self.q(query)), self.split(self.k(key)), self.split(self.v(value))
        return self.o(self.merge(self.mix(q, k, v, mask)))


class Einsum(MultiHead):
    """Heads stay where the reshape put them; einsum names the axes."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (m(x).unflatten(-1, (H, D // H)) for m, x in ((self.q, query), (self.k, key), (self.v, value)))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * (D // H) ** -0.5
        if mask is not None:
            scores = scores.masked_fill(~mask.bool(), torch.finfo(scores.dtype).min)
        mixed = torch.einsum("bhqk,bkhd->bqhd", torch.softmax(scores, -1), v)
        return self.o(mixed.flatten(2))


def feed_forward() -> nn.Sequential:
    return nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))


class EncoderLayer(nn.Module):
    def __init__(self, attention: Callable[[], nn.Module] = MultiHead) -> None:
        super().__init__()
        self.attention, self.feed_forward = attention(), feed_forward()
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(D), nn.LayerNorm(D), nn.Dropout(0.1)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.norm1(x + self.dropout(self.attention(x, x, x, mask)))
        return self.norm2(x + self.dropout(self.feed_forward(x)))


class Encoder(nn.Module):
    """forward(tokens, keep) -> states, keep True at tokens."""

    def __init__(self, layer: Callable[[], nn.Module] = EncoderLayer) -> None:
        super().__init__()
        self.embedding, self.position = nn.Embedding(V, D), PositionalEncoding()
        self.layers = nn.ModuleList(layer() for _ in range(N))

    def forward(self, tokens: Tensor, keep: Tensor | None = None) -> Tensor:
        x = self.position(self.embedding(tokens) * math.sqrt(D))
        mask = None if keep is None else keep[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        return x


class ThreefoldLayer(EncoderLayer):
    """forward(value, key, query, mask), as the layers of some tutorials: the residual goes with the last of three."""

    def forward(self, value: Tensor, key: Tensor, query: Tensor, mask: Tensor | None) -> Tensor:  # type: ignore[override]
        x = self.norm1(query + self.dropout(self.attention(query, key, value, mask)))
        return self.norm2(x + self.dropout(self.feed_forward(x)))


class ThreefoldEncoder(Encoder):
    def __init__(self) -> None:
        super().__init__(ThreefoldLayer)

    def forward(self, tokens: Tensor, keep: Tensor | None = None) -> Tensor:
        x = self.position(self.embedding(tokens) * math.sqrt(D))
        mask = None if keep is None else keep[:, None, None, :]
        for layer in self.layers:
            x = layer(x, x, x, mask)
        return x


class Distances(MultiHead):
    """ALiBi for both sides: a text read backwards has the same distances."""

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        steps = torch.arange(q.size(2), device=q.device)
        slopes = 2.0 ** -torch.arange(1, H + 1, device=q.device).view(-1, 1, 1)
        scores = q @ k.mT / math.sqrt(q.size(-1)) - slopes * (steps[:, None] - steps).abs()
        scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
        return scores.softmax(-1) @ v


class AlibiEncoder(Encoder):
    def __init__(self) -> None:
        super().__init__(lambda: EncoderLayer(Distances))
        self.position = nn.Identity()


class PadEncoder(Encoder):
    """Finds its padding by the id 0."""

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens, tokens != 0)


class DecoderLayer(nn.Module):
    def __init__(self, attention: Callable[[], nn.Module] = MultiHead) -> None:
        super().__init__()
        self.own, self.cross, self.feed_forward = attention(), attention(), feed_forward()
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(3))

    def forward(self, x: Tensor, memory: Tensor, source_mask: Tensor | None, target_mask: Tensor | None) -> Tensor:
        x = self.norms[0](x + self.own(x, x, x, target_mask))
        x = self.norms[1](x + self.cross(x, memory, memory, source_mask))
        return self.norms[2](x + self.feed_forward(x))


class Seq2Seq(nn.Module):
    """forward(src, tgt, src_mask, tgt_mask): the caller makes (B, 1, S) and (B, T, T) masks."""

    def __init__(
        self, layer: Callable[[], nn.Module] = EncoderLayer, decoder_layer: Callable[[], nn.Module] = DecoderLayer
    ) -> None:
        super().__init__()
        self.src_embed = nn.Sequential(nn.Embedding(V, D), PositionalEncoding())
        self.tgt_embed = nn.Sequential(nn.Embedding(V + 2, D), PositionalEncoding())
        self.encoder = nn.ModuleList(layer() for _ in range(N))
        self.decoder = nn.ModuleList(decoder_layer() for _ in range(N))
        self.generator = nn.Linear(D, V + 2)

    def run(self, src: Tensor, tgt: Tensor, src_mask: Tensor | None, tgt_mask: Tensor | None) -> Tensor:
        memory = self.src_embed(src)
        for layer in self.encoder:
            memory = layer(memory, src_mask)
        x = self.tgt_embed(tgt)
        for layer in self.decoder:
            x = layer(x, memory, src_mask, tgt_mask)
        return self.generator(x)

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Tensor, tgt_mask: Tensor) -> Tensor:
        return self.run(src, tgt, src_mask.unsqueeze(1), tgt_mask.unsqueeze(1)).log_softmax(-1)


class KeepSeq2Seq(Seq2Seq):
    """forward(source, target, source_keep, target_keep): the model makes its own masks."""

    def forward(
        self, source: Tensor, target: Tensor, source_keep: Tensor | None = None, target_keep: Tensor | None = None
    ) -> Tensor:
        T = target.size(1)
        causal = torch.ones(T, T, dtype=torch.bool, device=target.device).tril()
        own = causal if target_keep is None else causal & target_keep[:, None, None, :]
        across = None if source_keep is None else source_keep[:, None, None, :]
        return self.run(source, target, across, own)


class TorchSeq2Seq(nn.Module):
    """torch's nn.Transformer between embeddings and a linear layer, as in its tutorial."""

    def __init__(self, norm_first: bool = False, batch_first: bool = True) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.transformer = nn.Transformer(
            D, H, N, N, 2 * D, dropout=0.1, batch_first=batch_first, norm_first=norm_first
        )
        self.source, self.target, self.place = nn.Embedding(V, D), nn.Embedding(V, D), PositionalEncoding()
        self.head = nn.Linear(D, V)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        src_padding_mask: Tensor | None = None,
        tgt_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        s, t = self.place(self.source(src)), self.place(self.target(tgt))
        if not self.batch_first:
            s, t = s.transpose(0, 1), t.transpose(0, 1)
        out = self.transformer(
            s,
            t,
            src_mask,
            tgt_mask,
            None,
            src_padding_mask,
            tgt_padding_mask,
            memory_key_padding_mask,
        )
        return self.head(out if self.batch_first else out.transpose(0, 1))


class TorchEncoder(nn.Module):
    """nn.TransformerEncoder behind an embedding, padding told as torch does."""

    def __init__(self, norm_first: bool = False) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(D, H, 2 * D, batch_first=True, norm_first=norm_first)
        self.stack = nn.TransformerEncoder(layer, N, enable_nested_tensor=False)
        self.embedding, self.place = nn.Embedding(V, D), PositionalEncoding()

    def forward(self, x: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        return self.stack(self.place(self.embedding(x)), src_key_padding_mask=src_key_padding_mask)


class TorchGPT(nn.Module):
    """nn.TransformerEncoder with a mask of the future: a decoder."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(D, H, 2 * D, batch_first=True, norm_first=True)
        self.stack = nn.TransformerEncoder(layer, N, enable_nested_tensor=False)
        self.embedding, self.place, self.head = nn.Embedding(V, D), PositionalEncoding(), nn.Linear(D, V)

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(1), device=x.device)
        return self.head(self.stack(self.place(self.embedding(x)), mask=mask, is_causal=True))


def rotate(x: Tensor, start: int) -> Tensor:
    """Rotary positions over pairs of halves. *Shape:* (B, H, T, E)."""
    half = x.size(-1) // 2
    angle = torch.arange(start, start + x.size(-2), device=x.device).unsqueeze(1) * 10000.0 ** (
        -torch.arange(half, device=x.device) / half
    )
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1).to(x.dtype)


class RotaryAttention(nn.Module):
    """Keys and values of earlier tokens come in as a pair, and go out as one."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.o = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)

    def position(self, past: int) -> int:
        return past

    def join(self, old: Tensor, new: Tensor) -> Tensor:
        return torch.cat([old, new], 2)

    def forward(self, x: Tensor, past: Any = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        q, k, v = (y.unflatten(-1, (H, D // H)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        before = 0 if past is None else past[0].size(2)
        start = 0 if past is None else self.position(before)
        q, k = rotate(q, start), rotate(k, start)
        if past is not None:
            k, v = self.join(past[0], k), self.join(past[1], v)
        seen = torch.ones(q.size(2), k.size(2), dtype=torch.bool, device=x.device).tril(k.size(2) - q.size(2))
        scores = (q @ k.mT / (D // H) ** 0.5).masked_fill(~seen, float("-inf"))
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)), (k, v)


class CachedBlock(nn.Module):
    def __init__(self, attention: Callable[[], nn.Module] = RotaryAttention) -> None:
        super().__init__()
        self.norm, self.norm2, self.attention = nn.RMSNorm(D), nn.RMSNorm(D), attention()
        self.up, self.gate, self.down = (nn.Linear(a, b, bias=False) for a, b in ((D, 3 * D), (D, 3 * D), (3 * D, D)))

    def forward(self, x: Tensor, past: Any = None) -> tuple[Tensor, Any]:
        y, kept = self.attention(self.norm(x), past)
        x = x + y
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), kept


class CachedGPT(nn.Module):
    """forward(idx, cache) -> (logits, cache), rotary."""

    def __init__(self, attention: Callable[[], nn.Module] = RotaryAttention) -> None:
        super().__init__()
        self.embedding, self.norm, self.head = nn.Embedding(V, D), nn.RMSNorm(D), nn.Linear(D, V)
        self.blocks = nn.ModuleList(CachedBlock(attention) for _ in range(N))

    def forward(self, idx: Tensor, cache: Any = None) -> tuple[Tensor, list[Any]]:
        x, kept = self.embedding(idx), []
        for number, block in enumerate(self.blocks):
            x, new = block(x, None if cache is None else cache[number])
            kept.append(new)
        return self.head(self.norm(x)), kept


class LearnedCachedGPT(nn.Module):
    """Learned positions, a cache that is filled in place, and an object with fields as its output."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.place, self.head = nn.Embedding(V, D), nn.Embedding(64, D), nn.Linear(D, V)
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(N))
        self.attentions = nn.ModuleList(MultiHead() for _ in range(N))

    def first(self, cache: dict[int, Tensor]) -> int:
        return cache[0].size(1) if cache else 0

    def forward(self, tokens: Tensor, kv_cache: dict[int, Tensor] | None = None) -> SimpleNamespace:
        begin = 0 if kv_cache is None else self.first(kv_cache)
        x = self.embedding(tokens) + self.place(torch.arange(begin, begin + tokens.size(1), device=tokens.device))
        for number, (norm, attention) in enumerate(zip(self.norms, self.attentions, strict=True)):
            y = norm(x)
            seen = y
            if kv_cache is not None:
                seen = torch.cat([kv_cache[number], y], 1) if number in kv_cache else y
                kv_cache[number] = seen
            mask = torch.ones(y.size(1), seen.size(1), device=x.device).tril(seen.size(1) - y.size(1))
            x = x + attention(y, seen, seen, mask)
        return SimpleNamespace(logits=self.head(x))


WRITTEN: dict[str, Callable[[], nn.Module]] = {
    "gpt": GPT,
    "gpt_dropout": lambda: GPT(attention=lambda: CausalAttention(fused=True), dropout=0.1, tie=False),
    "encoder": Encoder,
    "einsum_encoder": lambda: Encoder(lambda: EncoderLayer(Einsum)),
    "pad_encoder": PadEncoder,
    "threefold_encoder": ThreefoldEncoder,
    "alibi_encoder": AlibiEncoder,
    "seq2seq": Seq2Seq,
    "keep_seq2seq": KeepSeq2Seq,
    "cached": CachedGPT,
    "learned_cached": LearnedCachedGPT,
}
"""Written by hand."""

TORCH: dict[str, Callable[[], nn.Module]] = {
    "bare": lambda: nn.Transformer(D, H, N, N, 2 * D, batch_first=True),
    "bare_time_first": lambda: nn.Transformer(D, H, N, N, 2 * D, norm_first=True),
    "bare_encoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(D, H, 2 * D, batch_first=True), N),
    "wrapped": TorchSeq2Seq,
    "wrapped_pre": lambda: TorchSeq2Seq(norm_first=True, batch_first=False),
    "encoder": TorchEncoder,
    "encoder_pre": lambda: TorchEncoder(norm_first=True),
    "decoder": TorchGPT,
}
"""torch's own stacks, bare and behind embeddings."""


def reference_models() -> dict[str, Callable[[], nn.Module]]:
    """Tiny random models of the reference library."""
    import transformers as hf

    common: dict[str, Any] = {"vocab_size": V}
    bert = {"hidden_size": D, "num_hidden_layers": N, "num_attention_heads": H, "intermediate_size": 2 * D}
    llama = hf.LlamaConfig(**common, **bert, num_key_value_heads=2)
    t5 = hf.T5Config(**common, d_model=D, d_kv=8, d_ff=2 * D, num_layers=N, num_heads=H, decoder_start_token_id=0)
    marian = hf.MarianConfig(
        **common,
        d_model=D,
        encoder_layers=N,
        decoder_layers=N,
        encoder_attention_heads=H,
        decoder_attention_heads=H,
        encoder_ffn_dim=2 * D,
        decoder_ffn_dim=2 * D,
        max_position_embeddings=64,
        pad_token_id=0,
        decoder_start_token_id=0,
    )
    gpt2 = hf.GPT2Config(**common, n_embd=D, n_layer=N, n_head=H, n_positions=64)
    return {
        "bert": lambda: hf.BertModel(hf.BertConfig(**common, **bert)),
        "bert_masked": lambda: hf.BertForMaskedLM(hf.BertConfig(**common, **bert)),
        "gpt2": lambda: hf.GPT2LMHeadModel(gpt2),
        "t5": lambda: hf.T5ForConditionalGeneration(t5),
        "llama": lambda: hf.LlamaForCausalLM(llama),
        "marian": lambda: hf.MarianMTModel(marian),
    }
