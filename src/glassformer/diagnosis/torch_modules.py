"""How torch's own stacks are called: embeddings go in, states come out, and masks are the caller's to give."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.diagnosis.subject import Caller, Given


def torch_caller(model: nn.Module) -> Caller | None:
    """Return how a bare `nn.Transformer` or `nn.TransformerEncoder` is called; None for what is neither."""
    if isinstance(model, nn.Transformer):
        return Caller(
            kind="encoder_decoder",
            outputs=_transformer,
            everything=lambda own, given: [_transformer(own, given)],
            takes_keep=True,
            takes_source_keep=True,
            width=model.d_model,
            remarks=(("bare", {"name": "nn.Transformer"}),),
        )
    if isinstance(model, nn.TransformerEncoder):
        layer = model.layers[0]
        width = next(part.normalized_shape[0] for part in layer.modules() if isinstance(part, nn.LayerNorm))
        return Caller(
            kind="encoder",
            outputs=_encoder,
            everything=lambda own, given: [_encoder(own, given)],
            takes_keep=True,
            width=width,
            remarks=(("bare", {"name": "nn.TransformerEncoder"}),),
        )
    return None


def _transformer(model: nn.Module, given: Given) -> Tensor:
    assert isinstance(model, nn.Transformer)
    assert given.source is not None
    length = given.inputs.shape[1]
    hidden = torch.ones(length, length, dtype=torch.bool, device=given.inputs.device).triu(1)
    first = model.batch_first
    source_pads = None if given.source_keep is None else ~given.source_keep
    out: Tensor = model(
        given.source if first else given.source.transpose(0, 1),
        given.inputs if first else given.inputs.transpose(0, 1),
        tgt_mask=hidden,
        src_key_padding_mask=source_pads,
        tgt_key_padding_mask=None if given.keep is None else ~given.keep,
        memory_key_padding_mask=source_pads,
    )
    return out if first else out.transpose(0, 1)


def _encoder(model: nn.Module, given: Given) -> Tensor:
    attention = next(part for part in model.modules() if isinstance(part, nn.MultiheadAttention))
    x = given.inputs if attention.batch_first else given.inputs.transpose(0, 1)
    out: Tensor = model(x, src_key_padding_mask=None if given.keep is None else ~given.keep)
    return out if attention.batch_first else out.transpose(0, 1)
