"""The attention weights of one sample."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.tape import Tape
from glassformer.inspection.own import own_attention
from glassformer.models.inference import inference
from glassformer.models.own import OwnTransformer
from glassformer.models.transformer import Transformer
from glassformer.parts.attention import Attention

LIMIT_BYTES = 256 * 2**20
"""What `attention_weights` may need: 256 MiB hold 12 layers of 12 heads over 512 tokens."""

COPIES = 4
"""Of a layer's weights while they are made: scores, masked scores, their softmax, the softmax masked."""


def attention_weights(
    model: Transformer,
    tokens: Int[Tensor, " length"] | Sequence[int],
    *,
    sources: Int[Tensor, " source"] | Sequence[int] | None = None,
    pattern: str = "*.weights",
    heads: Sequence[int] | None = None,
    limit_bytes: int = LIMIT_BYTES,
) -> dict[str, Float[Tensor, "head query key"]]:
    """Return who looks at whom in one sample, for every layer and head.

    weights[site][h, t, s] is how much of token s goes into what head h gives token t; each row sums to 1, or
    is all 0 for a query that sees nothing. Heads are never averaged here: `weights.mean(0)` cannot be undone.

    The forward pass is the one of training and generation, in eval mode, with a tape; every module is left in
    the mode it was found in.

    Args:
        model: Any Transformer.
        tokens: Ids of one sample, which the decoder (or the only stack) reads. *Shape:* (T).
        sources: Ids that the encoder of an encoder-decoder reads. *Shape:* (S).
        pattern: Which sites, with shell wildcards ("decoder.blocks.3.*"); of what matches, the weights are
            taken.
        heads: Which heads, from 0; None = all.
        limit_bytes: Memory that may be needed. It is estimated before any work: what is kept, (heads, T, S)
            for each site, and the copies of all heads of the largest layer while it is at work.

    Returns:
        By site ("decoder.blocks.0.attention.weights"), in the order of the forward pass. Each of
        *Shape:* (heads, T, S).

    Raises:
        ConfigError: The pattern matches no weights.
        DataError: More than one sample, no such head, or more memory than `limit_bytes`.
    """
    if isinstance(model, OwnTransformer):
        return own_attention(model, tokens, sources, pattern)
    rows = _one_sample(tokens, "tokens", model.device)
    source = None if sources is None else _one_sample(sources, "sources", model.device)
    sites = _weight_sites(model, pattern)
    _check_size(model, sites, rows, source, heads, limit_bytes)
    chosen = None if heads is None else list(heads)
    # A copy of the chosen heads, for a view would keep them all alive.
    tape = Tape(model, *sites, reduce=lambda weights: weights if chosen is None else weights[:, chosen])
    with inference(model.modules()):
        memory = None if source is None else model.encode(source, tape=tape)
        model(rows, memory=memory, outputs="hidden", tape=tape)
    return {site: tape[site][0] for site in tape}


def check_labels(labels: Sequence[str], size: int) -> None:
    """Refuse labels that are not one for each position.

    Args:
        labels: One text a token.
        size: Number of positions of the matrix they are for.

    Raises:
        DataError: There are more or fewer; the message has both numbers.
    """
    if len(labels) != size:
        raise DataError(
            f"{len(labels)} labels for {size} positions; give one label for each token, special tokens "
            "(such as begin and end) included"
        )


def _one_sample(tokens: Tensor | Sequence[int], name: str, device: torch.device) -> Int[Tensor, "1 length"]:
    rows = torch.as_tensor(tokens, device=device)
    if rows.ndim == 2 and rows.shape[0] == 1:
        return rows
    if rows.ndim != 1:
        raise DataError(f"{name} have shape {tuple(rows.shape)}; give the ids of one sample, (length) or (1, length)")
    return rows.unsqueeze(0)


def _weight_sites(model: Transformer, pattern: str) -> list[str]:
    matching = Tape(model, pattern).recorded
    known = [site.name for site in model.sites() if site.name.endswith(".weights")]
    sites = [name for name in known if name in matching]
    if not sites:
        raise ConfigError(f"{pattern!r} matches sites, but no attention weights; known: {', '.join(known)}")
    return sites


def _check_size(
    model: Transformer,
    sites: Sequence[str],
    tokens: Tensor,
    sources: Tensor | None,
    heads: Sequence[int] | None,
    limit_bytes: int,
) -> None:
    T, S = tokens.shape[1], tokens.shape[1] if sources is None else sources.shape[1]
    kept, at_work = 0, 0
    for site in sites:
        attention = model.get_submodule(site.removesuffix(".weights"))
        assert isinstance(attention, Attention), "only attention has weights"
        count = attention.config.n_heads
        if heads is not None and not all(0 <= head < count for head in heads):
            raise DataError(f"heads {list(heads)} are not all in 0..{count - 1}, the heads of {attention.site}")
        encoder = site.startswith("encoder.")
        queries, keys = (S if encoder else T), (S if encoder or attention.cross else T)
        number = max(4, attention.output.weight.element_size())  # weights are float32 at least
        kept += number * (count if heads is None else len(heads)) * queries * keys
        at_work = max(at_work, number * COPIES * count * queries * keys)
    if kept + at_work > limit_bytes:
        raise DataError(
            f"the attention weights of {len(sites)} sites over {max(T, S)} tokens need about "
            f"{mib(kept + at_work)} ({mib(kept)} to keep, {mib(at_work)} while a layer is at work); the "
            f"limit is {mib(limit_bytes)}. Narrow it with pattern='{sites[0]}' or heads=[0], shorten the "
            "text, or raise limit_bytes"
        )


def mib(size: int) -> str:
    """Return a number of bytes as a message says it."""
    return f"{size / 2**20:,.1f} MiB"
