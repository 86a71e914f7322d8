"""The Transformer: an optional encoder, an optional decoder, an optional head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Self, overload

import torch
from jaxtyping import Int
from torch import Tensor, nn

from glassformer.core.cache import KVCache
from glassformer.core.call import Memory
from glassformer.core.config import HeadConfig, StackConfig, TransformerConfig
from glassformer.core.errors import ConfigError, DataError, UnsupportedError
from glassformer.core.places import IGNORED, Places
from glassformer.core.tape import Site, Tape
from glassformer.models.loss import cross_entropy, head_loss
from glassformer.models.output import Loss
from glassformer.parts.head import Head
from glassformer.parts.init import initialise
from glassformer.parts.part import Part
from glassformer.parts.pooling import last_token, pool
from glassformer.parts.quantised import QuantisedEmbedding
from glassformer.parts.stack import Stack


class Transformer(nn.Module):
    """Encoder-decoder, encoder-only and decoder-only models from the same bricks.

    Args:
        config: The whole architecture.
        generator: Source of randomness of the initial values; torch's global one when None.

    Raises:
        ConfigError: A layer's kernel is unknown or can compute no such attention.

    Source: Vaswani et al. 2017, arXiv:1706.03762.
    """

    def __init__(self, config: TransformerConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.config = config
        device = torch.get_default_device()
        with torch.device("meta"):  # nothing is drawn here: the table of initial values draws every parameter, once
            self.encoder = Stack(config.encoder) if config.encoder else None
            self.decoder = Stack(config.decoder) if config.decoder else None
            if config.share_embeddings and self.encoder is not None and self.decoder is not None:
                self.encoder.input.embedding = self.decoder.input.embedding
            self.head: Head | None = None
            if config.head is not None:
                d_model = config.output_stack.input.d_model
                self.head = Head(config.head, d_model, self.output_stack.input.embedding)
        for name, module in self.named_modules():
            if isinstance(module, Part):
                module.site = name
        if device.type != "meta":  # there, nothing has a value; drawing would only cost seconds
            self.to_empty(device=device)
            initialise(self, config.init, generator)

    @property
    def output_stack(self) -> Stack:
        """The stack that `forward` runs: the decoder, if there is one."""
        stack = self.decoder or self.encoder
        assert stack is not None, "checked when the config was made"
        return stack

    @property
    def max_positions(self) -> int | None:
        """How many tokens `forward` can take in a row; None = as many as you like."""
        return self.config.output_stack.input.positions.max_positions

    @property
    def can_cache(self) -> bool:
        """Whether what was read stays as it is when more is read, so that keys and values can be kept."""
        return self.config.output_stack.causal

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.output_stack.input.embedding.weight.device

    def encode(
        self,
        inputs: Tensor,
        *,
        places: Places | None = None,
        types: Int[Tensor, "batch source"] | None = None,
        tape: Tape | None = None,
    ) -> Memory:
        """Return what the encoder makes of a source, for the decoder to look at.

        Args:
            inputs: Token ids (B, S) or ready embeddings (B, S, D).
            places: Where they stand; None = no padding.
            types: Token types. *Shape:* (B, S).
            tape: What is recorded and changed.

        Raises:
            UnsupportedError: There is no encoder.
            DataError: Shapes that do not fit, an id outside the vocabulary, or more tokens than positions.
        """
        if self.encoder is None:
            raise UnsupportedError("this model is decoder-only and has nothing to encode with; call it on the tokens")
        _check_inputs(self.encoder, inputs, places, types, None)
        return Memory(*self.encoder(inputs, places, types=types, tape=tape))

    @overload
    def forward(
        self,
        inputs: Tensor,
        *,
        places: Places | None = None,
        types: Int[Tensor, "batch length"] | None = None,
        memory: Memory | None = None,
        cache: KVCache | None = None,
        labels: None = None,
        label_smoothing: float = 0.0,
        outputs: Literal["logits", "last", "hidden"] = "logits",
        tape: Tape | None = None,
    ) -> Tensor: ...
    @overload
    def forward(
        self,
        inputs: Tensor,
        *,
        places: Places | None = None,
        types: Int[Tensor, "batch length"] | None = None,
        memory: Memory | None = None,
        cache: KVCache | None = None,
        labels: Int[Tensor, "batch ..."],
        label_smoothing: float = 0.0,
        outputs: Literal["logits", "last", "hidden"] = "logits",
        tape: Tape | None = None,
    ) -> Loss: ...
    def forward(
        self,
        inputs: Tensor,
        *,
        places: Places | None = None,
        types: Int[Tensor, "batch length"] | None = None,
        memory: Memory | None = None,
        cache: KVCache | None = None,
        labels: Int[Tensor, "batch ..."] | None = None,
        label_smoothing: float = 0.0,
        outputs: Literal["logits", "last", "hidden"] = "logits",
        tape: Tape | None = None,
    ) -> Tensor | Loss:
        """Return scores, states, or a loss.

        Args:
            inputs: Token ids (B, T) or ready embeddings (B, T, D); the decoder's, in an encoder-decoder.
            places: Where they stand; None = no padding, and with a cache: going on from it.
            types: Token types. *Shape:* (B, T).
            memory: What `encode` returned, in an encoder-decoder; with `beams`, each row of it for so many rows.
            cache: From `new_cache`; only `cache.advance` makes a step final.
            labels: What each position predicts, -100 = nothing; they are shifted already. *Shape:* (B, T). The
                class of each row, where the head pools. *Shape:* (B,).
            label_smoothing: Mass spread over all tokens or classes, with labels.
            outputs: "logits" (B, T, V), or (B, C) where the head pools, or (B, D) where it scores nothing; "last"
                (B, V) those of each row's last token; "hidden" (B, T, D) states.
            tape: What is recorded and changed.

        Returns:
            A `Loss` with labels; else the tensor that `outputs` names.

        Raises:
            UnsupportedError: A part that this kind of model lacks, or misses.
            DataError: Shapes that do not fit, an id outside the vocabulary, a label that is no class, more tokens
                than positions, or several texts in a row that is pooled.
            ConfigError: `outputs` is none of its words, or "last" where the head pools; `label_smoothing` is no share.
        """
        if outputs not in ("logits", "last", "hidden"):
            raise ConfigError(f"outputs is {outputs!r}; it must be 'logits', 'last' or 'hidden'")
        stack = self.output_stack
        crosses = self.config.kind == "encoder_decoder"
        if crosses and memory is None:
            raise UnsupportedError("an encoder-decoder needs memory=model.encode(source)")
        if memory is not None and not crosses:
            raise UnsupportedError("this model has no cross-attention to look at a memory with; call it without")
        if cache is not None and not stack.config.causal:
            raise UnsupportedError("a cache is for causal stacks: here, earlier tokens would have seen the new ones")
        _check_inputs(stack, inputs, places, types, cache)
        if memory is not None:
            _check_memory(memory, inputs.shape[0], tape)
        x, where = stack(inputs, places, types=types, memory=memory, cache=cache, tape=tape)
        if outputs == "hidden" and labels is None:
            states: Tensor = x
            return states
        if self.head is None:
            raise UnsupportedError("this model has no head; ask for outputs='hidden'")
        if labels is not None:
            _check_labels(labels, inputs, self.head.config, label_smoothing)
        if self.head.pooling is not None:
            _check_pooled(where, cache, outputs)
            scores: Tensor = self.head(pool(x, where, self.head.pooling), tape)
            return scores if labels is None else cross_entropy(scores, labels, label_smoothing)
        if labels is not None:
            changed = tape is not None and any(tape.changes(f"{self.head.site}.{name}") for name in self.head.notes)
            if changed:  # else all logits are never there at once, and no tape sees them
                return cross_entropy(self.head(x, tape), labels, label_smoothing)
            return head_loss(self.head, x, labels, label_smoothing)
        if outputs == "last":
            last: Tensor = self.head(last_token(x, where).unsqueeze(1), tape)
            return last.squeeze(1)
        logits: Tensor = self.head(x, tape)
        return logits

    def new_cache(self, batch_size: int, capacity: int | None, *, dtype: torch.dtype | None = None) -> KVCache:
        """Return an empty cache for `forward`; it belongs to the caller.

        Args:
            batch_size: Number of rows.
            capacity: Number of tokens a row can hold; None = as many as you like, where no layer keeps them all: with
                windows and linear attention only.
            dtype: Type of the stored keys and values; the parameters' when None.

        Raises:
            DataError: `capacity` is None, and a layer keeps all keys.
        """
        return self.output_stack.new_cache(batch_size, capacity, dtype=dtype)

    def sites(self) -> list[Site]:
        """Return every place that a tape can look at, in the order of the modules."""
        return [
            Site(f"{module.site}.{name}", shape)
            for module in self.modules()
            if isinstance(module, Part)
            for name, shape in module.notes.items()
        ]

    def resize_vocabulary(self, vocab_size: int) -> None:
        """Grow or shrink the output stack's token table and head.

        New rows are drawn as widely as the old ones are spread. Ties stay ties: an encoder that shares the
        table is resized too. A head that pools scores classes and stays as it is. The parameters are new ones:
        make the optimizer afterwards.

        Args:
            vocab_size: New number of token ids.

        Raises:
            ConfigError: It is not positive.
            UnsupportedError: The model is in 8 bits.
        """
        if vocab_size < 1:
            raise ConfigError(f"vocab_size is {vocab_size}; a model needs at least one token")
        embedding = self.output_stack.input.embedding
        if isinstance(embedding, QuantisedEmbedding):
            raise UnsupportedError("the table of this model is in 8 bits; resize the model that it was made from")
        embedding.weight = _resized(embedding.weight, vocab_size)
        if self.head is not None and self.head.pooling is None:
            assert self.head.weight is not None, "a head that pools nothing has scores"
            self.head.weight = embedding.weight if self.head.tied else _resized(self.head.weight, vocab_size)
            if self.head.bias is not None:
                bias = torch.zeros(vocab_size, dtype=self.head.bias.dtype, device=self.head.bias.device)
                kept = min(vocab_size, len(self.head.bias))
                bias[:kept] = self.head.bias.detach()[:kept]
                self.head.bias = nn.Parameter(bias)
        self.config = _with_vocabulary(self.config, vocab_size)
        for stack, settings in ((self.encoder, self.config.encoder), (self.decoder, self.config.decoder)):
            if stack is not None and settings is not None:
                stack.config = settings
        if self.head is not None and self.config.head is not None:
            self.head.config = self.config.head

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Moving a model from the meta device makes every parameter anew, one by one: tie them again."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.head is not None and self.head.tied:
            table = self.output_stack.input.embedding
            self.head.weight = table.weight
            if isinstance(table, QuantisedEmbedding):
                self.head.step = table.step
        return self


def _check_inputs(
    stack: Stack, inputs: Tensor, places: Places | None, types: Tensor | None, cache: KVCache | None
) -> None:
    """Refuse what would end in an error, or in nonsense, deep inside. Values are read on the processor only:
    an accelerator would have to wait for it, and batches and prompts are checked before they are sent."""
    if torch.compiler.is_compiling():
        return
    config, ids = stack.config.input, not inputs.is_floating_point()
    if inputs.ndim != (2 if ids else 3) or (not ids and inputs.shape[2] != config.d_model):
        raise DataError(
            f"inputs have shape {tuple(inputs.shape)}; expected token ids (batch, length) or embeddings "
            f"(batch, length, {config.d_model})"
        )
    if ids and inputs.dtype not in (torch.int64, torch.int32):
        raise DataError(f"token ids have type {inputs.dtype}; they must be torch.int64 (or int32)")
    if inputs.shape[0] == 0 or inputs.shape[1] == 0:
        raise DataError(f"inputs have shape {tuple(inputs.shape)}: there is no token in them")
    if places is not None and not (
        places.length == inputs.shape[1] and places.position.shape[0] in (1, inputs.shape[0])
    ):
        raise DataError(
            f"places are for {tuple(places.position.shape)} slots, the inputs are {tuple(inputs.shape[:2])}"
        )
    if cache is not None and cache.batch_size != inputs.shape[0]:
        raise DataError(f"the cache has {cache.batch_size} rows, the inputs {inputs.shape[0]}")
    if types is not None and config.n_types == 0:
        raise UnsupportedError("types are given, but this model has no token types (n_types is 0)")
    if types is not None and (types.ndim != 2 or types.shape[1] != inputs.shape[1]):
        raise DataError(f"types have shape {tuple(types.shape)}, the inputs {tuple(inputs.shape[:2])}")
    limit = config.positions.max_positions
    if limit is not None:
        if places is None:
            needed = inputs.shape[1] + (cache.extent if cache is not None else 0)
        elif places.highest is not None:
            needed = places.highest + 1
        else:
            needed = int(places.position.max()) + 1 if places.position.device.type == "cpu" else 0
        if needed > limit:
            raise DataError(f"{needed} tokens are more than the context of {limit}; shorten the text or split it")
    if ids:
        _check_ids(inputs, config.vocab_size, "token id")
    if types is not None:
        _check_ids(types, config.n_types, "token type")


def _check_memory(memory: Memory, n_rows: int, tape: Tape | None) -> None:
    rows, beams = memory.states.shape[0], memory.beams
    if rows * beams != n_rows:
        each = "each input row" if beams == 1 else f"every {beams} input rows"
        raise DataError(f"the memory has {rows} rows, the inputs {n_rows}; give one memory row for {each}")
    if beams > 1 and tape is not None:
        raise UnsupportedError(
            f"a tape cannot look at {beams} beams that share a memory row: their cross-attention is computed as one "
            "row; give each input row a memory row of its own"
        )


def _check_labels(labels: Tensor, inputs: Tensor, head: HeadConfig, label_smoothing: float) -> None:
    if head.vocab_size is None:
        raise UnsupportedError("labels are given, but this model's head scores nothing; call it without")
    if torch.compiler.is_compiling():
        return
    if not 0.0 <= label_smoothing <= 1.0:
        raise ConfigError(f"label_smoothing is {label_smoothing}; it is a share, from 0 to 1")
    if labels.is_floating_point():
        raise DataError(f"labels have type {labels.dtype}; they must be torch.int64 (or int32)")
    size, whole = head.vocab_size, head.pooling is not None
    if labels.shape != inputs.shape[: 1 if whole else 2]:
        way_out = f"; give one class a row: ({inputs.shape[0]},)" if whole else ""
        raise DataError(f"labels have shape {tuple(labels.shape)}, the inputs {tuple(inputs.shape[:2])}{way_out}")
    counted = labels.masked_fill(labels == IGNORED, 0)
    if not whole:
        _check_ids(counted, size, "label")
    elif labels.device.type == "cpu" and (outside := (counted < 0) | (counted >= size)).any():
        row = int(outside.nonzero()[0])
        raise DataError(
            f"label {int(labels[row])} in row {row} is outside 0..{size - 1}: the model knows {size} classes; "
            "use the labels that it was made for"
        )


def _check_pooled(places: Places, cache: KVCache | None, outputs: str) -> None:
    """A head that pools gives one answer a row: the row must be one whole text."""
    if outputs == "last":
        raise ConfigError(
            "outputs is 'last', but this model's head pools each row and scores no token; ask for 'logits'"
        )
    if cache is not None:
        raise UnsupportedError(
            "a cache is for writing token by token, but this model's head pools whole rows; call without"
        )
    if places.plain or places.segment.device.type != "cpu" or torch.compiler.is_compiling():
        return
    segment = places.segment
    low = segment.masked_fill(~places.is_token, torch.iinfo(segment.dtype).max).amin(1)
    packed = (segment.amax(1) > low).nonzero()
    if packed.numel():
        raise DataError(
            f"row {int(packed[0])} holds several texts, but this model's head pools each row to one answer; give "
            "each text a row of its own"
        )


def _check_ids(ids: Tensor, size: int, what: str) -> None:
    if ids.device.type != "cpu":
        return
    low, high = torch.aminmax(ids)
    if low >= 0 and high < size:
        return
    row, column = ((ids < 0) | (ids >= size)).nonzero()[0].tolist()
    way_out = f" (vocab size {size}); use the tokenizer that belongs to this model" if what != "token type" else ""
    raise DataError(f"{what} {int(ids[row, column])} in row {row}, column {column} is outside 0..{size - 1}{way_out}")


def _resized(weight: Tensor, rows: int) -> nn.Parameter:
    old = weight.detach()
    new = torch.randn(rows, weight.shape[1], dtype=weight.dtype, device=weight.device) * old.std()
    kept = min(rows, weight.shape[0])
    new[:kept] = old[:kept]
    return nn.Parameter(new, requires_grad=weight.requires_grad)


def _with_vocabulary(config: TransformerConfig, vocab_size: int) -> TransformerConfig:
    def resized(stack: StackConfig) -> StackConfig:
        return stack.model_copy(update={"input": stack.input.model_copy(update={"vocab_size": vocab_size})})

    update: dict[str, object] = {}
    if config.decoder is not None:
        update["decoder"] = resized(config.decoder)
    if config.encoder is not None and (config.decoder is None or config.share_embeddings):
        update["encoder"] = resized(config.encoder)
    if config.head is not None and config.head.pooling is None:
        update["head"] = config.head.model_copy(update={"vocab_size": vocab_size})
    return config.model_copy(update=update)
