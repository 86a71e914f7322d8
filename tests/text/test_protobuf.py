import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.text.protobuf import fields

from .folders import message


def test_fields_are_those_of_the_guide() -> None:
    assert list(fields(b"\x08\x96\x01")) == [(1, 150)]
    assert list(fields(b"\x12\x07testing")) == [(2, b"testing")]
    assert list(fields(b"\x1d" + struct.pack("<f", -1.5))) == [(3, -1.5)]
    assert list(fields(b"\x21" + struct.pack("<d", 0.1))) == [(4, 0.1)]
    assert list(fields(b"\x08" + b"\xff" * 9 + b"\x01")) == [(1, -1)]
    assert list(fields(b"")) == []


value = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(width=32, allow_nan=False), st.binary(max_size=9))


@given(st.lists(st.tuples(st.integers(1, 500), value), max_size=5))
def test_fields_read_what_was_written(written: list[tuple[int, int | float | bytes]]) -> None:
    assert list(fields(message(*written))) == written


@pytest.mark.parametrize("end", range(1, 8))
def test_fields_refuse_a_message_that_ends_early(end: int) -> None:
    with pytest.raises(ValueError, match=f"ends at byte {end}, within"):
        list(fields(message((2, b"testing"))[:end]))


@pytest.mark.parametrize(
    ("data", "problem"),
    [(b"\x00\x01", "field 0"), (b"\x0b", "wire type 3"), (b"\x08" + b"\xff" * 11, "more than 64 bits")],
)
def test_fields_refuse_what_is_no_message(data: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        list(fields(data))
