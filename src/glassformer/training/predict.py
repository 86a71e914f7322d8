"""Labels for new texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glassformer.checkpoint.loading import Loaded
from glassformer.core.errors import DataError, UnsupportedError
from glassformer.data.order import TokenOrder
from glassformer.data.source import loader
from glassformer.generation.lines import on_one_line
from glassformer.models.inference import inference
from glassformer.models.quick import quick_copy
from glassformer.models.transformer import Transformer
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
        unknown: Tokens of what was read that the model does not know.
        cut: Tokens of it that were not read, for it is longer than the texts of the task.
    """

    label: str
    probabilities: dict[str, float]
    unknown: int = 0
    cut: int = 0

    @property
    def line(self) -> str:
        """The label and its probability, with a tab between them, on one line whatever the label."""
        return f"{on_one_line(self.label)}\t{self.probabilities[self.label]:.4f}"


def texts_of(lines: Sequence[str], task: Task) -> list[Texts]:
    """Return what is to be labelled of each line: all of it, or, where a task judges two texts, both sides of its tab.

    Raises:
        DataError: A line that is not blank has no tab where there must be one, or more than one.
    """
    if not (isinstance(task, ClassificationTask) and task.second_text is not None):
        return [(line,) for line in lines]
    rows = [tuple(line.split("\t")) for line in lines]
    for number, row in enumerate(rows, 1):
        if len(row) != 2 and "".join(row).strip():
            texts = "one text" if len(row) == 1 else f"{len(row)} texts"
            raise DataError(f"line {number} holds {texts}; give two in each line, with a tab between them")
    return rows


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
    if head is None or head.pooling is None or head.vocab_size is None or not isinstance(task, ClassificationTask):
        raise UnsupportedError(
            "this model labels no texts; train one with the recipe classification, or have this one write: generate,"
            " or translate line by line"
        )
    if not texts:
        return []
    names = head.classes or tuple(map(str, range(head.vocab_size)))
    reader, patient = (task.model_copy(update={"longest": n}) for n in (_longest(loaded.model, task), 10**9))
    rows = [reader.encode(each, loaded.tokenizer) for each in texts]
    lengths = [len(patient.encode(each, loaded.tokenizer)) for each in texts]
    source = task.source(rows, [0] * len(rows), loaded.model.config.kind, loaded.tokenizer)
    order = TokenOrder(source.lengths, max(BATCH_TOKENS, *source.longest), seed=0, shuffle=False)
    found: dict[int, Prediction] = {}
    model = quick_copy(loaded.model)
    with inference(model.modules()):
        for batch in loader(source, order, epoch=0):
            logits = logits_of(model, batch.to(model.device)).float()
            for item, probabilities in zip(batch.items, logits.softmax(-1).tolist(), strict=True):
                of_label = dict(zip(names, probabilities, strict=True))
                unknown, cut = loaded.tokenizer.n_unknown(rows[item]), lengths[item] - len(rows[item])
                found[item] = Prediction(max(of_label, key=of_label.__getitem__), of_label, unknown, cut)
            if advanced is not None:
                advanced(len(found), len(rows))
    return [found[item] for item in range(len(rows))]


def _longest(model: Transformer, task: ClassificationTask) -> int:
    """Most tokens of a text: of the task, or as many as fit the model's positions between `<bos>` and `<eos>`."""
    stack = model.config.encoder or model.config.decoder
    room = None if stack is None else stack.input.positions.max_positions
    return task.longest if room is None else min(task.longest, room - 2)
