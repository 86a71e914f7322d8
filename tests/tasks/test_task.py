from __future__ import annotations

import pytest

from glassformer.tasks.task import part_note


@pytest.mark.parametrize(
    ("unknown", "repeated", "more", "text"),
    [
        (0, 0, (), "5 pairs to test"),
        (1200, 0, (), "5 pairs to test, 1,200 of their tokens unknown"),
        (0, 1200, (), "5 pairs to test; 1,200 of them are also learned from"),
        (
            2,
            1,
            ("cut", "left out"),
            "5 pairs to test, 2 of their tokens unknown; 1 of them are also learned from; cut; left out",
        ),
    ],
)
def test_a_note_says_what_there_is_to_say(unknown: int, repeated: int, more: tuple[str, ...], text: str) -> None:
    assert part_note("5 pairs to test", unknown=unknown, repeated=repeated, more=more) == text
