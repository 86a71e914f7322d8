"""How this library's own models are called."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from glassformer.core.cache import KVCache
from glassformer.core.call import Memory
from glassformer.core.config import StackConfig
from glassformer.core.places import Places
from glassformer.diagnosis.subject import Caller, Given
from glassformer.models.output import Loss
from glassformer.models.transformer import Transformer

CACHE_ROOM = 64
"""Tokens that a cache holds in an experiment."""


def native_caller(model: Transformer) -> Caller:
    """Return how a `Transformer` is called."""
    config = model.config
    kind = config.kind
    scores = model.head is not None and model.head.pooling is None and config.head is not None
    causal = config.output_stack.causal
    return Caller(
        kind="encoder" if kind == "decoder" and not causal else kind,
        outputs=_outputs,
        everything=_everything,
        takes_keep=True,
        takes_source_keep=kind == "encoder_decoder",
        loss=_loss if scores else None,
        shifts=(0,),
        cached=_cached if causal and not config.pools and not _recurrent(config.output_stack) else None,
        vocab=config.output_stack.input.vocab_size,
        source_vocab=None if config.encoder is None else config.encoder.input.vocab_size,
    )


def _recurrent(stack: StackConfig) -> bool:
    return any(block.attention.type == "linear" for block in stack.blocks)


def _own(model: nn.Module) -> Transformer:
    assert isinstance(model, Transformer)
    return model


def _places(keep: Tensor | None) -> Places | None:
    return None if keep is None else Places.from_keep(keep)


def _memory(model: Transformer, given: Given) -> Memory | None:
    return None if given.source is None else model.encode(given.source, places=_places(given.source_keep))


def _outputs(model: nn.Module, given: Given) -> Tensor:
    own = _own(model)
    memory = _memory(own, given)
    scores = own.head is not None and own.head.pooling is None
    out: Tensor = own(given.inputs, places=_places(given.keep), memory=memory, outputs="logits" if scores else "hidden")
    return out


def _everything(model: nn.Module, given: Given) -> list[Tensor]:
    own = _own(model)
    if own.head is None or own.head.pooling is None:
        return [_outputs(model, given)]
    pooled: Tensor = own(given.inputs, places=_places(given.keep), memory=_memory(own, given))
    return [_outputs(model, given), pooled]


def _loss(model: nn.Module, given: Given, labels: Tensor) -> Tensor:
    own = _own(model)
    loss: Loss = own(given.inputs, places=_places(given.keep), memory=_memory(own, given), labels=labels)
    return loss.mean


def _cached(model: nn.Module, given: Given, state: Any) -> tuple[Tensor, Any]:
    own = _own(model)
    cache: KVCache
    if state is None:
        memory = _memory(own, given)
        cache = own.new_cache(given.inputs.shape[0], CACHE_ROOM)
    else:
        cache, memory = state
    logits: Tensor = own(given.inputs, memory=memory, cache=cache)
    cache.advance([given.inputs.shape[1]] * given.inputs.shape[0])
    return logits, (cache, memory)
