from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from glassformer.core.errors import DataError, UnsupportedError
from glassformer.generation import answer as answer_module
from glassformer.generation.answer import answer_texts
from glassformer.generation.beam import beam_search
from glassformer.generation.config import BeamConfig
from glassformer.generation.hypothesis import Hypothesis, normalised
from glassformer.models.arguments import ModelArguments
from glassformer.models.transformer import Transformer

from .tiny import POSITIONS, Letters, build, naive

EOS = 2
TEXTS = ["abc", "", "a fox.", "zebra", "b", "a fox jumps!", "abc"]


def loaded(positions: str = "learned", kind: str = "encoder_decoder", **arguments: Any) -> SimpleNamespace:
    return SimpleNamespace(model=build(kind, positions, **arguments), tokenizer=Letters())


def assert_equal(found: Sequence[Sequence[Hypothesis]], expected: Sequence[Sequence[Hypothesis]]) -> None:
    for some, others in zip(found, expected, strict=True):
        for one, other in zip(some, others, strict=True):
            assert (one.tokens, one.text, one.stop_reason) == (other.tokens, other.text, other.stop_reason)
            assert (one.logprob, one.score) == pytest.approx((other.logprob, other.score), abs=1e-4)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("positions", POSITIONS)
def test_o01_answers_in_a_batch_are_those_alone_in_any_order(positions: str, beam: int) -> None:
    model, config = loaded(positions), BeamConfig(beam=beam, n_best=beam, max_new_tokens=8)
    together = answer_texts(model, TEXTS, config)
    assert all(len(found) == beam for found in together)
    assert len({found[0].tokens for found in together}) > 3  # a row that took another's place would show
    assert_equal(together, [answer_texts(model, [text], config)[0] for text in TEXTS])
    assert_equal(together, answer_texts(model, TEXTS[::-1], config)[::-1])
    for batch_tokens in (0, 30):
        assert_equal(together, answer_texts(model, TEXTS, config, batch_tokens=batch_tokens))


def test_greedy_answers_are_what_the_equation_says() -> None:
    model = loaded()
    for text, (found,) in zip(TEXTS, answer_texts(model, TEXTS), strict=True):
        source = [*Letters().encode(text), EOS]
        expected = naive(model.model, [1], 2 * len(source) + 10, source)
        if EOS in expected:
            expected = expected[: expected.index(EOS) + 1]
        assert list(found.tokens) == expected
        assert found.stop_reason == ("eos" if expected[-1] == EOS else "length")
        assert found.text == Letters().decode([token for token in expected if token != EOS])


def test_greedy_answers_are_those_of_a_beam_of_one_without_length_penalty() -> None:
    model, config = loaded(), BeamConfig(beam=1, length_penalty=0)
    sources = [[*Letters().encode(text), EOS] for text in TEXTS]
    searched = beam_search(
        model.model,
        [[] for _ in TEXTS],
        config,
        tokenizer=model.tokenizer,
        sources=sources,
        max_new=[2 * len(source) + 10 for source in sources],
    )
    assert_equal(answer_texts(model, TEXTS, config), searched)


def test_score_of_a_greedy_answer_is_normalised_by_the_penalty() -> None:
    plain, mean = (
        answer_texts(loaded(), ["abc"], BeamConfig(beam=1, length_penalty=alpha))[0][0] for alpha in (0.0, 1.0)
    )
    assert plain.tokens == mean.tokens
    assert plain.score == plain.logprob < 0
    assert (
        mean.score == normalised(mean.logprob, len(mean.tokens), 1.0) == pytest.approx(plain.score / len(plain.tokens))
    )


@pytest.mark.parametrize("beam", [1, 2])
def test_texts_and_their_ids_get_the_same_answer(beam: int) -> None:
    model, config = loaded(), BeamConfig(beam=beam)
    ids = [Letters().encode(text) for text in TEXTS]
    assert_equal(answer_texts(model, ids, config), answer_texts(model, TEXTS, config))


@pytest.fixture
def endless() -> Transformer:
    """An encoder-decoder that writes "aaa…" whatever it reads, each with probability near 1."""
    model = build("encoder_decoder", "none", d_model=32, n_layers=1, norm="none")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.output_stack.input.embedding.weight.copy_(torch.eye(32))
        assert model.head is not None
        model.head.weight[Letters().encode("a")[0]] = 20.0
    return model


