"""Byte-pair encoding: which symbols to merge, learned from counted words."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

Pair = tuple[int, int]


def learn_merges(
    words: Mapping[str, int], symbols: Sequence[str], vocab_size: int, min_count: int
) -> list[tuple[str, str]]:
    """Return the merges, in order, that join again and again the most frequent pair of neighbours into one token.

    Of pairs that are equally frequent, the one of the older tokens is merged (by the left token, then the right).
    So the merges follow from the counts alone: neither from the order of the words nor from hashing, as with a
    trainer that works in threads.

    Args:
        words: How often each word occurs; pairs are looked for within words. The words hold only `symbols`.
        symbols: The tokens there are before any merge, the oldest first.
        vocab_size: Stop when symbols and merged tokens are so many.
        min_count: Stop when no pair occurs so often. From 1.

    Source: Sennrich et al. 2016 (arXiv:1508.07909), algorithm 1; here counts are kept up to date instead of
    counting all words anew after each merge, and a merge does not reach over a word.
    """
    tokens = list(symbols)
    ids = {token: index for index, token in enumerate(tokens)}
    spelled = [[ids[symbol] for symbol in word] for word in words]
    weights = list(words.values())
    counts: defaultdict[Pair, int] = defaultdict(int)
    places: defaultdict[Pair, set[int]] = defaultdict(set)
    for place, word in enumerate(spelled):
        for pair in pairwise(word):
            counts[pair] += weights[place]
            places[pair].add(place)
    queue = [(-count, pair) for pair, count in counts.items() if count >= min_count]
    heapq.heapify(queue)
    merges: dict[tuple[str, str], None] = {}
    while queue and len(tokens) < vocab_size:
        negative, pair = heapq.heappop(queue)
        count = counts[pair]
        if count != -negative:  # other merges took some of its places since it was queued
            if count >= min_count:
                heapq.heappush(queue, (-count, pair))
            continue
        left, right = pair
        merged = tokens[left] + tokens[right]
        merges.setdefault((tokens[left], tokens[right]))  # a pair may come back; its first rank is what counts
        new = ids.setdefault(merged, len(tokens))
        if new == len(tokens):  # else there is already such a token, merged from other parts
            tokens.append(merged)
        touched: set[Pair] = set()
        for place in places.pop(pair):
            for neighbours, change in _merge(spelled[place], pair, new):
                counts[neighbours] += change * weights[place]
                if change > 0:
                    places[neighbours].add(place)
                    touched.add(neighbours)
        counts[pair] = 0
        for neighbours in touched:
            if counts[neighbours] >= min_count:
                heapq.heappush(queue, (-counts[neighbours], neighbours))
    return list(merges)


def _merge(word: list[int], pair: Pair, new: int) -> Iterator[tuple[Pair, int]]:
    """Replace a pair wherever it occurs; give each pair beside it that went (-1) or came (+1)."""
    left, right = pair
    at = 0
    while at < len(word) - 1:
        if word[at] == left and word[at + 1] == right:
            if at > 0:
                yield (word[at - 1], left), -1
                yield (word[at - 1], new), +1
            if at + 2 < len(word):
                yield (right, word[at + 2]), -1
                yield (new, word[at + 2]), +1
            word[at : at + 2] = [new]
        at += 1
