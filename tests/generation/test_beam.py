from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from glassformer.core.cache import KVCache
from glassformer.core.errors import DataError, UnsupportedError
from glassformer.generation.beam import (
    beam_search,
    best_continuations,
    close_ranks,
    largest,
    most_probable,
    quick_largest,
)
from glassformer.generation.config import BeamConfig, GenerationConfig
from glassformer.generation.hypothesis import Hypothesis
from glassformer.generation.stream import generate
from glassformer.generation.text import beam_texts
from glassformer.kernels.operators import has_operators
from glassformer.models.transformer import Transformer

from .tiny import POSITIONS, Letters, bigram, build

EOS = 2
PROMPTS = [[5, 6], [5, 6, 7, 8, 9], [7]]
SOURCES = [[9, 8, 7, 6], [5], [6, 7, 10, 11, 12, 13]]

MODELS = [
    pytest.param({"kind": kind, "positions": positions, **arguments}, id=f"{kind}-{positions}{name}")
    for kind, positions, name, arguments in [
        *((kind, positions, "", {}) for kind in ("decoder", "encoder_decoder") for positions in POSITIONS),
        ("decoder", "rotary", "-window", {"attention": {"window": 2}}),
        ("encoder_decoder", "rotary", "-window", {"attention": {"window": 3}, "n_kv_heads": 1}),
        ("encoder_decoder", "sinusoidal", "-reference", {"attention": {"kernel": "reference"}}),
        ("decoder", "rotary", "-linear", {"attention": {"type": "linear"}, "n_kv_heads": 1}),
        ("encoder_decoder", "sinusoidal", "-linear", {"attention": {"type": "linear"}}),
        ("decoder", "relative", "-window_in_a_layer", {"attention": {"window": 2, "window_layers": (0,)}}),
        ("decoder", "none", "-shaw", {"attention": {"type": "shaw", "max_distance": 2}}),
        ("decoder", "learned", "-not_causal", {"causal": False}),
        ("encoder_decoder", "learned", "-not_causal", {"causal": False}),
    ]
]


def search(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    tokenizer: Any = None,
    sources: Sequence[Sequence[int]] | None = None,
    max_new: Sequence[int] | None = None,
    **settings: Any,
) -> list[list[Hypothesis]]:
    config = BeamConfig(**{"max_new_tokens": 8, **settings})
    return beam_search(model, prompts, config, tokenizer=tokenizer or Letters(), sources=sources, max_new=max_new)


