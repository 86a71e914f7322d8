"""Weights of torch's own Transformer modules: theirs in, ours out, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.attention_config import AttentionConfig
from glassformer.core.config import (
    BlockConfig,
    FeedForwardConfig,
    HeadConfig,
    InitConfig,
    InputConfig,
    StackConfig,
    TransformerConfig,
)
from glassformer.core.errors import CheckpointError, ConfigError, UnsupportedError
from glassformer.core.norm_config import NormConfig
from glassformer.core.position_config import PositionConfig
from glassformer.families.torch_modules import (
    attention_faults,
    attention_rules,
    block_faults,
    block_rules,
    stack_faults,
    stack_rules,
)
from glassformer.families.weights import Rule
from glassformer.models.transformer import Transformer
from glassformer.parts.attention import Attention
from glassformer.parts.block import Block
from glassformer.parts.init import initialise
from glassformer.parts.part import Part
from glassformer.parts.stack import Stack

Ours = Attention | Block | Stack | Transformer
"""What has a counterpart in torch."""

HINTS = {
    "bias_k": "add_bias_kv has no counterpart",
    "bias_v": "add_bias_kv has no counterpart",
    "_proj_weight": "kdim and vdim must be embed_dim",
    "coder.norm.weight": "nn.Transformer norms once more after its last layers: set final_norm, or use from_torch",
}
"""Why there is no place for a tensor, by the end of its name."""


def load_torch(part: Ours, state: Mapping[str, Tensor]) -> None:
    """Copy the state dict of one of torch's modules into ours, or change nothing at all.

    An `Attention` takes that of an `nn.MultiheadAttention`, a `Block` that of an encoder or decoder layer, a `Stack`
    that of an `nn.TransformerEncoder` or `nn.TransformerDecoder`, a `Transformer` with both stacks that of an
    `nn.Transformer`. Embeddings and head, which those do not have, stay as they are.

    Args:
        part: What is filled.
        state: `module.state_dict()`.

    Raises:
        UnsupportedError: Ours does what torch's cannot; the message says what.
        CheckpointError: A tensor is missing, has no place or the wrong shape; all of it in one message.
    """
    rules = _rules(part)
    targets = dict(part.named_parameters())
    sizes: dict[str, tuple[int, ...]] = {}
    for rule in rules:
        for name, piece in zip(rule.theirs, rule.layout.to_theirs(targets[rule.ours].to("meta")), strict=True):
            before = sizes[name][0] if name in sizes else 0
            sizes[name] = (before + piece.shape[0], *piece.shape[1:])
    problems = [f"unexpected {name}{_hint(name)}" for name in state if name not in sizes]
    for name, shape in sizes.items():
        if name not in state:
            problems.append(f"missing {name}")
        elif tuple(state[name].shape) != shape:
            problems.append(f"{name} has shape {tuple(state[name].shape)}, this part needs {shape}")
    if problems:
        raise CheckpointError("torch's module does not fit:\n  " + "\n  ".join(problems))
    with torch.no_grad():
        for rule in rules:
            targets[rule.ours].copy_(rule.layout.to_ours([state[name] for name in rule.theirs]))


def torch_state(part: Ours) -> dict[str, Tensor]:
    """Return the state dict that torch's module of the same build loads, with `strict=True`.

    Args:
        part: See `load_torch`.

    Raises:
        UnsupportedError: It does what torch's cannot; the message says what.
    """
    ours = {name: parameter.detach() for name, parameter in part.named_parameters()}
    pieces: dict[str, list[Tensor]] = {}
    for rule in _rules(part):
        for name, piece in zip(rule.theirs, rule.layout.to_theirs(ours[rule.ours]), strict=True):
            pieces.setdefault(name, []).append(piece)
    return {name: torch.cat(tensors) for name, tensors in pieces.items()}


def _rules(part: Ours) -> list[Rule]:
    """The rules of a part, if torch has its counterpart."""
    if isinstance(part, Attention):
        d_model = part.output.out_features
        faults = list(attention_faults(part.config, d_model))
        rules = list(attention_rules(part.config, d_model, cross=part.cross))
    elif isinstance(part, Block):
        d_model = part.attention.output.out_features
        faults = list(block_faults(part.config, d_model))
        rules = list(block_rules(part.config, d_model))
    elif isinstance(part, Stack):
        faults, rules = list(stack_faults(part.config)), list(stack_rules(part.config))
    else:
        encoder, decoder = part.config.encoder, part.config.decoder
        if encoder is None or decoder is None:
            raise UnsupportedError(f"nn.Transformer has two stacks, this model one: use model.{part.config.kind}")
        faults = [*stack_faults(encoder, "encoder."), *stack_faults(decoder, "decoder.")]
        rules = [*stack_rules(encoder, "encoder.", "encoder."), *stack_rules(decoder, "decoder.", "decoder.")]
    if faults:
        raise UnsupportedError("torch has no module that is built like this:\n  " + "\n  ".join(faults))
    return rules


def _hint(name: str) -> str:
    return next((f" ({why})" for end, why in HINTS.items() if name.endswith(end)), "")


@overload
def from_torch(
    module: nn.TransformerEncoder | nn.TransformerDecoder, *, input: InputConfig | None = None, causal: bool = ...
) -> Stack: ...
@overload
def from_torch(
    module: nn.Transformer, *, input: InputConfig | None = None, head: HeadConfig | None = None
) -> Transformer: ...
def from_torch(
    module: nn.TransformerEncoder | nn.TransformerDecoder | nn.Transformer,
    *,
    input: InputConfig | None = None,
    head: HeadConfig | None = None,
    causal: bool | None = None,
) -> Stack | Transformer:
    """Return ours that computes what one of torch's modules does, with its weights, in the same mode.

    Args:
        module: Of torch, with layers of torch.
        input: What comes before the first layers; None = nothing: ready embeddings are given, and taken as they are.
        head: What comes after the last of an `nn.Transformer`; None = nothing: ask for outputs="hidden".
        causal: Whether a token of a lone stack sees only itself and what stands before it, which torch is told in each
            call; None = in a decoder.

    Raises:
        UnsupportedError: Something in it has no counterpart; the message says what.
        ConfigError: A head for a lone stack, or `causal` for an `nn.Transformer`, whose decoder always is.
    """
    whole = isinstance(module, nn.Transformer)
    if (causal if whole else head) is not None:
        given, kind = ("causal", "a lone stack") if whole else ("head", "an nn.Transformer")
        raise ConfigError(f"{given} is for {kind}, and this is an nn.{type(module).__name__}; leave it out")
    if isinstance(module, nn.Transformer):
        encoder = _stack_config(module.encoder, input, causal=False)
        decoder = _stack_config(module.decoder, input, causal=True)
        ours: Stack | Transformer = Transformer(TransformerConfig(encoder=encoder, decoder=decoder, head=head))
    else:
        writes = isinstance(module, nn.TransformerDecoder)
        ours = Stack(_stack_config(module, input, causal=writes if causal is None else causal))
        for name, part in ours.named_modules():
            if isinstance(part, Part):
                part.site = name
        initialise(ours, InitConfig())
    example = next(module.parameters())
    ours.to(device=example.device, dtype=example.dtype)
    load_torch(ours, module.state_dict())
    return ours.train(module.training)


def _stack_config(module: nn.Module, input: InputConfig | None, *, causal: bool) -> StackConfig:
    if not isinstance(module, nn.TransformerEncoder | nn.TransformerDecoder):
        raise UnsupportedError(f"a {type(module).__name__} is no encoder or decoder of torch's")
    blocks = tuple(_block_config(layer) for layer in module.layers)
    d_model = module.layers[0].linear1.in_features
    final = None if module.norm is None else _norm_config(module.norm)
    ready = InputConfig(vocab_size=1, d_model=d_model, positions=PositionConfig(kind="none"))
    return StackConfig(input=input or ready, blocks=blocks, final_norm=final, causal=causal)


def _block_config(layer: nn.Module) -> BlockConfig:
    if not isinstance(layer, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
        raise UnsupportedError(f"a layer is a {type(layer).__name__}, none of torch's own")
    norms = [_norm_config(layer.norm1), _norm_config(layer.norm2)]
    cross: AttentionConfig | None = None
    if isinstance(layer, nn.TransformerDecoderLayer):
        norms.append(_norm_config(layer.norm3))
        cross = _attention_config(layer.multihead_attn)
    if any(norm != norms[0] for norm in norms):
        raise UnsupportedError("the norms of a layer differ in eps or bias; here they are alike")
    return BlockConfig(
        attention=_attention_config(layer.self_attn),
        cross_attention=cross,
        feed_forward=FeedForwardConfig(
            d_ff=layer.linear1.out_features,
            activation=_activation(layer.activation),
            bias=layer.linear1.bias is not None,
            dropout=layer.dropout.p,
        ),
        norm=norms[0],
        norm_place="pre" if layer.norm_first else "post",
        dropout=layer.dropout1.p,
    )


def _attention_config(module: nn.MultiheadAttention) -> AttentionConfig:
    if module.add_zero_attn:
        raise UnsupportedError("add_zero_attn has no counterpart: a query that sees nothing gets zeros here")
    return AttentionConfig(
        n_heads=module.num_heads,
        n_kv_heads=module.num_heads,
        d_head=module.head_dim,
        bias=module.in_proj_bias is not None,
        out_bias=module.out_proj.bias is not None,
        dropout=module.dropout,
    )


def _norm_config(norm: nn.Module) -> NormConfig:
    if not isinstance(norm, nn.LayerNorm) or norm.weight is None:
        raise UnsupportedError(f"a norm is a {norm}; only an nn.LayerNorm with a gain is known here")
    return NormConfig(eps=norm.eps, bias=norm.bias is not None)


def _activation(activation: object) -> Literal["relu", "gelu", "gelu_tanh", "silu"]:
    if activation is F.relu or isinstance(activation, nn.ReLU):
        return "relu"
    if activation is F.silu or isinstance(activation, nn.SiLU):
        return "silu"
    if isinstance(activation, nn.GELU) and activation.approximate == "tanh":
        return "gelu_tanh"
    if activation is F.gelu or isinstance(activation, nn.GELU):
        return "gelu"
    raise UnsupportedError(f"the activation is {activation}; known here are relu, gelu and silu of torch")
