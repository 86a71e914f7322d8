"""The encoder-decoder of a tutorial on translation: fc_q, fc_k, fc_v; 0 is padding; attention comes back too."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MultiHeadAttentionLayer(nn.Module):
    def __init__(self, hid_dim: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.hid_dim, self.n_heads, self.head_dim = hid_dim, n_heads, hid_dim // n_heads
        self.fc_q = nn.Linear(hid_dim, hid_dim)
        self.fc_k = nn.Linear(hid_dim, hid_dim)
        self.fc_v = nn.Linear(hid_dim, hid_dim)
        self.fc_o = nn.Linear(hid_dim, hid_dim)
        self.dropout = nn.Dropout(dropout)
        self.scale = self.head_dim**0.5

    def hide(self, energy: Tensor, mask: Tensor) -> Tensor:
        return energy.masked_fill(mask == 0, -1e10)

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.fc_q(query), self.fc_k(key), self.fc_v(value)

    def merge(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 1, 3).contiguous()
        return x.view(x.shape[0], -1, self.hid_dim)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        batch_size = query.shape[0]
        Q, K, V = (
            x.view(batch_size, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
            for x in self.project(query, key, value)
        )
        energy = torch.matmul(Q, K.permute(0, 1, 3, 2)) / self.scale
        if mask is not None:
            energy = self.hide(energy, mask)
        attention = torch.softmax(energy, dim=-1)
        x = self.merge(torch.matmul(self.dropout(attention), V))
        return self.fc_o(x), attention


class PositionwiseFeedforwardLayer(nn.Module):
    def __init__(self, hid_dim: int, pf_dim: int, dropout: float) -> None:
        super().__init__()
        self.fc_1 = nn.Linear(hid_dim, pf_dim)
        self.fc_2 = nn.Linear(pf_dim, hid_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc_2(self.dropout(torch.relu(self.fc_1(x))))


class EncoderLayer(nn.Module):
    def __init__(self, hid_dim: int, n_heads: int, attend: type[MultiHeadAttentionLayer], dropout: float) -> None:
        super().__init__()
        self.self_attn_layer_norm = nn.LayerNorm(hid_dim)
        self.ff_layer_norm = nn.LayerNorm(hid_dim)
        self.self_attention = attend(hid_dim, n_heads, dropout)
        self.positionwise_feedforward = PositionwiseFeedforwardLayer(hid_dim, 2 * hid_dim, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, src: Tensor, src_mask: Tensor) -> Tensor:
        _src, _ = self.self_attention(src, src, src, src_mask)
        src = self.self_attn_layer_norm(src + self.dropout(_src))
        _src = self.positionwise_feedforward(src)
        return self.ff_layer_norm(src + self.dropout(_src))


class DecoderLayer(EncoderLayer):
    def __init__(self, hid_dim: int, n_heads: int, attend: type[MultiHeadAttentionLayer], dropout: float) -> None:
        super().__init__(hid_dim, n_heads, attend, dropout)
        self.enc_attn_layer_norm = nn.LayerNorm(hid_dim)
        self.encoder_attention = attend(hid_dim, n_heads, dropout)

    def look(self, trg: Tensor, enc_src: Tensor, src_mask: Tensor) -> tuple[Tensor, Tensor]:
        return self.encoder_attention(trg, enc_src, enc_src, src_mask)

    def forward(  # type: ignore[override]
        self, trg: Tensor, enc_src: Tensor, trg_mask: Tensor, src_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        _trg, _ = self.self_attention(trg, trg, trg, trg_mask)
        trg = self.self_attn_layer_norm(trg + self.dropout(_trg))
        _trg, attention = self.look(trg, enc_src, src_mask)
        trg = self.enc_attn_layer_norm(trg + self.dropout(_trg))
        _trg = self.positionwise_feedforward(trg)
        return self.ff_layer_norm(trg + self.dropout(_trg)), attention


class Multi30kTransformer(nn.Module):
    attend: type[MultiHeadAttentionLayer] = MultiHeadAttentionLayer
    decoder_layer: type[DecoderLayer] = DecoderLayer

    def __init__(
        self, input_dim: int = 32, output_dim: int = 32, hid_dim: int = 32, n_heads: int = 2, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.src_tok_embedding = nn.Embedding(input_dim, hid_dim)
        self.src_pos_embedding = nn.Embedding(64, hid_dim)
        self.trg_tok_embedding = nn.Embedding(output_dim, hid_dim)
        self.trg_pos_embedding = nn.Embedding(64, hid_dim)
        self.encoder_layers = nn.ModuleList([EncoderLayer(hid_dim, n_heads, self.attend, dropout) for _ in range(2)])
        self.decoder_layers = nn.ModuleList(
            [self.decoder_layer(hid_dim, n_heads, self.attend, dropout) for _ in range(2)]
        )
        self.fc_out = nn.Linear(hid_dim, output_dim)
        self.dropout = nn.Dropout(dropout)
        self.scale = hid_dim**0.5
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def embed(self, ids: Tensor, tokens: nn.Embedding, places: nn.Embedding) -> Tensor:
        pos = torch.arange(0, ids.shape[1]).unsqueeze(0).repeat(ids.shape[0], 1)
        return self.dropout(tokens(ids) * self.scale + places(pos))

    def make_src_mask(self, src: Tensor) -> Tensor:
        return (src != 0).unsqueeze(1).unsqueeze(2)

    def make_trg_mask(self, trg: Tensor) -> Tensor:
        trg_pad_mask = (trg != 0).unsqueeze(1).unsqueeze(2)
        trg_sub_mask = torch.tril(torch.ones((trg.shape[1], trg.shape[1]))).bool()
        return trg_pad_mask & trg_sub_mask

    def encode(self, src: Tensor, src_mask: Tensor) -> Tensor:
        x = self.embed(src, self.src_tok_embedding, self.src_pos_embedding)
        for layer in self.encoder_layers:
            x = layer(x, src_mask)
        return x

    def forward(self, src: Tensor, trg: Tensor) -> tuple[Tensor, Tensor]:
        src_mask = self.make_src_mask(src)
        trg_mask = self.make_trg_mask(trg)
        enc_src = self.encode(src, src_mask)
        x = self.embed(trg, self.trg_tok_embedding, self.trg_pos_embedding)
        for layer in self.decoder_layers:
            x, attention = layer(x, enc_src, trg_mask, src_mask)
        return self.fc_out(x), attention


# Wrong ---------------------------------------------------------------------------------------------------------------


class EitherMaskTransformer(Multi30kTransformer):
    """| lets through what either mask lets through."""

    def make_trg_mask(self, trg: Tensor) -> Tensor:
        trg_pad_mask = (trg != 0).unsqueeze(1).unsqueeze(2)
        trg_sub_mask = torch.tril(torch.ones((trg.shape[1], trg.shape[1]))).bool()
        return trg_pad_mask | trg_sub_mask


class MinusLostAttention(MultiHeadAttentionLayer):
    def hide(self, energy: Tensor, mask: Tensor) -> Tensor:
        return energy.masked_fill(mask == 0, 1e10)


class MinusLostTransformer(Multi30kTransformer):
    """What is hidden gets all the weight."""

    attend = MinusLostAttention


class CrossWithoutMaskLayer(DecoderLayer):
    def look(self, trg: Tensor, enc_src: Tensor, src_mask: Tensor) -> tuple[Tensor, Tensor]:
        return self.encoder_attention(trg, enc_src, enc_src)


class CrossWithoutMaskTransformer(Multi30kTransformer):
    """The decoder reads the padding of the source."""

    decoder_layer = CrossWithoutMaskLayer


class MergedByViewAttention(MultiHeadAttentionLayer):
    def merge(self, x: Tensor) -> Tensor:
        return x.contiguous().view(x.shape[0], -1, self.hid_dim)


class MergedByViewTransformer(Multi30kTransformer):
    """The permute before the view is missing."""

    attend = MergedByViewAttention


class KeyMatrixTwiceAttention(MultiHeadAttentionLayer):
    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.fc_q(query), self.fc_k(key), self.fc_k(value)


class KeyMatrixTwiceTransformer(Multi30kTransformer):
    """fc_k for the values."""

    attend = KeyMatrixTwiceAttention


class DetachedMemoryTransformer(Multi30kTransformer):
    """Detached to save memory: the encoder learns nothing."""

    def encode(self, src: Tensor, src_mask: Tensor) -> Tensor:
        return super().encode(src, src_mask).detach()
