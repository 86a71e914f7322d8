import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.text.groups import whole_characters


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([], []),
        ([b"ab", b"c"], [2 * [0], 2 * [1]]),
        ([b"\xe9\x97", b"\xab", b"ok"], [[0, 1], [2, 2]]),
        ([b"\xf0", b"\x9f", b"\x8e", b"\x89"], [[0, 3]]),
        ([b"a\xe9", b"\x97\xaba\xf0", b"\x9f\x8e\x89", b"k"], [[0, 2], [3, 3]]),  # one token holds two halves
        ([b"", b"\xc3", b"\xa9", b"", b"", b"a"], [[0, 0], [1, 2], [3, 3], [4, 4], [5, 5]]),
        ([b"\xc3", b"", b"\xa9"], [[0, 0], [1, 1], [2, 2]]),  # a special token closes what is before it
        ([b"\xff", b"\x97", b"a"], [[0, 0], [1, 1], [2, 2]]),  # no UTF-8 at all
        ([b"\xe9", b"a"], [[0, 0], [1, 1]]),  # a character that something else cuts off
        ([b"a", b"\xe9", b"\x97"], [[0, 0], [1, 1], [2, 2]]),  # and one that never ends
        ([b"\xff\xc3", b"\xa9"], [[0, 1]]),
        ([b"\xed\xa0", b"\x80"], [[0, 0], [1, 1]]),  # half of a surrogate pair is no character
    ],
)
def test_groups_are_the_smallest_of_whole_characters(pieces: list[bytes], expected: list[list[int]]) -> None:
    assert whole_characters(pieces) == [range(first, last + 1) for first, last in expected]


@given(st.text(max_size=20), st.data())
def test_groups_of_cut_text_decode_on_their_own(text: str, data: st.DataObject) -> None:
    whole = text.encode()
    cuts = sorted(data.draw(st.sets(st.integers(1, max(len(whole) - 1, 1)))))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True) if a < b]
    groups = whole_characters(pieces)
    assert [place for group in groups for place in group] == list(range(len(pieces)))
    assert "".join(b"".join(pieces[i] for i in group).decode() for group in groups) == text
    for group in groups:  # none can be made smaller
        for end in range(group.start + 1, group.stop):
            with pytest.raises(UnicodeDecodeError):
                b"".join(pieces[group.start : end]).decode()


@given(st.lists(st.binary(max_size=4), max_size=12))
def test_groups_of_any_bytes_cover_every_token_once(pieces: list[bytes]) -> None:
    groups = whole_characters(pieces)
    assert [place for group in groups for place in group] == list(range(len(pieces)))
    assert all(len(group) == 1 for group in groups if not pieces[group.start])
