import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.core.errors import DataError
from glassformer.text.build import byte_tokenizer
from glassformer.text.stream import TextStream
from glassformer.text.tokenizer import TextTokenizer
from glassformer.text.trained import bpe_tokenizer, byte_bpe_tokenizer, word_tokenizer

BYTES = byte_tokenizer(["<eos>"])  # the id of a byte is the byte + 1


def test_o10_streams_emit_whole_characters_only() -> None:
    pieces = [b"\xe9\x97", b"\xab", *(bytes([byte]) for byte in "🎉".encode()), b"o", b"k"]
    whole = b"".join(pieces).decode()
    left, right = TextStream(pieces), TextStream(pieces)
    emitted: tuple[list[str], list[str]] = ([], [])
    for token in range(len(pieces) + 1):  # the right one runs a token behind: buffers must not mix
        if token < len(pieces):
            emitted[0].append(left.push(token))
        if token > 0:
            emitted[1].append(right.push(token - 1))
    for stream, parts in zip((left, right), emitted, strict=True):
        assert parts == ["", "闫", "", "", "", "🎉", "o", "k"]
        assert stream.finish() == ""
        assert "".join(parts) == whole == "闫🎉ok"


def test_o10_streams_of_a_byte_level_bpe_emit_whole_characters_only() -> None:
    tokenizer = byte_bpe_tokenizer(["闪闭问间"], 258, ["<eos>"])  # all begin with E9 97: that is the one merge
    ids = tokenizer.encode("闫🎉ok")
    assert [tokenizer._pieces[token] for token in ids] == [
        b"\xe9\x97", b"\xab", b"\xf0", b"\x9f", b"\x8e", b"\x89", b"o", b"k",
    ]  # fmt: skip
    left, right = tokenizer.stream(), tokenizer.stream()
    emitted: tuple[list[str], list[str]] = ([], [])
    for token, delayed in zip([*ids, 0], [0, *ids], strict=True):  # 0 is a special token: no text
        emitted[0].append(left.push(token))
        emitted[1].append(right.push(delayed))
    parts = ["", "闫", "", "", "", "🎉", "o", "k"]
    assert emitted == ([*parts, ""], ["", *parts])
    assert left.finish() == right.finish() == ""
    assert "".join(parts) == tokenizer.decode(ids) == "闫🎉ok"


@pytest.mark.parametrize(
    "tokenizer",
    [
        word_tokenizer(["the cat", "\n闫 \n"], ["<unk>"]),
        bpe_tokenizer(["the cat sat", "闫🎉 é e\u0301"], 40, ["<unk>"]),
        byte_bpe_tokenizer(["the cat sat", "闫🎉 é 闪闭"], 280, ["<unk>"]),
    ],
)
def test_stream_of_trained_kinds_equals_decode_at_once(tokenizer: TextTokenizer) -> None:
    @given(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=24))
    def streamed_is_whole(ids: list[int]) -> None:
        stream = tokenizer.stream()
        assert "".join([*map(stream.push, ids), stream.finish()]) == tokenizer.decode(ids)

    streamed_is_whole()


def test_stream_holds_back_three_bytes_at_most() -> None:
    stream = BYTES.stream()
    for byte in b"\xf0\x9f\x8e":
        assert stream.push(byte + 1) == ""
    assert stream.push(0x89 + 1) == "🎉"


def test_stream_keeps_a_real_replacement_character() -> None:
    stream = BYTES.stream()
    assert "".join(stream.push(token) for token in BYTES.encode("a\ufffdb")) == "a\ufffdb"


def test_stream_leaves_the_space_out_that_begins_a_text() -> None:
    pieces = [b"", b" a", b"a", b" "]
    for ids, text in (([1, 1], "a a"), ([0, 1, 0, 1], "a a"), ([2, 1], "a a"), ([3, 1], " a"), ([3], ""), ([0], "")):
        stream = TextStream(pieces, lead=b" ")
        assert "".join([*map(stream.push, ids), stream.finish()]) == text


def test_stream_gives_nothing_for_specials() -> None:
    stream = BYTES.stream()
    assert [stream.push(token) for token in (0xC3 + 1, 0, 0xA9 + 1)] == ["", "", "é"]


def test_stream_finish_replaces_an_unfinished_character() -> None:
    stream = BYTES.stream()
    assert stream.push(0xE9 + 1) == ""
    assert stream.finish() == "\ufffd"


@given(st.binary(max_size=24))
@settings(max_examples=200, deadline=None)
def test_stream_in_parts_equals_decode_at_once(data: bytes) -> None:
    ids = [byte + 1 for byte in data]
    stream = BYTES.stream()
    parts = [stream.push(token) for token in ids] + [stream.finish()]
    assert "".join(parts) == BYTES.decode(ids) == BYTES._backend.decode(ids)


@pytest.mark.parametrize("token", [257, -1])
def test_o06_stream_refuses_ids_outside_the_vocabulary(token: int) -> None:
    with pytest.raises(DataError, match=rf"token id {token} is outside 0..256 \(vocab size 257\)"):
        BYTES.stream().push(token)
