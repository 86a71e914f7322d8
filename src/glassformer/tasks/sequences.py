"""Reverse, copy and sort: tasks whose right answer is known and whose attention can be told in advance."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from glassformer.core.errors import ConfigError
from glassformer.data.synthetic import DIGITS, SyntheticPairs, draw_held_out, transformed
from glassformer.tasks.made import SPECIALS, MadeTask, made_split
from glassformer.tasks.task import Kind, Split, TaskData
from glassformer.text.build import character_tokenizer
from glassformer.text.tokenizer import TextTokenizer


class SequenceTask(MadeTask):
    """Symbols in, the same symbols out: reversed, as they are, or in order.

    The sequences of `test` and `valid` are drawn first; training never sees one of them.

    Attributes:
        name: "reverse", "copy" or "sort".
        alphabet: The symbols.
        min_length: Fewest symbols of a sequence.
        max_length: Most symbols of a sequence.
    """

    name: Literal["reverse", "copy", "sort"]
    alphabet: str = Field(DIGITS, min_length=2)
    min_length: int = Field(3, ge=1)
    max_length: int = Field(20, ge=1)

    @model_validator(mode="after")
    def _lengths_fit(self) -> Self:
        if self.min_length > self.max_length:
            raise ConfigError(f"min_length {self.min_length} is above max_length {self.max_length}")
        if len(set(self.alphabet)) != len(self.alphabet):
            raise ConfigError(f"alphabet {self.alphabet!r} holds a symbol twice")
        return self

    def build(self, kind: Kind = "encoder_decoder", tokenizer: TextTokenizer | None = None) -> TaskData:
        """Return fresh training sequences and two fixed sets that are kept out of them."""
        tokenizer = tokenizer or character_tokenizer([self.alphabet], SPECIALS)
        lengths = (self.min_length, self.max_length)
        test = draw_held_out(self.test_size, lengths, self.alphabet, self.seed)
        valid = draw_held_out(self.valid_size, lengths, self.alphabet, self.seed + 1, frozenset(test))
        train = SyntheticPairs(
            self.name,
            tokenizer,
            lengths=lengths,
            n_items=self.epoch_size,
            seed=self.seed,
            held_out=frozenset(test) | frozenset(valid),
            alphabet=self.alphabet,
        )
        return TaskData(
            tokenizer=tokenizer,
            train=train,
            valid=self._split(valid, tokenizer),
            test=self._split(test, tokenizer),
            kind=kind,
            judging=self.judging,
        )

    def _split(self, texts: list[str], tokenizer: TextTokenizer) -> Split:
        return made_split([(text, transformed(self.name, text)) for text in texts], tokenizer)
