"""The encoder-decoder of a well-known video: (values, keys, query) in that order, masks of tokens, 0 is padding."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SelfAttention(nn.Module):
    def __init__(self, embed_size: int, heads: int) -> None:
        super().__init__()
        self.embed_size, self.heads, self.head_dim = embed_size, heads, embed_size // heads
        self.values = nn.Linear(embed_size, embed_size)
        self.keys = nn.Linear(embed_size, embed_size)
        self.queries = nn.Linear(embed_size, embed_size)
        self.fc_out = nn.Linear(embed_size, embed_size)

    def attention(self, energy: Tensor) -> Tensor:
        return torch.softmax(energy / (self.head_dim ** (1 / 2)), dim=3)

    def forward(self, values: Tensor, keys: Tensor, query: Tensor, mask: Tensor | None) -> Tensor:
        N = query.shape[0]
        value_len, key_len, query_len = values.shape[1], keys.shape[1], query.shape[1]
        values = self.values(values).reshape(N, value_len, self.heads, self.head_dim)
        keys = self.keys(keys).reshape(N, key_len, self.heads, self.head_dim)
        queries = self.queries(query).reshape(N, query_len, self.heads, self.head_dim)
        energy = torch.einsum("nqhd,nkhd->nhqk", [queries, keys])
        if mask is not None:
            energy = energy.masked_fill(mask == 0, float("-1e20"))
        attention = self.attention(energy)
        out = torch.einsum("nhql,nlhd->nqhd", [attention, values]).reshape(N, query_len, self.heads * self.head_dim)
        return self.fc_out(out)


class TransformerBlock(nn.Module):
    attend: type[SelfAttention] = SelfAttention

    def __init__(self, embed_size: int, heads: int, dropout: float, forward_expansion: int) -> None:
        super().__init__()
        self.attention = self.attend(embed_size, heads)
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
        forward = self.feed_forward(x)
        return self.dropout(self.norm2(forward + x))


class Encoder(nn.Module):
    def __init__(
        self, vocab: int, embed_size: int, layers: int, heads: int, dropout: float, length: int, block: type[nn.Module]
    ) -> None:
        super().__init__()
        self.word_embedding = nn.Embedding(vocab, embed_size)
        self.position_embedding = nn.Embedding(length, embed_size)
        self.layers = nn.ModuleList([block(embed_size, heads, dropout, 4) for _ in range(layers)])
        self.dropout = nn.Dropout(dropout)

    def embed(self, x: Tensor) -> Tensor:
        N, seq_length = x.shape
        positions = torch.arange(0, seq_length, device=x.device).expand(N, seq_length)
        return self.dropout(self.word_embedding(x) + self.position_embedding(positions))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        out = self.embed(x)
        for layer in self.layers:
            out = layer(out, out, out, mask)
        return out


class DecoderBlock(nn.Module):
    transformer: type[TransformerBlock] = TransformerBlock

    def __init__(self, embed_size: int, heads: int, dropout: float, forward_expansion: int) -> None:
        super().__init__()
        self.attention = self.transformer.attend(embed_size, heads)
        self.norm = nn.LayerNorm(embed_size)
        self.transformer_block = self.transformer(embed_size, heads, dropout, forward_expansion)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, value: Tensor, key: Tensor, src_mask: Tensor, trg_mask: Tensor) -> Tensor:
        attention = self.attention(x, x, x, trg_mask)
        query = self.dropout(self.norm(attention + x))
        return self.transformer_block(value, key, query, src_mask)


class Decoder(Encoder):
    def __init__(
        self, vocab: int, embed_size: int, layers: int, heads: int, dropout: float, length: int, block: type[nn.Module]
    ) -> None:
        super().__init__(vocab, embed_size, layers, heads, dropout, length, block)
        self.fc_out = nn.Linear(embed_size, vocab)

    def forward(self, x: Tensor, enc_out: Tensor, src_mask: Tensor, trg_mask: Tensor) -> Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x, enc_out, enc_out, src_mask, trg_mask)
        return self.fc_out(x)


class VideoTransformer(nn.Module):
    block: type[TransformerBlock] = TransformerBlock
    decoder_block: type[DecoderBlock] = DecoderBlock
    decoder_kind: type[Decoder] = Decoder

    def __init__(
        self,
        src_vocab_size: int = 32,
        trg_vocab_size: int = 32,
        embed_size: int = 32,
        heads: int = 4,
        max_length: int = 64,
    ) -> None:
        super().__init__()
        self.encoder = Encoder(src_vocab_size, embed_size, 2, heads, 0.1, max_length, self.block)
        self.decoder = self.decoder_kind(trg_vocab_size, embed_size, 2, heads, 0.1, max_length, self.decoder_block)
        self.src_pad_idx = 0

    def make_src_mask(self, src: Tensor) -> Tensor:
        return (src != self.src_pad_idx).unsqueeze(1).unsqueeze(2)

    def make_trg_mask(self, trg: Tensor) -> Tensor:
        N, trg_len = trg.shape
        return torch.tril(torch.ones((trg_len, trg_len), device=trg.device)).expand(N, 1, trg_len, trg_len)

    def forward(self, src: Tensor, trg: Tensor) -> Tensor:
        src_mask = self.make_src_mask(src)
        trg_mask = self.make_trg_mask(trg)
        enc_src = self.encoder(src, src_mask)
        return self.decoder(trg, enc_src, src_mask, trg_mask)


# Wrong ---------------------------------------------------------------------------------------------------------------


class EmbedRootAttention(SelfAttention):
    def attention(self, energy: Tensor) -> Tensor:
        return torch.softmax(energy / (self.embed_size ** (1 / 2)), dim=3)


class EmbedRootBlock(TransformerBlock):
    attend = EmbedRootAttention


class EmbedRootDecoderBlock(DecoderBlock):
    transformer = EmbedRootBlock


class EmbedRootTransformer(VideoTransformer):
    """The root of the model's width, as the video has it."""

    block = EmbedRootBlock
    decoder_block = EmbedRootDecoderBlock


