"""Translation: pairs of texts from two files or from a table."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.settings import Config
from glassformer.data.aligned import TextPairs, read_aligned, read_pair_table
from glassformer.data.length import Policy, limit_lengths
from glassformer.data.pairs import Pair, PairSource
from glassformer.data.scripts import in_both_scripts
from glassformer.data.split import TextPair, split_pairs
from glassformer.data.table import Column
from glassformer.tasks.files import located
from glassformer.tasks.task import BleuTokenizer, Judging, Kind, Split, TaskData, part_note
from glassformer.text.build import TokenizerKind, build_tokenizer
from glassformer.text.tokenizer import TextTokenizer

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
VOCAB_SIZE, MIN_COUNT = 6000, 2


class TranslationTask(Config):
    """Texts in, their translations out. Or whatever else belongs to each text.

    The pairs stand line by line in two files (`source` and `target`), or in two columns of a table (`data`). What is
    measured by comes from files of its own or, where none are named, is split off.

    Attributes:
        name: "translation".
        data: The folder in which the files named below are; or, without `source` and `target`, the table.
        languages: Such as "de-en": what stands for {source} and {target} in the names of files.
        source: The texts to learn from, one a line.
        target: Their translations, line by line.
        valid_source: Texts to watch training with; split off when None.
        valid_target: Their translations.
        test_source: Texts to measure the result with, once; split off when None, unless `valid_source` is given.
        test_target: Their translations.
        source_column: Of a table: name, or number from 0.
        target_column: Likewise.
        header: Whether the first line of a table names its columns; None = it does if a column is named.
        separator: Of a table: "tab", "comma" or a character; None = by the name of the file.
        encoding: Of all files.
        valid_size: Pairs that are split off to watch training with.
        test_size: Pairs that are split off to measure the result with; may be 0.
        distinct: The side by which is split: of pairs that are equal on it, one at most is measured by.
        both_scripts: The source is Chinese: learn each pair in simplified and in traditional characters.
        tokenizer: "bpe", "byte_bpe", "word", "character" or "byte"; one vocabulary for both sides.
        vocab_size: The most tokens of the vocabulary; None = 6000, but a byte tokenizer has its own.
        min_count: How often a character, word or pair must occur to get a token; None = 2, but each byte has one.
        longest: Most tokens of a side.
        over_long: What becomes of pairs with a longer side: "skip", "cut" (both with a count) or "error".
        beam: Beginnings that are followed when the result is measured and texts are translated; 1 = greedy. To 1000.
        length_penalty: 0 favours short translations, 1 compares means, above it long ones win.
        bleu_tokenizer: How BLEU splits translations: "13a", "zh" or "char" for Chinese, "intl".
        example: A text whose translation the report shows first.
        seed: Of what is split off.
    """

    name: Literal["translation"] = "translation"
    data: str | None = Field(None, min_length=1)
    languages: str | None = Field(None, pattern=r"^[^-\s]+-[^-\s]+$")
    source: str | None = Field(None, min_length=1)
    target: str | None = Field(None, min_length=1)
    valid_source: str | None = Field(None, min_length=1)
    valid_target: str | None = Field(None, min_length=1)
    test_source: str | None = Field(None, min_length=1)
    test_target: str | None = Field(None, min_length=1)
    source_column: Column = 0
    target_column: Column = 1
    header: bool | None = None
    separator: str | None = Field(None, min_length=1)
    encoding: str = "utf-8"
    valid_size: int = Field(500, ge=1)
    test_size: int = Field(500, ge=0)
    distinct: Literal["source", "target"] = "source"
    both_scripts: bool = False
    tokenizer: TokenizerKind = "bpe"
    vocab_size: int | None = Field(None, ge=1)
    min_count: int | None = Field(None, ge=1)
    longest: int = Field(128, ge=1)
    over_long: Policy = "skip"
    beam: int = Field(5, ge=1, le=1000)
    length_penalty: float = Field(1.0, ge=0, le=10)
    bleu_tokenizer: BleuTokenizer = "13a"
    example: str | None = None
    seed: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _files_come_in_pairs(self) -> Self:
        pairs = {
            "": (self.source, self.target),
            "valid_": (self.valid_source, self.valid_target),
            "test_": (self.test_source, self.test_target),
        }
        for part, (source, target) in pairs.items():
            if (source is None) != (target is None):
                missing = "source" if source is None else "target"
                raise ConfigError(f"{part}{missing} is missing: every text needs its translation; name both files")
            if source is not None and source == target:
                raise ConfigError(f"{part}source and {part}target are both {source}; name the file of each side")
        if str(self.source_column) == str(self.target_column):
            raise ConfigError(
                f"source_column and target_column are both {self.source_column}; name the column of each side"
            )
        return self

    @property
    def files(self) -> tuple[str, ...]:
        """The two files, or the table."""
        return ("data",) if self.source is None else ("source", "target")

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """An encoder-decoder."""
        return ("encoder_decoder",)

    @property
    def judging(self) -> Judging:
        """BLEU, chrF, and whether the whole translation is the expected one."""
        return Judging(("loss", "bleu", "chrf", "exact_match"), self.beam, self.length_penalty, self.bleu_tokenizer)

    def build(self, kind: Kind = "encoder_decoder", tokenizer: TextTokenizer | None = None) -> TaskData:
        """Return the pairs to learn from, and those to measure by."""
        found = self._learned()
        train, notes = found.pairs, list(found.notes)
        valid = self._named(self.valid_source, self.valid_target, notes)
        test = self._named(self.test_source, self.test_target, notes)
        split_off: list[TextPair] = []
        if valid is None:
            n_test = self.test_size if test is None else 0
            side = ("source", "target").index(self.distinct)
            keys: list[Hashable] = [pair[side] for pair in train]
            split = split_pairs(train, keys, self.valid_size, n_test, self.seed)
            train, valid, test = split.train, split.valid, split.test if test is None else test
            split_off = split.valid + split.test
            notes += split.notes
        line_of = dict(zip(found.pairs, found.lines, strict=True))
        lines: list[int] | None = [line_of[pair] for pair in train]
        if self.both_scripts:
            train, lines = _in_both_scripts(train, split_off, notes), None
        if tokenizer is None:
            tokenizer = self._vocabulary([text for pair in train for text in pair])
        sources = frozenset(source for source, _ in train)
        return TaskData(
            tokenizer=tokenizer,
            train=self._limited(train, lines, tokenizer, notes),
            valid=_measured(valid, tokenizer, sources, notes, "to validate"),
            test=_measured(test, tokenizer, sources, notes, "to test") if test else None,
            kind=kind,
            judging=self.judging,
            example=self.example,
            notes=tuple(notes),
        )

    def whole(self, kind: Kind, tokenizer: TextTokenizer, classes: Sequence[str] = ()) -> Split:
        """Return all pairs of the two files or of the table."""
        return _measured(self._learned().pairs, tokenizer, frozenset(), [], "")

    def _learned(self) -> TextPairs:
        if self.source is not None and self.target is not None:
            return read_aligned(self._path(self.source), self._path(self.target), encoding=self.encoding)
        if self.data is None:
            raise ConfigError(
                "no data: name two files with a text a line, task.source=FILE and task.target=FILE, or a table of two"
                " columns, task.data=FILE"
            )
        if Path(self.data).expanduser().is_dir():
            raise ConfigError(
                f"task.data is the folder {self.data}; name the files in it as task.source and task.target"
            )
        columns = (self.source_column, self.target_column)
        return read_pair_table(
            located(self.data, None), columns, header=self.header, separator=self.separator, encoding=self.encoding
        )

    def _named(self, source: str | None, target: str | None, notes: list[str]) -> list[TextPair] | None:
        if source is None or target is None:
            return None
        found = read_aligned(self._path(source), self._path(target), encoding=self.encoding)
        notes += found.notes
        return found.pairs

    def _path(self, name: str) -> Path:
        if "{source}" in name or "{target}" in name:
            if self.languages is None:
                raise ConfigError(f"{name} stands for files of some languages; say which: task.languages=de-en")
            source, _, target = self.languages.partition("-")
            name = name.replace("{source}", source).replace("{target}", target)
        return located(name, None if self.source is None else self.data)

    def _vocabulary(self, texts: list[str]) -> TextTokenizer:
        size, often = (None, 1) if self.tokenizer == "byte" else (VOCAB_SIZE, MIN_COUNT)
        size = size if self.vocab_size is None else self.vocab_size
        often = often if self.min_count is None else self.min_count
        return build_tokenizer(self.tokenizer, texts, SPECIALS, vocab_size=size, min_count=often)

    def _limited(
        self, pairs: Sequence[TextPair], lines: list[int] | None, tokenizer: TextTokenizer, notes: list[str]
    ) -> PairSource:
        """What is learned from: too long pairs are refused, cut or left out, and counted in the notes."""
        limited = limit_lengths(_encoded(pairs, tokenizer), self.longest, self.over_long, lines=lines)
        unknown = _unknown(limited.rows, tokenizer)
        part = f"{len(limited.rows):,} pairs to learn from"
        notes.append(part_note(part, unknown=unknown, repeated=0, more=limited.notes))
        return _source(limited.rows, tokenizer)


def _measured(
    pairs: Sequence[TextPair], tokenizer: TextTokenizer, learned: frozenset[str], notes: list[str], what: str
) -> Split:
    """What is measured by is never cut or left out: a score over easier texts would be another score."""
    rows = _encoded(pairs, tokenizer)
    repeated = sum(source in learned for source, _ in pairs)
    notes.append(
        part_note(f"{len(pairs):,} pairs {what}", unknown=_unknown(rows, tokenizer), repeated=repeated, more=())
    )
    return Split(_source(rows, tokenizer), tuple(pairs))


def _encoded(pairs: Sequence[TextPair], tokenizer: TextTokenizer) -> list[Pair]:
    return [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]


def _unknown(rows: Sequence[Pair], tokenizer: TextTokenizer) -> int:
    return sum(tokenizer.n_unknown(side) for row in rows for side in row)


def _source(rows: Sequence[Pair], tokenizer: TextTokenizer) -> PairSource:
    bos, eos = tokenizer.bos_id, tokenizer.eos_id
    if bos is None or eos is None:
        raise DataError("the tokenizer lacks '<bos>' or '<eos>', without which nothing can be translated")
    return PairSource(rows, bos=bos, eos=eos, pad=tokenizer.pad_id)


def _in_both_scripts(train: Sequence[TextPair], split_off: Sequence[TextPair], notes: list[str]) -> list[TextPair]:
    """Training pairs in both scripts, without those whose source was split off in the other one."""
    written = in_both_scripts(train)
    held = frozenset(source for source, _ in (*split_off, *in_both_scripts(split_off)))
    kept = [pair for pair in written if pair[0] not in held]
    left_out = len(written) - len(kept)
    more = f"; {left_out:,} more are measured by in the other script and are left out" if left_out else ""
    notes.append(f"in simplified and traditional characters: {len(kept):,} pairs{more}")
    return kept
