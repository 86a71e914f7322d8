"""The translator of a well-known video: einsum, (values, keys, query), masks made inside from the padding token 0.

`model(src, trg)`: trg is what the decoder reads, out[b, t] is for the token after trg[b, t].
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SelfAttention(nn.Module):
    def __init__(self, embed_size: int, heads: int) -> None:
        super().__init__()
        self.embed_size = embed_size
        self.heads = heads
        self.head_dim = embed_size // heads
        self.values = nn.Linear(embed_size, embed_size)
        self.keys = nn.Linear(embed_size, embed_size)
        self.queries = nn.Linear(embed_size, embed_size)
        self.fc_out = nn.Linear(embed_size, embed_size)

    def weights(self, energy: Tensor) -> Tensor:
        return torch.softmax(energy / self.head_dim**0.5, dim=3)

    def forward(self, values: Tensor, keys: Tensor, query: Tensor, mask: Tensor | None) -> Tensor:
        N = query.shape[0]
        values = self.values(values).reshape(N, values.shape[1], self.heads, self.head_dim)
        keys = self.keys(keys).reshape(N, keys.shape[1], self.heads, self.head_dim)
        queries = self.queries(query).reshape(N, query.shape[1], self.heads, self.head_dim)
        energy = torch.einsum("nqhd,nkhd->nhqk", queries, keys)
        if mask is not None:
            energy = energy.masked_fill(mask == 0, float("-1e20"))
        out = torch.einsum("nhql,nlhd->nqhd", self.weights(energy), values)
        return self.fc_out(out.reshape(N, query.shape[1], self.embed_size))


class TransformerBlock(nn.Module):
    def __init__(self, attention: nn.Module, embed_size: int, dropout: float, forward_expansion: int) -> None:
        super().__init__()
        self.attention = attention
        self.norm1 = nn.LayerNorm(embed_size)
        self.norm2 = nn.LayerNorm(embed_size)
        self.feed_forward = nn.Sequential(
            nn.Linear(embed_size, forward_expansion * embed_size),
            nn.ReLU(),
            nn.Linear(forward_expansion * embed_size, embed_size),
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, value: Tensor, key: Tensor, query: Tensor, mask: Tensor | None) -> Tensor:
        attention = self.attention(value, key, query, mask)
        x = self.dropout(self.norm1(attention + query))
        return self.dropout(self.norm2(self.feed_forward(x) + x))


class DecoderBlock(nn.Module):
    def __init__(self, attention: nn.Module, block: TransformerBlock, embed_size: int, dropout: float) -> None:
        super().__init__()
        self.attention = attention
        self.norm = nn.LayerNorm(embed_size)
        self.transformer_block = block
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, value: Tensor, key: Tensor, src_mask: Tensor | None, trg_mask: Tensor) -> Tensor:
        query = self.dropout(self.norm(self.attention(x, x, x, trg_mask) + x))
        return self.transformer_block(value, key, query, src_mask)


class EinsumTranslator(nn.Module):
    attention: type[SelfAttention] = SelfAttention
    block: type[TransformerBlock] = TransformerBlock
    decoder_block: type[DecoderBlock] = DecoderBlock

    def __init__(
        self,
        vocab_size: int = 32,
        embed_size: int = 32,
        num_layers: int = 2,
        heads: int = 4,
        forward_expansion: int = 2,
        dropout: float = 0.1,
        max_length: int = 64,
        pad_idx: int = 0,
    ) -> None:
        super().__init__()
        self.pad_idx = pad_idx

        def block() -> TransformerBlock:
            return self.block(self.attention(embed_size, heads), embed_size, dropout, forward_expansion)

        self.src_word = nn.Embedding(vocab_size, embed_size)
        self.src_position = nn.Embedding(max_length, embed_size)
        self.trg_word = nn.Embedding(vocab_size, embed_size)
        self.trg_position = nn.Embedding(max_length, embed_size)
        self.encoder = nn.ModuleList([block() for _ in range(num_layers)])
        self.decoder = nn.ModuleList(
            [
                self.decoder_block(self.attention(embed_size, heads), block(), embed_size, dropout)
                for _ in range(num_layers)
            ]
        )
        self.fc_out = nn.Linear(embed_size, vocab_size)
        self.dropout = nn.Dropout(dropout)

    def make_src_mask(self, src: Tensor) -> Tensor:
        return (src != self.pad_idx)[:, None, None, :]

    def make_trg_mask(self, trg: Tensor) -> Tensor:
        triangle = torch.tril(torch.ones(trg.size(1), trg.size(1), device=trg.device)).bool()
        return triangle & (trg != self.pad_idx)[:, None, None, :]

    def positions(self, tokens: Tensor) -> Tensor:
        N, length = tokens.shape
        return torch.arange(length, device=tokens.device).expand(N, length)

    def encode(self, src: Tensor, src_mask: Tensor) -> Tensor:
        x = self.dropout(self.src_word(src) + self.src_position(self.positions(src)))
        for layer in self.encoder:
            x = layer(x, x, x, src_mask)
        return x

    def decode(self, trg: Tensor, enc_src: Tensor, src_mask: Tensor, trg_mask: Tensor) -> Tensor:
        x = self.dropout(self.trg_word(trg) + self.trg_position(self.positions(trg)))
        for layer in self.decoder:
            x = layer(x, enc_src, enc_src, src_mask, trg_mask)
        return self.fc_out(x)

    def forward(self, src: Tensor, trg: Tensor) -> Tensor:
        src_mask, trg_mask = self.make_src_mask(src), self.make_trg_mask(trg)
        return self.decode(trg, self.encode(src, src_mask), src_mask, trg_mask)


class EmbedSizeAttention(SelfAttention):
    def weights(self, energy: Tensor) -> Tensor:
        return torch.softmax(energy / self.embed_size**0.5, dim=3)


class EmbedSizeTranslator(EinsumTranslator):
    """Divided by the root of embed_size, as in the video, not of the width of a head."""

    attention = EmbedSizeAttention


class QuerySoftmaxSelfAttention(SelfAttention):
    def weights(self, energy: Tensor) -> Tensor:
        return torch.softmax(energy / self.head_dim**0.5, dim=2)


class QuerySoftmaxTranslator(EinsumTranslator):
    """dim=2 of (N, heads, query_len, key_len)."""

    attention = QuerySoftmaxSelfAttention


class MasksExchangedTranslator(EinsumTranslator):
    """(trg_mask, src_mask) is passed to (src_mask, trg_mask)."""

    def decode(self, trg: Tensor, enc_src: Tensor, src_mask: Tensor, trg_mask: Tensor) -> Tensor:
        x = self.dropout(self.trg_word(trg) + self.trg_position(self.positions(trg)))
        for layer in self.decoder:
            x = layer(x, enc_src, enc_src, trg_mask, src_mask)
        return self.fc_out(x)


class QueryFirstBlock(DecoderBlock):
    def forward(self, x: Tensor, value: Tensor, key: Tensor, src_mask: Tensor | None, trg_mask: Tensor) -> Tensor:
        query = self.dropout(self.norm(self.attention(x, x, x, trg_mask) + x))
        return self.transformer_block(query, key, value, src_mask)


class QueryFirstTranslator(EinsumTranslator):
    """Called as (query, key, value) where (value, key, query) is declared."""

    decoder_block = QueryFirstBlock


class ValueResidualBlock(TransformerBlock):
    def forward(self, value: Tensor, key: Tensor, query: Tensor, mask: Tensor | None) -> Tensor:
        attention = self.attention(value, key, query, mask)
        x = self.dropout(self.norm1(attention + value))
        return self.dropout(self.norm2(self.feed_forward(x) + x))


class ValueResidualTranslator(EinsumTranslator):
    """The value is added, not the query: the same in the encoder, the source's own stream in the decoder."""

    block = ValueResidualBlock