@pytest.mark.parametrize("beam", [1, 2])
def test_o07_answers_end_at_the_limit_of_their_own_text(beam: int, endless: Transformer) -> None:
    model = SimpleNamespace(model=endless, tokenizer=Letters())
    for most, lengths in {256: [12, 14, 20], 13: [12, 13, 13], 0: [0, 0, 0]}.items():
        found = answer_texts(model, ["", "a", "abcd"], BeamConfig(beam=beam, max_new_tokens=most))
        assert [len(each[0].tokens) for each in found] == lengths
        assert all(each[0].stop_reason == "length" for each in found)
        assert [each[0].text for each in found] == ["a" * length for length in lengths]
    several = answer_texts(model, ["abcd"], BeamConfig(beam=beam, min_new_tokens=30, max_new_tokens=40))
    assert len(several[0][0].tokens) == 20


@pytest.mark.parametrize("beam", [1, 2])
def test_o07_a_full_decoder_ends_an_answer(beam: int) -> None:
    model = loaded(max_positions=8)
    found = answer_texts(model, ["abc", "abcdefg"], BeamConfig(beam=beam, min_new_tokens=20))
    assert [(len(each[0].tokens), each[0].stop_reason) for each in found] == [(7, "context")] * 2


def test_o07_a_text_longer_than_the_context_is_refused_by_its_number_before_any_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answer_module, "generate", lambda *_, **__: pytest.fail("nothing may be answered"))
    with pytest.raises(DataError, match=r"source 9 > context 8 \(in tokens, begin and end counted; row 1\)"):
        answer_texts(loaded(max_positions=8), ["a", "abcdefgh", "ab"], batch_tokens=8)


def test_nothing_to_answer_is_no_answer() -> None:
    assert answer_texts(loaded(), []) == []
    assert answer_texts(loaded(), [], BeamConfig(beam=3)) == []


def test_progress_counts_texts_up_to_all_of_them() -> None:
    seen: list[tuple[int, int]] = []
    answer_texts(loaded(), TEXTS, batch_tokens=20, advanced=lambda done, total: seen.append((done, total)))
    assert [total for _, total in seen] == [7] * len(seen)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert len(seen) > 2
    assert seen[-1][0] == 7


def test_batches_hold_like_lengths_the_longest_first_and_no_more_tokens_than_wanted() -> None:
    lengths = [3, 9, 1, 1, 4, 3, 12]
    batches = answer_module._batches(lengths, 10)
    assert [[lengths[row] for row in rows] for rows in batches] == [[12], [9], [4, 3], [3, 1, 1]]
    assert sorted(row for rows in batches for row in rows) == list(range(7))
    assert answer_module._batches([0] * 25, 10) == [list(range(10)), list(range(10, 20)), list(range(20, 25))]
    assert answer_module._batches([], 10) == []


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("decoder", "only an encoder-decoder answers a text, and this model is decoder-only"),
        ("encoder", "this model is encoder-only and cannot write"),
    ],
)
def test_a_model_of_one_stack_answers_nothing(kind: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        answer_texts(loaded(kind=kind), [])


@pytest.mark.parametrize("kind", ["encoder", "decoder", "encoder_decoder"])
def test_a_model_that_labels_texts_answers_nothing(kind: str) -> None:
    arguments = ModelArguments(kind=kind, d_model=16, n_layers=1, n_heads=2)
    model = SimpleNamespace(model=Transformer(arguments.resolve(32, classes=["a", "b"])), tokenizer=Letters())
    with pytest.raises(UnsupportedError, match="labels texts and cannot write"):
        answer_texts(model, ["a"])


def test_answers_have_probabilities_of_at_most_one() -> None:
    for found in answer_texts(loaded(), TEXTS, BeamConfig(beam=3, n_best=3)):
        assert all(-math.inf < each.logprob <= 0 for each in found)
        assert [each.score for each in found if each.stop_reason == "eos"] == sorted(
            (each.score for each in found if each.stop_reason == "eos"), reverse=True
        )
