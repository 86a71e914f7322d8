from __future__ import annotations

import pytest
import torch

from glassformer.core.errors import UnsupportedError
from glassformer.families.registry import preset, published
from glassformer.families.vaswani import VASWANI
from glassformer.models.transformer import Transformer
from glassformer.parts.init import init_table


def size_of(name: str, vocab_size: int) -> int:
    with torch.device("meta"):
        model = Transformer(preset(name).resolve(vocab_size))
    return sum(parameter.numel() for parameter in model.parameters())


def attention(d: int) -> int:
    return 4 * (d * d + d)


def feed_forward(d: int, d_ff: int) -> int:
    return d * d_ff + d_ff + d_ff * d + d


def norm(d: int) -> int:
    return 2 * d


def encoder_decoder(d: int, d_ff: int, layers: int, vocab_size: int) -> int:
    encoder_layer = attention(d) + feed_forward(d, d_ff) + 2 * norm(d)
    decoder_layer = 2 * attention(d) + feed_forward(d, d_ff) + 3 * norm(d)
    return vocab_size * d + layers * (encoder_layer + decoder_layer)


def test_paper_base_has_the_papers_63_million_parameters():
    """One shared table of 37,000 x 512 = 18,944,000; an encoder layer 1,050,624 + 2,099,712 + 2,048 = 3,152,384; a
    decoder layer 2,101,248 + 2,099,712 + 3,072 = 4,204,032; six of each. The paper rounds to 65 million."""
    assert size_of("paper-base", 37_000) == encoder_decoder(512, 2048, 6, 37_000) == 63_082_496


def test_paper_big_has_214_million_parameters():
    """No number of tokens gives both of the paper's counts, 65 and 213 million: its base model would need more than
    37,000 and its big one fewer."""
    assert size_of("paper-big", 37_000) == encoder_decoder(1024, 4096, 6, 37_000) == 214_245_376
    for name, printed in (("paper-base", 65e6), ("paper-big", 213e6)):
        size = published(name)
        assert size.parameters == size_of(name, size.vocab_size)
        assert abs(size.parameters / printed - 1) < 0.03


def test_paper_big_has_the_papers_settings():
    config = preset("paper-big").resolve(100)
    block = config.decoder.blocks[0]
    assert (len(config.encoder.blocks), len(config.decoder.blocks)) == (6, 6)
    assert (block.attention.n_heads, block.attention.d_head, block.feed_forward.d_ff) == (16, 64, 4096)
    assert block.dropout == 0.3


def test_family_without_published_weights_says_so():
    with pytest.raises(UnsupportedError, match="no checkpoints of vaswani in another library's format"):
        VASWANI.read({"vocab_size": 100})
    with pytest.raises(UnsupportedError, match="none that a vaswani checkpoint can hold"):
        VASWANI.write(preset("vaswani-tiny").resolve(100))


def test_small_is_the_paper_with_two_layers_of_128():
    assert size_of("small", 1000) == encoder_decoder(128, 512, 2, 1000)


def test_tiny_is_a_decoder_with_a_table_of_positions():
    layer = attention(64) + feed_forward(64, 256) + 2 * norm(64)
    assert size_of("tiny", 256) == 256 * 64 + 256 * 64 + 2 * layer + norm(64)


def test_paper_base_has_the_papers_settings():
    config = preset("paper-base").resolve(100)
    block = config.decoder.blocks[0]
    assert (len(config.encoder.blocks), len(config.decoder.blocks)) == (6, 6)
    assert (block.attention.n_heads, block.attention.d_head, block.feed_forward.d_ff) == (8, 64, 2048)
    assert (block.norm_place, block.dropout, block.feed_forward.activation) == ("post", 0.1, "relu")
    assert (config.decoder.input.scale, config.decoder.input.dropout) == (True, 0.1)
    assert config.share_embeddings
    assert config.head.tied
    assert config.decoder.final_norm is None


def test_tiny_is_drawn_as_gpt2_is():
    arguments = preset("tiny")
    with torch.device("meta"):
        rows = init_table(Transformer(arguments.resolve(300)), arguments.init)
    for row in rows:
        if row.role in ("embedding", "linear"):
            assert (row.kind, row.expected_std) == ("normal", 0.02)
        if row.role == "residual":
            assert row.expected_std == 0.02 / 4**0.5
