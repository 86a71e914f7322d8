"""Long prompts are read a chunk at a time, so that the memory for it does not grow with their length."""

from __future__ import annotations

from collections.abc import Sequence

from glassformer.core.cache import KVCache
from glassformer.core.call import Memory
from glassformer.generation.inputs import padded
from glassformer.models.transformer import Transformer


def read_ahead(
    model: Transformer, unread: Sequence[list[int]], cache: KVCache, chunk: int | None, memory: Memory | None = None
) -> list[list[int]]:
    """Read all but the last `chunk` tokens of each row into the cache, and return what is left to read.

    Rows end together, so that the pass that is left to the caller has the last token of each: no other one is scored.
    What is no whole chunk comes first, and a shorter row begins later:

        |  a b  |  c d e  |  f g h  |
        |       |    i j  |  k l m  |

    Rows of one length under a pattern are left whole: only so is what the pattern hides never computed.

    Args:
        model: In eval mode, without gradients.
        unread: Token ids that the cache lacks of each row.
        cache: What was read before; it is advanced.
        chunk: Tokens of a row that are read at once; 0 or None = all, so that all are left.
        memory: What an encoder-decoder looks at.
    """
    left = list(unread)
    lengths = {len(row) for row in left}
    if not chunk or max(lengths) <= chunk:
        return left
    skips = any(block.attention.pattern is not None for block in model.config.output_stack.blocks)
    if skips and len(lengths) == 1:
        return left
    for kept in range((max(lengths) - 1) // chunk * chunk, 0, -chunk):
        new = [row[: max(len(row) - kept, 0)] for row in left]
        tokens, places = padded(new, model.device, start=cache.lengths)
        model(tokens, places=places, memory=memory, cache=cache, outputs="hidden")
        cache.advance([len(row) for row in new])
        left = [row[len(begun) :] for row, begun in zip(left, new, strict=True)]
    return left
