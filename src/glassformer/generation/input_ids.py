"""What a model reads of a text: its ids with what stands around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from glassformer.generation.inputs import beginning
from glassformer.models.transformer import Transformer
from glassformer.text.tokenizer import TextTokenizer


@runtime_checkable
class ReadsText(Protocol):
    """A model with the vocabulary of its texts, such as `gf.load` returns."""

    @property
    def model(self) -> Transformer: ...
    @property
    def tokenizer(self) -> TextTokenizer: ...


def input_ids(model: Transformer, tokenizer: TextTokenizer, ids: Sequence[int]) -> list[int]:
    """Return the row of ids that stands for a text where nothing is to be written.

    An encoder alone gets what the tokenizer's own frame puts around a text (`[CLS] text [SEP]`); where there is none,
    the end token, and a model that labels texts the begin token too, as its task has it. The encoder of an
    encoder-decoder gets the end token, a decoder what it begins texts with.

    Args:
        model: Any Transformer.
        tokenizer: Its vocabulary.
        ids: The text, without special tokens.
    """
    end = [] if tokenizer.eos_id is None else [tokenizer.eos_id]
    if model.encoder is not None and model.decoder is not None:
        return [*ids, *end]
    if model.encoder is None:
        return [*beginning(model, tokenizer), *ids]
    if tokenizer.has_frame:
        return tokenizer.frame(ids).ids
    return [*(beginning(model, tokenizer) if model.config.pools else []), *ids, *end]


def room_for_text(model: Transformer, tokenizer: TextTokenizer) -> int | None:
    """Return how many tokens of a text a model can read beside what stands around it; None = as many as you like."""
    stack = model.encoder or model.decoder
    most = None if stack is None else stack.config.input.positions.max_positions
    return None if most is None else max(most - len(input_ids(model, tokenizer, [])), 0)
