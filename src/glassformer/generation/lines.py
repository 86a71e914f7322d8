"""A line in, a line out: translating what may hold blank and over-long lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glassformer.core.errors import ConfigError, DataError, did_you_mean
from glassformer.generation.answer import answer_texts
from glassformer.generation.config import BeamConfig
from glassformer.generation.hypothesis import Hypothesis
from glassformer.generation.text import HasModel, source_ids

WAYS = ("error", "cut", "skip")
LINE_BREAK = re.compile(r"[\r\n]+")


@dataclass(frozen=True)
class Lines:
    """What became of lines.

    Attributes:
        found: The answers of each line, the best first; none of a blank or skipped one.
        unknown: Tokens, of what was read, that the model does not know.
        cut: Numbers, from 1, of the lines that were cut.
        skipped: Numbers, from 1, of the lines that were too long and have no answer.
    """

    found: list[list[Hypothesis]]
    unknown: int
    cut: list[int]
    skipped: list[int]


def answer_lines(
    loaded: HasModel,
    lines: Sequence[str],
    config: BeamConfig,
    *,
    over_long: str = "error",
    advanced: Callable[[int, int], None] | None = None,
) -> Lines:
    """Return what an encoder-decoder makes of each line; that of line n is at n, also if there is nothing in it.

    Args:
        loaded: An encoder-decoder and its tokenizer.
        lines: What it reads; blank lines are not read.
        config: How wide and how many.
        over_long: What becomes of a line that is longer than the encoder's context: "error", "cut" or "skip".
        advanced: Called with (done, total) lines that are read.

    Raises:
        ConfigError: There is no such way with long lines.
        DataError: A line is too long, and that is an error, or holds a character that the tokenizer refuses.
        UnsupportedError: The model is no encoder-decoder.
    """
    if over_long not in WAYS:
        raise ConfigError(f"{over_long!r} is no way with lines that are too long{did_you_mean(over_long, WAYS)}")
    read = {number: _encoded(loaded, number, line) for number, line in enumerate(lines, 1) if line.strip()}
    room = _room(loaded)
    long = [] if room is None else [number for number, ids in read.items() if len(ids) > room]
    if long and over_long == "error":
        raise DataError(
            f"line {long[0]} has {len(read[long[0]])} tokens, more than the {room} that the model can read; shorten it,"
            f" or have long lines cut or skipped (in all {len(long)} of {len(lines)} are too long)"
        )
    cut, skipped = (long, []) if over_long == "cut" else ([], long)
    gone = frozenset(skipped)
    read = {number: ids[:room] for number, ids in read.items() if number not in gone}
    found: list[list[Hypothesis]] = [[] for _ in lines]
    answers = answer_texts(loaded, list(read.values()), config, advanced=advanced)
    for number, answer in zip(read, answers, strict=True):
        found[number - 1] = answer
    unk_id = loaded.tokenizer.unk_id
    unknown = 0 if unk_id is None else sum(ids.count(unk_id) for ids in read.values())
    return Lines(found, unknown, cut, skipped)


def _encoded(loaded: HasModel, number: int, line: str) -> list[int]:
    try:
        return loaded.tokenizer.encode(line)
    except DataError as error:
        raise DataError(f"line {number}: {error}") from error


def _room(loaded: HasModel) -> int | None:
    """Tokens of a text that the encoder can read, without those that are added; None = as many as you like."""
    encoder = loaded.model.config.encoder
    most = None if encoder is None else encoder.input.positions.max_positions
    return None if most is None else most - len(source_ids(loaded.tokenizer, []))


def on_one_line(text: str) -> str:
    """Return a text without line breaks, each of which becomes a blank."""
    return LINE_BREAK.sub(" ", text)
