from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from glassformer.generation.stopping import ShownText, stop_reason


class Pieces:
    """A token stream whose ids are given pieces of text."""

    def __init__(self, pieces: Sequence[str], last: str = "") -> None:
        self.pieces, self.last = pieces, last

    def push(self, token: int) -> str:
        return self.pieces[token]

    def finish(self) -> str:
        return self.last


def shown(pieces: Sequence[str], stop: Sequence[str], last: str = "") -> tuple[list[str], bool]:
    text = ShownText(Pieces(pieces, last), stop)
    parts = []
    for token in range(len(pieces)):
        parts.append(text.push(token))
        if text.stopped:
            break
    return [*parts, text.finish()], text.stopped


@pytest.mark.parametrize(
    ("pieces", "stop", "parts", "stopped"),
    [
        (["ab", "c"], [], ["ab", "c", ""], False),
        (["a", "E", "N", "D", "b"], ["END"], ["a", "", "", "", ""], True),
        (["a", "E", "N", "x"], ["END"], ["a", "", "", "ENx", ""], False),
        (["aE", "N"], ["END"], ["a", "", "EN"], False),  # what was held back comes at the end
        (["aENDb"], ["END"], ["a", ""], True),  # the rest of the token is gone
        (["\n", "\n"], ["\n\n"], ["", "", ""], True),
        (["aab"], ["ab"], ["a", ""], True),
        (["E", "EN", "D"], ["END"], ["", "E", "", ""], True),  # a beginning that begins again
    ],
)
def test_stop_strings_span_tokens(pieces: list[str], stop: list[str], parts: list[str], stopped: bool) -> None:
    assert shown(pieces, stop) == (parts, stopped)


def test_the_first_to_be_complete_stops_however_the_text_is_cut() -> None:
    for pieces in (["abc"], ["a", "b", "c"], ["ab", "c"]):
        parts, _ = shown(pieces, ["abc", "b"])
        assert "".join(parts) == "a"
        parts, _ = shown(pieces, ["bc", "abc"])
        assert "".join(parts) == ""


def test_shown_text_does_not_depend_on_the_cut() -> None:
    draw = random.Random(0)
    for _ in range(300):
        text = "".join(draw.choices("ab", k=12))
        stop = ["".join(draw.choices("ab", k=draw.randint(1, 4))) for _ in range(draw.randint(1, 3))]
        cuts = sorted(draw.sample(range(1, 12), 4))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, 12], strict=True)]
        parts, stopped = shown(pieces, stop)
        whole, whole_stopped = shown(list(text), stop)
        assert ("".join(parts), stopped) == ("".join(whole), whole_stopped)
        assert not any(s in "".join(parts) for s in stop)


def test_the_end_of_the_stream_is_flushed() -> None:
    assert shown(["a"], ["xy"], last="x") == (["a", "x"], False)
    assert shown(["a", "x"], ["xy"], last="yz") == (["a", "", ""], True)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ((True, True, 0, 0), "eos"),
        ((False, True, 0, 0), "stop string"),
        ((False, False, 0, 0), "length"),
        ((False, False, 1, 0), "context"),
        ((False, False, 1, None), None),
        ((False, False, 1, 1), None),
    ],
)
def test_one_reason_goes_before_another(facts: tuple[bool, bool, int, int | None], reason: str | None) -> None:
    is_eos, stop_string, length, context = facts
    assert stop_reason(is_eos=is_eos, stop_string=stop_string, room_in_length=length, room_in_context=context) == reason
