"""New vocabularies: which tokens get an id, and the ids they get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import tokenizers
from tokenizers import models

from glassformer.core.errors import ConfigError, DataError, did_you_mean
from glassformer.text.tokenizer import SPECIALS, UNK


def refuse_specials(specials: Sequence[str]) -> None:
    """Make sure that every special token is known and listed once.

    Raises:
        ConfigError: A special is unknown or listed twice.
    """
    for index, name in enumerate(specials):
        if name not in SPECIALS:
            raise ConfigError(f"unknown special token {name!r}{did_you_mean(name, SPECIALS)}")
        if name in specials[:index]:
            raise ConfigError(f"special token {name!r} is listed twice; list it once")


def refuse_count(min_count: int) -> None:
    """Make sure that something can occur so often.

    Raises:
        ConfigError: `min_count` is below 1.
    """
    if min_count < 1:
        raise ConfigError(f"min_count is {min_count}; it counts occurrences and starts at 1")


def most_frequent(
    counts: Counter[str], specials: Sequence[str], vocab_size: int | None, min_count: int, noun: str
) -> list[str]:
    """Return what gets an id beside the specials, the most frequent first, ties by code point.

    Args:
        counts: How often each character or word occurs.
        specials: Listed before them; with '<unk>' among them, rarer ones may be left out.
        vocab_size: The most ids, specials included; None for no limit.
        min_count: How often it must occur. From 1.
        noun: What is counted, for messages.

    Raises:
        ConfigError: `vocab_size` or `min_count` is not possible, or leaves something out without '<unk>'.
        DataError: Nothing is frequent enough.
    """
    refuse_specials(specials)
    refuse_count(min_count)
    if min_count > 1 and UNK not in specials:
        raise ConfigError(
            f"min_count is {min_count}, but rarer {noun} have nowhere to go; add {UNK!r} to specials"
            " or set min_count to 1"
        )
    frequent = sorted((item for item, count in counts.items() if count >= min_count), key=lambda i: (-counts[i], i))
    if not frequent:
        raise DataError(f"none of {len(counts)} different {noun} occurs min_count = {min_count} times; give more text")
    if vocab_size is None:
        return frequent
    smallest = len(specials) + (1 if UNK in specials else len(frequent))
    if vocab_size < smallest:
        way_out = "" if UNK in specials else f", or add {UNK!r} to specials to leave rare {noun} out"
        raise ConfigError(
            f"vocab_size is {vocab_size}, but {len(specials)} specials and {smallest - len(specials)} {noun} need"
            f" {smallest}; set vocab_size to {smallest} or more{way_out}"
        )
    return frequent[: vocab_size - len(specials)]


def byte_pair_backend(
    symbols: Sequence[str], specials: Sequence[str], merges: Sequence[tuple[str, str]] = ()
) -> tokenizers.Tokenizer:
    """Return a BPE whose ids are the specials as listed, the symbols, then the merged tokens as they were learned.

    Raises:
        ConfigError: A special is unknown or listed twice.
    """
    refuse_specials(specials)
    tokens = dict.fromkeys([*specials, *symbols, *(left + right for left, right in merges)])
    vocabulary = {token: index for index, token in enumerate(tokens)}
    unknown = UNK if UNK in specials else None
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=list(merges), unk_token=unknown))
    backend.add_special_tokens(list(specials))
    return backend
