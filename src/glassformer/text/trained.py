"""Tokenizers trained on a text: whole words, or byte-pair encoding over characters or over bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import tokenizers
from tokenizers import decoders, models

from glassformer.core.errors import ConfigError, DataError
from glassformer.text.merges import learn_merges
from glassformer.text.pieces import byte_symbols
from glassformer.text.tokenizer import UNK, TextTokenizer
from glassformer.text.vocabulary import byte_pair_backend, most_frequent, refuse_count, refuse_specials
from glassformer.text.words import byte_word_splitter, count_words, word_splitter


def word_tokenizer(
    texts: Iterable[str], specials: Sequence[str] = (), vocab_size: int | None = None, min_count: int = 1
) -> TextTokenizer:
    """Return a tokenizer with one id for each word, number or run of signs or white space of some texts.

    Texts are split by `WORD_PATTERN`, so `' cat'` and `'cat'` are two words. What has no id becomes '<unk>'.
    Ids go to the specials as listed, then to the words, the most frequent first.

    Args:
        texts: What the vocabulary is taken from.
        specials: Any of `SPECIALS`, in the order of their ids; '<unk>' must be among them.
        vocab_size: The most ids, specials included: rarer words are left out. None: all words.
        min_count: How often a word must occur to get an id. From 1.

    Raises:
        ConfigError: A special is unknown or listed twice, '<unk>' is missing, or a number is not possible.
        DataError: There is no word to give an id to, or a text holds half of a surrogate pair.
    """
    if UNK not in specials:
        raise ConfigError(f"a word tokenizer meets words it does not know; add {UNK!r} to specials {tuple(specials)}")
    words = most_frequent(count_words(texts), specials, vocab_size, min_count, "words")
    vocabulary = {token: index for index, token in enumerate([*specials, *words])}
    backend = tokenizers.Tokenizer(models.WordLevel(vocab=vocabulary, unk_token=UNK))
    backend.add_special_tokens(list(specials))
    backend.pre_tokenizer = word_splitter()
    backend.decoder = decoders.Fuse()
    return TextTokenizer(backend)


def bpe_tokenizer(
    texts: Iterable[str], vocab_size: int, specials: Sequence[str] = (), min_count: int = 2
) -> TextTokenizer:
    """Return a byte-pair encoding over characters, trained on some texts.

    Ids go to the specials as listed, to the characters of the texts by code point, then to the merged tokens as
    they were learned. A character that the texts do not hold becomes '<unk>', or is refused where there is none.

    Args:
        texts: What is learned from.
        vocab_size: The most ids, specials included; a small text gives fewer.
        specials: Any of `SPECIALS`, in the order of their ids.
        min_count: How often a pair must occur to be merged. From 1.

    Raises:
        ConfigError: A special is unknown or listed twice, or a number is not possible.
        DataError: There is no character to give an id to, or a text holds half of a surrogate pair.

    Source: Sennrich et al. 2016 (arXiv:1508.07909).
    """
    words = count_words(texts)
    characters = sorted(set().union(*words))
    if not characters:
        raise DataError("the texts hold no character; give some text to learn from")
    merges = _learned(words, characters, specials, vocab_size, min_count, "characters")
    backend = byte_pair_backend(characters, specials, merges)
    backend.pre_tokenizer = word_splitter()
    backend.decoder = decoders.Fuse()
    return TextTokenizer(backend)


def byte_bpe_tokenizer(
    texts: Iterable[str], vocab_size: int, specials: Sequence[str] = (), min_count: int = 2
) -> TextTokenizer:
    """Return a byte-pair encoding over the bytes of UTF-8, trained on some texts: nothing is ever unknown.

    Ids go to the specials as listed, to the 256 bytes in order, then to the merged tokens as they were learned.

    Args:
        texts: What is learned from.
        vocab_size: The most ids, specials and bytes included; a small text gives fewer.
        specials: Any of `SPECIALS`, in the order of their ids.
        min_count: How often a pair must occur to be merged. From 1.

    Raises:
        ConfigError: A special is unknown or listed twice, or a number is not possible.
        DataError: A text holds half of a surrogate pair.

    Source: Radford et al. 2019 (GPT-2), section 2.2.
    """
    symbols = byte_symbols()
    words = Counter(
        {"".join(symbols[byte] for byte in word.encode()): count for word, count in count_words(texts).items()}
    )
    merges = _learned(words, symbols, specials, vocab_size, min_count, "bytes")
    backend = byte_pair_backend(symbols, specials, merges)
    backend.pre_tokenizer = byte_word_splitter()
    backend.decoder = decoders.ByteLevel()
    return TextTokenizer(backend)


def _learned(
    words: Counter[str], symbols: Sequence[str], specials: Sequence[str], vocab_size: int, min_count: int, noun: str
) -> list[tuple[str, str]]:
    refuse_specials(specials)
    refuse_count(min_count)
    smallest = len(specials) + len(symbols)
    if vocab_size < smallest:
        raise ConfigError(
            f"vocab_size is {vocab_size}, but {len(specials)} specials and {len(symbols)} {noun} need {smallest};"
            f" set vocab_size to {smallest} or more"
        )
    return learn_merges(words, symbols, vocab_size - len(specials), min_count)
