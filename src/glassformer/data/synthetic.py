"""Pairs made up on the spot, for tasks whose right answer is known: copy, reverse, sort."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from glassformer.core.errors import ConfigError, DataError, did_you_mean
from glassformer.core.protocols import Tokenizer
from glassformer.data.batch import Batch
from glassformer.data.order import check_seed, item_uniforms
from glassformer.data.pairs import pair_batch

DIGITS = "0123456789"

TRANSFORMS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {
        "copy": lambda text: text,
        "reverse": lambda text: text[::-1],
        "sort": lambda text: "".join(sorted(text)),
    }
)


def transformed(name: str, text: str) -> str:
    """Return the right answer of a task.

    Args:
        name: One of "copy", "reverse", "sort".
        text: The source.

    Raises:
        ConfigError: There is no such task.
    """
    if name not in TRANSFORMS:
        raise ConfigError(f"unknown transform {name!r}{did_you_mean(name, TRANSFORMS)}")
    return TRANSFORMS[name](text)


class SyntheticPairs:
    """Fresh pairs in every epoch: item i of epoch e is drawn from (seed, e, i) alone.

    The length is uniform, then each symbol is; a sequence that is held out for evaluation is drawn again.

    Args:
        transform: The task: "copy", "reverse" or "sort".
        tokenizer: It needs '<bos>' and '<eos>'.
        lengths: Shortest and longest sequence, in symbols. From 1.
        n_items: Items of an epoch. From 1.
        seed: From 0.
        held_out: Sequences that must never be drawn.
        alphabet: The symbols.

    Raises:
        ConfigError: The task is unknown, the tokenizer lacks a special token, or a number is not possible.
        DataError: Everything is held out, or the tokenizer does not know a symbol.
    """

    def __init__(
        self,
        transform: str,
        tokenizer: Tokenizer,
        lengths: tuple[int, int],
        n_items: int,
        seed: int,
        held_out: frozenset[str] = frozenset(),
        alphabet: str = DIGITS,
    ) -> None:
        transformed(transform, "")
        _check(lengths, alphabet)
        if n_items < 1:
            raise ConfigError(f"n_items is {n_items}; an epoch has at least 1 item")
        if _available(lengths, alphabet, held_out) < 1:
            raise DataError(
                f"all sequences of {lengths[0]} to {lengths[1]} symbols are held out; hold out fewer or use longer ones"
            )
        if tokenizer.bos_id is None or tokenizer.eos_id is None:
            raise ConfigError("the tokenizer lacks '<bos>' or '<eos>'; build it with both among its specials")
        check_seed(seed)
        self._transform = transform
        self._tokenizer = tokenizer
        self._lengths = lengths
        self._n_items = n_items
        self._seed = seed
        self._held_out = held_out
        self._alphabet = alphabet
        self._bos, self._eos = tokenizer.bos_id, tokenizer.eos_id
        self._ids_of_symbol = max(len(tokenizer.encode(symbol)) for symbol in alphabet)

    def __len__(self) -> int:
        return self._n_items

    def texts(self, items: Sequence[int], epoch: int) -> list[str]:
        """Return the source of each item as it is in an epoch."""
        texts = draw(items, self._lengths, self._alphabet, self._seed, epoch, 0)
        attempt = 0
        while again := [row for row, text in enumerate(texts) if text in self._held_out]:
            attempt += 1
            fresh = draw([items[row] for row in again], self._lengths, self._alphabet, self._seed, epoch, attempt)
            for row, text in zip(again, fresh, strict=True):
                texts[row] = text
        return texts

    def batch(self, items: Sequence[int], epoch: int) -> Batch:
        """Return the batch of some items as they are in an epoch."""
        encode = self._tokenizer.encode
        texts = self.texts(items, epoch)
        pairs = [(encode(text), encode(transformed(self._transform, text))) for text in texts]
        return pair_batch(pairs, items, bos=self._bos, eos=self._eos, pad=self._tokenizer.pad_id)

    @property
    def longest(self) -> tuple[int, int]:
        """The longest source and the longest target that can be drawn, with their special token."""
        most = self._lengths[1] * self._ids_of_symbol + 1
        return most, most


def draw_held_out(
    n: int, lengths: tuple[int, int], alphabet: str, seed: int, exclude: frozenset[str] = frozenset()
) -> list[str]:
    """Return n different sequences, drawn before training so that training can avoid them.

    Args:
        n: How many.
        lengths: Shortest and longest sequence, in symbols. From 1.
        alphabet: The symbols.
        seed: From 0; a longer list of the same seed begins with the shorter one.
        exclude: Sequences that must not be among them, such as those of another split.

    Raises:
        ConfigError: A number is not possible.
        DataError: There are fewer than n such sequences.
    """
    _check(lengths, alphabet)
    available = _available(lengths, alphabet, exclude)
    if n > available:
        raise DataError(
            f"cannot hold out {n} different sequences of {lengths[0]} to {lengths[1]} symbols:"
            f" only {available} are left; ask for fewer or use longer ones"
        )
    found: dict[str, None] = {}
    start = 0
    while len(found) < n:
        texts = draw(range(start, start + n), lengths, alphabet, seed)
        found |= dict.fromkeys(text for text in texts if text not in exclude)
        start += n
    return list(found)[:n]


def draw(items: Sequence[int], lengths: tuple[int, int], alphabet: str, seed: int, *keys: int) -> list[str]:
    """Return one random sequence for each item: its length uniform, then each symbol."""
    low, high = lengths
    numbers = item_uniforms(items, high + 1, seed, *keys)
    sizes = low + (numbers[:, 0] * (high - low + 1)).astype(int)
    symbols = (numbers[:, 1:] * len(alphabet)).astype(int)
    return [
        "".join([alphabet[symbol] for symbol in row[:size]])
        for row, size in zip(symbols.tolist(), sizes.tolist(), strict=True)
    ]


def _check(lengths: tuple[int, int], alphabet: str) -> None:
    low, high = lengths
    if not 1 <= low <= high:
        raise ConfigError(f"lengths are {low} to {high}; give a shortest from 1 and a longest not below it")
    if not alphabet or len(set(alphabet)) < len(alphabet):
        raise ConfigError(f"alphabet is {alphabet!r}; give at least 1 symbol, and each only once")


def _available(lengths: tuple[int, int], alphabet: str, exclude: frozenset[str]) -> int:
    """Return the number of different sequences that are not excluded."""
    low, high = lengths
    possible: int = sum(len(alphabet) ** length for length in range(low, high + 1))
    return possible - sum(low <= len(text) <= high and set(text) <= set(alphabet) for text in exclude)
