"""Classification: a label for each text, or for each two texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.settings import Config
from glassformer.data.labelled import LabelledSource, label_ids, label_names, listed
from glassformer.data.length import Policy, limit_rows
from glassformer.data.order import generator
from glassformer.data.read import line_numbers
from glassformer.data.table import Column, read_table
from glassformer.tasks.files import located
from glassformer.tasks.task import Judging, Kind, Split, TaskData, part_note
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
        valid_share: Share of the training rows that is split off where `valid` is not given; nothing is learned from
            others with the same text then.
        tokenizer: "word", "character", "byte", "bpe" or "byte_bpe".
        vocab_size: The most tokens of the vocabulary; the two BPE tokenizers need it.
        min_count: How often a character, word or pair must occur to get a token.
        longest: Most tokens of a text; of two together, with what separates them. From 1.
        over_long: What becomes of longer ones: "cut" or "skip" (both with a count) or "error".
        hide: Share of the tokens of a training text that are hidden, other ones in every epoch: against learning by
            heart.
        seed: Of what is split off.
    """

    name: Literal["classification", "matching"] = "classification"
    data: str | None = Field(None, min_length=1)
    train: str | None = Field(None, min_length=1)
    valid: str | None = Field(None, min_length=1)
    test: str | None = Field(None, min_length=1)
    text: Column = "text"
    second_text: Column | None = None
    label: Column = "label"
    header: bool | None = None
    separator: str | None = Field(None, min_length=1)
    encoding: str = "utf-8"
    valid_share: float = Field(0.1, gt=0, lt=1)
    tokenizer: TokenizerKind = "word"
    vocab_size: int | None = Field(None, ge=1)
    min_count: int = Field(1, ge=1)
    longest: int = Field(256, ge=1)
    over_long: Policy = "cut"
    hide: float = Field(0.0, ge=0, lt=1)
    seed: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _columns_differ(self) -> Self:
        columns = {"text": self.text, "label": self.label, "second_text": self.second_text}
        owner: dict[str, str] = {}
        for name, column in columns.items():
            other = name if column is None else owner.setdefault(str(column), name)
            if other != name:
                raise ConfigError(f"{other} and {name} are both column {column}; name another one for each")
        return self

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
        for part in (valid, test):
            notes += () if part is None else part.notes
        if valid is None:
            rows, valid = self._split_off(rows, notes)
        if tokenizer is None:
            texts = [text for texts in rows.texts for text in texts]
            size, often = self.vocab_size, self.min_count
            tokenizer = build_tokenizer(self.tokenizer, texts, SPECIALS, vocab_size=size, min_count=often)
        learned = frozenset(rows.texts)
        return TaskData(
            tokenizer=tokenizer,
            train=self._learned(rows, kind, tokenizer, classes, notes),
            valid=self._measured(valid, kind, tokenizer, classes, learned, notes, "to validate"),
            test=None if test is None else self._measured(test, kind, tokenizer, classes, learned, notes, "to test"),
            kind=kind,
            judging=self.judging,
            classes=classes,
            notes=(*notes, f"{len(classes)} labels: {listed(classes)}"),
        )

    def whole(self, kind: Kind, tokenizer: TextTokenizer, classes: Sequence[str] = ()) -> Split:
        """Return all rows of the table to learn from; the others are not looked at."""
        rows, *_ = self.model_copy(update={"valid": None, "test": None}).parts()
        return self._measured(rows, kind, tokenizer, classes, frozenset(), [], "")

    def parts(self) -> tuple[Labelled, Labelled | None, Labelled | None]:
        """Return the rows of the tables: to learn from, to validate and to test, as far as they are named."""
        if self.train is None:
            raise ConfigError("no data: name a table of texts and labels, task.train=FILE")
        train = self._read(self.train)
        valid = None if self.valid is None else self._read(self.valid)
        return train, valid, None if self.test is None else self._read(self.test)

    def encode(self, texts: Texts, tokenizer: TextTokenizer) -> list[int]:
        """Return one or two texts as a row of `longest` tokens at most, without the special tokens around it.

        Of two texts the longer one is cut first, so that something is left of each.

        Args:
            texts: As many as the task labels at a time.
            tokenizer: The model's vocabulary.

        Raises:
            DataError: One text where the task has two, or two where it has one.
        """
        wanted = 1 if self.second_text is None else 2
        if len(texts) != wanted:
            given = "one text is" if len(texts) == 1 else f"{len(texts)} texts are"
            raise DataError(f"{given} given, but this task labels {wanted} at a time; give {wanted}")
        return _joined(_within(tokenizer.encode_all(texts), self.longest), tokenizer)

    def source(
        self,
        rows: Sequence[Sequence[int]],
        labels: Sequence[int],
        kind: Kind,
        tokenizer: TextTokenizer,
        *,
        hide: float = 0.0,
    ) -> LabelledSource:
        """Return encoded rows as a model of some kind reads them: `<bos> text <eos>`, or in the tokenizer's own frame.

        Args:
            rows: From `encode`.
            labels: The class of each.
            kind: Of the model.
            tokenizer: Its vocabulary.
            hide: Share of the tokens that become '<unk>'.
        """
        begin, end = _ends(tokenizer)
        start = tokenizer.bos_id if kind == "encoder_decoder" else None
        return LabelledSource(
            rows,
            labels,
            pad=tokenizer.pad_id,
            begin=begin,
            end=end,
            decoder_start=start,
            hide=hide,
            hidden=tokenizer.unk_id,
            seed=self.seed,
        )

    def _read(self, name: str) -> Labelled:
        path = located(name, self.data)
        columns = [self.label, self.text] + ([] if self.second_text is None else [self.second_text])
        table = read_table(path, columns, header=self.header, separator=self.separator, encoding=self.encoding)
        labels = [row[0].strip() for row in table.rows]
        if "" in labels:
            line = table.lines[labels.index("")]
            raise DataError(f"{name}, line {line}: the label is blank; give the text one, or leave the line out")
        texts = [row[1:] for row in table.rows]
        blank = [line for row, line in zip(texts, table.lines, strict=True) if not all(map(str.strip, row))]
        note = (f"{name}: blank texts, which are kept: {len(blank)} ({line_numbers(blank)})",) if blank else ()
        return Labelled(texts, labels, table.lines, name, table.notes + note)

    def _split_off(self, rows: Labelled, notes: list[str]) -> tuple[Labelled, Labelled]:
        """Return the rows that are left to learn from, and those to validate."""
        order = generator(self.seed).permutation(len(rows.labels)).tolist()
        cut = max(1, round(self.valid_share * len(order)))
        valid = rows.take(sorted(order[:cut]))
        held = frozenset(valid.texts)
        kept = [row for row in sorted(order[cut:]) if rows.texts[row] not in held]
        if not kept:
            raise DataError(
                f"{rows.name} has {len(order)} rows, too few different ones to learn from some and validate by {cut};"
                " give more, or a table to validate by: task.valid=FILE, or lower task.valid_share"
            )
        repeated = len(order) - cut - len(kept)
        if repeated:
            notes.append(f"{repeated:,} rows have the text of one to validate and are left out")
        return rows.take(kept), valid

    def _learned(
        self, rows: Labelled, kind: Kind, tokenizer: TextTokenizer, classes: Sequence[str], notes: list[str]
    ) -> LabelledSource:
        labels = label_ids(rows.labels, classes, rows.name, lines=rows.lines)
        ids, kept = self._encoded(rows, tokenizer, self.over_long, notes, "to learn from", 0)
        return self.source(ids, [labels[row] for row in kept], kind, tokenizer, hide=self.hide)

    def _measured(
        self,
        rows: Labelled,
        kind: Kind,
        tokenizer: TextTokenizer,
        classes: Sequence[str],
        learned: frozenset[Texts],
        notes: list[str],
        what: str,
    ) -> Split:
        """What is measured by is cut where it is too long, never left out: a score over others would be another."""
        labels = label_ids(rows.labels, classes, rows.name, lines=rows.lines)
        policy: Policy = "error" if self.over_long == "error" else "cut"
        repeated = sum(texts in learned for texts in rows.texts)
        ids, _ = self._encoded(rows, tokenizer, policy, notes, what, repeated)
        pairs = tuple((" | ".join(texts), label) for texts, label in zip(rows.texts, rows.labels, strict=True))
        return Split(self.source(ids, labels, kind, tokenizer), pairs)

    def _encoded(
        self, rows: Labelled, tokenizer: TextTokenizer, policy: Policy, notes: list[str], what: str, repeated: int
    ) -> tuple[list[list[int]], list[int]]:
        """Return rows of ids and the numbers of the rows that they come from; the notes get to know what was done."""
        parts = [tokenizer.encode_all(texts) for texts in rows.texts]
        try:
            limited = limit_rows([_joined(each, tokenizer) for each in parts], self.longest, policy, lines=rows.lines)
        except DataError as error:
            raise DataError(f"{rows.name}, {error}") from error
        ids = [_joined(_within(parts[row], self.longest), tokenizer) for row in limited.kept]
        unknown = sum(map(tokenizer.n_unknown, ids))
        notes.append(part_note(f"{len(ids):,} texts {what}", unknown=unknown, repeated=repeated, more=limited.notes))
        return ids, limited.kept


def _within(parts: Sequence[list[int]], longest: int) -> Sequence[list[int]]:
    """Cut one text, or two with a separator between them, to a length; of two the longer one first."""
    if len(parts) == 1:
        return [parts[0][:longest]]
    room = longest - 1
    first = parts[0][: max(room - len(parts[1]), room - room // 2)]
    return [first, parts[1][: room - len(first)]]


def _joined(parts: Sequence[list[int]], tokenizer: TextTokenizer) -> list[int]:
    """One text as it is; two with `<eos>` between them."""
    return parts[0] if len(parts) == 1 else [*parts[0], *_ends(tokenizer)[1], *parts[1]]


def _ends(tokenizer: TextTokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    begin, end = tokenizer.around
    if not tokenizer.has_frame and not (begin and end):
        raise DataError("the tokenizer lacks '<bos>' or '<eos>', between which a text is read")
    return begin, end