def assert_equal(found: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    assert [(one.tokens, one.text, one.stop_reason) for one in found] == [
        (one.tokens, one.text, one.stop_reason) for one in expected
    ]
    for name in ("logprob", "score"):
        # a sum of logits of 10 and more, each rounded to 1e-6: the oracle's own distance from float64 is as large
        assert [getattr(one, name) for one in found] == pytest.approx(
            [getattr(one, name) for one in expected], abs=1e-5, rel=1e-6
        )


# The oracle: one sentence, no cache, no padding, no shared memory


@dataclass
class Oracle:
    """Everything about one sentence, computed again for every prefix."""

    model: Transformer
    context: Sequence[int]
    source: Sequence[int] | None
    size: int
    alpha: float = 1.0
    swapped: bool = False

    def logprobs(self, prefixes: Sequence[tuple[int, ...]]) -> Tensor:
        with torch.no_grad():
            sources = None if self.source is None else torch.tensor([self.source] * len(prefixes))
            memory = None if sources is None else self.model.encode(sources)
            logits = self.model(torch.tensor([[*self.context, *prefix] for prefix in prefixes]), memory=memory)
        return logits[:, -1].double().log_softmax(-1)[:, : self.size]

    def hypothesis(self, tokens: tuple[int, ...], logprob: float, reason: Any) -> Hypothesis:
        text = Letters().decode(token for token in tokens if token != EOS)
        return Hypothesis(text, tokens, logprob, logprob / max(len(tokens), 1) ** self.alpha, reason)

    def extended(self, live: dict[tuple[int, ...], float], too_early: bool) -> list[tuple[float, tuple[int, ...]]]:
        rows = self.logprobs(list(live)).tolist()
        return sorted(
            (
                (before + row[token], (*prefix, token))
                for (prefix, before), row in zip(live.items(), rows, strict=True)
                for token in range(self.size)
                if not (token == EOS and too_early)
            ),
            key=lambda one: -one[0],
        )

    def search(self, beam: int, limit: int, n_best: int, min_new: int = 0) -> list[Hypothesis]:
        """A beam search that goes on to the limit and only then looks at what it has."""
        live: dict[tuple[int, ...], float] = {(): 0.0}
        ended: list[Hypothesis] = []
        for step in range(limit):
            old, kept = list(live), {}
            for logprob, tokens in self.extended(live, step < min_new):
                if len(kept) == beam:
                    break
                if tokens[-1] == EOS:
                    ended.append(self.hypothesis(tokens, logprob, "eos"))
                else:
                    kept[tokens] = logprob
            live = kept
            self.swapped |= [old.index(tokens[:-1]) for tokens in live] != list(range(len(old)))
        cut = [self.hypothesis(tokens, logprob, "length") for tokens, logprob in live.items()]
        return (sorted(ended, key=lambda one: -one.score) + cut)[:n_best]

    def all_sequences(self, limit: int, min_new: int = 0) -> list[Hypothesis]:
        """Brute force: whatever ends within the limit, then whatever does not; each group by its score."""
        ended, live = [], {(): 0.0}
        for step in range(limit):
            extended = self.extended(live, step < min_new)
            ended += [self.hypothesis(tokens, p, "eos") for p, tokens in extended if tokens[-1] == EOS]
            live = {tokens: p for p, tokens in extended if tokens[-1] != EOS}
        cut = [self.hypothesis(tokens, p, "length") for tokens, p in live.items()]
        return [one for group in (ended, cut) for one in sorted(group, key=lambda one: -one.score)]


def oracle(model: Transformer, row: int, alpha: float = 1.0, size: int = 32) -> Oracle:
    return Oracle(model, [1, *PROMPTS[row]], SOURCES[row] if model.encoder is not None else None, size, alpha)


# Two ways that must be equal


@pytest.mark.parametrize("arguments", MODELS)
def test_o01_o31_a_batch_equals_each_sentence_computed_anew(arguments: dict[str, Any]) -> None:
    """Other lengths, other order, with and without a cache; beams do change places."""
    model = build(**arguments)
    oracles = [oracle(model, row, 0.6) for row in range(3)]
    expected = [one.search(beam=3, limit=6, n_best=3) for one in oracles]
    assert any(one.swapped for one in oracles)
    for rows, caches in (([0], [True]), ([1], [False]), ([0, 1, 2], [True, False]), ([2, 0, 1], [True])):
        for use_cache in caches:
            found = search(
                model,
                [PROMPTS[row] for row in rows],
                sources=[SOURCES[row] for row in rows] if model.encoder is not None else None,
                beam=3,
                n_best=3,
                length_penalty=0.6,
                max_new_tokens=6,
                use_cache=use_cache,
            )
            for row, hypotheses in zip(rows, found, strict=True):
                assert_equal(hypotheses, expected[row])


@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
@pytest.mark.parametrize(("alpha", "min_new"), [(0.0, 0), (0.6, 2), (1.0, 0), (2.0, 1)])
def test_a_wide_beam_equals_brute_force(kind: str, alpha: float, min_new: int) -> None:
    """4 tokens, one of them the end, and at most 4 of them: 40 sequences end, 81 are cut."""
    model = build(kind, "sinusoidal")
    model.resize_vocabulary(4)
    contexts, sources = [[0, 3], [], [3]], [[3, 0, 3], [0], [3, 3]]
    limits = [4, 3, 4]
    for n_best in (1, 3, 60):
        found = search(
            model,
            contexts,
            Letters(4),
            sources if kind == "encoder_decoder" else None,
            max_new=limits,
            beam=82,
            n_best=n_best,
            length_penalty=alpha,
            min_new_tokens=min_new,
        )
        for row, hypotheses in enumerate(found):
            source = sources[row] if kind == "encoder_decoder" else None
            expected = Oracle(model, [1, *contexts[row]], source, 4, alpha).all_sequences(limits[row], min_new)
            assert_equal(hypotheses, expected[:n_best])


@pytest.mark.parametrize(
    ("kind", "alpha", "beam"),
    [("decoder", 0.0, 4), ("decoder", 1.0, 2), ("encoder_decoder", 0.6, 4), ("encoder_decoder", 1.0, 2)],
)
def test_the_winner_does_not_depend_on_how_many_are_asked_for(kind: str, alpha: float, beam: int) -> None:
    """And ending the search early gives what going on to the limit gives."""
    model = build(kind, "learned", seed=3)
    model.resize_vocabulary(6)
    sources = [[3, 4, 5, 5], [5], [4, 3]] if kind == "encoder_decoder" else None
    prompts = [[3, 4], [5], [4, 4, 4]]
    settings: dict[str, Any] = {"beam": beam, "length_penalty": alpha, "max_new_tokens": 10}
    for row, hypotheses in enumerate(search(model, prompts, Letters(6), sources, n_best=beam, **settings)):
        source = None if sources is None else sources[row]
        expected = Oracle(model, [1, *prompts[row]], source, 6, alpha).search(beam, 10, beam)
        assert_equal(hypotheses, expected)
        for n_best in (1, beam):
            alone = search(model, [prompts[row]], Letters(6), source and [source], n_best=n_best, **settings)[0]
            assert_equal(alone, expected[:n_best])


@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
@pytest.mark.parametrize("settings", [{}, {"min_new_tokens": 3}, {"max_new_tokens": 30}, {"max_new_tokens": 0}])
def test_one_beam_without_penalty_is_greedy(kind: str, settings: dict[str, Any]) -> None:
    model = build(kind, "learned", max_positions=16)
    sources = SOURCES if kind == "encoder_decoder" else None
    settings = {"max_new_tokens": 8, **settings}
    greedy = generate(model, PROMPTS, GenerationConfig(**settings), tokenizer=Letters(), sources=sources)
    searched = search(model, PROMPTS, None, sources, beam=1, length_penalty=0.0, **settings)
    for row, found in zip(greedy, searched, strict=True):
        logprob = math.fsum(row.logprobs)
        assert_equal(found, [Hypothesis(row.text, row.tokens, logprob, logprob, row.stop_reason)])


def test_o31_the_memorys_keys_are_there_once_a_sentence_and_never_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beams change places, and the memory keeps two rows and its storage; it shrinks when a sentence is done."""
    moves: list[tuple[int, bool]] = []
    reorder, select = KVCache.reorder, KVCache.select

    def storages(cache: KVCache) -> list[int]:
        crosses = [layer.cross for layer in cache.layers]
        assert all(cross is not None for cross in crosses)
        return [part.data_ptr() for cross in crosses for part in cross or ()]

    def watched_reorder(cache: KVCache, rows: Sequence[int]) -> None:
        before = storages(cache)
        reorder(cache, rows)
        assert storages(cache) == before
        moves.append((cache.layers[0].cross[0].shape[0], list(rows) != list(range(len(rows)))))

    def watched_select(cache: KVCache, rows: Sequence[int], memory_rows: Sequence[int] | None = None) -> None:
        before = storages(cache)
        select(cache, rows, memory_rows)
        assert memory_rows is not None
        assert cache.layers[0].cross[0].shape[0] == len(memory_rows)
        assert cache.batch_size > len(memory_rows)
        assert len(memory_rows) < 2 or storages(cache) == before

    monkeypatch.setattr(KVCache, "reorder", watched_reorder)
    monkeypatch.setattr(KVCache, "select", watched_select)
    search(build("encoder_decoder"), [[], []], None, SOURCES[:2], beam=3, n_best=3, max_new=[4, 8])
    assert (2, True) in moves
    assert (1, True) in moves


# The end, by hand


class Table(Transformer):
    """A model that looks its probabilities up by all tokens after the first; without a cache."""

    def __init__(self, table: dict[str, dict[str, float]], other: dict[str, float]) -> None:
        super().__init__(build("decoder", "none").config)
        self.table, self.other = table, other

    def forward(self, inputs: Tensor, *, places: Any, **_: Any) -> Tensor:  # type: ignore[override]
        logits = torch.full((len(inputs), 32), -torch.inf)
        real = places.is_token.expand(len(inputs), -1)
        for row, (tokens, mask) in enumerate(zip(inputs, real, strict=True)):
            row_table = self.table.get(Letters().decode(tokens[mask].tolist()[1:]), self.other)
            for letter, probability in row_table.items():
                logits[row, EOS if letter == ">" else Letters().encode(letter)[0]] = math.log(probability)
        return logits


O19 = Table(
    {
        "": {">": 0.40, "a": 0.35, "b": 0.25},
        "a": {"b": 0.90, ">": 0.05, "a": 0.05},
        "ab": {"b": 0.90, ">": 0.05, "a": 0.05},
        "abb": {">": 0.90, "a": 0.05, "b": 0.05},
    },
    other={">": 0.34, "a": 0.33, "b": 0.33},
)


def test_o19_penalty_and_end_of_the_search() -> None:
    def find(**settings: Any) -> list[tuple[str, float]]:
        found = search(O19, [[]], beam=2, max_new_tokens=6, use_cache=False, **settings)[0]
        return [(one.text, pytest.approx(one.score, abs=1e-6)) for one in found]

    assert find(length_penalty=0.0) == [("", -0.916291)]
    assert find(length_penalty=1.0) == [("abb", -0.341476)]
    assert find(length_penalty=1.0, n_best=2) == [("abb", -0.341476), ("", -0.916291)]
    assert find(length_penalty=0.0, n_best=2)[0] == ("", -0.916291)
    assert find(length_penalty=0.0, min_new_tokens=1) == [("abb", -1.365904)]


def test_an_end_counts_only_among_the_beams_best() -> None:
    """With a beam of one, "a" beats the end at once, so the empty text is not found, though it scores higher."""
    model = Table({"": {"a": 0.6, ">": 0.4}, "a": {"b": 0.4, ">": 0.6}}, other={">": 1.0})
    assert [one.text for one in search(model, [[]], beam=1, length_penalty=0.0, use_cache=False)[0]] == ["a"]
    found = search(model, [[]], beam=2, n_best=2, length_penalty=0.0, use_cache=False)[0]
    assert [one.text for one in found] == ["", "a"]


def test_what_is_cut_comes_behind_what_ended() -> None:
    """aa has 0.81, the ends 0.1 and 0.09."""
    model = Table({}, other={"a": 0.9, ">": 0.1})
    found = search(model, [[]], beam=3, n_best=3, max_new_tokens=2, use_cache=False)[0]
    assert [(one.text, one.stop_reason) for one in found] == [("a", "eos"), ("", "eos"), ("aa", "length")]
    assert [math.exp(one.logprob) for one in found] == pytest.approx([0.09, 0.1, 0.81])
    assert [one.text for one in search(model, [[]], beam=3, max_new_tokens=2, use_cache=False)[0]] == ["a"]


def test_half_of_the_beams_end_and_leave_room() -> None:
    """a and b end, c and d go on: two ends at the second step take no place from "cd" and "dc"."""
    model = Table(
        {
            "": dict(zip("abcd", (0.3, 0.3, 0.2, 0.2), strict=True)),
            "a": {">": 0.9, "a": 0.1}, "b": {">": 0.8, "a": 0.2}, "c": {"d": 1.0}, "d": {"c": 1.0},
            "cd": {">": 1.0}, "dc": {"d": 1.0}, "dcd": {">": 1.0},
        },
        other={">": 0.5, "e": 0.5},
    )  # fmt: skip
    found = search(model, [[], []], beam=4, n_best=4, length_penalty=0.0, use_cache=False, max_new=[8, 3])
    assert [(one.text, one.stop_reason) for one in found[0]] == [
        ("a", "eos"),
        ("b", "eos"),
        ("cd", "eos"),
        ("dcd", "eos"),
    ]
    assert [math.exp(one.logprob) for one in found[0]] == pytest.approx([0.27, 0.24, 0.2, 0.2])
    # With room for three tokens, "dcd" remains unfinished and even an end of 0.03 comes before it.
    assert [(one.text, one.stop_reason) for one in found[1]] == [
        ("a", "eos"), ("b", "eos"), ("cd", "eos"), ("ba", "eos"),
    ]  # fmt: skip


def test_equals_come_in_the_order_of_their_tokens() -> None:
    tokens = [one.tokens for one in search(bigram({}), [[5]], Letters(eos=None), beam=3, n_best=3, max_new_tokens=3)[0]]
    assert tokens == [(0, 0, 0), (0, 0, 1), (0, 0, 2)]
    ended = search(bigram({}), [[5], [6, 7]], beam=3, length_penalty=0.0)
    assert [[one.tokens for one in row] for row in ended] == [[(EOS,)], [(EOS,)]]  # of equals the shorter


# Limits


@pytest.mark.parametrize(
    ("prompt", "max_new", "n_new", "reason"),
    [(6, 5, 2, "context"), (8, 1, 0, "context"), (6, 2, 2, "length"), (6, 0, 0, "length"), (8, 0, 0, "length")],
)
def test_o07_limits(prompt: int, max_new: int, n_new: int, reason: str) -> None:
    tokenizer, model = Letters(bos=None, eos=None), build(max_positions=8)
    for use_cache in (True, False):
        for prompts in ([[5] * prompt], [[5, 6], [5] * prompt]):
            found = search(model, prompts, tokenizer, max_new_tokens=max_new, n_best=5, use_cache=use_cache)[-1]
            assert len(found) == (5 if n_new else 1)
            assert {(len(one.tokens), one.stop_reason) for one in found} == {(n_new, reason)}
    with pytest.raises(DataError, match=r"prompt 9 > context 8"):
        search(model, [[5] * 9], tokenizer)


def test_each_row_may_have_its_own_limit() -> None:
    model, tokenizer = build(), Letters(eos=None)
    found = search(model, PROMPTS, tokenizer, max_new=[3, 0, 12], max_new_tokens=8)
    assert [len(row[0].tokens) for row in found] == [3, 0, 12]
    for row, limit in enumerate([3, 0, 12]):
        assert_equal(found[row], search(model, [PROMPTS[row]], tokenizer, max_new_tokens=limit)[0])
    for bad in ([1, 2], [1, 2, -1]):
        with pytest.raises(DataError, match=r"max_new is \[1, 2.* for 3 prompts; give one number"):
            search(model, PROMPTS, max_new=bad)


def test_a_vocabulary_smaller_than_the_beam_gives_what_there_is() -> None:
    """Two tokens and the end, at most two: "", a, b end; aa, ab, ba, bb are cut."""
    model = Table({}, other={"a": 0.5, "b": 0.2, ">": 0.3})
    found = search(model, [[]], beam=50, n_best=50, max_new_tokens=2, use_cache=False)[0]
    assert [(one.text, one.stop_reason) for one in found] == [
        ("a", "eos"), ("", "eos"), ("b", "eos"),
        ("aa", "length"), ("ab", "length"), ("ba", "length"), ("bb", "length"),
    ]  # fmt: skip


def test_o16_nothing_left_to_choose_or_no_number_names_step_and_row() -> None:
    with pytest.raises(DataError, match=r"step 1, row 0: all 32 tokens are forbidden.*min_new_tokens"):
        search(build(), [[5]], Letters(1, bos=None, eos=0), min_new_tokens=1)
    model = bigram({"a": "b", "b": "c", "x": "x"})
    assert model.head is not None
    with torch.no_grad():
        model.output_stack.input.embedding.weight[5, 5] = 100.0
        model.head.weight[7, 5] = 3e38  # after "c", the score of 7 overflows
    with pytest.raises(DataError, match=r"step \d, row 1: the score of token 7 is inf"):
        search(model, [Letters().encode("x"), Letters().encode("a")])


def test_o06_padded_rows_of_the_table_are_never_written() -> None:
    model = build(tied=False, head_bias=True)
    assert model.head is not None
    assert model.head.bias is not None
    with torch.no_grad():
        model.head.bias[30:] = 50.0
    found = search(model, [[5]], Letters(30), n_best=5)[0]
    assert all(token < 30 for one in found for token in one.tokens)
    assert found[0].logprob < -8 * 20, "what the model gives to tokens without meaning is not shared out"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_precisions_are_searched_too(dtype: torch.dtype) -> None:
    found = search(build("encoder_decoder").to(dtype), [[], []], None, SOURCES[:2], n_best=5)
    assert [len(row) for row in found] == [5, 5]


def test_a_model_that_is_being_trained_is_left_so() -> None:
    model = build(dropout=0.5)
    expected = search(model, PROMPTS)
    assert search(model.train(), PROMPTS) == expected
    assert all(module.training for module in model.modules())


# Empty input, and what does not fit


def test_o22_empty_texts_change_nothing_and_get_their_own() -> None:
    for kind in ("decoder", "encoder_decoder"):
        loaded = SimpleNamespace(model=build(kind, "sinusoidal"), tokenizer=Letters())
        config = BeamConfig(n_best=2, max_new_tokens=8)
        together = beam_texts(loaded, ["", "hello"], config)
        for row, text in enumerate(["", "hello"]):
            assert_equal(together[row], beam_texts(loaded, [text], config)[0])
        assert [len(row[0].tokens) for row in beam_texts(loaded, ["", "hello"], max_new=[1, 0])] == [1, 0]
    model = build("encoder_decoder", "sinusoidal")
    together = search(model, [[], []], None, [[], [5, 6]])
    assert_equal(together[0], search(model, [[]], None, [[]])[0])
    assert_equal(together[1], search(model, [[]], None, [[5, 6]])[0])
    assert search(build(), []) == search(model, [], None, []) == []
    with pytest.raises(DataError, match=r"row 1 is empty and there is no begin token"):
        search(build(), [[5], []], Letters(bos=None))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="encoder-only and cannot write"):
        search(build("encoder", "sinusoidal"), [[5]])
    with pytest.raises(DataError, match="reads a source for every row"):
        search(build("encoder_decoder"), [[]])
    with pytest.raises(DataError, match="prompt in row 1: token id 32"):
        search(build(), [[5], [32]])


# The pieces


@given(
    rows=st.lists(
        st.lists(st.sampled_from([-1.0, -2.0, -3.0, -math.inf]), min_size=7, max_size=7), min_size=1, max_size=4
    ),
    n=st.integers(1, 9),
)
def test_most_probable_prefers_the_lower_id(rows: list[list[float]], n: int) -> None:
    values, ids = most_probable(torch.tensor(rows), n)
    for row, value, id_ in zip(rows, values.tolist(), ids.tolist(), strict=True):
        expected = sorted(range(7), key=lambda token: (-row[token], token))[:n]
        assert id_ == expected
        assert value == [row[token] for token in expected]


def test_continuations_of_all_prefixes_are_one_list() -> None:
    before = torch.tensor([[-1.0, -2.0], [-0.5, -math.inf]], dtype=torch.float64)
    values = torch.tensor([[-1.0, -3.0], [-0.5, -2.0], [-1.0, -2.0], [0.0, 0.0]])
    ids = torch.tensor([[4, 5], [6, 7], [8, 9], [1, 2]])
    assert best_continuations(before, values, ids, 3) == [
        [(-2.0, 0, 4), (-2.5, 1, 6), (-4.0, 0, 5)],
        [(-1.5, 0, 8), (-2.5, 0, 9), (-math.inf, 1, 1)],
    ]


def test_a_search_does_not_depend_on_the_default_device() -> None:
    model, config = build(), BeamConfig(beam=3, max_new_tokens=5)
    expected = beam_search(model, [[5], [6, 7]], config, tokenizer=Letters())
    with torch.device("meta"):
        assert beam_search(model, [[5], [6, 7]], config, tokenizer=Letters()) == expected


@pytest.mark.parametrize("vocab_size", [5, 127, 128, 1000, 1024, 1500])
@pytest.mark.parametrize("n", [1, 3, 7])
def test_most_probable_of_a_large_vocabulary_are_those_of_a_whole_sort(vocab_size, n):
    """Many equal values, so that ties stand within blocks, across them, and in the rest behind the last whole block."""
    scores = torch.randint(-40, 0, (60, vocab_size)).float() / 4
    scores[0] = -torch.inf
    values, ids = most_probable(scores, n)
    ordered, order = scores.sort(dim=-1, descending=True, stable=True)
    assert torch.equal(values, ordered[:, :n])
    assert torch.equal(ids, order[:, :n])


@pytest.mark.skipif(not has_operators(), reason="there is no C++ compiler")
@pytest.mark.parametrize("forbidden", [[], [2], [2, 17]])
def test_quick_search_of_the_largest_finds_those_of_the_readable_one(forbidden):
    logits = torch.randn(40, 300) * 5
    logits[:, 2] = 100.0
    for n, vocab_size in ((1, 300), (6, 280), (9, 400)):
        expected, found = largest(logits, n, vocab_size, forbidden), quick_largest(logits, n, vocab_size, forbidden)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("going_on", "kept"),
    [([], []), ([True, True], [0, 1]), ([False, False], []), ([False, True, True, False, True], [4, 1, 2]),
     ([True, False, False, True, True, True], [0, 5, 4, 3])],
)  # fmt: skip
def test_last_ones_take_the_places_of_those_that_are_done(going_on, kept):
    assert close_ranks(going_on) == kept
