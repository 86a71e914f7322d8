"""The next token of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.settings import Config
from glassformer.data.read import default_text, read_text
from glassformer.data.windows import WindowSource
from glassformer.tasks.task import Judging, Kind, Split, TaskData
from glassformer.text.build import TokenizerKind, build_tokenizer
from glassformer.text.tokenizer import TextTokenizer


class LanguageModelTask(Config):
    """Predict each token of a text from those before it.

    The text is cut once, in order: training part, validation part, test part. In the last two every token is scored
    exactly once, in windows of `context` that do not overlap. The vocabulary comes from the training part alone; a
    character that occurs only later is the unknown one.

    Attributes:
        name: "language_model".
        text: A UTF-8 file, plain or .gz; None = the help texts that every Python has on disk.
        tokenizer: "character", "byte", "word", "bpe" or "byte_bpe".
        vocab_size: The most tokens of the vocabulary; the two BPE tokenizers need it.
        min_count: Characters or words that training has seen less often become the unknown one.
        context: Tokens a window holds, and so the longest history a prediction can use.
        valid: Share of the text to watch training with.
        test: Share of the text to measure the result with, once; may be 0.
        seed: Of where the windows of an epoch begin.
    """

    name: Literal["language_model"] = "language_model"
    text: str | None = Field(None, min_length=1)
    tokenizer: TokenizerKind = "character"
    vocab_size: int | None = Field(None, ge=1)
    min_count: int = Field(1, ge=1)
    context: int = Field(64, ge=1)
    valid: float = Field(0.05, gt=0, lt=1)
    test: float = Field(0.05, ge=0, lt=1)
    seed: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _something_is_left(self) -> Self:
        if self.valid + self.test >= 1:
            raise ConfigError(
                f"valid {self.valid} and test {self.test} leave nothing to train on; their sum must be below 1"
            )
        return self

    @property
    def files(self) -> tuple[str, ...]:
        """The text."""
        return ("text",)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """A decoder."""
        return ("decoder",)

    @property
    def judging(self) -> Judging:
        """By its surprise alone: no text is the only right one."""
        return Judging(("loss",))

    def whole(self, kind: Kind, tokenizer: TextTokenizer, classes: Sequence[str] = ()) -> Split:
        """Return the whole text; its first token is read only, for nothing comes before it."""
        return Split(WindowSource.evaluation(np.asarray(tokenizer.encode(self._content())), self.context))

    def _content(self) -> str:
        return default_text() if self.text is None else read_text(self.text).text

    def build(self, kind: Kind = "decoder", tokenizer: TextTokenizer | None = None) -> TaskData:
        """Return the text in windows."""
        text = self._content()
        cuts = [int(len(text) * (1 - self.valid - self.test)), int(len(text) * (1 - self.test))]
        train, valid, test = text[: cuts[0]], text[cuts[0] : cuts[1]], text[cuts[1] :]
        name = self.text or "the help texts of Python"
        for part, content in (("training", train), ("validation", valid)):
            if not content:
                raise DataError(f"{name} has {len(text)} characters, too few for a {part} part; give more text")
        if tokenizer is None:
            specials = () if self.tokenizer in ("byte", "byte_bpe") else ("<unk>",)
            size, often = self.vocab_size, self.min_count
            tokenizer = build_tokenizer(self.tokenizer, [train], specials, vocab_size=size, min_count=often)
        encoded = [tokenizer.encode(part) for part in (train, valid, test)]
        unknown = [tokenizer.n_unknown(ids) for ids in encoded]
        parts = [np.asarray(ids) for ids in encoded]
        return TaskData(
            tokenizer=tokenizer,
            train=WindowSource(parts[0], self.context, self.seed, shift=True),
            valid=Split(WindowSource.evaluation(parts[1], self.context, before=int(parts[0][-1]))),
            test=Split(WindowSource.evaluation(parts[2], self.context, before=int(parts[1][-1])))
            if len(parts[2])
            else None,
            kind=kind,
            judging=self.judging,
            context=self.context,
            notes=(
                f"{name}: {len(parts[0]):,} tokens to train on, {len(parts[1]):,} to validate, "
                f"{len(parts[2]):,} to test; unknown in them: {unknown[0]:,}, {unknown[1]:,}, {unknown[2]:,}",
                *(() if self.text else ("no text was named, and these stand in for it: --set task.text=FILE",)),
            ),
        )
