import json
from collections import Counter
from itertools import pairwise

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, trainers

from glassformer.text.merges import learn_merges

HAMLET = """to be or not to be that is the question whether tis nobler in the mind to suffer the slings and arrows of
outrageous fortune or to take arms against a sea of troubles and by opposing end them"""


def counted_anew(words: dict[str, int], symbols: str, vocab_size: int, min_count: int) -> list[tuple[str, str]]:
    """The definition: count every pair of every word before each merge."""
    age = {symbol: index for index, symbol in enumerate(symbols)}
    spelled = {word: list(word) for word in words}
    merges: list[tuple[str, str]] = []
    while len(age) < vocab_size:
        counts: Counter[tuple[str, str]] = Counter()
        for word, parts in spelled.items():
            for pair in pairwise(parts):
                counts[pair] += words[word]
        best = min(counts, key=lambda pair: (-counts[pair], age[pair[0]], age[pair[1]]), default=None)
        if best is None or counts[best] < min_count:
            break
        if best not in merges:
            merges.append(best)
        age.setdefault("".join(best), len(age))
        for word, parts in spelled.items():
            spelled[word] = merged(parts, best)
    return merges


def merged(parts: list[str], pair: tuple[str, str]) -> list[str]:
    done: list[str] = []
    left = list(parts)
    while left:
        if tuple(left[:2]) == pair:
            done.append("".join(pair))
            del left[:2]
        else:
            done.append(left.pop(0))
    return done


def test_learn_merges_joins_the_most_frequent_pair_first() -> None:
    words = {"low": 5, "lower": 2, "newest": 6, "widest": 3}  # (e,s) and (s,t): 9; (es,t) is then the only 9
    merges = learn_merges(words, "deilnorstw", 13, 1)
    assert merges == [("e", "s"), ("es", "t"), ("l", "o")]


def test_learn_merges_stops_at_the_size_the_count_or_the_end() -> None:
    words = {"abab": 2, "ab": 1}
    assert learn_merges(words, "ab", 3, 1) == [("a", "b")]
    assert learn_merges(words, "ab", 9, 3) == [("a", "b")]
    assert learn_merges(words, "ab", 9, 1) == [("a", "b"), ("ab", "ab")]
    assert learn_merges(words, "ab", 2, 1) == []
    assert learn_merges({}, "ab", 9, 1) == []


def test_learn_merges_does_not_count_a_symbol_twice_in_a_run() -> None:
    assert learn_merges({"aaa": 1}, "a", 9, 1) == [("a", "a"), ("aa", "a")]
    assert learn_merges({"aaaa": 1}, "a", 9, 2) == [("a", "a")]


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=9), st.integers(1, 3), max_size=8),
    st.integers(3, 30),
    st.integers(1, 3),
)
def test_learn_merges_equals_counting_anew(words: dict[str, int], vocab_size: int, min_count: int) -> None:
    merges = learn_merges(words, "abc", vocab_size, min_count)
    assert merges == counted_anew(words, "abc", vocab_size, min_count)
    assert merges == learn_merges(dict(reversed(words.items())), "abc", vocab_size, min_count)


def test_learn_merges_equals_the_trainer_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")  # its threads must not meet the forks of other tests
    words = Counter(HAMLET.split())
    symbols = sorted(set("".join(words)))
    backend = tokenizers.Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=90, min_frequency=1, show_progress=False)
    backend.train_from_iterator(words.elements(), trainer)
    merges = json.loads(backend.to_str())["model"]["merges"]
    assert learn_merges(words, symbols, 90, 1) == [tuple(pair) for pair in merges]
    assert len(merges) == 90 - len(symbols)