class LastLayerOnlyTranslator(EinsumTranslator):
    """out = layer(x, ...) in the loop: each layer begins again from the embedding and the last one counts."""

    def decode(self, trg: Tensor, enc_src: Tensor, src_mask: Tensor, trg_mask: Tensor) -> Tensor:
        x = self.dropout(self.trg_word(trg) + self.trg_position(self.positions(trg)))
        out = x
        for layer in self.decoder:
            out = layer(x, enc_src, enc_src, src_mask, trg_mask)
        return self.fc_out(out)


class TrimmedTwiceTranslator(EinsumTranslator):
    """trg[:, :-1] is taken by the training loop, and once more inside."""

    def forward(self, src: Tensor, trg: Tensor) -> Tensor:
        return super().forward(src, trg[:, :-1])


class SourceMaskStandsTranslator(EinsumTranslator):
    """The mask of the source is unsqueezed on the side of the queries; in the decoder, unequal lengths crash."""

    def make_src_mask(self, src: Tensor) -> Tensor:
        return (src != self.pad_idx)[:, None, :, None]


class DiagonalHiddenTranslator(EinsumTranslator):
    """1 - triu: the diagonal goes with it, and the first row, all hidden alike, reads everything."""

    def make_trg_mask(self, trg: Tensor) -> Tensor:
        triangle = (1 - torch.triu(torch.ones(trg.size(1), trg.size(1), device=trg.device))).bool()
        return triangle & (trg != self.pad_idx)[:, None, None, :]
