"""机器翻译的 Transformer: 中文教程里最常见的写法, 掩码由填充 (0) 自己算出, True 表示遮住。

`model(enc_inputs, dec_inputs)` 返回 (dec_logits, enc_attns, dec_attns, dec_enc_attns)。
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

d_model, d_ff, d_k, n_heads, n_layers = 32, 64, 16, 2, 2


def get_attn_pad_mask(seq_q: Tensor, seq_k: Tensor) -> Tensor:
    batch_size, len_q = seq_q.size()
    pad_attn_mask = seq_k.eq(0).unsqueeze(1)  # [batch_size, 1, len_k]
    return pad_attn_mask.expand(batch_size, len_q, seq_k.size(1))


def get_attn_subsequence_mask(seq: Tensor) -> Tensor:
    shape = [seq.size(0), seq.size(1), seq.size(1)]
    return torch.from_numpy(np.triu(np.ones(shape), k=1)).byte().to(seq.device)  # 上三角矩阵


class ZhPositionalEncoding(nn.Module):
    pe: Tensor

    def __init__(self, max_len: int = 64) -> None:
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len, dtype=torch.float).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0).transpose(0, 1))  # [max_len, 1, d_model]

    def forward(self, x: Tensor) -> Tensor:
        # x: [seq_len, batch_size, d_model]
        return x + self.pe[: x.size(0), :]


class ZhMultiHeadAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.W_Q = nn.Linear(d_model, d_k * n_heads, bias=False)
        self.W_K = nn.Linear(d_model, d_k * n_heads, bias=False)
        self.W_V = nn.Linear(d_model, d_k * n_heads, bias=False)
        self.fc = nn.Linear(n_heads * d_k, d_model, bias=False)
        self.layer_norm = nn.LayerNorm(d_model)

    def values(self, input_V: Tensor) -> Tensor:
        return self.W_V(input_V)

    def add_norm(self, output: Tensor, residual: Tensor) -> Tensor:
        return self.layer_norm(output + residual)

    def forward(self, input_Q: Tensor, input_K: Tensor, input_V: Tensor, attn_mask: Tensor) -> tuple[Tensor, Tensor]:
        residual, batch_size = input_Q, input_Q.size(0)
        Q = self.W_Q(input_Q).view(batch_size, -1, n_heads, d_k).transpose(1, 2)
        K = self.W_K(input_K).view(batch_size, -1, n_heads, d_k).transpose(1, 2)
        V = self.values(input_V).view(batch_size, -1, n_heads, d_k).transpose(1, 2)
        attn_mask = attn_mask.unsqueeze(1).repeat(1, n_heads, 1, 1)
        scores = torch.matmul(Q, K.transpose(-1, -2)) / np.sqrt(d_k)
        scores.masked_fill_(attn_mask, -1e9)
        attn = nn.Softmax(dim=-1)(scores)
        context = torch.matmul(attn, V).transpose(1, 2).reshape(batch_size, -1, n_heads * d_k)
        return self.add_norm(self.fc(context), residual), attn


class PoswiseFeedForwardNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(d_model, d_ff, bias=False), nn.ReLU(), nn.Linear(d_ff, d_model, bias=False))
        self.layer_norm = nn.LayerNorm(d_model)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer_norm(self.fc(inputs) + inputs)


class ZhEncoderLayer(nn.Module):
    def __init__(self, attention: type[ZhMultiHeadAttention], ffn: type[PoswiseFeedForwardNet]) -> None:
        super().__init__()
        self.enc_self_attn = attention()
        self.pos_ffn = ffn()

    def forward(self, enc_inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        enc_outputs, attn = self.enc_self_attn(enc_inputs, enc_inputs, enc_inputs, mask)
        return self.pos_ffn(enc_outputs), attn


class ZhDecoderLayer(nn.Module):
    def __init__(self, attention: type[ZhMultiHeadAttention], ffn: type[PoswiseFeedForwardNet]) -> None:
        super().__init__()
        self.dec_self_attn = attention()
        self.dec_enc_attn = attention()
        self.pos_ffn = ffn()

    def forward(
        self, dec_inputs: Tensor, enc_outputs: Tensor, mask: Tensor, enc_mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        dec_outputs, dec_self_attn = self.dec_self_attn(dec_inputs, dec_inputs, dec_inputs, mask)
        dec_outputs, dec_enc_attn = self.dec_enc_attn(dec_outputs, enc_outputs, enc_outputs, enc_mask)
        return self.pos_ffn(dec_outputs), dec_self_attn, dec_enc_attn


class ZhTransformer(nn.Module):
    attention: type[ZhMultiHeadAttention] = ZhMultiHeadAttention
    ffn: type[PoswiseFeedForwardNet] = PoswiseFeedForwardNet

    def __init__(self, src_vocab_size: int = 32, tgt_vocab_size: int = 32) -> None:
        super().__init__()
        self.src_emb = nn.Embedding(src_vocab_size, d_model)
        self.tgt_emb = nn.Embedding(tgt_vocab_size, d_model)
        self.pos_emb = ZhPositionalEncoding()
        self.encoder = nn.ModuleList([ZhEncoderLayer(self.attention, self.ffn) for _ in range(n_layers)])
        self.decoder = nn.ModuleList([ZhDecoderLayer(self.attention, self.ffn) for _ in range(n_layers)])
        self.projection = nn.Linear(d_model, tgt_vocab_size, bias=False)

    def add_position(self, x: Tensor) -> Tensor:
        return self.pos_emb(x.transpose(0, 1)).transpose(0, 1)

    def pad_mask(self, seq_q: Tensor, seq_k: Tensor) -> Tensor:
        return get_attn_pad_mask(seq_q, seq_k)

    def dec_mask(self, dec_inputs: Tensor) -> Tensor:
        return torch.gt(self.pad_mask(dec_inputs, dec_inputs) + get_attn_subsequence_mask(dec_inputs), 0)

    def dec_enc_mask(self, dec_inputs: Tensor, enc_inputs: Tensor) -> Tensor:
        return self.pad_mask(dec_inputs, enc_inputs)

    def project(self, dec_outputs: Tensor) -> Tensor:
        return self.projection(dec_outputs)

    def forward(
        self, enc_inputs: Tensor, dec_inputs: Tensor
    ) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
        enc_attns, dec_attns, dec_enc_attns = [], [], []
        enc_outputs = self.add_position(self.src_emb(enc_inputs))
        enc_mask = self.pad_mask(enc_inputs, enc_inputs)
        for layer in self.encoder:
            enc_outputs, enc_attn = layer(enc_outputs, enc_mask)
            enc_attns.append(enc_attn)
        dec_outputs = self.add_position(self.tgt_emb(dec_inputs))
        dec_mask, dec_enc_mask = self.dec_mask(dec_inputs), self.dec_enc_mask(dec_inputs, enc_inputs)
        for layer in self.decoder:
            dec_outputs, dec_attn, dec_enc_attn = layer(dec_outputs, enc_outputs, dec_mask, dec_enc_mask)
            dec_attns.append(dec_attn)
            dec_enc_attns.append(dec_enc_attn)
        return self.project(dec_outputs), enc_attns, dec_attns, dec_enc_attns


# 错误的写法 ----------------------------------------------------------------------------------------------------


class PadMaskTurnedZh(ZhTransformer):
    def pad_mask(self, seq_q: Tensor, seq_k: Tensor) -> Tensor:
        pad_attn_mask = seq_q.eq(0).unsqueeze(2)
        return pad_attn_mask.expand(seq_q.size(0), seq_q.size(1), seq_k.size(1))


class DecoderPaddingForSourceZh(ZhTransformer):
    def dec_enc_mask(self, dec_inputs: Tensor, enc_inputs: Tensor) -> Tensor:
        return self.pad_mask(dec_inputs, dec_inputs)


class GreaterThanOneZh(ZhTransformer):
    def dec_mask(self, dec_inputs: Tensor) -> Tensor:
        return torch.gt(self.pad_mask(dec_inputs, dec_inputs) + get_attn_subsequence_mask(dec_inputs), 1)


class KeyForValue(ZhMultiHeadAttention):
    def values(self, input_V: Tensor) -> Tensor:
        return self.W_K(input_V)


class KeyForValueZh(ZhTransformer):
    attention = KeyForValue


class NormMadeInForward(ZhMultiHeadAttention):
    def add_norm(self, output: Tensor, residual: Tensor) -> Tensor:
        return nn.LayerNorm(d_model).to(output.device)(output + residual)


class NormMadeInForwardZh(ZhTransformer):
    attention = NormMadeInForward


class BatchForTimeZh(ZhTransformer):
    def add_position(self, x: Tensor) -> Tensor:
        return self.pos_emb(x)


class SoftmaxAtTheEndZh(ZhTransformer):
    def project(self, dec_outputs: Tensor) -> Tensor:
        return torch.softmax(self.projection(dec_outputs), dim=-1)


class ResidualForgotten(PoswiseFeedForwardNet):
    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer_norm(self.fc(inputs))


class ResidualForgottenZh(ZhTransformer):
    ffn = ResidualForgotten
