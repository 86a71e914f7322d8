"""What training does at once and generation step by step: the passes, the cache, and that both give the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch

from glassformer.core.cache import KVCache
from glassformer.core.errors import DataError, UnsupportedError
from glassformer.core.recurrent import StateCache
from glassformer.core.slots import KeyCache
from glassformer.inspection.trace import refuse_own
from glassformer.models.inference import inference
from glassformer.models.transformer import Transformer


@dataclass(frozen=True)
class Pass:
    """One forward pass of a generation.

    Attributes:
        read: Names of the tokens that go in.
        before: Tokens that the cache holds before it.
        after: Tokens that it holds after it.
        bytes_before: Memory of what it holds before it; what is set aside for later is not counted.
        bytes_after: The same after it.
        written: Name of the most probable token.
        difference: Largest difference of the logits of its last token from those of one pass over the whole text.
    """

    read: tuple[str, ...]
    before: int
    after: int
    bytes_before: int
    bytes_after: int
    written: str
    difference: float


@dataclass(frozen=True)
class GenerationTrace:
    """What `trace_generation` saw.

    Attributes:
        passes: In their order.
        positions: Tokens of the one pass that training would make over the same text.
        ended: Whether the last token written ends a text.
    """

    passes: tuple[Pass, ...]
    positions: int
    ended: bool

    @property
    def difference(self) -> float:
        """Largest difference of the passes' logits from those of the one pass."""
        return max(each.difference for each in self.passes)


def trace_generation(
    model: Transformer,
    tokens: Sequence[int],
    number: int,
    *,
    sources: Sequence[int] | None = None,
    name: Callable[[int], str] = str,
    ends: Collection[int] = (),
) -> GenerationTrace:
    """Write on from some tokens with a cache, then read all of it in one pass without, and compare.

    Args:
        model: A decoder-only model or an encoder-decoder, in any mode; it is left in it.
        tokens: Ids to go on from.
        number: Most tokens to write, always the most probable one.
        sources: Ids that the encoder of an encoder-decoder reads.
        name: What a token id is called.
        ends: Ids that end a text.

    Raises:
        UnsupportedError: The model does not write, or is a user's own.
        DataError: No token to go on from or to write, or more tokens than the context.
    """
    refuse_own(model)
    head = model.config.head
    if model.decoder is None or head is None or head.pooling is not None:
        raise UnsupportedError(
            "this model does not write, so there is nothing to generate; trace it without --generate"
        )
    if not tokens or number < 1:
        raise DataError("there is nothing to go on from, or no token to write: give a text, and --generate from 1")
    limit = model.max_positions
    if limit is not None and len(tokens) + number - 1 > limit:
        room = limit - len(tokens) + 1
        raise DataError(
            f"{len(tokens)} tokens and {number - 1} that are read again are more than the context of {limit}; "
            f"{f'write at most {room}: --generate {room}' if room > 0 else 'shorten the text'}"
        )
    whole, rows, passes, ended = list(tokens), [], [], False
    with inference(model.modules()):
        memory = None if sources is None else model.encode(torch.tensor([list(sources)], device=model.device))
        cache = model.new_cache(1, len(tokens) + number)
        new = list(tokens)
        for _ in range(number):
            before, held = cache.extent, _held(cache)
            logits = model(torch.tensor([new], device=model.device), memory=memory, cache=cache, outputs="last")
            cache.advance([len(new)])
            rows.append(logits[0])
            picked = int(logits[0].argmax())
            read = tuple(map(name, new))
            passes.append(Pass(read, before, cache.extent, held, _held(cache), name(picked), 0.0))
            ended = picked in ends
            if ended:
                break
            new = [picked]
            whole.append(picked)
        whole = whole[: cache.extent]
        at_once = model(torch.tensor([whole], device=model.device), memory=memory)[0]
    differences = [float((row - at_once[each.after - 1]).abs().max()) for row, each in zip(rows, passes, strict=True)]
    found = tuple(
        Pass(each.read, each.before, each.after, each.bytes_before, each.bytes_after, each.written, difference)
        for each, difference in zip(passes, differences, strict=True)
    )
    return GenerationTrace(found, len(whole), ended)


def _held(cache: KVCache) -> int:
    """Bytes of the keys, values and sums that are in use, and of the memory's keys and values."""
    total = 0
    for layer, which in zip(cache.layers, cache.of_layer, strict=True):
        if isinstance(layer, KeyCache) and which is not None:
            held = sum(cache.slots[which].held)
            slot = 2 * layer.keys.shape[1] * layer.keys.shape[3] * layer.keys.element_size()
            total += held * slot
        elif isinstance(layer, StateCache):
            total += sum(part.nbytes for part in layer.state)
        total += sum(part.nbytes for part in layer.cross or ())
    return total
