"""What is learned: data, the metrics that judge it, and the kind of model it needs, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from glassformer.data.source import Source
from glassformer.text.tokenizer import TextTokenizer

Kind = Literal["encoder_decoder", "encoder", "decoder"]
MetricName = Literal["loss", "exact_match"]


@dataclass(frozen=True, eq=False)
class Split:
    """A part of the data that is never trained on.

    Attributes:
        source: Its batches, from which the loss is measured.
        pairs: Each input with its right answer, where outputs are judged.
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
        kind: The kind of model that fits these batches.
        metrics: What is measured on `valid` and `test`.
        context: Tokens a model may read at once, where the task sets a limit.
        notes: What happened to the data, to be said before training.
    """

    tokenizer: TextTokenizer
    train: Source
    valid: Split
    test: Split | None
    kind: Kind
    metrics: tuple[MetricName, ...]
    context: int | None = None
    notes: tuple[str, ...] = ()


@runtime_checkable
class Task(Protocol):
    """The settings of a task, which know how to make its data."""

    @property
    def name(self) -> str: ...
    @property
    def files(self) -> tuple[str, ...]:
        """Which of its settings name files."""
        ...

    def build(self, tokenizer: TextTokenizer | None = None) -> TaskData:
        """Return the data.

        Args:
            tokenizer: The vocabulary of a model that exists already; made from the data when None.

        Raises:
            DataError: A file is missing or cannot be used.
        """
        ...

    def whole(self, tokenizer: TextTokenizer) -> Split:
        """Return all of the data as one split, for a model that has not learned from it.

        Args:
            tokenizer: The model's vocabulary.

        Raises:
            DataError: A file is missing or cannot be used.
        """
        ...
