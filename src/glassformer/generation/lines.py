"""A line in, a line out: translating what may hold blank and over-long lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glassformer.core.errors import ConfigError, DataError
from glassformer.generation.answer import answer_texts
from glassformer.generation.config import BeamConfig
from glassformer.generation.hypothesis import Hypothesis
from glassformer.generation.text import HasModel

LINE_BREAK = re.compile(r"[\r\n]+")


@dataclass(frozen=True)
class Lines:
    """What became of lines.

    Attributes:
        found: The answers of each line, the best first; none of a blank or skipped one.
        unknown: Tokens that the model does not know.
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
        DataError: A line is too long, and that is an error.
        UnsupportedError: The model is no encoder-decoder.
    """
    if over_long not in ("error", "cut", "skip"):
        raise ConfigError(f"{over_long!r} is no way with lines that are too long; choose error, cut or skip")
    tokenizer, encoder = loaded.tokenizer, loaded.model.config.encoder
    room = None if encoder is None else encoder.input.positions.max_positions
    read: dict[int, list[int]] = {}
    unknown = 0
    cut: list[int] = []
    skipped: list[int] = []
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        ids = tokenizer.encode(line)
        unknown += 0 if tokenizer.unk_id is None else ids.count(tokenizer.unk_id)
        if room is not None and len(ids) + 1 > room:
            if over_long == "error":
                raise DataError(
                    f"line {number + 1} has {len(ids)} tokens, more than the {room - 1} that the model can read;"
                    " shorten it, or have long lines cut or skipped"
                )
            (cut if over_long == "cut" else skipped).append(number + 1)
            ids = ids[: room - 1]
            if over_long == "skip":
                continue
        read[number] = ids
    found: list[list[Hypothesis]] = [[] for _ in lines]
    answers = answer_texts(loaded, list(read.values()), config, advanced=advanced)
    for number, answer in zip(read, answers, strict=True):
        found[number] = answer
    return Lines(found, unknown, cut, skipped)


def on_one_line(text: str) -> str:
    """Return a text without line breaks, each of which becomes a blank."""
    return LINE_BREAK.sub(" ", text)
