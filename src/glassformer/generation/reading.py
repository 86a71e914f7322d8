"""One text as the ids of one forward pass: what a model reads of it, and what it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from glassformer.core.errors import DataError
from glassformer.generation.config import GenerationConfig
from glassformer.generation.input_ids import input_ids
from glassformer.generation.inputs import beginning
from glassformer.generation.stream import generate
from glassformer.generation.text import source_ids
from glassformer.models.transformer import Transformer
from glassformer.text.tokenizer import TextTokenizer

MOST_WRITTEN = 256
"""Tokens that an encoder-decoder writes when it is given no target."""


@dataclass(frozen=True)
class Reading:
    """What a model reads and writes, as in training.

    Attributes:
        tokens: What the decoder, or the only stack, reads.
        sources: What the encoder of an encoder-decoder reads; None = there is none.
        written: What is written at each step, one for each of `tokens`; None = nothing is.
        output: What is written, as text.
        own: Whether that is the model's own, for no target was given.
        cut: Of the "input" or the "output", where it was too long, how many tokens were read and how many there are.
    """

    tokens: Sequence[int]
    sources: Sequence[int] | None = None
    written: Sequence[int] | None = None
    output: str | None = None
    own: bool = False
    cut: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def reading_of(
    model: Transformer,
    tokenizer: TextTokenizer,
    text: str,
    target: str | None = None,
    *,
    max_tokens: int | None = None,
) -> Reading:
    """Return what a model reads of a text, and the target, or what it writes itself.

    Args:
        model: Any Transformer.
        tokenizer: Its vocabulary.
        text: What is read.
        target: What an encoder-decoder writes; its own greedy output when None.
        max_tokens: Most tokens of each text, special ones not counted; no character is read in part unless the first
            one has more. From 1; None = all, and at most `MOST_WRITTEN` to write.

    Raises:
        DataError: There is a target for a model that writes none, a text that is longer than the context, or a
            character that the tokenizer does not know.
    """
    cut: dict[str, tuple[int, int]] = {}

    def encoded(name: str, whole: str) -> list[int]:
        ids = tokenizer.encode(whole)
        kept = ids if max_tokens is None else _first(tokenizer, ids, max_tokens)
        if len(kept) < len(ids):
            cut[name] = (len(kept), len(ids))
        stack = model.config.encoder if name == "input" else None
        limit = (stack or model.config.output_stack).input.positions.max_positions
        room = None if limit is None else limit - _specials(model, tokenizer, name)
        if room is not None and room < 1 and kept:
            raise DataError(
                f"the model's context of {limit} holds no token of the {name} beside the special ones; use a model "
                "with a longer context"
            )
        if room is not None and len(kept) > room:
            raise DataError(
                f"the {name} has {len(kept)} tokens and the model's context has room for {room}; shorten it, or read"
                f" only its beginning: --max-tokens {room}"
            )
        return kept

    crosses, pools = model.config.kind == "encoder_decoder", model.config.pools
    if target is not None and (pools or not crosses):
        raise DataError("this model reads one text and no target: give it without --target")
    begin, ids = beginning(model, tokenizer), encoded("input", text)
    source = source_ids(tokenizer, ids)
    if pools and model.decoder is not None:  # it reads what an encoder would
        whole = [*begin, *source]
        return Reading(begin, whole, cut=cut) if crosses else Reading(whole, cut=cut)
    if not crosses:
        return Reading(input_ids(model, tokenizer, ids), cut=cut)
    if target is None:
        config = GenerationConfig(max_new_tokens=min(max_tokens or MOST_WRITTEN, MOST_WRITTEN))
        [own] = generate(model, [[]], config, tokenizer=tokenizer, sources=[source])
        output, written = own.text, list(own.tokens)
    else:
        output, written = target, source_ids(tokenizer, encoded("output", target))
    whole = [*begin, *written]
    return Reading(whole[:-1], source, whole[1:], output, own=target is None, cut=cut)


def _specials(model: Transformer, tokenizer: TextTokenizer, name: str) -> int:
    """How many special tokens are read along with the "input" or the "output"."""
    begin = beginning(model, tokenizer)
    if name == "output":
        return len(begin)
    if model.config.pools and model.decoder is not None:
        return len(begin) + len(source_ids(tokenizer, []))
    return len(input_ids(model, tokenizer, []))


def _first(tokenizer: TextTokenizer, ids: Sequence[int], number: int) -> list[int]:
    """At most so many ids, and no character in part."""
    ends = [group.stop for group, _ in tokenizer.label_groups(ids) if group.stop <= number]
    return list(ids[: max(ends, default=number)])
