"""What is learned: data, how a model is judged by it, and the kind of model it needs, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from glassformer.data.source import Source
from glassformer.text.tokenizer import TextTokenizer

Kind = Literal["encoder_decoder", "encoder", "decoder"]
KINDS: tuple[Kind, ...] = ("encoder_decoder", "encoder", "decoder")

BleuTokenizer = Literal["13a", "zh", "char", "intl"]
"""How sacreBLEU splits the text it compares: "13a" for most languages, "zh" or "char" for Chinese."""


@dataclass(frozen=True)
class Judging:
    """How a model's answers are made and judged.

    Attributes:
        metrics: Names of what is measured.
        beam: How many beginnings a search for an answer follows; 1 = greedy. While training it is 1 always.
        length_penalty: Of that search; see `BeamConfig`.
        bleu_tokenizer: How BLEU splits text.
    """

    metrics: tuple[str, ...]
    beam: int = 1
    length_penalty: float = 1.0
    bleu_tokenizer: BleuTokenizer = "13a"


@dataclass(frozen=True, eq=False)
class Split:
    """A part of the data that is never trained on.

    Attributes:
        source: Its batches, from which the loss is measured.
        pairs: Each input with its right answer (a text, or the name of a class), where answers are judged.
    """

    source: Source
    pairs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, eq=False)
class TaskData:
    """All that training needs to know of a task.

    Attributes:
        tokenizer: The vocabulary, of both sides where there are two.
        train: What is learned from.
        valid: What decides which checkpoint is kept.
        test: What is looked at once, at the end.
        kind: The kind of model that these batches are for.
        judging: What is measured on `valid` and `test`, and how.
        classes: What whole texts are labelled with, if they are.
        context: Tokens a model may read at once, where the task sets a limit.
        example: A text whose answer is shown first.
        notes: What happened to the data, to be said before training.
    """

    tokenizer: TextTokenizer
    train: Source
    valid: Split
    test: Split | None
    kind: Kind
    judging: Judging
    classes: tuple[str, ...] | None = None
    context: int | None = None
    example: str | None = None
    notes: tuple[str, ...] = ()


def part_note(part: str, *, unknown: int, repeated: int, more: Sequence[str]) -> str:
    """Return what is said of a part of the data before training.

    Args:
        part: How much it is, and what for.
        unknown: Its tokens that the vocabulary lacks.
        repeated: How many of its texts are learned from too, where it is there to measure by.
        more: What else happened to it.
    """
    lacking = f", {unknown:,} of their tokens unknown" if unknown else ""
    leaking = (f"{repeated:,} of them are also learned from",) if repeated else ()
    return "; ".join((part + lacking, *leaking, *more))


@runtime_checkable
class Task(Protocol):
    """The settings of a task, which know how to make its data."""

    @property
    def name(self) -> str: ...
    @property
    def files(self) -> tuple[str, ...]:
        """Which of its settings name files."""
        ...

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of model that can learn it; the first is the usual one."""
        ...

    @property
    def judging(self) -> Judging:
        """What is measured, and how."""
        ...

    def build(self, kind: Kind, tokenizer: TextTokenizer | None = None) -> TaskData:
        """Return the data.

        Args:
            kind: The kind of model it is for, one of `kinds`.
            tokenizer: The vocabulary of a model that exists already; made from the data when None.

        Raises:
            DataError: A file is missing or cannot be used.
        """
        ...

    def whole(self, kind: Kind, tokenizer: TextTokenizer, classes: Sequence[str]) -> Split:
        """Return all of the data as one split, for a model that has not learned from it.

        Args:
            kind: The kind of the model.
            tokenizer: The model's vocabulary.
            classes: What the model labels texts with, if it does.

        Raises:
            DataError: A file is missing or cannot be used.
        """
        ...
