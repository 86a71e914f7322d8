"""An interpolated, modified Kneser-Ney n-gram model over characters: the count-based opponent of a small LM.

For a context h of k-1 ids and the same context h' without its first id, with c(h, w) a count and c(h) its sum
over w, the probability of order k is

    p_k(w | h) = (c(h, w) - D(c(h, w))) / c(h)  +  gamma(h) p_{k-1}(w | h'),      p_0(w) = 1 / V

    gamma(h)   = sum over w of D(c(h, w)) / c(h)          (1 where c(h) = 0: the order below speaks alone)

At the highest order c(h, w) says how often hw occurs. Below it, c(h, w) says how many different ids occur to
the left of hw. D(c) is 0, D1, D2 or D3+ for c = 0, 1, 2 and 3 or more. If n_j grams of an order have c = j,

    Y = n1 / (n1 + 2 n2),    D1 = 1 - 2Y n2/n1,    D2 = 2 - 3Y n3/n2,    D3+ = 3 - 4Y n4/n3

Source: Chen and Goodman, "An Empirical Study of Smoothing Techniques for Language Modeling", TR-10-98,
Harvard University, 1998; after Kneser and Ney, "Improved backing-off for M-gram language modeling", ICASSP
1995. The text is one run of ids, without padding at its start.

    python bench/kneser_ney.py FILE [--order 5] [--all-orders] [--held-out 0.1] [--json]
"""

import argparse
import gzip
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

# Small texts and small vocabularies can lack grams of some count, and D is then undefined or not positive.
# These are the values that KenLM's lmplz puts in their place (--discount_fallback).
FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)


@dataclass(frozen=True)
class Level:
    """All grams of length k. Gram number g has `codes[g]` = (number of its first k-1 ids) * V + its last id.

    `share` (per gram) is the first term of the equation, `gamma` (per context) the weight of the order below.
    Both end with the value for number -1, "never seen", so that indexing with -1 needs no special case.
    """

    codes: np.ndarray
    share: np.ndarray
    gamma: np.ndarray

    @classmethod
    def from_counts(cls, codes: np.ndarray, counts: np.ndarray, vocab_size: int, n_contexts: int) -> Self:
        """Discount `counts`, one per gram, and share out what each of the contexts has left."""
        contexts = codes // vocab_size
        taken = np.array([0.0, *discounts(counts)])[np.minimum(counts, 3)]
        total = np.bincount(contexts, weights=counts, minlength=n_contexts)
        freed = np.bincount(contexts, weights=taken, minlength=n_contexts)
        divisor = np.maximum(total, 1)  # a context without counts: nothing to share out, and no 0 / 0
        share = (counts - taken) / divisor[contexts]
        gamma = np.where(total > 0, freed / divisor, 1.0)
        return cls(codes, np.append(share, 0.0), np.append(gamma, 1.0))

    def find(self, codes: np.ndarray) -> np.ndarray:
        """The gram numbers of `codes`, -1 for those never seen."""
        places = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where(self.codes[places] == codes, places, -1)


def discounts(counts: np.ndarray) -> tuple[float, float, float]:
    """D1, D2 and D3+ from the counts of one order's grams."""
    _, n1, n2, n3, n4 = (int(n) for n in np.bincount(np.minimum(counts, 5), minlength=6)[:5])
    if min(n1, n2, n3) == 0:
        return FALLBACK_DISCOUNTS
    y = n1 / (n1 + 2 * n2)
    found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return found if min(found) > 0 else FALLBACK_DISCOUNTS


