from __future__ import annotations

import pytest

from glassformer.core.errors import DataError
from glassformer.generation.reading import Reading, reading_of
from glassformer.models.arguments import ModelArguments
from glassformer.models.transformer import Transformer
from glassformer.text.build import byte_tokenizer
from glassformer.text.tokenizer import TextTokenizer

from .tiny import build

BEGIN, END, A = 1, 2, 3 + ord("a")
"""Ids of the byte tokenizer: pad, begin, end, then the bytes."""


def bytes_of(*specials: str) -> TextTokenizer:
    return byte_tokenizer(specials or ("<pad>", "<bos>", "<eos>"))


def model_of(kind: str, *, labels: bool = False) -> Transformer:
    arguments = ModelArguments(kind=kind, d_model=16, n_layers=1, n_heads=2)
    return Transformer(arguments.resolve(259, classes=("x", "y") if labels else None)).eval()


@pytest.mark.parametrize(
    ("kind", "labels", "expected"),
    [
        ("decoder", False, Reading([BEGIN, A])),
        ("encoder", False, Reading([A, END])),
        ("encoder", True, Reading([BEGIN, A, END])),
        ("decoder", True, Reading([BEGIN, A, END])),
        ("encoder_decoder", True, Reading([BEGIN], [BEGIN, A, END])),
    ],
)
def test_reading_of_models_that_write_no_target(kind: str, labels: bool, expected: Reading) -> None:
    model = model_of(kind, labels=labels)
    assert reading_of(model, bytes_of(), "a") == expected
    with pytest.raises(DataError, match="reads one text and no target"):
        reading_of(model, bytes_of(), "a", "b")


def test_what_is_written_is_one_token_ahead_of_what_is_read() -> None:
    model = model_of("encoder_decoder")
    expected = Reading([BEGIN, A, A + 1], [A, END], [A, A + 1, END], "ab")
    assert reading_of(model, bytes_of(), "a", "ab") == expected
    a, b, end = ord("a") + 1, ord("b") + 1, 0  # without a begin token the first one is only read
    assert reading_of(model, bytes_of("<eos>"), "a", "ab") == Reading([a, b], [a, end], [b, end], "ab")


def test_without_a_target_the_output_is_the_models_own() -> None:
    found = reading_of(model_of("encoder_decoder"), bytes_of(), "abc", max_tokens=2)
    assert found.own
    assert found.cut == {"input": (2, 3)}
    assert found.written is not None
    assert [*found.tokens, found.written[-1]] == [BEGIN, *found.written]
    assert len(found.written) <= 2


def test_no_character_is_cut_in_two() -> None:
    """山 has three bytes: of five tokens the first one is left, and of the target its first character."""
    found = reading_of(model_of("encoder_decoder"), bytes_of(), "a山b", "山b", max_tokens=3)
    assert found.sources == [A, END]
    assert found.cut == {"input": (1, 5), "output": (3, 4)}
    assert reading_of(build(), bytes_of(), "山", max_tokens=2).tokens[1:] == bytes_of().encode("山")[:2]


@pytest.mark.parametrize(("kind", "labels"), [("encoder_decoder", False), ("decoder", False), ("encoder", True)])
def test_a_text_longer_than_the_context_says_how_much_fits(kind: str, labels: bool) -> None:
    arguments = ModelArguments(kind=kind, d_model=16, n_layers=1, n_heads=2, max_positions=4, positions="learned")
    model = Transformer(arguments.resolve(259, classes=("x", "y") if labels else None)).eval()
    room = 2 if labels else 3
    reading_of(model, bytes_of(), "a" * room)
    with pytest.raises(DataError, match=f"the input has 9 tokens .* room for {room}; .*--max-tokens {room}$"):
        reading_of(model, bytes_of(), "a" * 9)
    assert reading_of(model, bytes_of(), "a" * 9, max_tokens=room).cut == {"input": (room, 9)}
    if kind == "encoder_decoder":
        with pytest.raises(DataError, match="the output has 4 tokens"):
            reading_of(model, bytes_of(), "a", "bbbb")
        assert reading_of(model, bytes_of(), "a", "bbb").tokens == [BEGIN, *[A + 1] * 3]
