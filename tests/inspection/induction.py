"""A model of two layers, its weights written by hand, that does induction: after "a b ... a" it says b."""

from __future__ import annotations

import torch

from glassformer.models.arguments import AttentionArguments, ModelArguments
from glassformer.models.transformer import Transformer

V, P = 8, 24
"""Tokens and positions; of the stream's width, each of token, token before, answer and position has its own part."""

SURE = 60.0


def induction_model() -> Transformer:
    """Layer 0 copies the token before; layer 1 looks at what stands behind an earlier occurrence, and says it."""
    width = 3 * V + P
    model = Transformer(
        ModelArguments(
            kind="decoder",
            d_model=width,
            n_layers=2,
            n_heads=1,
            d_ff=4,
            dropout=0.0,
            positions="learned",
            max_positions=P,
            embedding_scale=False,
            bias=False,
            norm="none",
            norm_place="pre",
            tied=False,
            attention=AttentionArguments(scale="none"),
        ).resolve(V)
    ).eval()
    token, before, answer, position = slice(0, V), slice(V, 2 * V), slice(2 * V, 3 * V), slice(3 * V, width)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        stack = model.decoder
        stack.input.embedding.weight[:, token] = torch.eye(V)
        stack.input.positions.weight[:, position] = torch.eye(P)
        first, second = (block.attention for block in stack.blocks)
        q, k, v = first.qkv.weight.view(3, width, width)
        q[:P, position] = SURE * torch.eye(P).roll(-1, 0)  # position t asks for t - 1
        k[:P, position] = torch.eye(P)
        v[:V, token] = torch.eye(V)
        first.output.weight[before, :V] = torch.eye(V)
        q, k, v = second.qkv.weight.view(3, width, width)
        q[:V, token] = SURE * torch.eye(V)
        k[:V, before] = torch.eye(V)
        k[:V, token] = -torch.eye(V)  # the first token of all has itself before it
        v[:V, token] = torch.eye(V)
        second.output.weight[answer, :V] = torch.eye(V)
        model.head.weight[:, answer] = 10 * torch.eye(V)
    return model
