"""New tokenizers: characters of a text, or plain bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from glassformer.core.errors import ConfigError, DataError, did_you_mean
from glassformer.text.pieces import byte_symbols
from glassformer.text.tokenizer import SPECIALS, UNK, TextTokenizer


def character_tokenizer(texts: Iterable[str], specials: Sequence[str] = (), min_count: int = 1) -> TextTokenizer:
    """Return a tokenizer with one id for each character of some texts.

    Ids go to the specials as listed, then to the characters by code point, so they depend on which characters
    occur and not on their order.

    Args:
        texts: What the vocabulary is taken from.
        specials: Any of '<pad>', '<bos>', '<eos>', '<unk>', in the order of their ids.
        min_count: How often a character must occur to get an id; rarer ones become '<unk>'. From 1.

    Raises:
        ConfigError: A special is unknown or listed twice, or `min_count` is not possible.
        DataError: There is no character to give an id to.
    """
    if min_count < 1:
        raise ConfigError(f"min_count is {min_count}; it counts occurrences and starts at 1")
    if min_count > 1 and UNK not in specials:
        raise ConfigError(
            f"min_count is {min_count}, but rarer characters have nowhere to go; add {UNK!r} to specials"
            " or set min_count to 1"
        )
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    characters = sorted(character for character, count in counts.items() if count >= min_count)
    if not characters:
        raise DataError(
            f"none of {len(counts)} different characters occurs min_count = {min_count} times; give more text"
        )
    surrogate = next((character for character in characters if "\ud800" <= character <= "\udfff"), None)
    if surrogate is not None:
        raise DataError(f"the texts hold {surrogate!r}, half of a surrogate pair and no character; remove it")
    backend = _without_merges(characters, specials)
    backend.decoder = decoders.Fuse()
    return TextTokenizer(backend)


def byte_tokenizer(specials: Sequence[str] = ()) -> TextTokenizer:
    """Return a tokenizer with one id for each byte of UTF-8: any text, 256 ids, nothing unknown.

    Args:
        specials: Any of '<pad>', '<bos>', '<eos>', '<unk>', in the order of their ids; the bytes follow.

    Raises:
        ConfigError: A special is unknown or listed twice.
    """
    backend = _without_merges(byte_symbols(), specials)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return TextTokenizer(backend)


def _without_merges(symbols: Sequence[str], specials: Sequence[str]) -> tokenizers.Tokenizer:
    """Return a BPE that never merges: each symbol is a token."""
    for index, name in enumerate(specials):
        if name not in SPECIALS:
            raise ConfigError(f"unknown special token {name!r}{did_you_mean(name, SPECIALS)}")
        if name in specials[:index]:
            raise ConfigError(f"special token {name!r} is listed twice; list it once")
    vocabulary = {token: index for index, token in enumerate([*specials, *symbols])}
    unknown = UNK if UNK in specials else None
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=unknown))
    backend.add_special_tokens(list(specials))
    return backend
