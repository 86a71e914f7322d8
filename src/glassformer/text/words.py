"""Where a text may be split before anything is learned from it: words, numbers, signs and white space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import tokenizers
from tokenizers import pre_tokenizers

from glassformer.core.errors import DataError

WORD_PATTERN = "|".join(
    (
        r" ?\p{L}[\p{L}\p{M}]*",  # letters, with the marks on them
        r" ?\p{N}[\p{N}\p{M}]*",  # digits and other numerals
        r" ?[^\s\p{L}\p{N}]+",  # any other signs
        r"[\r\n]+",  # line breaks
        r" +(?!\S)",  # spaces, but for the one that what follows takes along
        r"[^\S\r\n ]+",  # white space of another kind
    )
)
"""The runs a text is split into; together they are the text, nothing is dropped.

A run of letters, of digits or of other signs takes the ONE space before it along, so that `' word'` is one
piece and a text needs no pieces for single spaces. Combining marks stay with what they stand on (`'e\u0301'`,
`'❤\ufe0f'`). Line breaks and other white space keep to themselves, so a piece never reaches over a line.

Source: the idea is GPT-2's (Radford et al. 2019, `encoder.py` of the released code), which keeps marks apart from
their letters, English contractions together, and looks ahead in all white space.
"""

SPLIT_AT_ONCE = 100_000
"""Characters split in one call while counting words; each word takes the library some 200 bytes."""


def word_splitter() -> pre_tokenizers.PreTokenizer:
    """Return what splits a text by `WORD_PATTERN`."""
    return pre_tokenizers.Split(tokenizers.Regex(WORD_PATTERN), "isolated")


def byte_word_splitter() -> pre_tokenizers.PreTokenizer:
    """Return what splits a text by `WORD_PATTERN` and writes each run in byte symbols."""
    spelling = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([word_splitter(), spelling])


def parts(text: str, at_once: int) -> Iterator[str]:
    """Cut a text between two runs of `WORD_PATTERN` wherever it would get too long.

    Splitting the parts gives the same runs as splitting the whole: a run takes no white space but a leading
    space, so it ends where white space begins, and no alternative looks further than that.

    Args:
        text: Any text.
        at_once: The most characters of a part; only a longer run makes a part longer, up to twice the run. From 1.
    """
    start, reach = 0, at_once
    while len(text) - start > reach:
        cut = _last_cut(text[start : start + reach])
        if cut == 0:
            reach *= 2
            continue
        yield text[start : start + cut]
        start, reach = start + cut, at_once
    yield text[start:]


def count_words(texts: Iterable[str]) -> Counter[str]:
    """Return how often each run of `WORD_PATTERN` occurs.

    Raises:
        DataError: A text holds half of a surrogate pair.
    """
    splitter = word_splitter()
    counts: Counter[str] = Counter()
    for text in texts:
        refuse_surrogates(text)
        for part in parts(text, SPLIT_AT_ONCE):
            counts.update(word for word, _ in splitter.pre_tokenize_str(part))
    return counts


def first_surrogate(text: str) -> int | None:
    """Return the offset of the first half of a surrogate pair, which no UTF-8 can hold, or None."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None


def refuse_surrogates(text: str) -> None:
    """Make sure that a vocabulary can be taken from a text.

    Raises:
        DataError: The text holds half of a surrogate pair.
    """
    offset = first_surrogate(text)
    if offset is not None:
        raise DataError(f"the texts hold {text[offset]!r}, half of a surrogate pair and no character; remove it")


def _last_cut(window: str) -> int:
    """Return the last place before the window's end where a run certainly begins; 0 if it is all one run."""
    end = max(window.rfind(" "), window.rfind("\n")) + 1
    before_white_space = len(window[:end].rstrip(" \r\n"))
    if before_white_space:
        return before_white_space
    *_, (_, (start_of_last, _)) = word_splitter().pre_tokenize_str(window)
    return start_of_last
