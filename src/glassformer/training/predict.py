"""Labels for new texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glassformer.checkpoint.loading import Loaded
from glassformer.core.errors import UnsupportedError
from glassformer.data.order import TokenOrder
from glassformer.data.source import loader
from glassformer.models.inference import inference
from glassformer.tasks.classification import ClassificationTask, Texts
from glassformer.tasks.task import Task
from glassformer.training.objective import logits_of

BATCH_TOKENS = 8192
"""Tokens at a time, padding included."""


@dataclass(frozen=True)
class Prediction:
    """What a model says of a text.

    Attributes:
        label: The most probable one.
        probabilities: Of every label, by its name.
    """

    label: str
    probabilities: dict[str, float]

    @property
    def line(self) -> str:
        """The label and its probability, with a tab between them."""
        return f"{self.label}\t{self.probabilities[self.label]:.4f}"


def texts_of(line: str, task: Task) -> Texts:
    """Return what is to be labelled of a line: all of it, or, where a task judges two texts, both sides of its tab."""
    two = isinstance(task, ClassificationTask) and task.second_text is not None
    return tuple(line.split("\t")) if two else (line,)


def predict(
    loaded: Loaded, task: Task, texts: Sequence[Texts], *, advanced: Callable[[int, int], None] | None = None
) -> list[Prediction]:
    """Return the label of each text, in their order.

    p(c) = softmax(logits)_c.

    Args:
        loaded: A model that labels texts, and its tokenizer.
        task: What it has learned: how texts become rows.
        texts: One text each, or two where the task judges two together.
        advanced: Called with (done, total) texts.

    Raises:
        UnsupportedError: The model labels no texts.
        DataError: A text too many or too few.
    """
    head = loaded.model.config.head
    if head is None or head.pooling is None or not isinstance(task, ClassificationTask):
        raise UnsupportedError("this model labels no texts; train one with the recipe classification")
    if not texts:
        return []
    names = head.classes or tuple(map(str, range(head.vocab_size)))
    rows = [task.encode(each, loaded.tokenizer) for each in texts]
    source = task.source(rows, [0] * len(rows), loaded.model.config.kind, loaded.tokenizer)
    lengths = source.lengths
    order = TokenOrder(lengths, max(BATCH_TOKENS, *map(max, lengths)), seed=0, shuffle=False)
    found: dict[int, Prediction] = {}
    with inference(loaded.model.modules()):
        for batch in loader(source, order, epoch=0):
            logits = logits_of(loaded.model, batch.to(loaded.model.device)).float()
            for item, probabilities in zip(batch.items, logits.softmax(-1).tolist(), strict=True):
                of_label = dict(zip(names, probabilities, strict=True))
                found[item] = Prediction(max(of_label, key=of_label.__getitem__), of_label)
            if advanced is not None:
                advanced(len(found), len(rows))
    return [found[item] for item in range(len(rows))]