class KneserNey:
    """`levels[k - 1]` holds the grams of length k. One step per id, from number 0 on, finds any gram."""

    def __init__(self, levels: list[Level], vocab_size: int) -> None:
        self.levels = levels
        self.vocab_size = vocab_size

    @property
    def order(self) -> int:
        return len(self.levels)

    @classmethod
    def fit(cls, ids: Sequence[int], vocab_size: int, order: int = 5) -> Self:
        """Count the grams of lengths 1 to `order` in `ids`, one run of text."""
        if order < 1:
            raise ValueError(f"the order must be at least 1, not {order}")
        if len(ids) < order:
            raise ValueError(f"a model of order {order} needs a text of at least {order} ids, not {len(ids)}")
        text = checked(ids, vocab_size)
        numbers = np.zeros(len(text), dtype=np.int64)  # of the gram of length k that starts at each place
        codes, counts = [], []
        for k in range(1, order + 1):
            grams = numbers[: len(text) - k + 1] * vocab_size + text[k - 1 :]
            found, firsts, longer, occurrences = np.unique(
                grams, return_index=True, return_inverse=True, return_counts=True
            )
            if k > 1:
                # Each different gram gives its tail, one place further on, one different left neighbour.
                counts.append(np.bincount(numbers[firsts + 1], minlength=len(codes[-1])))
            codes.append(found)
            numbers = longer
        counts.append(occurrences)
        contexts = [1, *map(len, codes)]
        levels = [Level.from_counts(c, n, vocab_size, m) for c, n, m in zip(codes, counts, contexts, strict=False)]
        return cls(levels, vocab_size)

    def log_probabilities(self, history_ids: Sequence[int], ids: Sequence[int]) -> np.ndarray:
        """log p(id | up to order-1 ids before it) in nats; the first ids look back into `history_ids`."""
        start = max(0, len(history_ids) - (self.order - 1))
        history = checked(history_ids[start:], self.vocab_size)
        text = np.concatenate([history, checked(ids, self.vocab_size)])
        p = np.full(len(text), 1 / self.vocab_size)
        contexts = np.zeros(len(text), dtype=np.int64)
        for k, level in enumerate(self.levels[: len(text)], start=1):
            contexts = contexts[: len(text) - k + 1]
            grams = level.find(contexts * self.vocab_size + text[k - 1 :])
            p[k - 1 :] = level.share[grams] + level.gamma[contexts] * p[k - 1 :]
            contexts = grams
        return np.log(p[len(history) :])

    def distribution(self, context: Sequence[int]) -> np.ndarray:
        """p(. | the last order-1 ids of `context`), over the whole vocabulary."""
        ids = checked(context, self.vocab_size)
        p = np.full(self.vocab_size, 1 / self.vocab_size)
        for k, level in enumerate(self.levels[: len(ids) + 1], start=1):
            number = self._number(ids[len(ids) - k + 1 :])
            first_code = number * self.vocab_size
            low, high = np.searchsorted(level.codes, [first_code, first_code + self.vocab_size])
            p *= level.gamma[number]
            p[level.codes[low:high] - first_code] += level.share[low:high]
        return p

    def _number(self, ids: np.ndarray) -> int:
        number = 0
        for level, i in zip(self.levels, ids, strict=False):
            number = int(level.find(number * self.vocab_size + i))
        return number


def checked(ids: Sequence[int], vocab_size: int) -> np.ndarray:
    """`ids` as an array. An id outside the vocabulary would pass for part of another gram's code."""
    array = np.asarray(ids, dtype=np.int64)
    if array.size and (array.min() < 0 or array.max() >= vocab_size):
        raise ValueError(f"every id must lie between 0 and {vocab_size - 1}")
    return array


def read_text(path: Path) -> str:
    raw = path.read_bytes()
    data = gzip.decompress(raw) if path.suffix == ".gz" else raw
    return data.decode("utf-8-sig").replace("\r\n", "\n")


def measure(text: str, orders: Sequence[int], held_out: float) -> dict[str, Any]:
    """Fit on the first part of `text` and score every character of the rest, once per order."""
    n = int((1 - held_out) * len(text))
    vocabulary = {character: i for i, character in enumerate(sorted(set(text[:n])))}
    unknown = len(vocabulary)
    ids = np.array([vocabulary.get(character, unknown) for character in text], dtype=np.int64)
    known = ids[n:] != unknown
    results = []
    for order in orders:
        started = time.perf_counter()
        losses = -KneserNey.fit(ids[:n], unknown + 1, order).log_probabilities(ids[:n], ids[n:])
        result = {"order": order, "seconds": time.perf_counter() - started}
        result |= {"loss": losses.mean(), "perplexity": np.exp(losses.mean())}
        results.append(result | {"perplexity_known": np.exp(losses[known].mean()) if known.any() else None})
    sizes = {"vocab_size": unknown + 1, "fitted_characters": n, "scored_characters": len(text) - n}
    return sizes | {"unknown_characters": int((~known).sum()), "orders": results}


def report(measured: dict[str, Any]) -> str:
    head = (
        "V = {vocab_size} with <unk>; {fitted_characters} characters fitted, {scored_characters} scored, "
        "{unknown_characters} of them unknown"
    )
    row = "order {order}: loss {loss:.4f} nats per character, perplexity {perplexity:.2f} ({seconds:.1f} s)"
    known = "; known characters only {perplexity_known:.2f}"
    rows = [row + known if result["perplexity_known"] else row for result in measured["orders"]]
    filled = [row.format(**result) for row, result in zip(rows, measured["orders"], strict=True)]
    return "\n".join([head.format(**measured), *filled])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A character n-gram model's perplexity on a text's end.")
    parser.add_argument("file", type=Path, help="a UTF-8 text, plain or .gz")
    parser.add_argument("--order", type=int, default=5, help="the longest gram counted (default: 5)")
    parser.add_argument("--all-orders", action="store_true", help="report the orders 3, 4, 5 and 6 as well")
    parser.add_argument("--held-out", type=float, default=0.1, help="the part to score (default: 0.1)")
    parser.add_argument("--json", action="store_true", help="print JSON, not lines to read")
    options = parser.parse_args(arguments)
    if not 0 < options.held_out < 1:
        parser.error("--held-out must lie between 0 and 1")
    orders = sorted({options.order, 3, 4, 5, 6}) if options.all_orders else [options.order]
    try:
        measured = measure(read_text(options.file), orders, options.held_out)
    except (OSError, EOFError, ValueError) as error:
        parser.error(str(error))
    print(json.dumps(measured) if options.json else report(measured))


if __name__ == "__main__":
    main()
