"""Translation: pairs of texts from two files or from a table."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from glassformer.core.config import Config
from glassformer.core.errors import ConfigError, DataError
from glassformer.data.aligned import TextPairs, read_aligned, read_pair_table
from glassformer.data.length import Policy, limit_lengths
from glassformer.data.pairs import PairSource
from glassformer.data.scripts import in_both_scripts
from glassformer.data.split import TextPair, split_pairs
from glassformer.tasks.files import located
from glassformer.tasks.task import BleuTokenizer, Judging, Kind, Split, TaskData
from glassformer.text.build import TokenizerKind, build_tokenizer
from glassformer.text.tokenizer import TextTokenizer

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")


class TranslationTask(Config):
    """Texts in, their translations out. Or whatever else belongs to each text.

    The pairs stand line by line in two files (`source` and `target`), or in two columns of a table (`data`). What is
    measured by comes from files of its own or, where none are named, is split off.

    Attributes:
        name: "translation".
        data: A folder in which the files named below are; or, without `source` and `target`, the table.
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
        distinct: The side by which is split: no text of it is both learned from and measured by.
        both_scripts: The source is Chinese: learn each pair in simplified and in traditional characters.
        tokenizer: "bpe", "byte_bpe", "word", "character" or "byte"; one vocabulary for both sides.
        vocab_size: The most tokens of the vocabulary; the two BPE tokenizers need it.
        min_count: How often a character, word or pair must occur to get a token.
        longest: Most tokens of a side.
        over_long: What becomes of pairs with a longer side: "skip", "cut" (both with a count) or "error".
        beam: Beginnings that are followed when the result is measured and texts are translated; 1 = greedy.
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
    source_column: str = "0"
    target_column: str = "1"
    header: bool | None = None
    separator: str | None = Field(None, min_length=1)
    encoding: str = "utf-8"
    valid_size: int = Field(500, ge=1)
    test_size: int = Field(500, ge=0)
    distinct: Literal["source", "target"] = "source"
    both_scripts: bool = False
    tokenizer: TokenizerKind = "bpe"
    vocab_size: int | None = Field(6000, ge=1)
    min_count: int = Field(2, ge=1)
    longest: int = Field(128, ge=1)
    over_long: Policy = "skip"
    beam: int = Field(5, ge=1)
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
        valid = self._named(self.valid_source, self.valid_target)
        test = self._named(self.test_source, self.test_target)
        if valid is None:
            n_test = self.test_size if test is None else 0
            side = ("source", "target").index(self.distinct)
            keys: list[Hashable] = [pair[side] for pair in train]
            split = split_pairs(train, keys, self.valid_size, n_test, self.seed)
            train, valid, test = split.train, split.valid, split.test if test is None else test
            notes += split.notes
        if self.both_scripts:
            train = in_both_scripts(train)
            notes.append(f"in simplified and traditional characters: {len(train):,} pairs")
        if tokenizer is None:
            texts = [text for pair in train for text in pair]
            size, often = self.vocab_size, self.min_count
            tokenizer = build_tokenizer(self.tokenizer, texts, SPECIALS, vocab_size=size, min_count=often)
        return TaskData(
            tokenizer=tokenizer,
            train=self._source(train, tokenizer, notes, "to learn from"),
            valid=self._split(valid, tokenizer, notes, "to validate"),
            test=self._split(test, tokenizer, notes, "to test") if test else None,
            kind=kind,
            judging=self.judging,
            example=self.example,
            notes=tuple(notes),
        )

    def whole(self, kind: Kind, tokenizer: TextTokenizer, classes: Sequence[str] = ()) -> Split:
        """Return all pairs of the two files or of the table."""
        return self._split(self._learned().pairs, tokenizer, [], "")

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

    def _named(self, source: str | None, target: str | None) -> list[TextPair] | None:
        if source is None or target is None:
            return None
        return read_aligned(self._path(source), self._path(target), encoding=self.encoding).pairs

    def _path(self, name: str) -> Path:
        if "{source}" in name or "{target}" in name:
            if self.languages is None:
                raise ConfigError(f"{name} holds the name of a language; say which: task.languages=de-en")
            source, _, target = self.languages.partition("-")
            name = name.replace("{source}", source).replace("{target}", target)
        return located(name, self.data)

    def _source(self, pairs: Sequence[TextPair], tokenizer: TextTokenizer, notes: list[str], what: str) -> PairSource:
        """Encode, and put up with what is too long; say in the notes how much there is."""
        sources, targets = (tokenizer.encode_all(side) for side in zip(*pairs, strict=True))
        limited = limit_lengths(list(zip(sources, targets, strict=True)), self.longest, self.over_long)
        unknown = sum(tokenizer.n_unknown(row) for rows in (sources, targets) for row in rows)
        notes.append(
            f"{len(limited.rows):,} pairs {what}"
            + (f", {unknown:,} of their tokens unknown" if unknown else "")
            + "".join(f"; {note}" for note in limited.notes)
        )
        bos, eos = tokenizer.bos_id, tokenizer.eos_id
        if bos is None or eos is None:
            raise DataError("the tokenizer lacks '<bos>' or '<eos>', without which nothing can be translated")
        return PairSource(limited.rows, bos=bos, eos=eos, pad=tokenizer.pad_id)

    def _split(self, pairs: Sequence[TextPair], tokenizer: TextTokenizer, notes: list[str], what: str) -> Split:
        """What is measured by is never cut or left out: a score over easier texts would be another score."""
        whole = self.model_copy(update={"longest": 10**9})
        return Split(whole._source(pairs, tokenizer, notes, what), tuple(pairs))
