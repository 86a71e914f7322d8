"""New tokenizers by the name of their kind; characters of a text, and plain bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from tokenizers import decoders, pre_tokenizers

from glassformer.core.errors import ConfigError, did_you_mean
from glassformer.text.pieces import byte_symbols
from glassformer.text.tokenizer import TextTokenizer
from glassformer.text.trained import bpe_tokenizer, byte_bpe_tokenizer, word_tokenizer
from glassformer.text.vocabulary import byte_pair_backend, most_frequent
from glassformer.text.words import refuse_surrogates

TokenizerKind = Literal["character", "byte", "word", "bpe", "byte_bpe"]
"""What a token is: a character, a byte, a word, or a part of a word learned by byte-pair encoding."""

USUAL_MERGES = 4000
"""Merged tokens suggested to who names no `vocab_size`: common words of one language are then whole."""


def build_tokenizer(
    kind: TokenizerKind,
    texts: Iterable[str],
    specials: Sequence[str],
    *,
    vocab_size: int | None = None,
    min_count: int = 1,
) -> TextTokenizer:
    """Return a tokenizer of one kind, made from some texts.

    Args:
        kind: What a token is.
        texts: What the vocabulary is taken from; a byte tokenizer does not look at them.
        specials: Any of `SPECIALS`, in the order of their ids; a word tokenizer needs '<unk>'.
        vocab_size: The most ids, specials included. BPE kinds need it, a byte tokenizer has its own.
        min_count: How often a character or word must occur to get an id, or a pair to be merged. From 1.

    Raises:
        ConfigError: The kind or a special is unknown, or a number is not possible, missing or without effect.
        DataError: There is nothing to give an id to, or a text holds half of a surrogate pair.
    """
    if kind not in get_args(TokenizerKind):
        raise ConfigError(f"unknown tokenizer {kind!r}{did_you_mean(kind, get_args(TokenizerKind))}")
    if kind == "character":
        return character_tokenizer(texts, specials, min_count, vocab_size)
    if kind == "word":
        return word_tokenizer(texts, specials, vocab_size, min_count)
    if kind == "byte":
        if vocab_size is not None or min_count != 1:
            raise ConfigError(
                f"vocab_size {vocab_size} and min_count {min_count} have no effect on a byte tokenizer, which has"
                f" {256 + len(specials)} ids whatever the text; leave them out or use 'byte_bpe'"
            )
        return byte_tokenizer(specials)
    if vocab_size is None:
        symbols = 256 if kind == "byte_bpe" else len(set().union(*texts))
        smallest = len(specials) + symbols
        suggested = -(-(smallest + USUAL_MERGES) // 1000) * 1000
        raise ConfigError(
            f"a {kind} tokenizer merges until it has vocab_size ids, and none is given; set it to {smallest} or more"
            f" (one id for each of {len(specials)} specials and {symbols} symbols), for instance {suggested}"
        )
    train = bpe_tokenizer if kind == "bpe" else byte_bpe_tokenizer
    return train(texts, vocab_size, specials, min_count)


def character_tokenizer(
    texts: Iterable[str], specials: Sequence[str] = (), min_count: int = 1, vocab_size: int | None = None
) -> TextTokenizer:
    """Return a tokenizer with one id for each character of some texts.

    Ids go to the specials as listed, then to the characters by code point, so they depend on which characters
    occur and not on their order.

    Args:
        texts: What the vocabulary is taken from.
        specials: Any of `SPECIALS`, in the order of their ids.
        min_count: How often a character must occur to get an id; rarer ones become '<unk>'. From 1.
        vocab_size: The most ids, specials included; the most frequent characters get them. None: all.

    Raises:
        ConfigError: A special is unknown or listed twice, or a number is not possible.
        DataError: There is no character to give an id to, or a text holds half of a surrogate pair.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        refuse_surrogates(text)
        counts.update(text)
    characters = sorted(most_frequent(counts, specials, vocab_size, min_count, "characters"))
    backend = byte_pair_backend(characters, specials)
    backend.decoder = decoders.Fuse()
    return TextTokenizer(backend)


def byte_tokenizer(specials: Sequence[str] = ()) -> TextTokenizer:
    """Return a tokenizer with one id for each byte of UTF-8: any text, 256 ids, nothing unknown.

    Args:
        specials: Any of `SPECIALS`, in the order of their ids; the bytes follow.

    Raises:
        ConfigError: A special is unknown or listed twice.
    """
    backend = byte_pair_backend(byte_symbols(), specials)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return TextTokenizer(backend)
