"""Classification: a label for each text, or for each two texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from glassformer.core.config import Config
from glassformer.core.errors import ConfigError, DataError
from glassformer.data.labelled import LabelledSource, label_ids, label_names, two_texts
from glassformer.data.length import Policy, limit_rows
from glassformer.data.order import generator
from glassformer.data.table import read_table
from glassformer.tasks.files import located
from glassformer.tasks.task import Judging, Kind, Split, TaskData
from glassformer.text.build import TokenizerKind, build_tokenizer
from glassformer.text.tokenizer import TextTokenizer

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")

Texts = tuple[str, ...]
"""One text, or two that belong together."""


@dataclass(frozen=True)
class Labelled:
    """Texts with their labels.

    Attributes:
        texts: One or two for each label.
        labels: The label of each.
        lines: The line of the file, from 1, in which each stands.
        name: Of the file.
        notes: What was left out.
    """

    texts: list[Texts]
    labels: list[str]
    lines: list[int]
    name: str
    notes: tuple[str, ...] = ()

    def take(self, rows: Sequence[int]) -> Labelled:
        """Return some of the rows, in that order."""
        return Labelled(
            [self.texts[row] for row in rows],
            [self.labels[row] for row in rows],
            [self.lines[row] for row in rows],
            self.name,
        )


class ClassificationTask(Config):
    """A text in, one of the labels that training has seen out.

    The rows stand in tables: TSV, CSV, or lines of a label and a text. What is measured by comes from tables of its own
    or, where none are named, is split off: a tenth of the training rows to validate, nothing to test.

    Attributes:
        name: "classification".
        data: A folder in which the files named below are.
        train: The table to learn from.
        valid: The table to watch training with; split off when None.
        test: The table to measure the result with, once; None = there is none.
        text: Column of the text: name, or number from 0.
        second_text: Column of a second text that is judged together with the first.
        label: Column of the label.
        header: Whether the first line names the columns; None = it does if a column is named.
        separator: "tab", "comma", "space" (the first blank) or a character; None = by the name of the file.
        encoding: Of the files.
        valid_share: Share of the training rows that is split off where `valid` is not given.
        tokenizer: "word", "character", "byte", "bpe" or "byte_bpe".
        vocab_size: The most tokens of the vocabulary; the two BPE tokenizers need it.
        min_count: How often a character, word or pair must occur to get a token.
        longest: Most tokens of a text, of two together.
        over_long: What becomes of longer ones: "cut" or "skip" (both with a count) or "error".
        seed: Of what is split off.
    """

    name: Literal["classification", "matching"] = "classification"
    data: str | None = Field(None, min_length=1)
    train: str | None = Field(None, min_length=1)
    valid: str | None = Field(None, min_length=1)
    test: str | None = Field(None, min_length=1)
    text: str = "text"
    second_text: str | None = None
    label: str = "label"
    header: bool | None = None
    separator: str | None = Field(None, min_length=1)
    encoding: str = "utf-8"
    valid_share: float = Field(0.1, gt=0, lt=1)
    tokenizer: TokenizerKind = "word"
    vocab_size: int | None = Field(None, ge=1)
    min_count: int = Field(1, ge=1)
    longest: int = Field(256, ge=1)
    over_long: Policy = "cut"
    seed: int = Field(0, ge=0)

    @property
    def files(self) -> tuple[str, ...]:
        """The table to learn from."""
        return ("train",)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """All three: each has one vector a text to label it by."""
        return ("encoder", "decoder", "encoder_decoder")

    @property
    def judging(self) -> Judging:
        """How often the label is right, and the mean over labels of how well each is found."""
        return Judging(("loss", "accuracy", "f1_macro"))

    def build(self, kind: Kind = "encoder", tokenizer: TextTokenizer | None = None) -> TaskData:
        """Return the rows to learn from, and those to measure by."""
        rows, valid, test = self.parts()
        notes = list(rows.notes)
        classes = label_names(rows.labels)
        if len(classes) < 2:
            raise DataError(f"{rows.name} has only the label {classes[0]!r}; there must be at least 2 to tell apart")
        if valid is None:
            order = generator(self.seed).permutation(len(rows.labels)).tolist()
            cut = max(1, round(self.valid_share * len(order)))
            if cut >= len(order):
                raise DataError(f"{rows.name} has {len(order)} rows, too few to split off a part; give more")
            valid, rows = rows.take(sorted(order[:cut])), rows.take(sorted(order[cut:]))
        if tokenizer is None:
            texts = [text for texts in rows.texts for text in texts]
            size, often = self.vocab_size, self.min_count
            tokenizer = build_tokenizer(self.tokenizer, texts, SPECIALS, vocab_size=size, min_count=often)
        return TaskData(
            tokenizer=tokenizer,
            train=self._split(rows, kind, tokenizer, classes, notes, "to learn from").source,
            valid=self._split(valid, kind, tokenizer, classes, notes, "to validate"),
            test=None if test is None else self._split(test, kind, tokenizer, classes, notes, "to test"),
            kind=kind,
            judging=self.judging,
            classes=classes,
            notes=(*notes, f"labels: {', '.join(classes)}"),
        )

    def whole(self, kind: Kind, tokenizer: TextTokenizer, classes: Sequence[str] = ()) -> Split:
        """Return all rows of the table."""
        return self._split(self.parts()[0], kind, tokenizer, classes, [], "")

    def parts(self) -> tuple[Labelled, Labelled | None, Labelled | None]:
        """Return the rows of the tables: to learn from, to validate and to test, as far as they are named."""
        if self.train is None:
            raise ConfigError("no data: name a table of texts and labels, task.train=FILE")
        train = self._read(self.train)
        valid = None if self.valid is None else self._read(self.valid)
        return train, valid, None if self.test is None else self._read(self.test)

    def encode(self, texts: Texts, tokenizer: TextTokenizer) -> list[int]:
        """Return one or two texts as a row, cut to `longest` tokens, without the special tokens around it.

        Raises:
            DataError: One text where the task has two, or two where it has one.
        """
        wanted = 1 if self.second_text is None else 2
        if len(texts) != wanted:
            raise DataError(f"there are {len(texts)} texts for a task that labels {wanted} at a time")
        return _joined([tokenizer.encode(text) for text in texts], tokenizer)[: self.longest]

    def source(
        self, rows: Sequence[Sequence[int]], labels: Sequence[int], kind: Kind, tokenizer: TextTokenizer
    ) -> LabelledSource:
        """Return encoded rows as a model of some kind reads them: `<bos> text <eos>`.

        Args:
            rows: From `encode`.
            labels: The class of each.
            kind: Of the model.
            tokenizer: Its vocabulary.
        """
        bos, eos = tokenizer.bos_id, tokenizer.eos_id
        if bos is None or eos is None:
            raise DataError("the tokenizer lacks '<bos>' or '<eos>', between which a text is read")
        start = bos if kind == "encoder_decoder" else None
        return LabelledSource(rows, labels, pad=tokenizer.pad_id, begin=(bos,), end=(eos,), decoder_start=start)

    def _read(self, name: str) -> Labelled:
        path = located(name, self.data)
        columns = [self.label, self.text] + ([] if self.second_text is None else [self.second_text])
        table = read_table(path, columns, header=self.header, separator=self.separator, encoding=self.encoding)
        return Labelled([row[1:] for row in table.rows], [row[0] for row in table.rows], table.lines, name, table.notes)

    def _split(
        self,
        rows: Labelled,
        kind: Kind,
        tokenizer: TextTokenizer,
        classes: Sequence[str],
        notes: list[str],
        what: str,
    ) -> Split:
        """Encode, cut what is too long (rows to measure by are cut, never left out), and say so in the notes."""
        labels = label_ids(rows.labels, classes, rows.name, lines=rows.lines)
        encoded = [_joined(tokenizer.encode_all(texts), tokenizer) for texts in rows.texts]
        policy = self.over_long if what == "to learn from" or self.over_long == "error" else "cut"
        limited = limit_rows(encoded, self.longest, policy, lines=rows.lines)
        unknown = sum(map(tokenizer.n_unknown, encoded))
        notes.append(
            f"{len(limited.rows):,} texts {what}"
            + (f", {unknown:,} of their tokens unknown" if unknown else "")
            + "".join(f"; {note}" for note in limited.notes)
        )
        source = self.source(limited.rows, [labels[row] for row in limited.kept], kind, tokenizer)
        return Split(source, tuple((" | ".join(rows.texts[row]), rows.labels[row]) for row in limited.kept))


def _joined(parts: Sequence[list[int]], tokenizer: TextTokenizer) -> list[int]:
    if len(parts) == 1:
        return parts[0]
    assert tokenizer.eos_id is not None, "checked where the source is made"
    return two_texts(parts[0], parts[1], tokenizer.eos_id)
