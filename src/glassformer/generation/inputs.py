"""From what a caller hands over to what a model can read: checked on the host, before any tensor is made."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from glassformer.core.call import Memory
from glassformer.core.errors import DataError, UnsupportedError
from glassformer.core.places import Places
from glassformer.core.protocols import Tokenizer
from glassformer.core.tape import Tape
from glassformer.models.transformer import Transformer


def check_model(model: Transformer, tokenizer: Tokenizer) -> None:
    """Make sure that a model has what it takes to write, and a tokenizer that fits.

    Args:
        model: The model.
        tokenizer: Of the tokens that it writes.

    Raises:
        UnsupportedError: No decoder, no head, or one that scores classes.
        DataError: The tokenizer has more ids than the model.
    """
    refuse_pooling(model)
    if model.config.decoder is None:
        raise UnsupportedError("this model is encoder-only and cannot write; use a model with a decoder")
    if model.config.head is None or model.config.head.vocab_size is None:
        raise UnsupportedError("this model has no head, so it gives tokens no scores; use a model with one")
    size = min(model.config.decoder.input.vocab_size, model.config.head.vocab_size)
    if tokenizer.vocab_size > size:
        raise DataError(
            f"the tokenizer has {tokenizer.vocab_size} ids, the model only {size}; use the tokenizer that "
            f"belongs to this model, or model.resize_vocabulary({tokenizer.vocab_size})"
        )


def refuse_pooling(model: Transformer) -> None:
    """Make sure that a model says something of each token, not of a text as a whole.

    Raises:
        UnsupportedError: It labels texts, or makes one vector of each.
    """
    if not model.config.pools:
        return
    if model.config.head is not None and model.config.head.classes:
        raise UnsupportedError("this model labels texts and cannot write; use predict")
    raise UnsupportedError("this model makes vectors of texts and cannot write; use embed")


def check_sources(model: Transformer, sources: Sequence[Sequence[int]] | None, n_rows: int) -> None:
    """Make sure that there is a source for every row of an encoder-decoder, and none for other models.

    Args:
        model: The model.
        sources: Token ids of each source.
        n_rows: Number of rows that are written.

    Raises:
        DataError: Sources that are missing, too many, too long, or have an id that the model does not know.
    """
    encoder = model.config.encoder
    if encoder is None:
        if sources is not None:
            raise DataError("this model is decoder-only and reads no source; put its text into the prompt")
        return
    if sources is None:
        raise DataError("this model is an encoder-decoder and reads a source for every row; give sources")
    if len(sources) != n_rows:
        raise DataError(f"{len(sources)} sources for {n_rows} rows; give one for each")
    check_lengths(sources, encoder.input.positions.max_positions, "source")
    check_ids(sources, encoder.input.vocab_size, "source")


def check_prompts(model: Transformer, prompts: Sequence[Sequence[int]], tokenizer: Tokenizer) -> None:
    """Make sure that a model can go on from every prompt.

    Args:
        model: The model.
        prompts: Token ids of each row, without special tokens.
        tokenizer: What it puts before every text, often a begin token, is put before every prompt; where that is
            something, a prompt may be empty.

    Raises:
        DataError: A prompt that is empty, longer than the context, or has an id that the model does not know.
    """
    begin = beginning(model, tokenizer)
    for index, prompt in enumerate(prompts):
        if not begin and not prompt:
            raise DataError(
                f"the prompt in row {index} is empty and there is no begin token (bos) to start from; "
                "give at least one token, or a tokenizer with '<bos>'"
            )
    check_lengths([[*begin, *prompt] for prompt in prompts], model.max_positions)
    check_ids(prompts, model.config.output_stack.input.vocab_size)


def check_ids(rows: Sequence[Sequence[int]], vocab_size: int, what: str = "prompt") -> None:
    """Make sure that every id has a row in the table.

    Raises:
        DataError: An id is negative or too large.
    """
    for index, row in enumerate(rows):
        for position, token in enumerate(row):
            if not 0 <= token < vocab_size:
                raise DataError(
                    f"{what} in row {index}: token id {token} at position {position} is outside "
                    f"0..{vocab_size - 1} (vocab size {vocab_size}); use the tokenizer of this model"
                )


def check_lengths(rows: Sequence[Sequence[int]], limit: int | None, what: str = "prompt") -> None:
    """Make sure that every row fits the model's context.

    Args:
        rows: All that the model will be given, the begin token included.
        limit: Positions that the model has; None = as many as you like.
        what: Name of a row in the message.

    Raises:
        DataError: A row is longer.
    """
    for index, row in enumerate(rows):
        if limit is not None and len(row) > limit:
            raise DataError(
                f"{what} {len(row)} > context {limit} (in tokens, begin and end counted; row {index}); "
                f"shorten it, or use a model with max_positions of {len(row)} or more"
            )


def beginning(model: Transformer, tokenizer: Tokenizer) -> list[int]:
    """Return what stands before everything that is written: what the tokenizer puts before a text, or, in a decoder
    that answers a source, the begin token."""
    if model.config.kind == "encoder_decoder":
        return [] if tokenizer.bos_id is None else [tokenizer.bos_id]
    return list(tokenizer.prefix)


def padded(
    rows: Sequence[Sequence[int]], device: torch.device, start: Sequence[int] | None = None
) -> tuple[Int[Tensor, "batch length"], Places]:
    """Return ids of unequal number as one tensor, padded on the right, and their places.

    Args:
        rows: Token ids of each row.
        device: Where the tensors live.
        start: Position of each row's first token; 0 when None.

    Returns:
        Ids and places. *Shape:* (B, T), T at least 1; what stands where there is no token is never looked at.
    """
    lengths = [len(row) for row in rows]
    width = max([1, *lengths])
    same = min(lengths) == width
    tokens = torch.tensor(rows if same else [[*row, *[0] * (width - len(row))] for row in rows], device=device)
    return tokens, Places.from_lengths(lengths, width, start=start, device=device)


def encode_sources(model: Transformer, sources: Sequence[Sequence[int]], tape: Tape | None = None) -> Memory:
    """Return what the encoder makes of sources of unequal length; an empty one gives nothing to look at.

    Args:
        model: An encoder-decoder.
        sources: Token ids of each row, as the model was trained to read them.
        tape: What is recorded and changed.
    """
    tokens, places = padded(sources, model.device)
    return model.encode(tokens, places=places, tape=tape)


def select_memory(memory: Memory, rows: Sequence[int]) -> Memory:
    """Return the memory of the given rows, in that order."""
    index = torch.tensor(rows, device=memory.states.device)
    places = memory.places
    if places.position.shape[0] > 1:
        position, segment = places.position[index], places.segment[index]
        places = Places(position, segment, places.plain, places.highest, single=places.single)
    return Memory(memory.states[index], places)
