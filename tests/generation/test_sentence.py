from __future__ import annotations

import math
from typing import Any

import pytest

from glassformer.generation.config import BeamConfig
from glassformer.generation.sentence import Sentence

from .tiny import Letters

EOS, A, B, C = 2, 3, 4, 5


def a_sentence(*, max_new: int = 4, room: int | None = None, **settings: Any) -> Sentence:
    config = BeamConfig(**{"beam": 2, "length_penalty": 1.0, **settings})
    return Sentence(0, [1, 5], config, ends=[EOS], max_new=max_new, room=room)


def test_ends_are_put_aside_and_the_best_others_live_on() -> None:
    sentence = a_sentence()
    sentence.take([(-1.0, 0, A), (-1.5, 0, EOS), (-2.0, 0, B), (-2.5, 0, 9)])
    assert [prefix.tokens for prefix in sentence.live] == [(A,), (B,)]
    sentence.take([(-2.1, 1, A), (-2.2, 0, B), (-2.3, 1, EOS), (-9.0, 0, EOS)])
    assert [(prefix.tokens, prefix.parent) for prefix in sentence.live] == [((B, A), 1), ((A, B), 0)]
    assert [(one.tokens, one.score) for one in sentence.results(Letters())] == [((EOS,), -1.5)]


def test_done_once_nothing_live_can_become_better() -> None:
    """A live prefix of -2 may reach -2/4 = -0.5, and no more."""
    for ended, done in ((-0.6, False), (-0.5, True), (-0.4, True)):
        sentence = a_sentence()
        sentence.take([(ended, 0, EOS), (-2.0, 0, A)])
        assert sentence.done == done
    both = a_sentence(n_best=2)
    both.take([(-0.1, 0, EOS), (-2.0, 0, A)])
    assert not both.done, "two are asked for and one is there"
    both.take([(-2.0, 0, EOS), (-2.5, 0, B)])
    assert not both.done, "-2.5 / 4 is more than -2.0 / 2"
    sums = a_sentence(length_penalty=0.0)
    sums.take([(-2.0, 0, EOS), (-2.0, 0, A)])
    assert sums.done, "of equals the older counts"


@pytest.mark.parametrize(("room", "reason"), [(None, "length"), (4, "length"), (2, "context"), (0, "context")])
def test_a_limit_cuts_what_is_live(room: int | None, reason: str) -> None:
    sentence = a_sentence(room=room)
    limit = 4 if room is None else room
    for step in range(limit):
        assert not sentence.done
        sentence.take([(-1.0 - step, 0, A), (-7.0, 0, B)])
    assert sentence.done
    assert [(one.tokens, one.stop_reason) for one in sentence.results(Letters())] == [((A,) * limit, reason)]


def test_copies_fill_up_and_are_never_chosen() -> None:
    sentence = a_sentence()
    rows = sentence.rows(3)
    assert [prefix.logprob for prefix in rows] == [0.0, -math.inf, -math.inf]
    sentence.take([(-1.0, 0, A), (-math.inf, 1, B), (-math.inf, 2, EOS)])
    assert [prefix.tokens for prefix in sentence.live] == [(A,)]


def test_a_text_has_no_end_token_even_where_that_has_letters() -> None:
    sentence = Sentence(0, [1], BeamConfig(), ends=[A], max_new=4, room=None)
    sentence.take([(-1.0, 0, B)])
    sentence.take([(-1.0, 0, A)])
    assert [(one.text, one.tokens) for one in sentence.results(Letters(eos=A))] == [("b", (B, A))]


def test_prefix_stays_in_the_place_of_the_one_that_it_continues():
    """So that few rows of a cache move; of two that continue the same one, the better stays."""
    config = BeamConfig(beam=3, max_new_tokens=9)
    sentence = Sentence(0, (), config, ends=[EOS], max_new=9, room=None)
    sentence.take([(-1.0, 0, A), (-2.0, 0, B), (-3.0, 0, C)])
    assert [prefix.tokens for prefix in sentence.places] == [(A,), (B,), (C,)]
    sentence.take([(-1.5, 2, A), (-2.5, 2, B), (-3.5, 0, C)])
    assert [prefix.tokens for prefix in sentence.live] == [(C, A), (C, B), (A, C)]
    assert [prefix.tokens for prefix in sentence.rows(4)] == [(A, C), (C, B), (C, A), (C, A)]
    sentence.take([(-1.6, 1, A), (-2.6, 2, B)])  # a place is lost, so who had it moves
    assert [prefix.tokens for prefix in sentence.places] == [(C, A, B), (C, B, A)]
