"""A stack of blocks: an encoder or a decoder."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.core.cache import KVCache, LayerShape
from glassformer.core.call import Call, Memory
from glassformer.core.config import StackConfig
from glassformer.core.errors import ConfigError
from glassformer.core.mask import Mask
from glassformer.core.places import Places
from glassformer.core.tape import Tape
from glassformer.parts.block import Block
from glassformer.parts.embedding import Input
from glassformer.parts.norm import build_norm
from glassformer.parts.part import Part
from glassformer.parts.position_bias import build_position_bias
from glassformer.parts.quantised import QuantisedEmbedding


class Stack(Part):
    """Input, blocks, final norm: the same class is an encoder and a decoder.

    x_0 = input(tokens);  x_i = block_i(x_{i-1});  output = final_norm(x_n), zero where there is no token.

    Args:
        config: The input, every block, the final norm, and whether a token sees what stands after it.

    Raises:
        ConfigError: A layer's kernel is unknown or can compute no such attention; the message names the layer.

    Source: Vaswani et al. 2017, arXiv:1706.03762, figure 1.
    """

    notes = {"output": "B T D"}  # noqa: RUF012

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.config = config
        self.mask = Mask(causal=config.causal)
        d_model = config.input.d_model
        self.input = Input(config.input)
        self.blocks = nn.ModuleList()
        for layer, block in enumerate(config.blocks):
            try:
                self.blocks.append(Block(block, d_model, biased=config.position_bias is not None))
            except ConfigError as error:
                raise ConfigError(f"layer {layer}: {error}") from error
        self.final_norm = build_norm(config.final_norm, d_model) if config.final_norm else None
        n_heads = config.blocks[0].attention.n_heads
        self.position_bias = (
            build_position_bias(config.position_bias, n_heads, causal=config.causal) if config.position_bias else None
        )

    def forward(
        self,
        inputs: Tensor,
        places: Places | None,
        *,
        types: Int[Tensor, "batch length"] | None = None,
        memory: Memory | None = None,
        cache: KVCache | None = None,
        tape: Tape | None = None,
    ) -> tuple[Float[Tensor, "batch length d_model"], Places]:
        """Return the states of the last block, and where they stand.

        Args:
            inputs: Token ids (B, T) or ready embeddings (B, T, D).
            places: Where they stand; None = no padding, going on from the cache if there is one.
            types: Token types. *Shape:* (B, T).
            memory: The encoder's output, in a decoder.
            cache: Keys and values of earlier tokens.
            tape: What is recorded and changed.
        """
        plan = None if cache is None else cache.plan(places, inputs.shape[1])
        if plan is not None:
            places = plan.queries
        elif places is None:
            places = Places.full(inputs.shape[1], inputs.device)
        call = Call(places, self.mask, memory.places if memory else None, cache, plan, tape)
        x = self.input(inputs, call, types)
        if self.position_bias is not None:  # here, not in the first block that wants it: it has a gradient
            position_bias = self.position_bias
            biases = (position_bias(call.places, keys, x.dtype) for keys in call.key_places)
            call = replace(call, biases=tuple(call.note(position_bias, "bias", bias) for bias in biases))
        for layer, block in enumerate(self.blocks):
            x = block(x, call.at(layer), memory.states if memory else None)
        if self.final_norm is not None:
            x = call.note(self.final_norm, "output", self.final_norm(x))
        if places.begin is None:
            x = x.masked_fill(~places.is_token.unsqueeze(-1), 0.0)
        return call.note(self, "output", x), places

    def new_cache(self, batch_size: int, capacity: int | None, *, dtype: torch.dtype | None = None) -> KVCache:
        """Return an empty cache for this stack: of each layer, what its attention needs of earlier tokens.

        Args:
            batch_size: Number of rows.
            capacity: Number of tokens a row can hold; None = as many as you like, where no layer keeps them all.
            dtype: Type of the stored keys and values; the embedding's when None.

        Raises:
            DataError: `capacity` is None, and a layer keeps all keys.
        """
        table = self.input.embedding
        weight = table.step if isinstance(table, QuantisedEmbedding) else table.weight
        shapes = [
            LayerShape(each.n_kv_heads, each.d_head, window=each.window, recurrent=each.type == "linear")
            for each in (block.attention for block in self.config.blocks)
        ]
        return KVCache(shapes, batch_size, capacity, device=weight.device, dtype=dtype or weight.dtype)