class HeadsShareOneAttention(SelfAttention):
    def attention(self, energy: Tensor) -> Tensor:
        return torch.softmax(energy / (self.head_dim ** (1 / 2)), dim=1)


class HeadsShareOneBlock(TransformerBlock):
    attend = HeadsShareOneAttention


class HeadsShareOneDecoderBlock(DecoderBlock):
    transformer = HeadsShareOneBlock


class HeadsShareOneTransformer(VideoTransformer):
    """dim=1 was the words before there were heads."""

    block = HeadsShareOneBlock
    decoder_block = HeadsShareOneDecoderBlock


class QueryNotAddedBlock(TransformerBlock):
    def forward(self, value: Tensor, key: Tensor, query: Tensor, mask: Tensor | None) -> Tensor:
        attention = self.attention(value, key, query, mask)
        x = self.dropout(self.norm1(attention))
        forward = self.feed_forward(x)
        return self.dropout(self.norm2(forward + x))


class QueryNotAddedDecoderBlock(DecoderBlock):
    transformer = QueryNotAddedBlock


class QueryNotAddedTransformer(VideoTransformer):
    """In the decoder only what the source says goes on."""

    block = QueryNotAddedBlock
    decoder_block = QueryNotAddedDecoderBlock


class TriangleOnSourceBlock(DecoderBlock):
    def forward(self, x: Tensor, value: Tensor, key: Tensor, src_mask: Tensor, trg_mask: Tensor) -> Tensor:
        attention = self.attention(x, x, x, trg_mask)
        query = self.dropout(self.norm(attention + x))
        return self.transformer_block(value, key, query, trg_mask)


class TriangleOnSourceTransformer(VideoTransformer):
    """The mask of the target, over the source."""

    decoder_block = TriangleOnSourceBlock


class ReadsItselfDecoder(Decoder):
    def forward(self, x: Tensor, enc_out: Tensor, src_mask: Tensor, trg_mask: Tensor) -> Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x, x, x, src_mask, trg_mask)
        return self.fc_out(x)


class ReadsItselfTransformer(VideoTransformer):
    """x three times, as in the encoder."""

    decoder_kind = ReadsItselfDecoder


class WordsOnlyDecoder(Decoder):
    def embed(self, x: Tensor) -> Tensor:
        return self.dropout(self.word_embedding(x))


class WordsOnlyTransformer(VideoTransformer):
    """The decoder's words have no places."""

    decoder_kind = WordsOnlyDecoder
